"""How the memory that may be used is shared out, and how no process takes more than its share.

The limit of a process is set in the kernel: what it asks for beyond that is refused, and becomes an error of the one
slide. A process's own memory is limited so; the pages of program libraries, which are read from files, come on top and
are counted at their largest here.
"""

from __future__ import annotations

import ctypes
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ucc_path.errors import SettingsError, TooLargeError, UccPathError

MB, GB = 10**6, 10**9

# As measured, and some more.
_COMMAND = 200 * MB  # the process that leads
_LIBRARIES = 250 * MB  # of a process that computes: PyTorch, OpenVINO, OpenSlide
_IDLE = 650 * MB  # that it takes for itself whatever the slide, stored tiles and a sample of blocks among it
_THREAD = 100 * MB  # the network's inner values, a few batches and blocks

# Of a slide, while it is worked on.
_A_CELL = 16  # labels, how sure, windows, the search for regions
_A_THUMBNAIL_PIXEL = 16  # the picture, and the masks from which tissue is found

_M_MMAP_THRESHOLD, _LARGE = -3, 2**20

_UNITS = {"": 1, "K": 10**3, "M": MB, "G": GB, "T": 10**12}
_FULL = ("allocate", "bad_alloc", "bad allocation", "out of memory", "could not create a memory", "start new thread")


@dataclass(frozen=True, slots=True)
class Share:
    """Processes at work, threads of each, and what each may take for itself, in bytes."""

    processes: int
    threads: int
    bytes_each: int


def parse_size(text: str) -> int:
    """Bytes.

    >>> parse_size("4G"), parse_size("1.5 GB"), parse_size("800m")
    (4000000000, 1500000000, 800000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not found:
        raise SettingsError(f"{text!r} is no size of memory; give one such as 4G or 800M")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def share_out(most_bytes: int, *, workers: int, slides: int) -> Share:
    """As many slides side by side as there are workers and memory for; the other workers are threads of those."""
    least = _COMMAND + _LIBRARIES + _IDLE + _THREAD
    if most_bytes < least:
        raise SettingsError(
            f"--max-memory {most_bytes / GB:g}G is too little to work in; give {least / GB:.2g}G or more"
        )
    processes = max(1, min(workers, slides))
    while processes > 1 and most_bytes < _COMMAND + processes * (
        _LIBRARIES + _IDLE + workers // processes * _THREAD + _A_SMALL_SLIDE
    ):
        processes -= 1
    bytes_each = (most_bytes - _COMMAND) // processes - _LIBRARIES
    threads = min(workers // processes, (bytes_each - _IDLE) // _THREAD)
    return Share(processes, max(1, threads), bytes_each)


_A_SMALL_SLIDE = 100 * MB


def require_room(bytes_each: int, *, threads: int, cells: int, thumbnail_px: int, band_bytes: int, name: str) -> None:
    """TooLargeError where a slide would not fit, before any work is done on it."""
    needed = _IDLE + threads * _THREAD + cells * _A_CELL + thumbnail_px * _A_THUMBNAIL_PIXEL + band_bytes
    if needed > bytes_each:
        raise TooLargeError(
            f"{name} needs about {needed / MB:,.0f} MB for its mask of {cells:,} cells, and may take "
            f"{bytes_each / MB:,.0f}; give more --max-memory, fewer --workers, or a larger --stride-px"
        )


def limit_this_process(bytes_each: int) -> None:
    """No more than this for itself from now on; a system without such a limit goes on without."""
    with suppress(ValueError, OSError):
        _, highest = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = bytes_each if highest == resource.RLIM_INFINITY else min(bytes_each, highest)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, highest))


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """What happens where the limit is met, as one sentence that says what to do."""
    try:
        yield
    except UccPathError:
        raise
    except (MemoryError, RuntimeError, ImportError) as err:  # the last of a codec that is loaded when it is needed
        if isinstance(err, RuntimeError) and not any(word in str(err).lower() for word in _FULL):
            raise
        raise TooLargeError(
            f"{name} needs more memory than its process may take; give more --max-memory, or fewer --workers"
        ) from err


def keep_no_large_buffers() -> None:
    """From now on each large buffer goes back to the system as soon as it is freed; only glibc can.

    Otherwise what was needed to load a model stays with the process, and a sixth of its limit would be that.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def give_back() -> None:
    """Gives freed memory back to the system, which the C library otherwise keeps; only glibc can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
