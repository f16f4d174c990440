"""Jobs on a Ray cluster: real machines of Ray on this one, really killed."""

from __future__ import annotations

import http.server
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from clusters import Machines

from ucc_path.engine.ray_tasks import MOST_LOST, Queue, Task
from ucc_path.engine.sites import site_of
from ucc_path.engine.values import Cluster, Machine, Remark, Said, Seats
from ucc_path.errors import ClusterError, OutputError, SlideError, WorkerError

pytestmark = pytest.mark.xdist_group("ray")

ONE_EACH = Seats(threads=1, most_each=1, most=10)


@pytest.fixture
def crew(machines: Machines) -> Iterator[Any]:
    with site_of(Cluster(machines.address), 1) as site, site.crew(ONE_EACH) as crew:
        yield crew


def test_every_job_comes_back_once_with_its_result_and_workers_serve_several_runs(crew: Any) -> None:
    assert list(crew.run(jobs.square, [])) == []
    assert sorted(crew.run(jobs.square, range(5))) == [(n, n * n) for n in range(5)]
    pids = {pid for _, pid in crew.run(jobs.own_pid, range(4))}
    assert pids == {pid for _, pid in crew.run(jobs.own_pid, range(2))} and os.getpid() not in pids
    outcomes = dict(crew.run(jobs.refuse_odd, range(3)))
    assert type(outcomes[1]) is SlideError and str(outcomes[1]) == "slide 1 is odd" and outcomes[2] == 2
    [(_, error)] = crew.run(jobs.fail_with_two_arguments, [0])
    assert isinstance(error, OutputError) and error.args == (28, "No space left on device")


def test_a_defect_is_raised_and_does_not_show_up_in_the_next_run(crew: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="a defect"):
        list(crew.run(jobs.crash_at_three, range(6)))
    assert sorted(crew.run(jobs.square, range(3))) == [(0, 0), (1, 1), (2, 4)]


def test_a_job_that_kills_its_worker_is_set_aside_at_the_third_time_and_all_others_are_done(
    crew: Any, tmp_path: Path
) -> None:
    given = [(str(tmp_path), n) for n in range(6)]
    outcomes = {job[1]: result for job, result in crew.run(jobs.mark_and_kill_itself_at_three, given)}
    blamed = outcomes.pop(3)
    assert isinstance(blamed, WorkerError)
    assert str(blamed).startswith(
        f"its worker was killed 3 times, on {socket.gethostname()} (out of memory, or a crash"
    )
    assert outcomes == {n: n for n in range(6) if n != 3}
    assert [len(list(tmp_path.glob(f"{n}-*"))) for n in range(6)] == [1, 1, 1, 3, 1, 1]


def test_a_process_of_rays_that_is_killed_costs_one_more_try(crew: Any, tmp_path: Path) -> None:
    assert list(crew.run(jobs.kill_rays_process_once, [str(tmp_path)])) == [(str(tmp_path), 1)]


