"""Whole slides, and whole patients where the name tells, are given to splits; no two splits ever share one."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

from ucc_path.errors import DatasetError, SettingsError, few
from ucc_path.seeding import stream
from ucc_path.settings import DEFAULT_SPLIT

SPLITS = ("train", "val", "test")
CAMELYON16 = "camelyon16"
_CAMELYON16_OTHERS = {"train": 0.6, "val": 0.4}  # of its other slides, as in the paper: 159 and 106

_PATIENT_PATTERNS = (
    re.compile(r"((?:normal|tumor|test)_\d{3})_", re.IGNORECASE),  # a part of a CAMELYON16 slide, tumor_001_r191c112
    re.compile(r"(patient_\d+)_node_\d+", re.IGNORECASE),  # CAMELYON17
    re.compile(r"(tcga-[0-9a-z]{2}-[0-9a-z]{4})(?![0-9a-z])", re.IGNORECASE),  # TCGA barcode
)


def patient_of(slide: str) -> str:
    """The patient a slide belongs to; where the name does not tell, the slide stands for itself.

    >>> patient_of("patient_004_node_4"), patient_of("tumor_001")
    ('patient_004', 'tumor_001')
    """
    for pattern in _PATIENT_PATTERNS:
        match = pattern.match(slide)
        if match:
            return match[1].lower()
    return slide


def parse_shares(text: str) -> dict[str, float]:
    """`train=0.6,val=0.2,test=0.2` as a mapping; the shares are brought to a sum of 1."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if name not in SPLITS or name in shares or not (math.isfinite(share) and share > 0):
            raise SettingsError(
                f"--split {text!r} is not understood at {part.strip()!r}; write {DEFAULT_SPLIT} or {CAMELYON16}"
            )
        shares[name] = share
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def assign(slides: Collection[str], *, with_tumour: Collection[str], split: str, seed: int) -> dict[str, str]:
    """The split of each slide. `split` is as `--split` takes it.

    Slides with and without tumour are dealt out separately, so that a split is not left without tumour by chance.
    """
    if split != CAMELYON16:
        return _assign_by_shares(slides, with_tumour, parse_shares(split), seed)
    is_test = {slide: slide.lower().startswith("test_") for slide in slides}
    others = [slide for slide in slides if not is_test[slide]]
    chosen = _assign_by_shares(others, with_tumour, _CAMELYON16_OTHERS, seed)
    return chosen | {slide: "test" for slide in slides if is_test[slide]}


def assign_by_table(slides: Collection[str], table: Mapping[str, str]) -> dict[str, str]:
    """The split of each slide as the user's table says; a patient in two splits is refused."""
    missing = sorted(set(slides) - set(table))
    if missing:
        raise DatasetError(
            f"the split table does not name {few(missing)}; add a row for each slide, without its ending"
        )
    chosen = {slide: table[slide] for slide in slides}
    home: dict[str, str] = {}
    for slide in sorted(slides):
        patient = patient_of(slide)
        if home.setdefault(patient, chosen[slide]) != chosen[slide]:
            raise DatasetError(
                f"the split table puts slides of {patient} into both {home[patient]} and {chosen[slide]}; "
                "keep a patient in one split"
            )
    return chosen


def _assign_by_shares(
    slides: Collection[str], with_tumour: Collection[str], shares: Mapping[str, float], seed: int
) -> dict[str, str]:
    patients: dict[str, list[str]] = {}
    for slide in sorted(slides):
        patients.setdefault(patient_of(slide), []).append(slide)
    order = stream(seed, "splits").permutation(len(patients))
    names = [sorted(patients)[i] for i in order]
    has_tumour = {name: any(slide in with_tumour for slide in patients[name]) for name in names}
    tumour = [name for name in names if has_tumour[name]]
    normal = [name for name in names if not has_tumour[name]]
    room = largest_remainder(len(names), shares)
    tumour_room = _within(largest_remainder(len(tumour), shares), room, len(tumour))
    normal_room = {split: room[split] - tumour_room[split] for split in room}
    home = {**_deal(tumour, tumour_room), **_deal(normal, normal_room)}
    return {slide: home[patient] for patient, members in patients.items() for slide in members}


def largest_remainder(count: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many of `count` go to each split: by share, at least one each, the first named first where they are few.

    >>> largest_remainder(5, {"train": 0.6, "val": 0.2, "test": 0.2})
    {'train': 3, 'val': 1, 'test': 1}
    """
    ordered = sorted(shares, key=SPLITS.index)
    if count <= len(ordered):
        return {split: int(rank < count) for rank, split in enumerate(ordered)}
    ideal = {split: shares[split] * count for split in ordered}
    room = {split: max(1, math.floor(ideal[split] + 1e-9)) for split in ordered}
    while sum(room.values()) < count:
        room[max(ordered, key=lambda split: ideal[split] - room[split])] += 1
    while sum(room.values()) > count:
        room[max((s for s in ordered if room[s] > 1), key=lambda split: room[split] - ideal[split])] -= 1
    return room


def _within(wish: dict[str, int], room: Mapping[str, int], count: int) -> dict[str, int]:
    """The wish cut to the room there is; what is cut goes where room is left."""
    granted = {split: min(wish[split], room[split]) for split in room}
    for split in room:
        granted[split] += min(room[split] - granted[split], count - sum(granted.values()))
    return granted


def _deal(names: Sequence[str], room: Mapping[str, int]) -> dict[str, str]:
    places = [split for split, seats in room.items() for _ in range(seats)]
    return dict(zip(names, places, strict=True))
