"""Which slide goes to which split, and which of the tiles found are cut."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence

from ucc_path.errors import DatasetError
from ucc_path.formats import split_csv
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.settings import TilingSettings
from ucc_path.tiles.labelling import KINDS, NORMAL, UCC_OF_KIND
from ucc_path.tiles.quotas import Totals, share_out
from ucc_path.tiles.sampling import Tile
from ucc_path.tiles.splits import CAMELYON16, SPLITS, assign, assign_by_table, parse_shares
from ucc_path.workflows.events import Event, Notice
from ucc_path.workflows.tile.jobs import Survey
from ucc_path.workflows.tile.request import TileRequest


def plan(request: TileRequest, surveys: Sequence[Survey]) -> Generator[Event, None, dict[str, list[TileRow]]]:
    """The rows of the data set by slide."""
    giving = [found for found in surveys if found.tiles]
    if not giving:
        raise DatasetError(
            f"no tile of {request.tiling.tile_px} px with {request.tiling.min_tissue:.0%} tissue fits on any slide; "
            "give a smaller --tile-px, or see what was taken as tissue with --preview FOLDER"
        )
    splits = _assign(request, giving)
    yield from _empty_splits(request, splits)
    tiles = {found.name: found.tiles for found in giving}
    if request.totals:
        tiles = yield from _fit_totals(request.totals, giving, splits)
    elif not request.unlabelled:
        yield from _short_kinds(request.tiling.per_slide, surveys)
    return {found.name: _rows(found, splits[found.name], tiles[found.name], request.tiling) for found in giving}


def _assign(request: TileRequest, giving: Sequence[Survey]) -> dict[str, str]:
    names = [found.name for found in giving]
    if request.split_csv:
        return assign_by_table(names, split_csv.read(request.split_csv))
    with_tumour = [found.name for found in giving if found.tumour_mm2 > 0]
    return assign(names, with_tumour=with_tumour, split=request.split, seed=request.tiling.seed)


def _empty_splits(request: TileRequest, splits: Mapping[str, str]) -> Iterator[Event]:
    if request.split_csv:
        return
    named = SPLITS if request.split == CAMELYON16 else tuple(parse_shares(request.split))
    empty = [split for split in named if split not in splits.values()]
    if empty and request.split == CAMELYON16:
        yield Notice(f"{' and '.join(empty)} got no slides; those of test are named test_*, the others divided")
    elif empty:
        yield Notice(f"there are fewer slides or patients than splits: {' and '.join(empty)} got none")


def _fit_totals(
    totals: Totals, giving: Sequence[Survey], splits: Mapping[str, str]
) -> Generator[Event, None, dict[str, tuple[Tile, ...]]]:
    chosen: dict[str, tuple[Tile, ...]] = {found.name: () for found in giving}
    for split in SPLITS:
        members = [found for found in giving if splits[found.name] == split]
        for kind in KINDS:
            wanted = totals.get(split, {}).get(kind, 0)
            offered = {found.name: [tile for tile in found.tiles if tile.kind == kind] for found in members}
            given = share_out(wanted, {name: len(tiles) for name, tiles in offered.items()})
            for name, count in given.items():
                chosen[name] += tuple(offered[name][:count])
            if sum(given.values()) < wanted:
                yield Notice(f"{split}: {kind} ran short, {sum(given.values())} of {wanted} tiles were found")
    return chosen


def _short_kinds(wanted: int, surveys: Sequence[Survey]) -> Iterator[Event]:
    """A line a kind; a slide without tumour should give normal tiles alone, and one with a rule what that allows."""
    for kind in KINDS:
        asked = [found for found in surveys if kind in found.kinds and (kind == NORMAL or found.tumour_mm2 > 0)]
        counts = {found.name: sum(tile.kind == kind for tile in found.tiles) for found in asked}
        short = sorted((count, name) for name, count in counts.items() if count < wanted)
        if short:
            fewest = ", ".join(f"{name} {count}" for count, name in short[:3])
            yield Notice(
                f"{kind} ran short on {len(short)} of {len(asked)} slides: {sum(counts.values())} of "
                f"{wanted * len(asked)} tiles were found (fewest: {fewest})"
            )


def _rows(found: Survey, split: str, tiles: Sequence[Tile], tiling: TilingSettings) -> list[TileRow]:
    return [
        TileRow(
            tile_id=f"{found.name}_x{tile.x_l0}_y{tile.y_l0}",
            slide=found.name,
            split=split,
            x_l0=tile.x_l0,
            y_l0=tile.y_l0,
            tile_px=tiling.tile_px,
            mpp=found.tile_mpp,
            tumour_fraction=tile.tumour_fraction,
            kind=tile.kind,
            ucc=UCC_OF_KIND[tile.kind] if tile.kind else None,
        )
        # Along the rows of the slide, so that what is cut together lies together in the file.
        for tile in sorted(tiles, key=lambda tile: (tile.y_l0 // tile.side_l0, tile.x_l0))
    ]
