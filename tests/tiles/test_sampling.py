"""Where tiles are cropped: labels recomputed with shapely, overlaps and tissue by brute force."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from ucc_path.annotation import from_polygons
from ucc_path.coverage import Coverage
from ucc_path.geometry import Grid, PointL0, SizeL0
from ucc_path.seeding import stream
from ucc_path.settings import TilingSettings
from ucc_path.tiles import sampling
from ucc_path.tiles.labelling import KINDS
from ucc_path.tiles.sampling import Tile, TilePlane, find_tiles, find_unlabelled

SETTINGS = TilingSettings()
SLIDE = SizeL0(9_001, 7_003)
CELL_L0 = 32.0
NOTHING = shapely.Polygon()
BLOB = shapely.Point(4_000, 3_500).buffer(2_200)


def make_tissue(shape: shapely.Geometry, size: SizeL0 = SLIDE, cell_l0: float = CELL_L0) -> Coverage:
    grid = Grid.covering(size, cell_l0)
    xs = (np.arange(grid.cols) + 0.5) * cell_l0
    ys = (np.arange(grid.rows) + 0.5) * cell_l0
    return Coverage(shapely.contains_xy(shape, *np.meshgrid(xs, ys)), grid)


def make_plane(side_l0: float, size: SizeL0 = SLIDE, tile_px: int = 128, alignment_l0: int = 1) -> TilePlane:
    return TilePlane(size, side_l0, side_l0 / tile_px, alignment_l0)


def find(
    plane: TilePlane,
    tumour: shapely.Geometry,
    wanted: dict[str, int],
    *,
    tissue: Coverage | None = None,
    settings: TilingSettings = SETTINGS,
    seed: int = 0,
) -> list[Tile]:
    everywhere = shapely.box(-1e6, -1e6, 1e6, 1e6)
    tissue = make_tissue(everywhere, plane.size_l0) if tissue is None else tissue
    outline = from_polygons([] if tumour.is_empty else [tumour])
    return find_tiles(plane, tissue, outline, wanted, settings=settings, rng=stream(seed, "test"))


def square(tile: Tile) -> shapely.Polygon:
    return shapely.box(tile.x_l0, tile.y_l0, tile.x_l0 + tile.side_l0, tile.y_l0 + tile.side_l0)


def true_kind(share: float) -> str | None:
    if share < 0.2:
        return "normal"
    if share > 0.8:
        return "metastases"
    return "mixture" if 0.3 < share < 0.7 else None


def largest_overlap(tiles: list[Tile]) -> float:
    """As a share of a tile."""
    pairs = itertools.combinations(tiles, 2)
    return max((square(a).intersection(square(b)).area / a.side_l0**2 for a, b in pairs), default=0.0)


def assert_inside(tiles: list[Tile], plane: TilePlane) -> None:
    for tile in tiles:
        assert 0 <= tile.x_l0 <= plane.size_l0.width - plane.side_l0 + 1e-6
        assert 0 <= tile.y_l0 <= plane.size_l0.height - plane.side_l0 + 1e-6
        assert tile.side_l0 == plane.side_l0


def plain_grid(tissue: Coverage, plane: TilePlane, min_tissue: float) -> int:
    """How many squares of a grid from the slide's corner are on tissue."""
    pitch = int(np.ceil(plane.side_l0 / plane.alignment_l0)) * plane.alignment_l0
    xs = np.arange(0, plane.size_l0.width - plane.side_l0 + 1e-9, pitch)
    ys = np.arange(0, plane.size_l0.height - plane.side_l0 + 1e-9, pitch)
    corners: NDArray[np.float64] = np.array(list(itertools.product(xs, ys))).T
    return int((tissue.shares(corners[0], corners[1], plane.side_l0) >= min_tissue).sum())


@pytest.mark.parametrize("side_l0", [512.0, 526.53, 1024.0])
def test_tiles_are_of_the_kind_they_say_on_tissue_inside_the_slide_and_apart(side_l0: float) -> None:
    tissue_shape = shapely.box(300, 500, 8_000, 6_800)
    tissue, plane = make_tissue(tissue_shape), make_plane(side_l0)
    wanted = dict.fromkeys(KINDS, 8)
    tiles = find(plane, BLOB, wanted, tissue=tissue)
    assert Counter(tile.kind for tile in tiles) == wanted
    assert_inside(tiles, plane)
    assert largest_overlap(tiles) < 1e-9
    for tile in tiles:
        share = square(tile).intersection(BLOB).area / side_l0**2
        assert tile.kind == true_kind(share)
        assert tile.tumour_fraction == pytest.approx(share, abs=0.02)
        on_tissue = square(tile).intersection(tissue_shape).area / side_l0**2
        assert on_tissue >= SETTINGS.min_tissue - CELL_L0 / side_l0


def test_the_fraction_is_that_of_the_pixels_of_the_tiles_mask() -> None:
    plane = make_plane(512.0, tile_px=128)
    outline = from_polygons([BLOB])
    for tile in find(plane, BLOB, {"mixture": 5}):
        mask = outline.tumour_mask((tile.x_l0, tile.y_l0), (512, 512), downsample=4)
        assert mask.shape == (128, 128)
        assert tile.tumour_fraction == mask.mean()


