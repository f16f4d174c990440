"""Tissue against truth painted by construction, one situation a slide, and against real slides where at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED_DATA
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from ucc_path import tissue
from ucc_path.coverage import Coverage
from ucc_path.errors import TissueError
from ucc_path.geometry import Grid, PointL0
from ucc_path.settings import TissueSettings
from ucc_path.tissue import find_tissue, require_tissue

SETTINGS = TissueSettings()
MPP = SETTINGS.mpp

GLASS = (243, 243, 243)
HAEMATOXYLIN = (130, 90, 160)
EOSIN = (225, 150, 185)

Colour = tuple[int, int, int]
Painted = tuple[NDArray[np.uint8], NDArray[np.bool_]]


def disc(shape: tuple[int, ...], centre: tuple[float, float], radius_px: float) -> NDArray[np.bool_]:
    row, col = np.mgrid[: shape[0], : shape[1]]
    return np.asarray((row - centre[0]) ** 2 + (col - centre[1]) ** 2 <= radius_px**2)


def paint(
    glass: Colour = GLASS,
    tissue: Sequence[Colour] = (HAEMATOXYLIN, EOSIN),
    shape: tuple[int, int] = (300, 400),
    where: NDArray[np.bool_] | None = None,
    noise: float = 3.0,
    texture: float = 12.0,
) -> Painted:
    """A thumbnail at 8 um/px and its truth: tissue (a disc unless told) of mixed colours, on noisy glass."""
    rng = np.random.default_rng(7)
    truth = disc(shape, centre=(150, 150), radius_px=90) if where is None else where
    picture = np.broadcast_to(np.array(glass, float), (*shape, 3)).copy()
    palette = np.array(tissue, float)
    picture[truth] = palette[rng.integers(len(palette), size=int(truth.sum()))] + rng.normal(
        0, texture, (int(truth.sum()), 1)
    )
    return add_noise(picture, noise), truth


def add_noise(picture: NDArray[np.float64], sigma: float) -> NDArray[np.uint8]:
    noisy = picture + np.random.default_rng(3).normal(0, sigma, picture.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def draw(picture: NDArray[np.uint8], where: NDArray[np.bool_], colour: Colour, noise: float = 3.0) -> None:
    flat = np.broadcast_to(np.array(colour, float), picture.shape)
    picture[where] = add_noise(np.asarray(flat), noise)[where]


def iou(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    return float((found & truth).sum() / (found | truth).sum())


def find(picture: NDArray[np.uint8], settings: TissueSettings = SETTINGS) -> NDArray[np.bool_]:
    return find_tissue(picture, MPP, settings)


def as_jpeg(picture: NDArray[np.uint8], tmp_path: Path, quality: int) -> NDArray[np.uint8]:
    Image.fromarray(picture).save(tmp_path / "thumbnail.jpg", quality=quality)
    return np.asarray(Image.open(tmp_path / "thumbnail.jpg"))


@pytest.mark.parametrize(
    "glass",
    [
        (243, 243, 243),
        (255, 255, 255),
        (225, 225, 228),
        (200, 200, 200),
        (245, 240, 222),
        (231, 226, 236),
        (241, 236, 239),
    ],
    ids=["canvas", "white", "grey", "dark-grey", "yellowish", "violet-camelyon", "pink-tcga"],
)
def test_tissue_is_outlined_on_glass_of_any_colour(glass: Colour) -> None:
    picture, truth = paint(glass=glass)
    assert iou(find(picture), truth) > 0.95


@pytest.mark.parametrize(
    "tissue",
    [
        [(238, 226, 234)],
        [(240, 228, 232), (236, 222, 232)],
        [(232, 215, 225)],
        [(205, 200, 225)],
        [(60, 25, 70), (90, 40, 95)],
        [(190, 60, 60), (170, 45, 50), (222, 115, 120)],
        [(220, 140, 135)],
        [(40, 20, 50)],
    ],
    ids=["faint", "washed-out", "eosin-only", "pale-haematoxylin", "fold", "blood", "thin-blood", "black-fold"],
)
def test_tissue_is_found_whatever_its_stain(tissue: list[Colour]) -> None:
    picture, truth = paint(tissue=tissue, texture=2.0)
    assert iou(find(picture), truth) > 0.93


def test_a_fold_within_tissue_stays_tissue() -> None:
    picture, truth = paint()
    fold = np.zeros_like(truth)
    fold[100:200, 140:148] = True
    draw(picture, fold, (55, 25, 65))
    assert find(picture)[fold].mean() > 0.99


@pytest.mark.parametrize(
    "pen",
    [
        (30, 60, 180),
        (40, 50, 160),
        (30, 140, 80),
        (20, 20, 22),
        (45, 45, 45),
        (205, 35, 45),
        (225, 60, 70),
        (90, 90, 95),
        (140, 160, 215),
    ],
    ids=["blue", "ballpoint", "green", "black", "dark-grey", "red", "light-red", "faded-black", "blue-smear"],
)
@pytest.mark.parametrize("quality", [None, 70], ids=["raw", "jpeg"])
def test_pen_beside_the_tissue_is_not_tissue(pen: Colour, quality: int | None, tmp_path: Path) -> None:
    picture, truth = paint()
    marks = np.zeros_like(truth)
    marks[20:280, 300:312] = True
    marks |= disc(truth.shape, centre=(60, 355), radius_px=25)
    draw(picture, marks, pen)
    if quality is not None:
        picture = as_jpeg(picture, tmp_path, quality)
    found = find(picture)
    assert found[:, 270:].mean() < 0.005
    assert iou(found[:, :270], truth[:, :270]) > 0.95


def test_pen_over_tissue_costs_no_more_than_the_pen_and_its_margin() -> None:
    picture, truth = paint()
    marks = np.zeros_like(truth)
    marks[:, 146:154] = True
    draw(picture, marks, (30, 60, 180))
    found = find(picture)
    margin_px = round(SETTINGS.ink_margin_um / MPP) + 2
    near = np.zeros_like(truth)
    near[:, 146 - margin_px : 154 + margin_px] = True
    assert not found[marks].any()
    assert iou(found & ~near, truth & ~near) > 0.95


def test_a_dot_of_black_pen_on_tissue_is_not_filled_like_a_hole() -> None:
    picture, truth = paint()
    dot = disc(truth.shape, centre=(150, 150), radius_px=5)
    draw(picture, dot, (25, 25, 25))
    assert find(picture)[dot].mean() < 0.1


def test_specks_of_pigment_cut_no_holes_into_tissue() -> None:
    picture, truth = paint()
    specks = np.zeros_like(truth)
    specks[100:200:10, 100:200:10] = specks[101:200:10, 100:200:10] = True
    draw(picture, specks, (10, 10, 10))
    assert find(picture)[specks].all()


def test_the_edge_of_dense_tissue_is_found_to_a_pixel() -> None:
    square = np.zeros((300, 400), bool)
    square[100:200, 100:200] = True
    picture, _ = paint(where=square, tissue=[HAEMATOXYLIN], texture=3.0)
    found = find(picture)
    assert found[101:199, 101:199].all()
    assert not found[:98].any()
    assert not found[:, :98].any()
    assert found.sum() <= 101**2


def test_black_padding_around_the_scan_is_not_tissue() -> None:
    picture, truth = paint()
    picture[:, 320:] = 0
    picture[260:] = 0
    assert iou(find(picture), truth) > 0.95


def test_tissue_is_found_on_a_slide_that_is_mostly_black_padding() -> None:
    picture, truth = paint()
    picture[~disc(truth.shape, centre=(150, 150), radius_px=110)] = 0
    assert iou(find(picture), truth) > 0.95


@pytest.mark.parametrize("glass", [(243, 243, 243), (231, 226, 236), (241, 236, 239)])
def test_white_canvas_beside_scanned_glass_does_not_make_the_glass_tissue(glass: Colour) -> None:
    picture, truth = paint(glass=glass, noise=1.0)
    picture[:, 260:] = 255
    picture[250:] = 255
    assert iou(find(picture), truth) > 0.95


def test_a_mesh_of_fat_is_tissue_as_a_whole() -> None:
    picture, truth = paint()
    rows, cols = np.mgrid[:300, :400]
    shifted = cols + 5 * ((rows // 10) % 2)
    membranes = ((rows % 10 == 0) | (shifted % 10 == 0)) & truth
    draw(picture, truth, GLASS)
    draw(picture, membranes, (228, 190, 212))
    assert iou(find(picture), truth) > 0.9


def test_a_large_hole_stays_a_hole_and_a_small_one_is_filled() -> None:
    picture, truth = paint()
    large = disc(truth.shape, centre=(120, 120), radius_px=20)
    small = disc(truth.shape, centre=(190, 190), radius_px=5)
    draw(picture, large | small, GLASS)
    found = find(picture)
    assert found[large].mean() < 0.15
    assert found[small].all()


def test_a_corner_of_glass_at_the_edge_of_the_picture_is_not_filled_like_a_hole() -> None:
    corner = disc((200, 200), centre=(0, 0), radius_px=12)
    picture, _ = paint(where=~corner, shape=(200, 200))
    assert not find(picture)[:6, :6].any()


def test_faint_tissue_is_not_taken_for_the_glass_where_there_is_more_of_it() -> None:
    truth = np.ones((300, 400), bool)
    truth[:, 300:] = False
    picture, _ = paint(where=truth, tissue=[(238, 227, 235)], texture=0.5, noise=1.5)
    assert iou(find(picture), truth) > 0.95


def test_a_few_tiny_fragments_on_a_large_slide_are_all_found() -> None:
    centres = [(100, 200), (700, 1300), (1000, 500)]
    truth = np.zeros((1200, 1500), bool)
    for centre in centres:
        truth |= disc(truth.shape, centre=centre, radius_px=6)
    picture, _ = paint(where=truth, shape=truth.shape)
    found = find(picture)
    assert all(found[centre] for centre in centres)
    assert found.sum() < 2 * truth.sum()


@pytest.mark.parametrize("tissue", [(HAEMATOXYLIN, EOSIN), ((232, 212, 224),)], ids=["dense", "pale"])
def test_a_slide_without_any_glass_is_all_tissue(tissue: Sequence[Colour]) -> None:
    picture, _ = paint(tissue=tissue, where=np.ones((200, 200), bool), shape=(200, 200), texture=4.0)
    assert find(picture).mean() > 0.99


def test_a_greyscale_picture_holds_no_tissue() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (200, 200, 1), np.uint8)
    grey[50:150, 50:150] = 120
    assert not find(np.repeat(grey, 3, axis=2)).any()


def test_shadows_coverslip_edges_and_grey_dust_are_not_tissue() -> None:
    picture, _ = paint(where=np.zeros((300, 400), bool))
    picture[40:44] = 150
    picture[:, 60:70] = add_noise(np.full((300, 10, 3), (205.0, 202, 204)), 2.0)
    picture[100:104, 200:204] = (70, 66, 70)
    draw(picture, disc((300, 400), centre=(130, 300), radius_px=40), (150, 144, 150))
    shade = np.linspace(1.0, 0.75, 100)[None, :, None]
    picture[200:, 300:] = np.rint(picture[200:, 300:] * shade)
    assert not find(picture).any()


def test_stained_specks_smaller_than_a_piece_are_dust() -> None:
    specks = disc((300, 400), centre=(100, 100), radius_px=2) | disc((300, 400), centre=(200, 300), radius_px=2)
    picture, _ = paint(where=specks)
    assert not find(picture).any()


def test_heavy_noise_on_bare_glass_is_not_tissue() -> None:
    picture, _ = paint(where=np.zeros((300, 400), bool), noise=20.0)
    assert not find(picture).any()


@pytest.mark.parametrize("quality", [30, 80])
def test_jpeg_noise_on_bare_glass_is_not_tissue(quality: int, tmp_path: Path) -> None:
    picture, _ = paint(where=np.zeros((300, 400), bool), noise=6.0)
    assert not find(as_jpeg(picture, tmp_path, quality)).any()


def test_tissue_survives_hard_compression(tmp_path: Path) -> None:
    picture, truth = paint()
    assert iou(find(as_jpeg(picture, tmp_path, 30)), truth) > 0.93


def test_the_same_thumbnail_gives_the_same_mask_and_is_left_as_it_was() -> None:
    picture, _ = paint()
    before = picture.copy()
    assert np.array_equal(find(picture), find(picture))
    assert np.array_equal(picture, before)


@pytest.mark.parametrize("threads", [2, 5])
def test_the_number_of_threads_changes_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tissue, "_BAND_PX", 400 * 64)  # five bands
    picture, truth = paint()
    draw(picture, disc(truth.shape, centre=(150, 330), radius_px=30), (30, 60, 180))
    alone = find_tissue(picture, MPP, SETTINGS, threads=1)
    assert np.array_equal(find_tissue(picture, MPP, SETTINGS, threads), alone)
    assert iou(alone, truth) > 0.95


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (23, 17), (40, 3)])
@pytest.mark.parametrize("reach_px", [0, 1, 2, 3, 5, 12, 50])
def test_what_is_looked_for_around_a_pixel_is_what_filters_of_scipy_find(shape: tuple[int, int], reach_px: int) -> None:
    rng = np.random.default_rng(0)
    plane, mask, side = rng.normal(0, 1, shape).astype(np.float32), rng.random(shape) < 0.02, 2 * reach_px + 1
    highest = ndimage.maximum_filter(plane, side, mode="nearest")
    lowest = ndimage.minimum_filter(plane, side, mode="nearest")
    grown = ndimage.binary_dilation(mask, np.ones((side, side), bool))
    assert np.array_equal(tissue._around(np.maximum, plane, reach_px), highest)
    assert np.array_equal(tissue._around(np.minimum, plane, reach_px), lowest)
    assert np.array_equal(tissue._around(np.logical_or, mask, reach_px), grown)


@pytest.mark.parametrize("mpp", [4.0, 16.0])
def test_areas_in_the_settings_are_of_glass_and_not_of_pixels(mpp: float) -> None:
    radius_um = 60.0
    truth = disc((200, 200), centre=(100, 100), radius_px=radius_um / mpp)
    picture, _ = paint(where=truth, shape=(200, 200))
    assert find_tissue(picture, mpp, SETTINGS).any()
    assert not find_tissue(picture, mpp, TissueSettings(min_area_um2=4 * np.pi * radius_um**2)).any()


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 2)])
def test_a_thumbnail_of_few_pixels_is_no_obstacle(shape: tuple[int, int]) -> None:
    assert find(np.full((*shape, 3), 243, np.uint8)).shape == shape


def map_of(mask: NDArray[np.bool_]) -> Coverage:
    return Coverage(mask, Grid(PointL0(0, 0), 16.0, *mask.shape))


def test_a_slide_without_tissue_is_refused_with_what_to_do_now() -> None:
    with pytest.raises(
        TissueError,
        match=r"no tissue was found on empty\.tif; look at it with ucc-path tile --preview, .* min_stain_od",
    ):
        require_tissue(map_of(np.zeros((3, 3), bool)), "empty.tif")


def test_a_slide_with_tissue_is_handed_on() -> None:
    tissue = map_of(np.eye(3, dtype=bool))
    assert require_tissue(tissue, "good.tif") is tissue


def real_thumbnail(name: str, slide_mpp: float) -> NDArray[np.uint8]:
    """The whole of a real slide at 8 um/px, by averaging the nearest finer level."""
    openslide = pytest.importorskip("openslide")
    if not (SHARED_DATA / name).exists():
        pytest.skip(f"real slides are not at hand: no {SHARED_DATA / name}")
    slide = openslide.OpenSlide(SHARED_DATA / name)
    level = slide.get_best_level_for_downsample(MPP / slide_mpp)
    picture = slide.read_region((0, 0), level, slide.level_dimensions[level]).convert("RGB")
    cols, rows = (max(1, round(side * slide_mpp / MPP)) for side in slide.dimensions)
    return np.asarray(picture.resize((cols, rows), Image.Resampling.BOX))


def real_tissue(name: str, slide_mpp: float) -> NDArray[np.bool_]:
    return find(real_thumbnail(name, slide_mpp))


@pytest.mark.parametrize("case", ["1009009", "1009010", "1009014", "1009017", "1009023"])
def test_pieces_of_real_tissue_are_told_from_the_canvas_they_lie_on(case: str) -> None:
    picture = real_thumbnail(f"oral-slides/{case}.tif", 0.5)
    found = find(picture)
    # Pieces are 640 px at 0.5 um/px and laid out on that grid: 40 thumbnail pixels. JPEG soils up to 8 px around them.
    rows, cols = (side // 40 for side in found.shape)
    centres = picture.reshape(rows, 40, cols, 40, 3)[:, 12:28, :, 12:28]
    is_canvas = (centres == 243).all(axis=(1, 3, 4))
    cells = found.reshape(rows, 40, cols, 40)
    assert cells[:, 3:37, :, 3:37].mean(axis=(1, 3))[is_canvas].mean() < 0.001
    share = cells.mean(axis=(1, 3))[~is_canvas]
    assert np.median(share) > 0.97
    assert share.mean() > 0.85


@pytest.mark.parametrize("case", ["1009009", "1009010", "1009014", "1009017", "1009023"])
def test_hardly_any_clearly_stained_pixel_of_real_tissue_is_missed(case: str) -> None:
    picture = real_thumbnail(f"oral-slides/{case}.tif", 0.5)
    clearly_stained = (picture[..., 1] < 200) & (picture[..., 1] < 0.9 * picture[..., 0].astype(float))
    assert find(picture)[clearly_stained].mean() > 0.99


@pytest.mark.parametrize(
    ("name", "slide_mpp", "low", "high"),
    [
        ("cmu-1-small-region.svs", 0.499, 0.36, 0.42),
        ("CMU-1-Small-Region.jpeg.tiff", 0.499, 0.36, 0.42),
        ("tcga-cr-7395-01a-01-ts1.svs", 0.5, 0.60, 0.66),
        ("no_dzi.tif", 0.972, 0.0, 0.0),
        ("boxes.tiff", MPP, 0.0, 0.0),
    ],
)
def test_the_tissue_of_odd_slides_is_what_an_eye_sees(name: str, slide_mpp: float, low: float, high: float) -> None:
    assert low <= real_tissue(f"odd-slides/{name}", slide_mpp).mean() <= high


@pytest.mark.parametrize("patch", ["r191c112", "r191c113", "r192c112", "r192c113", "r192c114"])
def test_a_lymph_node_without_glass_in_view_is_all_tissue(patch: str) -> None:
    path = SHARED_DATA / "camelyon16" / f"tumor_001_{patch}.png"
    if not path.exists():
        pytest.skip(f"real patches are not at hand: no {path}")
    picture = Image.open(path).convert("RGB").resize((20, 20), Image.Resampling.BOX)
    assert find(np.asarray(picture)).all()
