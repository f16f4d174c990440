"""What runs on the machines of a Ray cluster: a process of Ray's that keeps a process of ours beside it.

The work is done in the process of ours, exactly as the local engine does it: with the same limit of memory, the same
words on the way, the same bytes. A slide that kills it leaves Ray's process alive to say so. If Ray's process goes
instead, its machine did, or Ray took it away.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ucc_path
from ucc_path.engine.local import Workers


class Seat:
    """One worker of a cluster."""

    def __init__(self) -> None:
        # Else the process of ours would load Ray's program as its own, with all of Ray.
        sys.modules["__main__"].__dict__.pop("__file__", None)
        self._workers = Workers(1, second_chance=False)

    def settle(self, version: str, folder: str | None, sees: Sequence[str]) -> str:
        """Why this machine cannot be used; empty where all is well.

        `folder` is where the command was called, from which paths count that are not absolute.
        """
        if ucc_path.__version__ != version:
            return f"it has ucc-path {ucc_path.__version__}, and the command {version}; install the same on all"
        for path in (*((folder,) if folder else ()), *sees):
            if not os.path.exists(path):  # noqa: PTH110
                return f"it does not see {path}; slides, model and output must be in folders that all machines share"
        if folder:
            os.chdir(folder)
        return ""

    def do(self, work: Callable[[Any], Any], job: Any) -> Iterator[Any]:
        """What is said of a job while it is worked on, and last the job with its outcome."""
        yield from self._workers.listen(work, [job])

    def stop(self) -> None:
        """Ends the process at work, which clears up what it is writing."""
        for process in multiprocessing.active_children():
            process.terminate()
        self._workers.close()