@pytest.mark.parametrize("max_overlap", [0.0, 0.1, 0.5])
def test_no_two_tiles_overlap_beyond_the_setting_whatever_their_kinds(max_overlap: float) -> None:
    settings = dataclasses.replace(SETTINGS, max_overlap=max_overlap)
    tiles = find(make_plane(1024.0), BLOB, dict.fromkeys(KINDS, 100), settings=settings)
    assert {tile.kind for tile in tiles} == set(KINDS)
    assert largest_overlap(tiles) <= max_overlap + 1e-9
    if max_overlap:
        assert len(tiles) > len(find(make_plane(1024.0), BLOB, dict.fromkeys(KINDS, 100)))


def test_the_same_seed_gives_the_same_tiles_and_another_seed_others() -> None:
    plane, wanted = make_plane(700.0), dict.fromkeys(KINDS, 4)
    assert find(plane, BLOB, wanted, seed=1) == find(plane, BLOB, wanted, seed=1)
    assert find(plane, BLOB, wanted, seed=1) != find(plane, BLOB, wanted, seed=2)


def test_the_order_in_which_kinds_are_named_changes_nothing() -> None:
    plane = make_plane(700.0)
    forward = find(plane, BLOB, dict.fromkeys(KINDS, 4))
    backward = find(plane, BLOB, dict.fromkeys(reversed(KINDS), 4))
    assert forward == backward


def test_tiles_are_scattered_and_not_on_a_lattice() -> None:
    tiles = find(make_plane(300.0), NOTHING, {"normal": 30})
    assert len({tile.x_l0 % 16 for tile in tiles}) > 8
    assert min(tile.x_l0 for tile in tiles) < 3000 and max(tile.x_l0 for tile in tiles) > 6000


@pytest.mark.parametrize(("alignment_l0", "wanted"), [(1, 5), (4, 5), (16, 5), (4, 500)])
def test_corners_are_multiples_of_the_alignment(alignment_l0: int, wanted: int) -> None:
    plane = make_plane(1024.0, alignment_l0=alignment_l0)
    tiles = find(plane, BLOB, dict.fromkeys(KINDS, wanted))
    assert len(tiles) >= 15
    assert_inside(tiles, plane)
    assert all(tile.x_l0 % alignment_l0 == 0 and tile.y_l0 % alignment_l0 == 0 for tile in tiles)


