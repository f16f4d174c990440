"""Work done ahead in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from ucc_path.ahead import in_order, usable_cores


def test_there_is_at_least_one_core() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_items_whichever_is_done_first(threads: int) -> None:
    def work(number: int) -> int:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(in_order(work, range(20), threads)) == [number * number for number in range(20)]


def test_only_a_few_items_are_taken_before_their_results_are_asked_for() -> None:
    taken = []

    def items() -> object:
        for number in range(1000):
            taken.append(number)
            yield number

    results = in_order(lambda number: number, items(), 2)  # type: ignore[call-overload]
    next(results)
    assert len(taken) < 10
    results.close()  # type: ignore[attr-defined]
    assert len(taken) < 10


def test_an_error_comes_at_the_place_of_its_item_and_ends_the_threads() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    before, results = threading.active_count(), in_order(work, range(10), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert threading.active_count() == before


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel knows no such limit")
@pytest.mark.parametrize("spare_kb", [1000, 8200, 8204, 8212, 12_000])
def test_where_a_thread_finds_no_memory_that_is_an_error_and_nobody_waits_for_ever(spare_kb: int) -> None:
    code = (
        "import re, resource\n"
        "from ucc_path.ahead import in_order\n"
        "used_kb = int(re.search(r'VmData:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, (1024 * (used_kb + {spare_kb}), resource.RLIM_INFINITY))\n"
        "try: print(list(in_order(abs, range(3), 1)))\n"
        "except MemoryError as err: print(err)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "cannot allocate memory for a thread\n", done.stderr
