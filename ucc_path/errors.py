"""What can go wrong in a way that the user can repair: one family, one sentence each.

A message has three parts: what is wrong, with which file or value, and what to do now.
"""

from __future__ import annotations

from collections.abc import Sequence


class UccPathError(Exception):
    """Something the user can repair; its message is all that is shown."""


class SettingsError(UccPathError, ValueError):
    """A setting is unknown, of the wrong type, or out of range."""


class SlideError(UccPathError, OSError):
    """A slide cannot be opened, read, or brought to a physical scale."""


class AnnotationError(UccPathError, ValueError):
    """An annotation cannot be read, or does not say what is tumour."""


class OverlayError(UccPathError, ValueError):
    """A file cannot be examined as an overlay: it is missing, damaged, or no TIFF."""


class TissueError(UccPathError, ValueError):
    """A slide has no tissue that could be found."""


class DatasetError(UccPathError, ValueError):
    """A data set, or a table that describes one, is not usable."""


class RunError(UccPathError, ValueError):
    """A run of training cannot be used or continued."""


class DivergedError(RunError):
    """The loss of a run is no longer a number."""


class DeviceError(UccPathError, RuntimeError):
    """The device asked for is not there, or too small."""


class ModelError(UccPathError, ValueError):
    """A model file cannot be read or used."""


class OutputError(UccPathError, OSError):
    """An output cannot be written: it exists, is not ours, or the disk refuses."""


class TooLargeError(UccPathError, MemoryError):
    """A slide does not fit into the memory that may be used."""


class WorkerError(UccPathError, RuntimeError):
    """A worker process died while it worked on one item."""


class ClusterError(UccPathError, RuntimeError):
    """A cluster cannot be reached, or none of its machines can be used."""


def few(names: Sequence[str]) -> str:
    """Names as they may stand in a message of one line.

    >>> few(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