@pytest.mark.parametrize("side_l0", [1000.0, 1000.25, 777.7, 2106.13])
@pytest.mark.parametrize("alignment_l0", [1, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_where_tiles_run_short_as_many_are_found_as_a_grid_would_hold(
    side_l0: float, alignment_l0: int, seed: int
) -> None:
    plane = make_plane(side_l0, alignment_l0=alignment_l0)
    tissue = make_tissue(shapely.box(-1, -1, 1e5, 1e5))
    at_least = plain_grid(tissue, plane, SETTINGS.min_tissue)
    labelled = find(plane, NOTHING, {"normal": 10_000}, seed=seed)
    unlabelled = find_unlabelled(plane, tissue, 10_000, settings=SETTINGS, rng=stream(seed, "test"))
    assert len(labelled) >= at_least and len(unlabelled) >= at_least
    assert largest_overlap(labelled) < 1e-9 and largest_overlap(unlabelled) < 1e-9


def test_on_tissue_of_any_shape_hardly_fewer_are_found_than_a_grid_would_hold() -> None:
    plane = make_plane(500.0)
    for seed in range(4):
        x, y = stream(seed, "where").uniform(2500, 4500, 2)
        tissue = make_tissue(shapely.Point(x, y).buffer(2300))
        at_least = 0.95 * plain_grid(tissue, plane, SETTINGS.min_tissue)
        assert len(find(plane, NOTHING, {"normal": 10_000}, tissue=tissue)) >= at_least
        assert len(find_unlabelled(plane, tissue, 10_000, settings=SETTINGS, rng=stream(seed))) >= at_least


def test_where_tiles_run_short_each_lies_on_the_tissue_as_fully_as_it_can() -> None:
    pieces = [shapely.box(x, y, x + 640, y + 640) for x in range(320, 8_000, 1_280) for y in range(320, 6_000, 1_280)]
    tissue = make_tissue(shapely.union_all(pieces))
    tiles = find(make_plane(512), NOTHING, {"normal": 1_000}, tissue=tissue)
    assert len(tiles) == len(pieces)
    for tile in tiles:
        assert tissue.share(PointL0(tile.x_l0, tile.y_l0), SizeL0(512, 512)) > 0.98


def test_mixtures_are_found_along_an_outline_that_few_places_touch() -> None:
    """Half a tile of tumour along one side of a large slide: one place in two hundred is a mixture."""
    size = SizeL0(20_000, 20_000)
    strip = shapely.box(0, 0, 250, 20_000)
    plane = make_plane(500.0, size)
    tiles = find(plane, strip, {"mixture": 20, "normal": 5})
    assert Counter(tile.kind for tile in tiles) == {"mixture": 20, "normal": 5}


def test_pure_tumour_is_found_inside_an_outline_hardly_larger_than_a_tile() -> None:
    size = SizeL0(20_000, 20_000)
    spot = shapely.box(10_111, 9_333, 10_111 + 560, 9_333 + 560)
    tiles = find(make_plane(500.0, size), spot, {"metastases": 3})
    assert [tile.kind for tile in tiles] == ["metastases"]


def test_mixtures_are_found_where_the_tissue_map_is_coarse_for_the_tile() -> None:
    """Tumour of 40 px along the edge: of a tile of 128 px 0.31, a mixture; on a map of 32-px cells 0.25, none."""
    size = SizeL0(129, 4_096)
    tiles = find(TilePlane(size, 128.0, 1.0, 1), shapely.box(0, 0, 40, 4_096), {"mixture": 10})
    assert len(tiles) == 10


def test_a_slide_smaller_than_a_tile_gives_no_tiles() -> None:
    for size in (SizeL0(400, 9_000), SizeL0(9_000, 400), SizeL0(511, 511)):
        plane = make_plane(512.0, size)
        tissue = make_tissue(shapely.box(-1, -1, 1e5, 1e5), size)
        assert find(plane, NOTHING, {"normal": 5}) == []
        assert find_unlabelled(plane, tissue, 5, settings=SETTINGS, rng=stream(0)) == []


@pytest.mark.parametrize("alignment_l0", [1, 4])
def test_a_slide_of_exactly_one_tile_gives_that_tile(alignment_l0: int) -> None:
    """512 px at 1.05 um on a slide of 0.3: 1792.0000000000002 px, longer than the slide by nothing."""
    side_l0 = 512 * (1.05 / 0.3)
    assert side_l0 > 1792
    plane = make_plane(side_l0, SizeL0(1792, 1792), alignment_l0=alignment_l0)
    tissue = make_tissue(shapely.box(-1, -1, 1e5, 1e5), plane.size_l0)
    for tiles in (
        find(plane, NOTHING, {"normal": 5}),
        find_unlabelled(plane, tissue, 5, settings=SETTINGS, rng=stream(0)),
    ):
        assert [(tile.x_l0, tile.y_l0) for tile in tiles] == [(0, 0)]


def test_tiles_all_on_tissue_can_be_asked_for() -> None:
    """Shares are sums of fractions of cells; rounding must not lose the tile that is covered to the last pixel."""
    settings = dataclasses.replace(SETTINGS, min_tissue=1.0)
    plane = make_plane(333.3)
    tissue = make_tissue(shapely.box(-1, -1, 1e5, 1e5))
    found = find_unlabelled(plane, tissue, 10_000, settings=settings, rng=stream(0))
    assert len(found) >= plain_grid(tissue, plane, 1 - 1e-9)


def test_without_tissue_there_are_no_tiles() -> None:
    tissue = make_tissue(NOTHING)
    assert find(make_plane(500.0), BLOB, dict.fromkeys(KINDS, 5), tissue=tissue) == []


def test_a_kind_of_which_there_is_none_leaves_the_others_as_many_as_wanted() -> None:
    tiles = find(make_plane(500.0), NOTHING, {"normal": 12, "metastases": 12, "mixture": 12})
    assert Counter(tile.kind for tile in tiles) == {"normal": 12}


def test_unlabelled_tiles_have_neither_kind_nor_fraction() -> None:
    plane = make_plane(500.0)
    tiles = find_unlabelled(plane, make_tissue(BLOB), 10, settings=SETTINGS, rng=stream(0, "test"))
    assert len(tiles) == 10 and largest_overlap(tiles) < 1e-9
    assert {(tile.kind, tile.tumour_fraction) for tile in tiles} == {(None, None)}
    for tile in tiles:
        assert square(tile).intersection(BLOB).area / 500**2 >= SETTINGS.min_tissue - CELL_L0 / 500


def test_small_tiles_on_a_large_slide_are_found_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_PLACES", 10_000)
    size = SizeL0(50_000, 30_000)
    for side_l0 in (600.0, 100.0):  # at a sixteenth of a tile: a million places, and forty million
        places = sampling._regular_places(make_plane(side_l0, size))
        assert 1_000 < len(places.xs_l0) <= 11_000
        tiles = find(make_plane(side_l0, size, tile_px=50), shapely.box(0, 0, 9_000, 9_000), dict.fromkeys(KINDS, 5))
        assert Counter(tile.kind for tile in tiles) == dict.fromkeys(KINDS, 5)


def test_a_tile_of_a_few_pixels_is_possible() -> None:
    plane = make_plane(5.0, SizeL0(100, 60), tile_px=5)
    tissue = Coverage(np.ones((60, 100), bool), Grid(PointL0(0, 0), 1.0, 60, 100))
    tiles = find_unlabelled(plane, tissue, 1000, settings=SETTINGS, rng=stream(0))
    assert len(tiles) == 20 * 12
