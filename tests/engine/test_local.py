"""Jobs in processes of this machine: real ones, really killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest

from ucc_path.engine import local
from ucc_path.errors import OutputError, SlideError, WorkerError


def run(work: Callable[[Any], Any], given: Iterable[Any], workers: int) -> list[tuple[Any, Any]]:
    with local.Workers(workers) as processes:
        return list(processes.run(work, given))


def wait_until(is_so: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so()


def is_alive(pid: int) -> bool:
    """A process that ended but was not waited for (a zombie) is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_job_comes_back_once_with_its_result(workers: int) -> None:
    assert sorted(run(jobs.square, range(11), workers)) == [(n, n * n) for n in range(11)]


def test_no_jobs_give_no_results() -> None:
    assert run(jobs.square, [], 2) == []


def test_work_is_done_in_other_processes() -> None:
    pids = {pid for _, pid in run(jobs.own_pid, range(8), 2)}
    assert os.getpid() not in pids and 1 <= len(pids) <= 2


def test_an_error_of_our_family_comes_back_with_its_job_and_the_others_are_done() -> None:
    outcomes = dict(run(jobs.refuse_odd, range(5), 2))
    assert {n: outcome for n, outcome in outcomes.items() if n % 2 == 0} == {0: 0, 2: 2, 4: 4}
    for n in (1, 3):
        assert type(outcomes[n]) is SlideError and str(outcomes[n]) == f"slide {n} is odd"


def test_an_error_with_two_arguments_or_a_cause_survives_the_way_back() -> None:
    [(_, error)] = run(jobs.fail_with_two_arguments, [0], 1)
    assert isinstance(error, OutputError) and error.args == (28, "No space left on device")
    [(_, error)] = run(jobs.fail_with_a_cause, [0], 1)
    assert isinstance(error, SlideError) and str(error) == "because of that"


def test_any_other_exception_is_a_defect_and_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="a defect"):
        run(jobs.crash_at_three, range(6), 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_kills_its_process_is_reported_and_all_others_are_done(workers: int) -> None:
    outcomes = run(jobs.kill_itself_at_three, range(9), workers)
    assert sorted(n for n, _ in outcomes) == list(range(9))
    results = dict(outcomes)
    blamed = results.pop(3)
    assert isinstance(blamed, WorkerError) and "its process was killed" in str(blamed)
    assert results == {n: n for n in range(9) if n != 3}


def test_even_if_every_process_dies_the_run_ends() -> None:
    outcomes = run(jobs.exit_always, range(3), 2)
    assert sorted(n for n, _ in outcomes) == [0, 1, 2]
    assert all(isinstance(outcome, WorkerError) for _, outcome in outcomes)


def test_jobs_are_taken_only_as_fast_as_they_are_worked_off() -> None:
    taken: list[int] = []

    def endless() -> Iterator[int]:
        for n in itertools.count():
            taken.append(n)
            yield n

    with local.Workers(2) as processes:
        results = processes.run(jobs.square, endless())
        for _ in range(5):
            next(results)
    assert len(taken) <= 5 + 2 * local.LOOK_AHEAD


def test_one_set_of_processes_serves_several_runs() -> None:
    with local.Workers(2) as processes:
        first = {pid for _, pid in processes.run(jobs.own_pid, range(8))}
        second = {pid for _, pid in processes.run(jobs.own_pid, range(8))}
        assert first | second == first and len(first) <= 2
        assert dict(processes.run(jobs.square, [5])) == {5: 25}
    assert wait_until(lambda: not any(is_alive(pid) for pid in first))


def test_after_a_process_died_the_next_run_is_as_good_as_the_first() -> None:
    with local.Workers(1) as processes:
        assert len(list(processes.run(jobs.kill_itself_at_three, [2, 3, 4]))) == 3
        assert dict(processes.run(jobs.square, range(3))) == {0: 0, 1: 1, 2: 4}


def test_a_run_that_was_broken_off_does_not_show_up_in_the_next() -> None:
    with local.Workers(2) as processes:
        with pytest.raises(ZeroDivisionError):
            list(processes.run(jobs.crash_at_three, range(6)))
        assert sorted(processes.run(jobs.square, range(4))) == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, jobs.__file__, str(tmp_path)]) as parent:
        try:
            assert wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
            workers = [int(path.name) for path in tmp_path.iterdir()]
            assert all(is_alive(pid) for pid in workers)
        finally:
            parent.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any(is_alive(pid) for pid in workers), seconds=10)
