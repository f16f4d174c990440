"""The scale of an axis: from where to where it runs, and the round numbers written along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Beyond this the difference of two values is no longer a finite number.
_LARGEST = 1e300
# A narrower range shows only the rounding of the values, and its labels would be endless.
_NARROWEST = 1e-6
_TINIEST = 1e-100


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of values with its ticks, `step` apart."""

    low: float
    high: float
    step: float

    @property
    def ticks(self) -> list[float]:
        slack = 1e-6  # so that rounding does not lose the tick at an end
        first, last = math.ceil(self.low / self.step - slack), math.floor(self.high / self.step + slack)
        return [index * self.step for index in range(first, last + 1)]

    @property
    def labels(self) -> list[str]:
        return [tick_label(tick, self.step) for tick in self.ticks]

    def share(self, value: float) -> float:
        """How far along the axis a value lies: 0 at the low end, 1 at the high end."""
        return (min(max(value, -_LARGEST), _LARGEST) - self.low) / (self.high - self.low)


def scale_of(values: list[float], *, most_ticks: int, is_round: bool, is_whole: bool = False) -> Scale:
    """A scale that holds all finite values; 0 to 1 if there are none.

    `is_round` widens it to its next ticks, so that no curve touches the frame without need; `is_whole` allows no ticks
    between whole numbers.
    """
    finite = [min(max(value, -_LARGEST), _LARGEST) for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    narrowest = max(_NARROWEST * max(abs(low), abs(high)), _TINIEST)
    if high == low or high - low < narrowest:
        middle = low / 2 + high / 2
        room = max(abs(middle) * 0.1, 0.5 if middle == 0 else narrowest)
        low, high = middle - room, middle + room
    step = nice_step((high - low) / most_ticks)
    if is_whole:
        step = max(step, 1.0)
    if is_round:
        low, high = math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step
    return Scale(low, high, step)


def nice_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `least`.

    >>> nice_step(0.3), nice_step(17)
    (0.5, 20.0)
    """
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))


def tick_label(value: float, step: float) -> str:
    """A tick with the digits that tell it from its neighbours.

    >>> tick_label(0.30000000000000004, 0.1), tick_label(150000.0, 50000.0), tick_label(2e9, 1e9)
    ('0.3', '150,000', '2e9')
    """
    if abs(value) < step / 2:
        return "0"
    if abs(value) >= 1e7 or step < 1e-5:
        return f"{value:.7g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}"