def test_a_machine_with_another_version_or_without_the_folders_is_left_out(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere"
    with site_of(Cluster(machines.address), 1) as site:
        with site.crew(ONE_EACH, [nowhere]) as crew, pytest.raises(ClusterError) as refusal:
            list(crew.run(jobs.square, [1]))
        assert str(refusal.value) == (
            f"the Ray cluster has no machine to work on: {socket.gethostname()}: it does not see {nowhere}; "
            "slides, model and output must be in folders that all machines share"
        )
        from ucc_path.engine import ray_cluster

        monkeypatch.setattr(ray_cluster, "__version__", "9.9")
        with (
            site.crew(ONE_EACH) as crew,
            pytest.raises(ClusterError, match=r"it has ucc-path 0\.\d\.\d, and the command 9\.9; install the same"),
        ):
            list(crew.run(jobs.square, [1]))


def test_what_was_lost_with_a_machine_is_done_again_elsewhere_and_no_job_is_blamed(
    machines: Machines, tmp_path: Path
) -> None:
    other = machines.add()
    heard = []
    with site_of(Cluster(machines.address), 1) as site, site.crew(ONE_EACH) as crew:
        for said in crew.listen(jobs.wait_for_go, [(str(tmp_path), n) for n in range(4)]):
            heard.append(said)
            if len(heard) == 2:  # both have begun
                machines.kill(other)
                threading.Timer(1, (tmp_path / "go").touch).start()
    outcomes = [said for said in heard if isinstance(said, tuple)]
    assert sorted(result for _, result in outcomes) == [0, 1, 2, 3]
    remarks = [said.text for said in heard if isinstance(said, Remark)]
    assert remarks == [f"{socket.gethostname()} went away; what it was working on is done again elsewhere"]
    assert len([said for said in heard if isinstance(said, Said)]) == 5  # one of them began twice


def test_a_machine_that_joins_is_used(machines: Machines, tmp_path: Path) -> None:
    other = None
    with site_of(Cluster(machines.address), 1) as site, site.crew(ONE_EACH) as crew:
        for said in crew.listen(jobs.wait_for_go, [(str(tmp_path), n) for n in range(2)]):
            if isinstance(said, Said) and other is None:
                other = machines.add()
            elif isinstance(said, Said):  # both are at work at once
                (tmp_path / "go").touch()
    machines.kill(other)
    assert len(list(tmp_path.glob("[01]-*"))) == 2


def test_where_nothing_answers_that_could_be_ray_it_is_said_soon() -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        for port in (1, server.server_port, mute.getsockname()[1]):
            began_s = time.monotonic()
            with pytest.raises(ClusterError, match=rf"^no Ray cluster answers at 127\.0\.0\.1:{port}; "):
                site_of(Cluster(f"127.0.0.1:{port}"), 1).__enter__()
            assert time.monotonic() - began_s < 15
    server.shutdown()
    for address in ("node1", "ray://node1:10001", "node1:", ":6379", "node1:port"):
        with pytest.raises(ClusterError, match=rf"^--ray-address {address} is no HOST:PORT; "):
            site_of(Cluster(address), 1).__enter__()


# Whose turn it is


def test_what_was_lost_comes_first_and_what_killed_a_worker_last() -> None:
    queue = Queue("abc")
    lost, suspect = queue.take(), queue.take()
    assert lost and suspect
    lost.lost = 1
    suspect.killed_on.append("node1")
    queue.put_back(suspect)
    queue.put_back(lost)
    taken = [queue.take() for _ in range(4)]
    assert [task.job if task else None for task in taken] == ["a", "c", "b", None]


def test_a_job_is_given_up_for_the_workers_it_killed_sooner_than_for_machines_that_went() -> None:
    task = Task("job")
    assert task.reason is None
    task.lost = MOST_LOST - 1
    task.killed_on += ["node1", "node2"]
    assert task.reason is None
    task.killed_on.append("node1")
    assert "killed 3 times, on node1, node2 (" in str(task.reason)
    assert "10 machines went away" in str(Task("job", lost=MOST_LOST).reason)


@pytest.mark.parametrize(
    ("seats", "machine", "room"),
    [
        (Seats(threads=2, most_each=9, most=9), Machine("a", cores=8), 4),
        (Seats(threads=2, most_each=3, most=9), Machine("a", cores=8), 3),
        (Seats(threads=9, most_each=3, most=9), Machine("a", cores=8), 0),
        (Seats(threads=2, most_each=9, most=9, gpus=1), Machine("a", cores=8, gpus=3), 3),
        (Seats(threads=2, most_each=9, most=9, gpus=1), Machine("a", cores=8), 0),
    ],
)
def test_a_machine_has_room_by_its_cores_its_gpus_and_what_was_asked_for(
    seats: Seats, machine: Machine, room: int
) -> None:
    assert seats.on(machine) == room
