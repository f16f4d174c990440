"""The slides of CAMELYON16 that are known to mislead, by name, with the rule each gets.

The lists are those of the data set's README and its known errata. A rule never applies silently: the user is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ucc_path.tiles.labelling import KINDS, METASTASES

_NOT_EXHAUSTIVE = frozenset(
    f"tumor_{number:03d}"
    for number in (10, 15, 18, 20, 25, 29, 33, 34, 44, 46, 51, 54, 55, 56, 67, 79, 85, 92, 95, 110)
) | {"test_114"}

_LEFT_OUT = {
    "test_049": "it is a duplicate that the organisers removed",
    "normal_086": "it holds tumour and was renamed tumor_111",
    "normal_144": "its label is in doubt",
}


@dataclass(frozen=True, slots=True)
class SlideRule:
    """Which kinds of tile a slide may give, and what the user is told about it."""

    kinds: tuple[str, ...]
    reason: str


def rule_for(slide: str) -> SlideRule | None:
    """The rule for a slide of this name, or None for the great majority that have none.

    >>> rule_for("Tumor_010").kinds
    ('metastases',)
    """
    name = _canonical(slide)
    if name in _NOT_EXHAUSTIVE:
        return SlideRule(
            (METASTASES,),
            "its tumour is not all outlined (CAMELYON16 README), so only metastases tiles are taken from it",
        )
    if name in _LEFT_OUT:
        return SlideRule((), f"{_LEFT_OUT[name]} (CAMELYON16), so it is left out")
    return None


def kinds_allowed(rule: SlideRule | None) -> tuple[str, ...]:
    return KINDS if rule is None else rule.kinds


def _canonical(slide: str) -> str:
    """`Normal_86`, `normal_086` and `normal_086_mask` are one slide."""
    match = re.match(r"(normal|tumor|test)_0*(\d{1,3})(?!\d)", slide.lower())
    return f"{match[1]}_{int(match[2]):03d}" if match else slide
