"""Work for the tests of the engine: functions of a module, as spawned processes import them."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from ucc_path.engine import local
from ucc_path.errors import OutputError, SlideError


def square(number: int) -> int:
    return number * number


def own_pid(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def refuse_odd(number: int) -> int:
    if number % 2:
        raise SlideError(f"slide {number} is odd")
    return number


def fail_with_two_arguments(_: int) -> int:
    raise OutputError(28, "No space left on device")


def fail_with_a_cause(_: int) -> int:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as err:
        raise SlideError("because of that") from err


def crash_at_three(number: int) -> int:
    if number == 3:
        raise ZeroDivisionError("a defect")
    return number


def kill_itself_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def mark_and_kill_itself_at_three(job: tuple[str, int]) -> int:
    """Leaves a file for each time it is tried."""
    folder, number = job
    tempfile.mkstemp(dir=folder, prefix=f"{number}-")
    return kill_itself_at_three(number)


def kill_rays_process_once(folder: str) -> int:
    """What started this process is killed, as Ray does to a worker where memory runs short."""
    times = len(list(Path(folder).iterdir()))
    tempfile.mkstemp(dir=folder)
    if times == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return times


def wait_for_go(job: tuple[str, int]) -> int:
    """Says that it has begun, leaves a file that says so too, and ends when there is a file called go."""
    folder, number = job
    local.say((str(number), "has begun"))
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.05)
    return number


def exit_always(_: int) -> int:
    os._exit(1)


def announce_and_sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)


if __name__ == "__main__":  # a run that the test kills: see the jobs that write their process id into a folder
    with local.Workers(2) as workers:
        list(workers.run(announce_and_sleep, [sys.argv[1]] * 2))
