"""Ctrl-C, and SIGTERM, by which schedulers and containers stop a run, as KeyboardInterrupt; none is lost."""

from __future__ import annotations

import signal
from types import FrameType

_IMPORTING = "<frozen importlib._bootstrap>"
_AGAIN_S = 0.02


def install() -> None:
    """Makes both an interruption; where Ctrl-C is ignored, as in the background of a script, it stays so."""
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; a moment later where a module is being imported, since Python may drop it there."""
    if frame is not None and frame.f_code.co_filename == _IMPORTING:
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        return
    raise KeyboardInterrupt
