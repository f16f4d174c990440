"""What the engines have in common: how they are asked for, what they say, and what a workflow may rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ucc_path.errors import UccPathError

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Said:
    """What a job says while it is at work."""

    message: Any


@dataclass(frozen=True, slots=True)
class Remark:
    """What the engine itself has to say: a machine that went away, or cannot be used."""

    text: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster to work on."""

    address: str | None = None  # None: one on this machine alone, that begins and ends with the command
    cores_each: int | None = None  # that may be used on each machine; None: all that Ray has there


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine offers."""

    name: str
    cores: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Seats:
    """How workers are spread: cores and GPUs of each, how many on a machine, and how many in all."""

    threads: int
    most_each: int
    most: int
    gpus: int = 0

    def on(self, machine: Machine) -> int:
        """How many workers a machine has room for.

        >>> Seats(threads=2, most_each=3, most=100).on(Machine("a", cores=5))
        2
        """
        by_gpus = machine.gpus // self.gpus if self.gpus else self.most_each
        return min(self.most_each, by_gpus, machine.cores // self.threads)


class Crew(Protocol):
    """Workers that wait for jobs."""

    def run(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result | UccPathError]]:
        """Each job with its result, or with the error it met, in the order in which they end.

        `work` and its jobs are sent to other processes: a function of a module and plain values. Errors that are not
        of our family are defects and are raised.
        """

    def listen(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | UccPathError] | Said | Remark]:
        """The same, and in between what the jobs say with `say`, and what the engine remarks."""


class Site(Protocol):
    """Machines to work on."""

    @property
    def machines(self) -> Sequence[Machine]: ...

    def crew(self, seats: Seats, sees: Sequence[Path] = ()) -> AbstractContextManager[Crew]:
        """Workers on these machines; `sees` are files and folders that each machine must have."""
