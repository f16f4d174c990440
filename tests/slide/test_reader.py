"""Slides: every pixel where it belongs, at any scale."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import halved, open_files, write_tiff
from numpy.typing import NDArray

from ucc_path.errors import SlideError
from ucc_path.geometry import Grid, SizeL0
from ucc_path.slide import Slide, reader

UNEVEN = (2047, 1531)  # (width, height): its levels are 1023 x 765 and 511 x 382
EVEN = (2048, 1536)
PERIOD_L0 = 64.0


def make_waves(size: tuple[int, int]) -> NDArray[np.uint8]:
    """Red is a wave along x, green the same along y, blue flat; the phase is 0 at the slide's corner."""
    width, height = size
    along_x = 128 + 100 * np.sin(2 * np.pi * (np.arange(width) + 0.5) / PERIOD_L0)
    along_y = 128 + 100 * np.sin(2 * np.pi * (np.arange(height) + 0.5) / PERIOD_L0)
    red, green = np.broadcast_arrays(along_x[None, :], along_y[:, None])
    return np.rint(np.stack([red, green, np.full_like(red, 128)], axis=2)).astype(np.uint8)


def make_noise(size: tuple[int, int]) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)


def shift_px(wave: NDArray[np.uint8], start_l0: float, scale_l0: float) -> float:
    """By how many of its own pixels a wave lies off the place where it should be, by least squares."""
    angle = 2 * np.pi * (start_l0 + (np.arange(len(wave)) + 0.5) * scale_l0) / PERIOD_L0
    basis = np.column_stack([np.sin(angle), np.cos(angle), np.ones_like(angle)])
    sine, cosine, _ = np.linalg.lstsq(basis, wave.astype(float), rcond=None)[0]
    assert np.hypot(sine, cosine) > 50, "the wave was lost"
    return float(np.arctan2(cosine, sine)) / (2 * np.pi) * PERIOD_L0 / scale_l0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slides")


@pytest.fixture(scope="module")
def wave_slides(folder: Path) -> dict[tuple[int, int], Path]:
    return {size: write_tiff(folder / f"waves_{size[0]}.tif", make_waves(size), mpp=0.5) for size in (EVEN, UNEVEN)}


@pytest.fixture(scope="module")
def noise_slide(folder: Path) -> Path:
    return write_tiff(folder / "noise.tif", make_noise(EVEN), mpp=0.5)


@pytest.fixture(scope="module")
def uneven_noise_slide(folder: Path) -> Path:
    return write_tiff(folder / "uneven_noise.tif", make_noise(UNEVEN), mpp=0.5)


def test_a_slide_tells_its_size_its_scale_and_where_that_was_read(noise_slide: Path) -> None:
    with Slide(noise_slide) as slide:
        assert slide.size_l0 == SizeL0(*EVEN)
        assert slide.mpp == pytest.approx(0.5)
        assert slide.scale.source == "openslide.mpp-x, mpp-y"
        assert slide.downsamples == (1, 2, 4)


@pytest.mark.parametrize("corner", [(0, 0), (1, 1), (255, 257), (1911, 1234), (2047 - 130, 1531 - 130)])
def test_a_read_at_the_slides_own_scale_is_the_stored_pixels(uneven_noise_slide: Path, corner: tuple[int, int]) -> None:
    x, y = corner
    with Slide(uneven_noise_slide) as slide:
        np.testing.assert_array_equal(slide.read(corner, 130, slide.mpp), make_noise(UNEVEN)[y : y + 130, x : x + 130])


@pytest.mark.parametrize("corner_px", [(0, 0), (1, 3), (511, 300), (900, 640)])
def test_a_stored_level_is_read_as_it_is(noise_slide: Path, corner_px: tuple[int, int]) -> None:
    x, y = corner_px
    with Slide(noise_slide) as slide:
        read = slide.read((2 * x, 2 * y), 100, 1.0)
        assert slide.alignment_l0(1.0, 100) == 2
    np.testing.assert_array_equal(read, halved(make_noise(EVEN))[y : y + 100, x : x + 100])


