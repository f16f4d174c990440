"""How many tiles of each kind are wanted, of each slide or of each split, and who gives them."""

from __future__ import annotations

from collections.abc import Mapping

from ucc_path.errors import SettingsError
from ucc_path.tiles.labelling import KINDS
from ucc_path.tiles.splits import SPLITS

Totals = Mapping[str, Mapping[str, int]]  # split -> kind -> tiles

# The paper's segmentation data set: images by split, as normal/metastases/mixture.
PAPER_TOTALS = "train=461/322/310,val=278/245/211,test=282/668/228"


def parse_totals(text: str) -> dict[str, dict[str, int]]:
    """`train=461/322/310,...` (normal/metastases/mixture of each split) or `paper` as a mapping.

    >>> parse_totals("train=3/2/1")
    {'train': {'normal': 3, 'metastases': 2, 'mixture': 1}}
    """
    totals: dict[str, dict[str, int]] = {}
    for part in (PAPER_TOTALS if text == "paper" else text).split(","):
        split, _, numbers = part.strip().partition("=")
        counts = numbers.split("/")
        is_counted = len(counts) == len(KINDS) and all(count.isdecimal() and len(count) < 10 for count in counts)
        if split not in SPLITS or split in totals or not is_counted:
            raise SettingsError(
                f"--totals {text!r} is not understood at {part.strip()!r}; "
                "write paper, or train=461/322/310,val=... (normal/metastases/mixture)"
            )
        totals[split] = dict(zip(KINDS, map(int, counts), strict=True))
    return totals


def share_out(total: int, available: Mapping[str, int]) -> dict[str, int]:
    """How many each slide gives so that `total` is met and no slide gives much more than another.

    >>> share_out(7, {"a": 1, "b": 9, "c": 9})
    {'a': 1, 'b': 3, 'c': 3}
    """
    given = dict.fromkeys(sorted(available), 0)
    left = min(total, sum(available.values()))
    while left:
        open_slides = [slide for slide in given if given[slide] < available[slide]]
        each = max(1, left // len(open_slides))
        for slide in open_slides:
            more = min(each, available[slide] - given[slide], left)
            given[slide] += more
            left -= more
    return given
