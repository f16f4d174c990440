"""Work done ahead in threads, its results in order: decoders and networks let go of the interpreter while they work."""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOOK_AHEAD = 2  # items handed out for each thread: one at work, one ready
_A_THREAD = 2**24  # bytes: its stack, which mostly is 8 MB, and what it takes to begin


def usable_cores() -> int:
    """The cores this process may use: fewer than the machine has, in a container or under a scheduler."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """What `work` makes of each item, in the order of the items; a few are worked on before they are asked for.

    Whoever stops asking stops the work: what was handed out is finished, nothing more is begun.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for place, item in enumerate(items):
                if place < threads:  # only now the pool begins a thread
                    _require_memory_for_a_thread()
                pending.append(pool.submit(work, item))
                if len(pending) > threads * _LOOK_AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _require_memory_for_a_thread() -> None:
    """MemoryError where there is none: a thread that fails as it begins leaves whoever started it waiting for ever."""
    if hasattr(mmap, "MAP_PRIVATE"):
        try:
            mmap.mmap(-1, _A_THREAD, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except OSError as err:
            raise MemoryError("cannot allocate memory for a thread") from err
