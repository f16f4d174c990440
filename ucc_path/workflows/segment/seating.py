"""How many slides are worked on at once on each machine, and what each may take.

On every machine it is as if the command ran there alone: `--max-memory` is what its workers may take together. All
workers are alike, so they are laid out for the smallest machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from ucc_path.engine.values import Machine, Seats
from ucc_path.errors import DeviceError
from ucc_path.workflows.segment.memory import Share, share_out
from ucc_path.workflows.segment.request import SegmentRequest


def seating(request: SegmentRequest, machines: Sequence[Machine], slides: int) -> tuple[Share, Seats, str]:
    """What each worker may take, how workers are spread, and a remark where GPUs are left idle.

    Where a cluster has GPUs, each has one worker and machines without one are left alone, since a GPU's masks may
    differ in patches on the boundary.
    """
    with_gpus = [machine for machine in machines if machine.gpus] if request.device != "cpu" else []
    if request.cluster is not None and request.device == "cuda" and not with_gpus:
        raise DeviceError("--device cuda: no machine of the Ray cluster has a GPU that Ray knows of; see ray status")
    if request.cluster is None or not with_gpus:
        cores = min(machine.cores for machine in machines)
        share = share_out(request.max_memory, workers=cores, slides=-(-slides // len(machines)))
        return share, Seats(share.threads, share.processes, most=slides), ""
    gpus = max(machine.gpus for machine in with_gpus)
    cores = min(max(1, machine.cores // machine.gpus) for machine in with_gpus)
    share = share_out(request.max_memory, workers=gpus * cores, slides=gpus)
    threads = min(share.threads, cores)
    remark = ""
    if share.processes < gpus:
        remark = f"--max-memory has room for {share.processes} workers on a machine with {gpus} GPUs; give more"
    return Share(share.processes, threads, share.bytes_each), Seats(threads, share.processes, slides, gpus=1), remark
