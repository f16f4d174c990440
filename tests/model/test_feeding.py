"""Batches drawn ahead; who waits for whom is ordered by events, and the clock is ours."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from ucc_path.model import feeding
from ucc_path.model.feeding import AHEAD, Feed

LONG_S = 30.0  # until a test gives up


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_numbers_are_drawn_from_the_first_on_and_taken_in_order() -> None:
    with Feed(lambda number: number**2, 3, 60) as feed:
        assert [feed.take() for _ in range(57)] == [number**2 for number in range(3, 60)]


def test_nothing_is_drawn_beyond_the_end() -> None:
    drawn: list[int] = []
    before = threads()
    with Feed(drawn.append, 0, 3) as feed:
        for _ in range(3):
            feed.take()
        for thread in threads() - before:
            thread.join(LONG_S)
    assert drawn == [0, 1, 2]


def test_drawing_runs_ahead_in_a_thread_of_its_own_but_only_so_far() -> None:
    drawn = threading.Semaphore(0)
    drawers: list[int] = []

    def draw(number: int) -> int:
        drawers.append(threading.get_ident())
        drawn.release()
        return number

    with Feed(draw, 0, 100) as feed:
        for _ in range(AHEAD + 1):  # one more waits to be laid down
            assert drawn.acquire(timeout=LONG_S)
        assert not drawn.acquire(timeout=0.3)
        feed.take()
        assert drawn.acquire(timeout=LONG_S)
    assert threading.get_ident() not in drawers


@pytest.mark.parametrize("error", [ValueError("tile 7 is torn"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_an_error_is_raised_where_its_batch_is_taken_and_ends_the_drawing(error: BaseException) -> None:
    drawn: list[int] = []

    def draw(number: int) -> int:
        drawn.append(number)
        if number == 2:
            raise error
        return number

    with Feed(draw, 0, 100) as feed:
        assert [feed.take(), feed.take()] == [0, 1]
        with pytest.raises(type(error)) as caught:
            feed.take()
    assert caught.value is error
    assert drawn == [0, 1, 2]


def test_to_leave_early_ends_the_thread_even_while_it_waits_to_lay_a_batch_down() -> None:
    before = threads()
    full = threading.Event()

    def draw(number: int) -> int:
        if number == AHEAD + 1:
            full.set()
        return number

    with Feed(draw, 0, 10**9) as feed:
        feed.take()
        assert full.wait(LONG_S)
        assert len(threads() - before) == 1
    assert threads() == before


def test_an_error_of_who_takes_ends_the_thread_and_goes_on() -> None:
    before = threads()
    with pytest.raises(ZeroDivisionError), Feed(lambda number: number, 0, 10**9):
        raise ZeroDivisionError
    assert threads() == before


class Clock:
    """Stands still but for who moves it; tells when it was looked at."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.was_seen = threading.Event()

    def perf_counter(self) -> float:
        seen_s = self.now_s
        self.was_seen.set()
        return seen_s


def test_waiting_for_a_slow_batch_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(feeding, "time", SimpleNamespace(perf_counter=clock.perf_counter))

    def draw(number: int) -> int:
        assert clock.was_seen.wait(LONG_S)  # by who takes, and waits from then on
        clock.now_s += 5
        return number

    with Feed(draw, 0, 1) as feed:
        assert feed.take() == 0
        assert feed.waited_s == 5


def test_a_batch_that_lies_ready_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(feeding, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    lies_ready = threading.Event()

    def draw(number: int) -> int:
        if number == 0:
            clock.now_s += 5  # drawing is slow, but nobody waits for it
        else:
            lies_ready.set()
        return number

    with Feed(draw, 0, 2) as feed:
        assert lies_ready.wait(LONG_S)
        assert feed.take() == 0
        assert feed.waited_s == 0
