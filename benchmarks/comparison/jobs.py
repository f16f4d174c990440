"""Jobs that wait for each other, some of them side by side; each runs commands of `ucc-path` and has a log."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

Run = Callable[..., None]  # runs `ucc-path` with the words given; raises CommandFailed


class CommandFailed(Exception):
    """A command ended with another exit status than 0; its log has the reason."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done once; what it leaves behind says whether it was."""

    name: str
    words: str  # what it does, in a line
    is_done: Callable[[], bool]
    work: Callable[[Run], None]
    needs: tuple[str, ...] = ()  # jobs without which it has no sense
    after: tuple[str, ...] = ()  # jobs that it waits for, however they end


class Shell:
    """Runs commands, each with one thread, and stops them when asked to."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._children: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name.replace('/', '_')}.log"

    def run(self, name: str, *words: object) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ucc_path_cli", *map(str, words)]
        with self.log_of(name).open("ab") as log:
            log.write(f"$ ucc-path {' '.join(map(str, words))}\n".encode())
            log.flush()
            with self._lock:
                if self._is_stopped:
                    raise CommandFailed("stopped")
                # A session of its own: Ctrl-C reaches this program alone, which then asks each child once. A folder
                # without Python files: the package that runs is the installed one, wherever this is started from.
                child = subprocess.Popen(
                    command,
                    cwd=self.logs,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self._children.add(child)
            status = child.wait()
            with self._lock:
                self._children.discard(child)
        if status:
            raise CommandFailed(f"ucc-path {words[0]} ended with status {status}")

    def stop(self) -> None:
        """Asks what runs to end; training saves its state first, and goes on from there another time."""
        with self._lock:
            self._is_stopped = True
            for child in self._children:
                child.terminate()


def run_all(jobs: Sequence[Job], shell: Shell, *, side_by_side: int, say: Callable[[str], None] = print) -> list[str]:
    """Does the jobs in their order, as soon as what they wait for is over; returns why some were not done."""
    require_order(jobs)
    done: set[str] = set()
    for job in jobs:  # one that waits for what is still to come is not done, whatever an earlier run has left behind
        if {*job.needs, *job.after} <= done and job.is_done():
            done.add(job.name)
    waiting = [job for job in jobs if job.name not in done]
    failed: dict[str, str] = {}
    began: dict[Future[None], tuple[Job, float]] = {}
    say(f"{len(jobs)} jobs, {len(done)} of them done before")
    with ThreadPoolExecutor(side_by_side) as pool:
        try:
            while waiting or began:
                waiting = _without_hopeless(waiting, failed, say)
                while len(began) < side_by_side and (job := next_ready(waiting, done, set(failed))):
                    waiting.remove(job)
                    began[pool.submit(_do, job, shell)] = (job, time.monotonic())
                over, _ = wait(began, return_when=FIRST_COMPLETED)
                for future in over:
                    job, since = began.pop(future)
                    left = f"{len(waiting) + len(began)} left"
                    error = future.exception()
                    if error is None:
                        done.add(job.name)
                        say(f"{job.name}: {time.monotonic() - since:.0f} s; {left}")
                    elif isinstance(error, (CommandFailed, OSError, ValueError, KeyError)):
                        failed[job.name] = f"{job.name} failed: {error}; see {shell.log_of(job.name)}"
                        say(f"{failed[job.name]}; {left}")
                    else:
                        raise error
        except BaseException:
            shell.stop()
            raise
    return list(failed.values())


def require_order(jobs: Sequence[Job]) -> None:
    """Refuses jobs that wait for a later one, or for one that is not there: they would wait for ever."""
    before: set[str] = set()
    for job in jobs:
        unknown = {*job.needs, *job.after} - before
        if unknown or job.name in before:
            raise ValueError(f"{job.name} is twice there, or waits for what does not come before: {sorted(unknown)}")
        before.add(job.name)


def next_ready(waiting: Sequence[Job], done: set[str], failed: set[str]) -> Job | None:
    """The first job that waits for nothing any more."""
    for job in waiting:
        if set(job.needs) <= done and set(job.after) <= done | failed:
            return job
    return None


def _without_hopeless(waiting: Sequence[Job], failed: dict[str, str], say: Callable[[str], None]) -> list[Job]:
    """The jobs that can still be done; a job comes after those it needs, so one pass is enough."""
    left = []
    for job in waiting:
        lost = [name for name in job.needs if name in failed]
        if lost:
            failed[job.name] = f"{job.name} skipped: it needs {lost[0]}"
            say(failed[job.name])
        else:
            left.append(job)
    return left


def _do(job: Job, shell: Shell) -> None:
    def run(*words: object) -> None:
        shell.run(job.name, *words)

    job.work(run)
    if not job.is_done():
        raise CommandFailed("its commands ended well, but what they should leave behind is not there")
