"""The most memory that this process has had."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

MB = 10**6


def forget_peak() -> None:
    """The peak of this process is counted from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> int:
    """The most that was resident."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024 // MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // MB
