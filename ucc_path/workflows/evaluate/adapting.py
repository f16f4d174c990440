"""The threshold of each slide for each network of pixels: from its tiles, as `segment` finds it from the slide."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import groupby

import numpy as np

from ucc_path.ahead import in_order, usable_cores
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.mask.thresholds import Counts
from ucc_path.stain import Change
from ucc_path.workflows.evaluate.judges import PixelJudge, RefinedJudge
from ucc_path.workflows.evaluate.runs import Contestant
from ucc_path.workflows.evaluate.tiles import Reading, read_tile
from ucc_path.workflows.events import Event, Progress

MOST_TILES = 100  # of a slide, evenly chosen: its middle sureness is known from fewer


def pixel_judge_of(contestant: Contestant) -> PixelJudge | None:
    """What draws the masks of a model that sees pixels."""
    judge = contestant.judge
    return judge.pixels if isinstance(judge, RefinedJudge) else judge if isinstance(judge, PixelJudge) else None


def adapt(
    rows: Sequence[TileRow], contestants: Sequence[Contestant], known: Mapping[str, Change], reading: Reading
) -> Generator[Event, None, None]:
    """Tells each judge of pixels the threshold of each slide; `rows` has the tiles of a slide together."""
    judges = [judge for judge in map(pixel_judge_of, contestants) if judge is not None]
    if not judges:
        return
    chosen: list[TileRow] = []
    for _, group in groupby(rows, key=lambda row: row.slide):
        tiles = list(group)
        places = np.unique(np.linspace(0, len(tiles) - 1, min(MOST_TILES, len(tiles))).astype(int))
        chosen += [tiles[place] for place in places]

    def count(row: TileRow) -> list[Counts]:
        tile = read_tile(row, reading)
        return [judge.count(tile, known.get(row.slide)) for judge in judges]

    done = 0
    counted = zip(chosen, in_order(count, chosen, usable_cores()), strict=True)
    yield Progress("looking at slides", done, len(chosen), "tiles")
    for slide, found in groupby(counted, key=lambda pair: pair[0].slide):
        sums: list[Counts] = []
        for _, counts in found:
            sums = [first + then for first, then in zip(sums, counts, strict=True)] if sums else counts
            done += 1
            yield Progress("looking at slides", done, len(chosen), "tiles")
        for judge, total in zip(judges, sums, strict=True):
            judge.adapt_to(slide, total)
