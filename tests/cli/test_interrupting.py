"""Signals that stop a command."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ucc_path_cli.interrupting import install, interrupt

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def amid(file: str) -> Any:
    """What Python is just doing, as far as a handler looks at it."""
    return SimpleNamespace(f_code=SimpleNamespace(co_filename=file))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_interrupt_at_once(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_one_that_comes_amid_an_import_comes_again_when_it_cannot_be_dropped() -> None:
    interrupt(signal.SIGTERM, amid("<frozen importlib._bootstrap>"))
    with pytest.raises(KeyboardInterrupt):
        time.sleep(10)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGTERM, amid("somewhere.py"))


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    install()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
