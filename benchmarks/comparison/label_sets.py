"""Data sets with fewer train tiles, to see what labels are worth: the smaller ones are parts of the larger ones."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

SIZES = (25, 50, 100, 200)  # and all
FEWEST_OF_A_KIND = 3


def nested_order(kinds: Sequence[str], *, seed: int) -> list[int]:
    """The places of all tiles in an order whose first n are drawn at random and hold the kinds in their shares.

    First come three of each kind (or all there are), then always one of the kind that is furthest below its share. So
    a longer beginning holds every shorter one.
    """
    rng = np.random.default_rng(seed)
    share = {kind: count / len(kinds) for kind, count in sorted(Counter(kinds).items())}
    drawn = {kind: rng.permutation([at for at, one in enumerate(kinds) if one == kind]).tolist() for kind in share}
    order = [drawn[kind][turn] for turn in range(FEWEST_OF_A_KIND) for kind in share if turn < len(drawn[kind])]
    taken = Counter(kinds[at] for at in order)
    while len(order) < len(kinds):
        open_kinds = [kind for kind in share if taken[kind] < len(drawn[kind])]
        kind = max(open_kinds, key=lambda kind: share[kind] * (len(order) + 1) - taken[kind])
        order.append(drawn[kind][taken[kind]])
        taken[kind] += 1
    return order


def chosen_rows(rows: Sequence[Mapping[str, str]], size: int, *, seed: int) -> list[Mapping[str, str]]:
    """The rows of tiles.csv with that many train tiles; those of other splits stay, and so does the order."""
    train = [row for row in rows if row["split"] == "train"]
    order = nested_order([row["kind"] for row in train], seed=seed)
    kept = {train[at]["tile_id"] for at in order[:size]}
    return [row for row in rows if row["split"] != "train" or row["tile_id"] in kept]


def read_tiles(dataset: Path) -> list[dict[str, str]]:
    with (dataset / "tiles.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def make_smaller(dataset: Path, output: Path, size: int, *, seed: int) -> None:
    """A data set of the same pictures, which are linked and not copied."""
    partial = output.with_name(f"{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    rows = chosen_rows(read_tiles(dataset), size, seed=seed)
    with (partial / "tiles.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    shutil.copy(dataset / "dataset.json", partial)
    for folder in ("images", "masks"):
        (partial / folder).symlink_to(Path("..", "..", dataset.name, folder))  # so that the whole can be moved
    partial.rename(output)
