"""Jobs on their way through a cluster: whose turn it is, and what is to be done again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ucc_path.errors import WorkerError

MOST_KILLED = 3  # workers that a job may kill before it is set aside
MOST_LOST = 10  # machines that may go away under a job: more than chance, so that a run ends


@dataclass(slots=True, eq=False)
class Task:
    """A job, and what happened to it so far."""

    job: Any
    killed_on: list[str] = field(default_factory=list)  # names of machines
    lost: int = 0

    @property
    def reason(self) -> WorkerError | None:
        """Why it is given up, once it is."""
        if len(self.killed_on) >= MOST_KILLED:
            where = ", ".join(dict.fromkeys(self.killed_on))
            return WorkerError(
                f"its worker was killed {len(self.killed_on)} times, on {where} (out of memory, or a crash in a "
                "decoder); give more --max-memory, or leave it out"
            )
        if self.lost >= MOST_LOST:
            return WorkerError(f"{self.lost} machines went away while they worked on it; run it again, or leave it out")
        return None


class Queue:
    """First what was lost with a machine, then what is new, last what has killed a worker."""

    def __init__(self, jobs: Iterable[Any]) -> None:
        self._new = (Task(job) for job in jobs)
        self._lost: deque[Task] = deque()
        self._suspects: deque[Task] = deque()

    def take(self) -> Task | None:
        if self._lost:
            return self._lost.popleft()
        task = next(self._new, None)
        return task if task or not self._suspects else self._suspects.popleft()

    def put_back(self, task: Task) -> None:
        (self._suspects if task.killed_on else self._lost).append(task)
