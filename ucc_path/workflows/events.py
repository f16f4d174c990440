"""What a workflow says while it works; who listens decides what to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Progress:
    """So much of a stage is done."""

    stage: str
    done: int
    total: int
    unit: str
    note: str = ""
    mpix_each: float = 0.0  # megapixels of a unit; 0 where nobody asks how many a second there are


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know, though the work goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class Detail:
    """Something the user may want to know."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One item could not be done; the others go on."""

    item: str
    reason: str


Event: TypeAlias = Progress | Step | Notice | Detail | Failure
