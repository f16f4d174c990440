"""Which tiles a step takes, as many of each label and none twice while there are others, their stain and focus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags.pixels import TileSet
from ucc_path.errors import DatasetError
from ucc_path.settings import ModelSettings
from ucc_path.stain import Change, draw_stains, one_after_other

Indices = NDArray[np.int64]

_BLUR_PX = (0.5, 2.0)  # widths of the Gaussians: from hardly seen to no nucleus with an edge


def check_channels(tiles: TileSet, model: ModelSettings, purpose: str) -> None:
    """DatasetError where the tiles are not of the colours that the model takes."""
    channels = tiles.images.shape[3]
    if channels != model.channels:
        raise DatasetError(
            f"the {purpose} tiles have {channels} channels and the model takes {model.channels}; "
            f"set channels = {channels} under [model] in the settings file"
        )


def group_by_label(
    labels: Indices, usable: Indices, label_names: Sequence[str], *, purpose: str, why_unusable: str
) -> list[Indices]:
    """The usable tiles of each label; one group of all of them where there are no labels to tell apart.

    A label without a usable tile is refused; `why_unusable` ends the sentence "none of the tiles ..." and says what
    can be done.
    """
    names = label_names or ("",)
    groups = []
    for index, name in enumerate(names):
        kind = f"tiles labelled {name}" if label_names else "tiles"
        there = np.count_nonzero(labels == index) if label_names else len(labels)
        group = usable[labels[usable] == index] if label_names else usable
        if there == 0:
            raise DatasetError(f"there are no {purpose} {kind}; {_remedy(label_names)}")
        if len(group) == 0:
            raise DatasetError(f"none of the {there} {purpose} {kind} {why_unusable}")
        groups.append(group)
    return groups


def _remedy(label_names: Sequence[str]) -> str:
    if not label_names:
        return "make the data set anew from more slides with ucc-path tile"
    wanted = " and ".join(label_names)
    return f"training needs tiles of {wanted}: add slides with ucc-path tile, or labels in labels.csv"


def choose_tiles(
    rng: np.random.Generator, groups: Sequence[Indices], number: int, count: int
) -> tuple[Indices, Indices]:
    """The tile and the group of each of the `count` places of step `number`.

    The groups take turns, and a step goes on where the step before it ended: where `count` cannot be divided evenly,
    each group is favoured in its turn.
    """
    group_of = (number * count + np.arange(count)) % len(groups)
    tiles = np.empty(count, np.int64)
    for index, group in enumerate(groups):
        places = np.flatnonzero(group_of == index)
        tiles[places] = group[_deal(rng, len(group), len(places))]
    return tiles, group_of


def choose_stains(rng: np.random.Generator, standard: Change | None, tiles: Indices, jitter: float) -> Change | None:
    """The change of optical density of each of the tiles: made stronger or weaker, then to its slide's standard."""
    if standard is None:
        return None
    if jitter <= 0:
        return standard[tiles]
    return one_after_other(draw_stains(rng, len(tiles), jitter), standard[tiles])


def choose_blurs(rng: np.random.Generator, count: int, share: float) -> NDArray[np.float32]:
    """How far out of focus each of `count` pictures is made: the width of a Gaussian in px, 0 where it stays sharp."""
    is_blurred = rng.random(count) < share
    return np.where(is_blurred, rng.uniform(*_BLUR_PX, count), 0.0).astype(np.float32)


def _deal(rng: np.random.Generator, cards: int, count: int) -> Indices:
    """Cards from a shuffled pack; a new pack is begun only when the last is used up."""
    packs = [rng.permutation(cards) for _ in range(count // cards)]
    return np.concatenate([*packs, rng.choice(cards, count % cards, replace=False)])
