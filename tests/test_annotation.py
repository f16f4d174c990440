"""What is tumour, against shapely and against the definition of the winding number."""

import pickle

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from ucc_path.annotation import MIN_BAND_L0, Annotation, from_polygons, from_runs
from ucc_path.geometry import BoxL0, PointL0, SizeL0

SQUARE = np.array([[0, 0], [10, 0], [10, 10], [0, 10]], float)
BOW_TIE = np.array([[0, 0], [2, 2], [2, 0], [0, 2]], float)
WOUND_TWICE = np.array([[0, 0], [4, 0], [4, 4], [0, 4], [0, 0], [1, 1], [3, 1], [3, 3], [1, 3], [1, 1]], float)


def moved(ring, x, y):
    return ring + np.array([x, y])


def make_star(rng, x, y, radius, vertices):
    """A star-shaped outline: it never crosses itself."""
    angle = np.sort(rng.uniform(0, 2 * np.pi, vertices))
    reach = radius * rng.uniform(0.3, 1, vertices)
    return np.column_stack([x + reach * np.cos(angle), y + reach * np.sin(angle)])


def make_region(seed, extent=3000.0):
    """Stars of all sizes, some of them excluded; and the same region as shapely sees it."""
    rng = np.random.default_rng(seed)
    stars = [make_star(rng, *rng.uniform(0, extent, 2), rng.uniform(0.01, 0.5) * extent, 40) for _ in range(24)]
    tumour, excluded = stars[:16], stars[16:]
    polygons = [shapely.Polygon(star) for star in stars]
    region = shapely.union_all(polygons[:16]).difference(shapely.union_all(polygons[16:]))
    return from_polygons(tumour, excluded), region


def make_wheel():
    """One tall thin triangle over many bands among many small ones, so that edges are carried from band to band."""
    rng = np.random.default_rng(5)
    small = [make_star(rng, x, y, 30, 12) for x, y in rng.uniform(0, [2000, 60_000], (400, 2))]
    tall = np.array([[1000, -100], [1400, 61_000], [700, 30_000]], float)
    region = shapely.union_all([shapely.Polygon(ring) for ring in [*small, tall]])
    return from_polygons([*small, tall]), region


def centres(corner, shape, downsample):
    rows, cols = shape
    x = corner[0] + (np.arange(cols) + 0.5) * downsample
    y = corner[1] + (np.arange(rows) + 0.5) * downsample
    return np.meshgrid(x, y)


def winding_number(ring, x, y):
    """Sum of signed angles, the definition itself."""
    towards = np.concatenate([ring, ring[:1]])[:, :, None] - np.array([x, y])[None]
    angle = np.unwrap(np.arctan2(towards[:, 1], towards[:, 0]), axis=0)
    return np.round((angle[-1] - angle[0]) / (2 * np.pi)).astype(int)


@pytest.mark.parametrize("seed", range(4))
def test_a_pixel_is_tumour_if_its_centre_is(seed):
    annotation, region = make_region(seed)
    rng = np.random.default_rng(seed)
    for downsample in (1, 4.115, 32):
        corner, size = rng.uniform(-500, 2500, 2), rng.uniform(90, 130, 2) * downsample
        mask = annotation.tumour_mask(corner, size, downsample)
        assert mask.shape == (round(size[1] / downsample), round(size[0] / downsample))
        np.testing.assert_array_equal(mask, shapely.contains_xy(region, *centres(corner, mask.shape, downsample)))


@pytest.mark.parametrize("seed", range(4))
def test_the_share_is_the_area_of_tumour_in_the_region(seed):
    annotation, region = make_region(seed)
    rng = np.random.default_rng(seed)
    for _ in range(60):
        corner, size = rng.uniform(-800, 3200, 2), rng.uniform(1, 900, 2)
        box = shapely.box(*corner, *(corner + size))
        expected = shapely.intersection(region, box).area / box.area
        assert annotation.tumour_share(corner, size) == pytest.approx(expected, abs=1e-9)


def test_edges_that_span_many_bands_are_found_everywhere_and_counted_once():
    annotation, region = make_wheel()
    for top in np.linspace(-200, 61_000, 90):
        corner, size = (600.25, float(top)), (700.0, 2.5 * MIN_BAND_L0)
        box = shapely.box(*corner, corner[0] + size[0], corner[1] + size[1])
        expected = shapely.intersection(region, box).area / box.area
        assert annotation.tumour_share(corner, size) == pytest.approx(expected, abs=1e-9)
        mask = annotation.tumour_mask(corner, size, 10)
        np.testing.assert_array_equal(mask, shapely.contains_xy(region, *centres(corner, mask.shape, 10)))


