"""What is left of a damaged slide: all that can be read, and it is told what cannot."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import open_files, write_tiff
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.errors import SlideError
from ucc_path.formats import pyramid_tiff
from ucc_path.slide import Slide
from ucc_path.slide.damage import UNIT_PX, read_surviving
from ucc_path.slide.jpeg_tiff import JpegTiff

SIDE = 640
TILE = 64
DAMAGED = (4, 6)  # row and column of the tile that is lost
KINDS = ("jpeg", "zlib")


def make_rgb() -> NDArray[np.uint8]:
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(0, 1, (SIDE, SIDE, 3)), (2, 2, 0))
    return np.clip(160 + noise / noise.std() * 40, 0, 255).astype(np.uint8)


def write_slide(path: Path, kind: str) -> Path:
    """A slide in tiles of 64 px at 0.5 um/px, whose JPEG is decoded by us, or whose zlib is by OpenSlide."""
    rgb = make_rgb()
    if kind == "zlib":
        return write_tiff(path, rgb, mpp=0.5, levels=3, tile_px=TILE)
    places = range(0, SIDE, TILE)
    tiles = (rgb[row : row + TILE, col : col + TILE] for row in places for col in places)
    pyramid_tiff.write(path, tiles, size_px=(SIDE, SIDE), mpp=0.5, tile_px=TILE)
    return path


def destroy(path: Path, *tiles: tuple[int, int]) -> None:
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages[0]
        parts = [(page.dataoffsets[row * 10 + col], page.databytecounts[row * 10 + col]) for row, col in tiles]
    with path.open("r+b") as file:
        for offset, length in parts:
            file.seek(offset)
            file.write(bytes(length))


@pytest.fixture
def make_pair(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """`make_pair("jpeg", (4, 6))`: a slide, and the same without some of its tiles."""

    def make(kind: str, *tiles: tuple[int, int]) -> tuple[Path, Path]:
        whole, damaged = (write_slide(tmp_path / f"{name}.tif", kind) for name in ("whole", "damaged"))
        destroy(damaged, *(tiles or (DAMAGED,)))
        return whole, damaged

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_whole_slide_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    with Slide(write_slide(tmp_path / "s.tif", kind)) as slide:
        assert isinstance(slide._source, JpegTiff) == (kind == "jpeg")
        found = read_surviving(slide, (13.0, 7.0), (200, 100), 0.5)
        assert found.lost is None
        assert np.array_equal(found.rgb, slide.read_rectangle((13.0, 7.0), (200, 100), 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_tile_is_lost_and_white_and_all_around_it_is_as_it_was(
    kind: str, make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    whole, damaged = make_pair(kind)
    with Slide(whole) as slide, Slide(damaged) as broken:
        found = read_surviving(broken, (128.0, 64.0), (480, 400), 0.5)
        truth = slide.read_rectangle((128.0, 64.0), (480, 400), 0.5)
    lost = np.zeros((400, 480), np.bool_)
    lost[256 - 64 : 320 - 64, 384 - 128 : 448 - 128] = True
    assert found.lost is not None and np.array_equal(found.lost, lost)
    assert (found.rgb[lost] == 255).all() and (truth[lost] != 255).any()
    assert np.array_equal(found.rgb[~lost], truth[~lost])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corner", [(371.0, 249.0), (385.0, 100.0), (383.0, 257.0)])
@pytest.mark.parametrize("size", [(97, 83), (33, 200), (31, 20)])
def test_anywhere_no_more_is_lost_than_the_units_that_touch_the_damage(
    kind: str, corner: tuple[float, float], size: tuple[int, int], make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    whole, damaged = make_pair(kind)
    x, y = (int(place) for place in corner)
    rows, cols = np.mgrid[y : y + size[1], x : x + size[0]]
    is_damaged = (rows // TILE == DAMAGED[0]) & (cols // TILE == DAMAGED[1])
    lost = np.zeros_like(is_damaged)
    for top in range(0, size[1], UNIT_PX):
        for left in range(0, size[0], UNIT_PX):
            unit = (slice(top, top + UNIT_PX), slice(left, left + UNIT_PX))
            lost[unit] = is_damaged[unit].any()
    with Slide(whole) as slide, Slide(damaged) as broken:
        found = read_surviving(broken, corner, size, 0.5)
        truth = slide.read_rectangle(corner, size, 0.5)
    assert (found.lost is None) == (not lost.any())
    assert found.lost is None or np.array_equal(found.lost, lost)
    assert np.array_equal(found.rgb[~lost], truth[~lost]) and (found.rgb[lost] == 255).all()


@pytest.mark.parametrize("kind", KINDS)
def test_at_another_scale_what_is_read_is_what_a_whole_slide_shows(
    kind: str, make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    whole, damaged = make_pair(kind)
    mpp = 0.5 * 1.37
    with Slide(whole) as slide, Slide(damaged) as broken:
        found = read_surviving(broken, (1.3, 2.6), (450, 450), mpp)
        truth = slide.read((1.3, 2.6), 450, mpp)
    assert found.lost is not None
    kept = ~found.lost
    assert np.abs(found.rgb[kept].astype(int) - truth[kept]).max() <= 1  # of rounding
    rows, cols = np.mgrid[:450, :450] * 1.37
    is_damaged = (abs(rows + 2.6 - 288) < 32) & (abs(cols + 1.3 - 416) < 32)
    is_near = (abs(rows + 2.6 - 288) < 32 + 2 * UNIT_PX) & (abs(cols + 1.3 - 416) < 32 + 2 * UNIT_PX)
    assert found.lost[is_damaged].all() and not found.lost[~is_near].any()


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_is_damaged_all_is_lost(kind: str, make_pair: Callable[..., tuple[Path, Path]]) -> None:
    _, damaged = make_pair(kind, *[(row, col) for row in range(3) for col in range(3)])
    with Slide(damaged) as broken:
        found = read_surviving(broken, (0.0, 0.0), (3 * TILE, 2 * TILE), 0.5)
    assert found.lost is not None and found.lost.all() and found.lost.shape == (2 * TILE, 3 * TILE)
    assert (found.rgb == 255).all()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_meet_damage_do_not_take_each_others_pixels_for_damaged(
    kind: str, make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    """Once a read has failed OpenSlide fails all others by the same handle, those of other threads too."""
    whole, damaged = make_pair(kind)
    everywhere = [(float(x), float(y)) for x in range(0, 576, TILE) for y in range(0, 576, TILE)]
    order = np.random.default_rng(0).permutation(len(everywhere)).tolist()
    places = [place for n in order for place in (everywhere[n], (384.0, 256.0))]  # every other one meets the damage
    with Slide(whole) as slide, Slide(damaged) as broken, ThreadPoolExecutor(8) as pool:
        truth = [slide.read(place, 2 * TILE, 0.5) for place in places]
        found = list(pool.map(lambda place: read_surviving(broken, place, (2 * TILE, 2 * TILE), 0.5), places))
    for (x, y), some, wanted in zip(places, found, truth, strict=True):
        rows, cols = np.mgrid[int(y) : int(y) + 2 * TILE, int(x) : int(x) + 2 * TILE]
        lost = (rows // TILE == DAMAGED[0]) & (cols // TILE == DAMAGED[1])
        assert np.array_equal(np.zeros_like(lost) if some.lost is None else some.lost, lost)
        assert np.array_equal(some.rgb[~lost], wanted[~lost])
    assert sum(some.lost is not None for some in found) == 81 + 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_slide_that_has_met_damage_can_still_be_read_elsewhere(
    kind: str, make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    whole, damaged = make_pair(kind)
    with Slide(whole) as slide, Slide(damaged) as broken:
        for _ in range(3):
            with pytest.raises(SlideError, match=r"damaged\.tif cannot be read"):
                broken.read((390, 260), 20, 0.5)
            assert np.array_equal(broken.read((0, 0), 100, 0.5), slide.read((0, 0), 100, 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_stays_open(kind: str, make_pair: Callable[..., tuple[Path, Path]]) -> None:
    _, damaged = make_pair(kind)
    before = open_files()
    with Slide(damaged) as broken:
        assert read_surviving(broken, (300.0, 200.0), (200, 200), 0.5).lost is not None
    assert open_files() == before


def test_a_slide_opened_anew_is_of_the_same_scale_and_does_not_close_with_the_first(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "s.tif", make_rgb(), mpp=None, levels=1)
    with Slide(path, slide_mpp=0.25) as slide:
        own = slide.reopened()
    with own:
        assert own.mpp == 0.25
        assert np.array_equal(own.read((0, 0), 50, 0.25), make_rgb()[:50, :50])


@pytest.mark.parametrize("kind", KINDS)
def test_a_slide_that_is_no_longer_there_is_an_error_and_not_all_lost(
    kind: str, make_pair: Callable[..., tuple[Path, Path]]
) -> None:
    _, damaged = make_pair(kind)
    with Slide(damaged) as broken:
        damaged.unlink()
        with pytest.raises(SlideError, match=r"damaged\.tif cannot be opened \(No such file or directory\)"):
            read_surviving(broken, (300.0, 200.0), (200, 200), 0.5)
