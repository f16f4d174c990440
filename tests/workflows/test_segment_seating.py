"""How workers are spread over machines, and what each of them may take there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ucc_path.engine.values import Cluster, Machine
from ucc_path.errors import DeviceError
from ucc_path.workflows.segment import memory
from ucc_path.workflows.segment.memory import GB
from ucc_path.workflows.segment.request import SegmentRequest
from ucc_path.workflows.segment.seating import seating


def ask(**how: Any) -> SegmentRequest:
    return SegmentRequest(slides=(), model=Path("run"), output=Path("out"), cluster=Cluster("node1:6379"), **how)


def test_on_every_machine_the_workers_take_no_more_than_the_command_may() -> None:
    machines = [Machine("a", cores=8), Machine("b", cores=64)]
    share, seats, remark = seating(ask(max_memory=8 * GB), machines, slides=1000)
    for machine in machines:
        taken = seats.on(machine) * (share.bytes_each + memory._LIBRARIES)
        assert seats.on(machine) >= 1 and taken <= 8 * GB and seats.on(machine) * seats.threads <= machine.cores
    assert seats.gpus == 0 and remark == ""


def test_a_few_slides_get_more_cores_each() -> None:
    machines = [Machine("a", cores=8), Machine("b", cores=8)]
    _, seats, _ = seating(ask(max_memory=32 * GB), machines, slides=4)
    assert (seats.threads, seats.most_each, seats.most) == (4, 2, 4)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_where_there_are_gpus_each_has_a_worker_and_other_machines_are_left_alone(device: str) -> None:
    machines = [Machine("a", cores=32, gpus=4), Machine("b", cores=8, gpus=1), Machine("c", cores=64)]
    share, seats, remark = seating(ask(max_memory=32 * GB, device=device), machines, slides=1000)
    assert [seats.on(machine) for machine in machines] == [4, 1, 0]
    assert seats.threads == share.threads == 8 and remark == ""


def test_gpus_that_memory_leaves_idle_are_said() -> None:
    share, _, remark = seating(ask(), [Machine("a", cores=64, gpus=8)], slides=1000)
    assert share.processes < 8
    assert remark == f"--max-memory has room for {share.processes} workers on a machine with 8 GPUs; give more"


def test_gpus_are_not_used_where_the_cpu_is_asked_for_and_must_be_there_where_they_are() -> None:
    _, seats, _ = seating(ask(device="cpu"), [Machine("a", cores=2, gpus=2)], slides=9)
    assert seats.gpus == 0
    with pytest.raises(DeviceError, match=r"^--device cuda: no machine of the Ray cluster has a GPU"):
        seating(ask(device="cuda"), [Machine("a", cores=2)], slides=9)