def test_tiles_laid_side_by_side_are_the_whole_mask():
    annotation, _ = make_region(7)
    whole = annotation.tumour_mask((0, 0), (1024, 512))
    tiles = [[annotation.tumour_mask((x, y), (128, 128)) for x in range(0, 1024, 128)] for y in range(0, 512, 128)]
    assert 0.05 < whole.mean() < 0.95
    np.testing.assert_array_equal(np.block(tiles), whole)


def test_neighbours_that_share_an_outline_share_no_pixel_and_leave_none_out():
    left = np.array([[0, 0], [8, 0], [3.5, 4.5], [4.5, 8.5], [6.5, 12], [0, 12]])  # its vertices are pixel centres
    right = np.array([[8, 0], [12, 0], [12, 12], [6.5, 12], [4.5, 8.5], [3.5, 4.5]])
    masks = [from_polygons([ring]).tumour_mask((0, 0), (12, 12)).astype(int) for ring in (left, right)]
    np.testing.assert_array_equal(masks[0] + masks[1], np.ones((12, 12)))


def test_a_square_on_pixel_borders_fills_exactly_its_pixels():
    mask = from_polygons([SQUARE + 3]).tumour_mask(PointL0(0, 0), SizeL0(20, 16))
    expected = np.zeros((16, 20), bool)
    expected[3:13, 3:13] = True
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize(("ring", "area"), [(BOW_TIE, 2.0), (WOUND_TWICE, 16.0)])
def test_an_outline_that_crosses_itself_is_filled_as_asap_fills_it(ring, area):
    annotation = from_polygons([ring * 100])
    assert annotation.area_l0 == pytest.approx(area * 1e4)
    assert annotation.tumour_share((0, 0), (400, 400)) == pytest.approx(area / 16)
    assert annotation.summary.repaired_outlines == 1


@pytest.mark.parametrize("seed", range(12))
def test_any_scribble_is_filled_by_non_zero_winding(seed):
    rng = np.random.default_rng(seed)
    ring = rng.uniform(0, 1000, (11, 2))
    mask = from_polygons([ring]).tumour_mask((0, 0), (1000, 1000), 10)
    winding = winding_number(ring, *(axis.ravel() for axis in centres((0, 0), (100, 100), 10)))
    assert len(np.unique(winding)) > 2  # it does cross itself
    np.testing.assert_array_equal(mask.ravel(), winding != 0)


def test_exclusions_are_cut_out_wherever_they_stand_and_only_where_there_is_tumour():
    half_outside = moved(SQUARE, 5, 0)
    annotation = from_polygons([SQUARE, moved(SQUARE, 0, 5)], [half_outside, SQUARE + 1000])
    assert annotation.area_l0 == pytest.approx(150 - 50)
    assert annotation.summary.cut_area_l0 == pytest.approx(50)
    assert (annotation.summary.tumour_outlines, annotation.summary.excluded_outlines) == (2, 2)
    assert annotation.summary.repaired_outlines == 0


def test_tumour_outlines_that_overlap_count_once():
    annotation = from_polygons([SQUARE, SQUARE, SQUARE + 5])
    assert annotation.area_l0 == pytest.approx(175)
    assert annotation.tumour_share((0, 0), (10, 10)) == pytest.approx(1)
    assert annotation.tumour_mask((0, 0), (15, 15)).sum() == 175


def test_holes_of_polygons_are_kept():
    ring_shape = shapely.box(0, 0, 10, 10).difference(shapely.box(2, 2, 6, 6))
    annotation = from_polygons([ring_shape])
    assert annotation.area_l0 == pytest.approx(84)
    assert not annotation.tumour_mask((0, 0), (10, 10))[4, 4]


def test_outlines_without_area_are_left_out_and_counted():
    line = np.array([[0, 0], [5, 5], [9, 9]], float)
    annotation = from_polygons(
        [SQUARE, line, SQUARE[:2], SQUARE[:0]], [np.repeat(SQUARE[:1], 5, axis=0)], without_area=3
    )
    assert annotation.summary.without_area == 3 + 4
    assert annotation.summary.tumour_outlines == 1
    assert annotation.area_l0 == pytest.approx(100)


def test_no_outlines_are_no_tumour():
    for annotation in (from_polygons([]), from_runs(np.zeros((0, 3), int)), from_polygons([SQUARE], [SQUARE])):
        assert annotation.is_empty
        assert annotation.bounds is None
        assert annotation.area_l0 == 0
        assert annotation.tumour_share((0, 0), (10, 10)) == 0
        assert annotation.tumour_mask((0, 0), (7, 5)).shape == (5, 7)
        assert not annotation.tumour_mask((0, 0), (7, 5)).any()


def test_regions_beyond_the_tumour_have_none_and_regions_within_are_full():
    annotation = from_polygons([SQUARE * 1000])
    for corner in [(-600, 0), (0, -600), (10_001, 0), (0, 10_001), (1e9, -1e9)]:
        assert annotation.tumour_share(corner, (512, 512)) == 0
        assert not annotation.tumour_mask(corner, (512, 512)).any()
    assert annotation.tumour_share((4000, 4000), (512, 512)) == 1
    assert annotation.tumour_mask((4000, 4000), (512, 512)).all()
    assert annotation.tumour_share((-256, -256), (512, 512)) == pytest.approx(0.25)