def test_a_level_whose_size_was_rounded_is_read_as_it_is_from_the_corner(uneven_noise_slide: Path) -> None:
    with Slide(uneven_noise_slide) as slide:
        assert slide.downsamples == (1, 2, 4)
        np.testing.assert_array_equal(slide.read((0, 0), 300, 1.0), halved(make_noise(UNEVEN))[:300, :300])


def test_a_scale_that_differs_by_rounding_alone_is_not_resampled(folder: Path) -> None:
    path = write_tiff(folder / "odd_mpp.tif", make_noise((600, 500)), mpp=0.2431)
    with Slide(path) as slide:
        read = slide.read((3, 5), 256, slide.mpp * (1 + 1e-7))
    np.testing.assert_array_equal(read, make_noise((600, 500))[5:261, 3:259])


@pytest.mark.parametrize("size", [EVEN, UNEVEN], ids=["even levels", "uneven levels"])
@pytest.mark.parametrize("scale_l0", [0.99, 1, 1.03, 1.7, 2, 2.5, 4, 4.115, 7.3])
@pytest.mark.parametrize("corner", [(0, 0), (1, 1), (37, 91), (500.3, 400.7), (1234.56, 901.01), (1531, 1111)])
def test_what_is_read_lies_where_it_should_at_any_scale(
    wave_slides: dict[tuple[int, int], Path], size: tuple[int, int], scale_l0: float, corner: tuple[float, float]
) -> None:
    side_px = int(400 / scale_l0)
    with Slide(wave_slides[size]) as slide:
        rgb = slide.read(corner, side_px, scale_l0 * slide.mpp)
    assert rgb.shape == (side_px, side_px, 3) and rgb.dtype == np.uint8
    middle = slice(4, side_px - 4)
    for wave, start in ((rgb[side_px // 2, middle, 0], corner[0]), (rgb[middle, side_px // 2, 1], corner[1])):
        assert abs(shift_px(wave, start + 4 * scale_l0, scale_l0)) < 0.06
    assert np.ptp(rgb[middle, middle, 2].astype(int)) <= 2, "a flat channel has got seams"


@pytest.mark.parametrize("scale_l0", [1, 2, 2.5, 4.115])
def test_a_place_far_from_the_corner_of_a_large_slide_is_not_off(folder: Path, scale_l0: float) -> None:
    path = folder / "long.tif"
    if not path.exists():
        write_tiff(path, make_waves((20_001, 259)), mpp=0.5)
    corner, side_px = (19_200, 10), int(240 / scale_l0)
    with Slide(path) as slide:
        rgb = slide.read_rectangle(corner, (int(700 / scale_l0), side_px), scale_l0 * slide.mpp)
    assert abs(shift_px(rgb[side_px // 2, 4:-4, 0], corner[0] + 4 * scale_l0, scale_l0)) < 0.06


def test_stripes_finer_than_a_pixel_become_flat_grey(tmp_path: Path) -> None:
    stripes = np.zeros((1024, 1024, 3), np.uint8)
    stripes[:, ::2] = 255
    with Slide(write_tiff(tmp_path / "stripes.tif", stripes, mpp=0.5, levels=1)) as slide:
        for scale_l0 in (2.5, 3.0, 4.115, 8.0):
            rgb = slide.read((100, 100), 90, 0.5 * scale_l0)
            assert np.abs(rgb.astype(int) - 127.5).max() < 4, scale_l0


@pytest.mark.parametrize("scale_l0", [1, 2, 2.5])
def test_beyond_every_edge_it_is_white(wave_slides: dict[tuple[int, int], Path], scale_l0: float) -> None:
    width, height = UNEVEN
    with Slide(wave_slides[UNEVEN]) as slide:
        for corner in [(-100, -100), (width - 100, -100), (-100, height - 100), (width - 100, height - 100)]:
            side_px = int(200 / scale_l0)
            rgb = slide.read(corner, side_px, scale_l0 * slide.mpp)
            x = corner[0] + (np.arange(side_px) + 0.5) * scale_l0
            y = corner[1] + (np.arange(side_px) + 0.5) * scale_l0
            far = 4 * scale_l0  # the filter rings as far
            beyond_x, beyond_y = (x < -far) | (x > width + far), (y < -far) | (y > height + far)
            assert (rgb[beyond_y] == 255).all() and (rgb[:, beyond_x] == 255).all()
            inside = rgb[np.ix_((y > far) & (y < height - far), (x > far) & (x < width - far))]
            assert inside.size and inside[..., 2].max() <= 130


def test_at_its_own_scale_white_begins_at_the_very_edge(uneven_noise_slide: Path) -> None:
    with Slide(uneven_noise_slide) as slide:
        rgb = slide.read((2040, 1525), 20, slide.mpp)
    np.testing.assert_array_equal(rgb[:6, :7], make_noise(UNEVEN)[1525:, 2040:])
    assert (rgb[6:] == 255).all() and (rgb[:, 7:] == 255).all()


@pytest.mark.parametrize("corner", [(-5000, 0), (0, 10**7), (3000, 3000), (-(2**33), -(2**33))])
@pytest.mark.parametrize("mpp", [0.5, 1.0, 1.3])
def test_wholly_outside_it_is_white(noise_slide: Path, corner: tuple[int, int], mpp: float) -> None:
    with Slide(noise_slide) as slide:
        assert (slide.read(corner, 40, mpp) == 255).all()


@pytest.mark.parametrize("mpp", [0.5, 0.515, 1.0, 1.25, 2.0575])
@pytest.mark.parametrize("name", ["noise", "waves_2047"])
def test_a_region_read_in_blocks_is_the_one_read_at_once(
    noise_slide: Path,
    wave_slides: dict[tuple[int, int], Path],
    name: str,
    mpp: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Slide(noise_slide.with_name(f"{name}.tif")) as slide:
        at_once = slide.read_rectangle((-31, 7.5), (411, 307), mpp)
        monkeypatch.setattr(reader, "BLOCK_PX", 100)
        in_blocks = slide.read_rectangle((-31, 7.5), (411, 307), mpp)
    assert in_blocks.shape == (307, 411, 3)
    # A level of rounded size begins at a fraction of a pixel, and OpenSlide blends the neighbours there.
    assert np.abs(in_blocks.astype(int) - at_once).max() <= (1 if name == "noise" else 2)


@pytest.mark.parametrize(("width", "mpp"), [(16_000, 0.2005), (401, 0.5), (64, 8.0), (70, 11.0)])
def test_a_thumbnail_has_the_cells_of_the_grid_that_covers_the_slide(tmp_path: Path, width: int, mpp: float) -> None:
    path = write_tiff(tmp_path / "s.tif", np.full((300, width, 3), 90, np.uint8), mpp=mpp, levels=1)
    with Slide(path, slide_mpp=mpp) as slide:  # exactly
        thumbnail = slide.thumbnail(8.0)
        grid = Grid.covering(slide.size_l0, max(1.0, 8.0 / slide.mpp))
    assert thumbnail.shape == (grid.rows, grid.cols, 3)
    # Near the edge the filter sees some of the white beyond.
    inside = thumbnail[3:-3, 3:-3].astype(int)
    assert inside.size and np.abs(inside - 90).max() <= 1


def test_finer_than_the_slide_is_refused_naming_its_own_scale(noise_slide: Path) -> None:
    with (
        Slide(noise_slide) as slide,
        pytest.raises(SlideError, match=r"noise\.tif has 0\.5 um/px.* --mpp 0\.5 or more"),
    ):
        slide.read((0, 0), 10, 0.25)


@pytest.mark.parametrize("mpp", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_cannot_be_is_refused(noise_slide: Path, mpp: float) -> None:
    with Slide(noise_slide) as slide, pytest.raises(SlideError, match="not possible; give a positive number"):
        slide.read((0, 0), 10, mpp)


def test_a_region_without_pixels_is_a_mistake_of_the_caller(noise_slide: Path) -> None:
    with Slide(noise_slide) as slide, pytest.raises(ValueError, match="has no pixels"):
        slide.read_rectangle((0, 0), (10, 0), 0.5)


def test_eight_threads_read_what_one_reads(uneven_noise_slide: Path) -> None:
    places = [((i * 37) % 1900, (i * 91) % 1400) for i in range(64)]
    with Slide(uneven_noise_slide) as slide:
        alone = [slide.read(place, 120, 1.03 * slide.mpp) for place in places]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda place: slide.read(place, 120, 1.03 * slide.mpp), places))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_pickled_slide_opens_its_file_anew_with_the_scale_it_was_given(noise_slide: Path) -> None:
    with Slide(noise_slide, slide_mpp=0.3) as slide:
        copy = pickle.loads(pickle.dumps(slide))
    with copy:  # the first is closed by now
        assert copy.scale == slide.scale
        np.testing.assert_array_equal(copy.read((9, 8), 50, 0.3), make_noise(EVEN)[8:58, 9:59])


def _read_all(slide: Slide, places: list[tuple[int, int]]) -> bool:
    truth = make_noise(EVEN)
    return all(np.array_equal(slide.read((x, y), 64, slide.mpp), truth[y : y + 64, x : x + 64]) for x, y in places)


def _read_in_child(slide: Slide, places: list[tuple[int, int]]) -> None:
    inherited = slide._source
    is_right = _read_all(slide, places) and slide._source is not inherited
    os._exit(0 if is_right else 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_open_the_file_anew_and_read_at_the_same_time(noise_slide: Path) -> None:
    rng = np.random.default_rng(1)
    fork = multiprocessing.get_context("fork")
    with Slide(noise_slide) as slide:
        slide.read((0, 0), 10, slide.mpp)
        children = [
            fork.Process(target=_read_in_child, args=(slide, rng.integers(0, 1400, (60, 2)).tolist())) for _ in range(2)
        ]
        for child in children:
            child.start()
        is_right = _read_all(slide, rng.integers(0, 1400, (60, 2)).tolist())
        for child in children:
            child.join()
    assert is_right
    assert [child.exitcode for child in children] == [0, 0]


def test_a_closed_slide_is_refused_and_may_be_closed_twice(noise_slide: Path) -> None:
    slide = Slide(noise_slide)
    slide.close()
    slide.close()
    with pytest.raises(SlideError, match=r"noise\.tif was closed; open it again"):
        slide.read((0, 0), 10, 0.5)


def test_no_file_stays_open(noise_slide: Path, tmp_path: Path) -> None:
    no_scale = write_tiff(tmp_path / "no_scale.tif", make_noise((300, 300)), mpp=None, levels=1)
    with Slide(noise_slide) as slide:  # libraries open files of their own the first time
        slide.read((0, 0), 10, 0.5)
    before = open_files()
    for _ in range(5):
        with Slide(noise_slide) as slide:
            slide.read((0, 0), 10, 0.7)
        with pytest.raises(SlideError):
            Slide(no_scale)
    assert open_files() == before


def test_a_slide_without_a_scale_is_refused_and_can_be_given_one(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "no_scale.tif", make_noise((300, 300)), mpp=None, levels=1)
    with pytest.raises(SlideError, match=r"no_scale\.tif (does not record its scale|records a scale).*--slide-mpp"):
        Slide(path)
    with Slide(path, slide_mpp=0.25) as slide:
        assert (slide.scale.mpp, slide.scale.source) == (0.25, "--slide-mpp")


def test_a_slide_a_little_coarser_than_asked_is_stretched_and_keeps_its_place(
    wave_slides: dict[tuple[int, int], Path],
) -> None:
    """0.504 um/px may stand for 0.5: masks are drawn at 0.5, so the picture must be, too."""
    with Slide(wave_slides[EVEN], slide_mpp=0.504) as slide:
        rgb = slide.read((700, 500), 512, 0.5)
        assert slide.alignment_l0(0.5, 512) == 1
    far_end = rgb[256, -200:-4, 0]
    assert abs(shift_px(far_end, 700 + 312 * 0.5 / 0.504, 0.5 / 0.504)) < 0.06


def test_corners_need_no_alignment_where_nothing_is_stored_at_the_scale(noise_slide: Path) -> None:
    with Slide(noise_slide) as slide:
        assert [slide.alignment_l0(mpp, 256) for mpp in (0.5, 1.0, 2.0, 1.03, 4.0)] == [1, 2, 4, 1, 1]


def test_a_missing_file_a_folder_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.svs").touch()
    os.mkfifo(tmp_path / "pipe.tif")
    for name, message in [
        ("none.svs", r"none\.svs cannot be opened \(No such file or directory\); check the path"),
        (".", "is a folder; name the slide file in it"),
        ("pipe.tif", r"pipe\.tif is not a file that holds a slide; name one"),
        ("empty.svs", r"empty\.svs is empty; copy it again"),
        ("empty.svs/x.tif", r"cannot be opened \(Not a directory\)"),
    ]:
        with pytest.raises(SlideError, match=message):
            Slide(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "s.tif", make_noise((64, 64)), mpp=0.5, levels=1)
    path.chmod(0)
    with pytest.raises(SlideError, match=r"cannot be opened \(Permission denied\)"):
        Slide(path)


@pytest.mark.parametrize(
    "text", [b"Dear pathologist,\n", b"<?xml version='1.0'?><a/>", b"\0" * 5000, b"P3 1 1 255 0 0 0 "]
)
def test_a_text_file_named_as_a_slide_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "letter.svs"
    path.write_bytes(text)
    with pytest.raises(SlideError, match=r"letter\.svs is neither a slide that OpenSlide reads nor a picture"):
        Slide(path)


def test_a_damaged_tile_is_refused_when_it_is_read_naming_the_place(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "s.tif", make_noise((1024, 1024)), mpp=0.5, levels=1)
    with tifffile.TiffFile(path) as tiff:
        offset, length = tiff.pages[0].dataoffsets[5], tiff.pages[0].databytecounts[5]  # of row 1, column 1
    content = bytearray(path.read_bytes())
    content[offset : offset + length] = b"\xa5" * length
    path.write_bytes(content)
    with Slide(path) as slide:
        np.testing.assert_array_equal(slide.read((0, 0), 200, 0.5), make_noise((1024, 1024))[:200, :200])
        with pytest.raises(SlideError, match=r"s\.tif cannot be read near x=300, y=310 \(.*\); the file is damaged"):
            slide.read((300, 310), 64, 0.5)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.74])
def test_a_cut_pyramid_is_refused_on_opening_or_on_reading(tmp_path: Path, share: float) -> None:
    path = write_tiff(tmp_path / "cut.tif", make_noise((1024, 1024)), mpp=0.5)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(SlideError, match=r"cut\.tif is (cut short|a damaged picture)"), Slide(path) as slide:
        slide.thumbnail(0.5)


def test_a_pyramid_that_lost_its_coarse_levels_alone_is_read_from_the_one_that_is_whole(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "cut.tif", make_noise((1024, 1024)), mpp=0.5)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.9)])
    with Slide(path) as slide:
        np.testing.assert_array_equal(slide.thumbnail(0.5), make_noise((1024, 1024)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken.svs", "is neither a slide that OpenSlide reads nor a picture; check the file"),
        ("unopenable.tiff", r"cannot be opened by OpenSlide \(Unsupported TIFF compression"),
        ("CMU-1-Small-Region.jpeg.tiff", r"records a scale of 0\.00499 um/px, outside 0\.05-20"),
        ("CMU-1-Small-Region.webp.tiff", r"records a scale of 0\.00499 um/px, outside 0\.05-20"),
        ("boxes.tiff", r"records a scale of 352\.8 um/px, outside 0\.05-20"),
        ("tcga-cr-7395-01a-01-ts1.svs", r"does not record its scale; give it with --slide-mpp in um/px"),
    ],
)
def test_a_real_odd_slide_is_refused_in_one_line_naming_it(shared_data: Path, name: str, message: str) -> None:
    with pytest.raises(SlideError, match=message) as error:
        Slide(shared_data / "odd-slides" / name)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_a_real_slide_whose_pixels_are_damaged_is_refused_when_it_is_read(shared_data: Path) -> None:
    slide = Slide(shared_data / "odd-slides" / "unreadable.svs")
    with slide, pytest.raises(SlideError, match=r"unreadable\.svs cannot be read near .*the file is damaged"):
        slide.read((0, 0), 64, slide.mpp)


@pytest.mark.parametrize(
    ("name", "size", "vendor"),
    [
        ("cmu-1-small-region.svs", (2220, 2967), "aperio"),
        ("CMU-1-Small-Region.jpeg.tiff", (2220, 2967), "generic-tiff"),
        ("CMU-1-Small-Region.webp.tiff", (2220, 2967), "plain image"),
        ("tcga-cr-7395-01a-01-ts1.svs", (4443, 3567), "aperio"),
        ("boxes.tiff", (300, 250), "generic-tiff"),
        ("no_dzi.tif", (3072, 3968), "generic-tiff"),
    ],
)
def test_a_real_odd_slide_with_its_scale_given_can_be_read(
    shared_data: Path, name: str, size: tuple[int, int], vendor: str
) -> None:
    with Slide(shared_data / "odd-slides" / name, slide_mpp=0.5) as slide:
        assert (slide.size_l0, slide.vendor) == (SizeL0(*size), vendor)
        assert slide.read((size[0] // 2, size[1] // 2), 100, 0.77).shape == (100, 100, 3)


def test_the_levels_of_a_real_slide_lie_on_each_other(shared_data: Path) -> None:
    """The coarser level of this slide is 2,221 px over 4,443: read through either, tissue lies in one place."""
    with Slide(shared_data / "odd-slides" / "tcga-cr-7395-01a-01-ts1.svs", slide_mpp=0.5) as slide:
        assert slide.downsamples == (1, 2)
        corner = (2600.0, 2100.0)
        by_level_0 = slide.read(corner, 600, 0.5).reshape(300, 2, 300, 2, 3).mean(axis=(1, 3, 4))
        by_level_1 = slide.read(corner, 300, 1.0).mean(axis=2)
    products = np.fft.fft2(by_level_0 - by_level_0.mean()) * np.conj(np.fft.fft2(by_level_1 - by_level_1.mean()))
    correlation = np.fft.ifft2(products).real
    assert np.unravel_index(int(np.argmax(correlation)), correlation.shape) == (0, 0)


def test_a_slide_too_large_to_be_seen_whole_is_refused_before_memory_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiff(tmp_path / "s.tif", make_noise((65, 64)), mpp=10.0, levels=1)
    monkeypatch.setattr(reader, "MAX_THUMBNAIL_PX", 64 * 64)
    with Slide(path) as slide, pytest.raises(SlideError, match=r"s\.tif of 65 x 64 px at 10 um/px .*--slide-mpp"):
        slide.thumbnail(8.0)


def test_tiles_too_large_to_be_read_in_parts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiff(tmp_path / "s.tif", make_noise((64, 64)), mpp=0.5, levels=1)
    monkeypatch.setattr(reader, "MAX_TILE_SIDE_PX", 128)
    with pytest.raises(SlideError, match=r"s\.tif is stored in tiles 256 px wide, .*tiles of 512 px"):
        Slide(path)
