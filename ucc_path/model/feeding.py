"""Batches drawn ahead in a thread, so that the device is never starved; how long it waited is measured."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD = 4  # batches that lie ready


class Feed(Generic[T]):
    """What `draw` gives for each number from `first` on, in order, a few of them ahead of who takes them."""

    def __init__(self, draw: Callable[[int], T], first: int, end: int) -> None:
        self.waited_s = 0.0
        self._ready: queue.Queue[T | BaseException] = queue.Queue(AHEAD)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._draw_all, args=(draw, first, end), daemon=True)
        self._thread.start()

    def take(self) -> T:
        """The next one; an error in drawing it is raised here."""
        began_s = time.perf_counter()
        drawn = self._ready.get()
        self.waited_s += time.perf_counter() - began_s
        if isinstance(drawn, BaseException):
            raise drawn
        return drawn

    def _draw_all(self, draw: Callable[[int], T], first: int, end: int) -> None:
        for number in range(first, end):
            try:
                drawn: T | BaseException = draw(number)
            except BaseException as err:
                drawn = err
            while not self._is_closed.is_set():
                try:
                    self._ready.put(drawn, timeout=0.1)
                    break
                except queue.Full:
                    continue
            if self._is_closed.is_set() or isinstance(drawn, BaseException):
                return

    def __enter__(self) -> Feed[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed.set()
        self._thread.join()