def test_bounds_and_area_are_those_of_the_tumour():
    annotation = from_polygons([moved(SQUARE, 100, 200), moved(SQUARE, 300, 250)])
    assert annotation.bounds == BoxL0(PointL0(100, 200), SizeL0(210, 60))
    assert not annotation.is_empty
    assert annotation.area_l0 == pytest.approx(200)


def test_nearly_flat_edges_do_not_spill():
    sliver = np.array([[0, 0], [1e6, 1e-320], [1e6, 50], [0, 50]])
    annotation = from_polygons([sliver])
    assert annotation.tumour_share((100, -50), (100, 100)) == pytest.approx(0.5)
    assert annotation.tumour_mask((100, -50), (100, 100)).sum() == 5000


@pytest.mark.parametrize("size", [(0, 5), (5, -1), (float("nan"), 5), (float("inf"), 5)])
def test_a_region_without_area_is_refused(size):
    annotation = from_polygons([SQUARE])
    with pytest.raises(ValueError, match="no area"):
        annotation.tumour_share((0, 0), size)
    with pytest.raises(ValueError, match="no area"):
        annotation.tumour_mask((0, 0), size)


@pytest.mark.parametrize("downsample", [0, -1, float("nan"), float("inf")])
def test_a_downsample_that_is_no_scale_is_refused(downsample):
    with pytest.raises(ValueError, match="positive"):
        from_polygons([SQUARE]).tumour_mask((0, 0), (5, 5), downsample)


def test_a_region_smaller_than_half_a_pixel_has_an_empty_mask():
    assert from_polygons([SQUARE]).tumour_mask((0, 0), (4, 100), 10).shape == (10, 0)


def test_an_annotation_travels_to_another_process():
    annotation, _ = make_region(1)
    twin = pickle.loads(pickle.dumps(annotation))
    assert twin.summary == annotation.summary
    np.testing.assert_array_equal(twin.tumour_mask((0, 0), (900, 900)), annotation.tumour_mask((0, 0), (900, 900)))


def runs_of(mask):
    framed = np.pad(mask.astype(int), ((0, 0), (1, 1)))
    rows, starts = np.nonzero(np.diff(framed, axis=1) == 1)
    _, ends = np.nonzero(np.diff(framed, axis=1) == -1)
    return np.column_stack([rows, starts, ends])


@settings(max_examples=60)
@given(st.data())
def test_runs_give_back_the_mask_they_came_from(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    mask = rng.random((data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40)))) < data.draw(st.floats(0, 1))
    runs = rng.permutation(runs_of(mask))
    annotation = from_runs(runs, scale_l0=32)
    rows, cols = mask.shape
    np.testing.assert_array_equal(annotation.tumour_mask((0, 0), (cols * 32, rows * 32), 32), mask)
    assert annotation.area_l0 == mask.sum() * 32 * 32
    assert annotation.tumour_share((0, 0), (cols * 32, rows * 32)) == pytest.approx(mask.mean())


def test_a_large_rectangle_of_runs_in_pieces_is_two_edges():
    rows = np.arange(100, 5000)
    left = np.column_stack([rows, np.full(4900, 7), np.full(4900, 500)])
    right = np.column_stack([rows, np.full(4900, 500), np.full(4900, 900)])
    annotation = from_runs(np.concatenate([right, left]))
    assert len(annotation.edges) == 2
    assert annotation.bounds == BoxL0(PointL0(7, 100), SizeL0(893, 4900))


def make_comb(teeth, rows):
    """Short runs, no two of which make one edge: a mask at its worst."""
    row, tooth = np.divmod(np.arange(teeth * rows), teeth)
    start = tooth * 40 + row % 3
    return from_runs(np.column_stack([row, start, start + 20]))


def test_of_a_million_edges_only_those_near_the_rows_are_looked_at():
    annotation: Annotation = make_comb(teeth=125, rows=4000)
    assert len(annotation.edges) == 1_000_000
    assert len(annotation._near(1000, 1512, 20_000)) < 1_000_000 / 5
    assert annotation.tumour_share((4000, 1000), (400, 500)) == pytest.approx(0.5)
    assert annotation.tumour_mask((4000, 1000), (400, 500)).sum() == 100_000


def test_a_long_side_whose_box_holds_all_the_others_makes_no_tangle():
    along = np.linspace(0, 1, 320_000)
    curve = 20_000 * np.stack([along, along**2], axis=1)
    ring = np.concatenate([curve[-1:], curve[:-1]])  # the chord comes first
    assert from_polygons([ring]).area_l0 == pytest.approx(20_000**2 / 6, rel=1e-6)
