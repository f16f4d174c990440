"""Jobs on the cores of this machine, in processes of their own, so that none can take the run down.

A slide can make its decoder crash or fill the memory; the process then dies, not the run. Who was at work when a
process died cannot be told, so those jobs are done again, one at a time: the one that kills its process again is the
one to blame.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from ucc_path.engine.values import Job, Machine, Result, Said, Seats, Site
from ucc_path.errors import UccPathError, WorkerError

LOOK_AHEAD = 2  # jobs handed out for each worker: one at work, one ready
_LISTEN_EVERY_S = 0.2
# Not fork: a copy of a process with threads and open slides in it may hang.
_CONTEXT = multiprocessing.get_context("spawn")

_mouth: Connection | None = None  # of a worker process, set once when it starts


@contextmanager
def site(cores: int) -> Iterator[Site]:
    """This machine."""
    yield _Here((Machine("this machine", cores),))


@dataclass(frozen=True, slots=True)
class _Here:
    machines: tuple[Machine, ...]

    def crew(self, seats: Seats, sees: Sequence[Path] = ()) -> Workers:
        return Workers(seats.most_each)


class Workers:
    """Processes that wait for jobs; close them with `with`.

    Without a second chance, a job that was open when a process died is to blame: as it is where there is only one.
    """

    def __init__(self, count: int, *, second_chance: bool = True) -> None:
        self._count, self._second_chance = count, second_chance
        self._pool: ProcessPoolExecutor | None = None
        # Without a lock, which a killed process would keep for ever: short messages pass a pipe as a whole.
        self._ear, self._mouth = _CONTEXT.Pipe(duplex=False)

    def run(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result | UccPathError]]:
        """As of a `Crew`."""
        for heard in self.listen(work, jobs):
            if not isinstance(heard, Said):
                yield heard

    def listen(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | UccPathError] | Said]:
        """As of a `Crew`."""
        pending = iter(jobs)
        suspects: list[Job] = []
        while not (yield from self._work_off(work, pending, suspects)):
            self.close()
            for job in suspects:
                yield job, _alone(work, job) if self._second_chance else _killed()
            suspects.clear()

    def _work_off(
        self, work: Callable[[Job], Result], pending: Iterator[Job], suspects: list[Job]
    ) -> Generator[tuple[Job, Result | UccPathError] | Said, None, bool]:
        """True when no job is left; False when a process died, with the jobs open then in `suspects`."""
        if self._pool is None:
            self._pool = _pool(self._count, self._mouth)
        at_work: dict[Future[Result], Job] = {}
        try:
            while True:
                for job in itertools.islice(pending, self._count * LOOK_AHEAD - len(at_work)):
                    suspects.append(job)  # until it is handed over: the pool may be broken already
                    at_work[self._pool.submit(work, job)] = job
                    suspects.pop()
                if not at_work:
                    return True
                done = wait(at_work, timeout=_LISTEN_EVERY_S, return_when=FIRST_COMPLETED).done
                while self._ear.poll():
                    yield Said(self._ear.recv())
                for future in done:
                    result = _outcome(future)
                    yield at_work.pop(future), result
        except BrokenProcessPool:
            suspects.extend(at_work.values())
            return False

    def close(self) -> None:
        """Ends the processes; jobs at work are finished first, jobs that wait are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # who gives up does not wait for a slide that takes minutes
            for process in multiprocessing.active_children():
                process.terminate()
        self.close()


def _alone(work: Callable[[Job], Result], job: Job) -> Result | UccPathError:
    with _pool(1) as pool:
        try:
            return _outcome(pool.submit(work, job))
        except BrokenProcessPool:
            return _killed()


def _killed() -> WorkerError:
    return WorkerError(
        "its process was killed (out of memory, or a crash in a decoder); try --workers 1, or leave it out"
    )


def _outcome(future: Future[Result]) -> Result | UccPathError:
    try:
        return future.result()
    except UccPathError as err:
        return err


def _pool(workers: int, mouth: Connection | None = None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, _CONTEXT, initializer=enter_worker, initargs=(os.getpid(), mouth))


def enter_worker(parent: int, mouth: Connection | None = None) -> None:
    """Ctrl-C is for the parent to handle; a worker whose parent was killed must not live on.

    One that is told to end clears up what it is writing first.
    """
    global _mouth
    _mouth = mouth
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(1)


def say(message: Any) -> None:
    """In a worker: tells whoever listens; elsewhere nobody does. A message is a few plain values."""
    if _mouth is not None:
        _mouth.send(message)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
