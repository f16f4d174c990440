"""Slides that are decoded without OpenSlide: the same pixels, and the same refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from conftest import open_files
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from ucc_path.errors import SlideError
from ucc_path.slide import Slide
from ucc_path.slide.jpeg_tiff import JpegTiff

SIZE = (1001, 777)  # (width, height)


def make_tissue_like(size: tuple[int, int]) -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).normal(0, 1, (size[1], size[0], 3))
    smooth = ndimage.gaussian_filter(noise, (2, 2, 0))
    return np.clip(160 + smooth / smooth.std() * 40, 0, 255).astype(np.uint8)


def make_jpeg_slide(path: Path, subsampling: tuple[int, int] = (2, 2), photometric: str = "ycbcr") -> Path:
    rgb = make_tissue_like(SIZE)
    with tifffile.TiffWriter(path) as tiff:
        for level in range(3):
            tiff.write(
                rgb[:: 2**level, :: 2**level][: SIZE[1] >> level, : SIZE[0] >> level],
                tile=(256, 256),
                photometric="rgb",
                compression="jpeg",
                compressionargs={"level": 90, "outcolorspace": photometric},
                subsampling=subsampling if photometric == "ycbcr" else None,
                resolution=(20_000, 20_000),
                resolutionunit="CENTIMETER",
                subfiletype=int(level > 0),
                metadata=None,
            )
    return path


def by_openslide(path: Path, level: int) -> NDArray[np.uint8]:
    """A whole level, read at its corner, where OpenSlide is exact."""
    with openslide.OpenSlide(path) as slide:
        return np.asarray(slide.read_region((0, 0), level, slide.level_dimensions[level]).convert("RGB"))


@pytest.fixture
def jpeg_slide(tmp_path: Path) -> Path:
    return make_jpeg_slide(tmp_path / "s.tif")


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2)])
def test_every_level_has_the_pixels_that_openslide_reads(tmp_path: Path, subsampling: tuple[int, int]) -> None:
    path = make_jpeg_slide(tmp_path / "s.tif", subsampling)
    with Slide(path) as slide:
        assert isinstance(slide._source, JpegTiff) and slide.vendor == "generic-tiff"
        for level, downsample in enumerate(slide.downsamples):
            truth = by_openslide(path, level)
            read = slide.read_rectangle((0, 0), (truth.shape[1], truth.shape[0]), downsample * slide.mpp)
            np.testing.assert_array_equal(read, truth)


@pytest.mark.parametrize("corner_px", [(0, 0), (255, 255), (1, 300), (300, 200), (-50, -30), (450, 330), (9999, 0)])
def test_a_level_of_rounded_size_is_read_as_it_is_anywhere_and_white_beyond(
    jpeg_slide: Path, corner_px: tuple[int, int]
) -> None:
    x, y = corner_px
    stored = np.full((900, 11_000, 3), 255, np.uint8)  # from (-100, -100)
    truth = by_openslide(jpeg_slide, 1)
    stored[100 : 100 + truth.shape[0], 100 : 100 + truth.shape[1]] = truth
    with Slide(jpeg_slide) as slide:
        read = slide.read((2 * x, 2 * y), 128, 2 * slide.mpp)
    np.testing.assert_array_equal(read, stored[100 + y : 228 + y, 100 + x : 228 + x])


def test_a_tile_that_the_file_does_not_have_is_white(jpeg_slide: Path) -> None:
    with tifffile.TiffFile(jpeg_slide, mode="r+b") as tiff:
        tag = tiff.pages[0].tags["TileByteCounts"]
        tag.overwrite((0, *tag.value[1:]))
    with Slide(jpeg_slide) as slide:
        assert isinstance(slide._source, JpegTiff)
        rgb = slide.read((0, 0), 300, slide.mpp)
    assert (rgb[:256, :256] == 255).all()
    np.testing.assert_array_equal(rgb[:, 256:], by_openslide(jpeg_slide, 0)[:300, 256:300])


@pytest.mark.parametrize("damage", ["junk", "other size"])
def test_a_damaged_tile_is_refused_and_the_others_can_still_be_read(
    jpeg_slide: Path, damage: str, tmp_path: Path
) -> None:
    truth = by_openslide(jpeg_slide, 0)
    with tifffile.TiffFile(jpeg_slide) as tiff:
        offset, length = tiff.pages[0].dataoffsets[0], tiff.pages[0].databytecounts[0]
    content = bytearray(jpeg_slide.read_bytes())
    if damage == "junk":
        content[offset : offset + length] = b"\x00" * length
    else:
        Image.new("RGB", (16, 16)).save(tmp_path / "small.jpg")
        small = (tmp_path / "small.jpg").read_bytes()
        content[offset : offset + length] = small + b"\0" * (length - len(small))
    jpeg_slide.write_bytes(content)
    with Slide(jpeg_slide) as slide:
        with pytest.raises(SlideError, match=r"s\.tif cannot be read: tile 0 of 1001 x 777 px is damaged \("):
            slide.read((0, 0), 64, slide.mpp)
        np.testing.assert_array_equal(slide.read((300, 300), 64, slide.mpp), truth[300:364, 300:364])


def test_eight_threads_read_what_one_reads(jpeg_slide: Path) -> None:
    places = [((i * 37) % 900, (i * 91) % 700) for i in range(64)]
    with Slide(jpeg_slide) as slide:
        alone = [slide.read(place, 90, 1.03 * slide.mpp) for place in places]
        with Slide(jpeg_slide) as other, ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda place: other.read(place, 90, 1.03 * slide.mpp), places))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_the_cache_is_bounded(jpeg_slide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tile_bytes = 256 * 256 * 3
    monkeypatch.setattr("ucc_path.slide.reader.CACHE_BYTES", 3 * tile_bytes)
    with Slide(jpeg_slide) as slide:
        slide.thumbnail(slide.mpp)
        source = slide._source
        assert isinstance(source, JpegTiff)
        assert 1 <= len(source._cache) <= 3


def test_no_file_stays_open(jpeg_slide: Path) -> None:
    with Slide(jpeg_slide) as slide:
        slide.read((0, 0), 10, slide.mpp)
    before = open_files()
    for _ in range(4):
        with Slide(jpeg_slide) as slide:
            slide.read((0, 0), 10, slide.mpp)
    assert open_files() == before


def test_a_tile_whose_data_end_early_is_refused_rather_than_filled_with_grey(jpeg_slide: Path) -> None:
    with tifffile.TiffFile(jpeg_slide) as tiff:
        offset, length = tiff.pages[0].dataoffsets[0], tiff.pages[0].databytecounts[0]
    content = bytearray(jpeg_slide.read_bytes())
    content[offset + length // 2 : offset + length // 2 + 2] = b"\xff\xd9"  # the end, as far as a decoder knows
    jpeg_slide.write_bytes(content)
    with Slide(jpeg_slide) as slide, pytest.raises(SlideError, match=r"tile 0 of .* is damaged \(its data end too"):
        slide.read((0, 0), 64, slide.mpp)


def test_a_tile_that_is_truly_grey_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "make_tissue_like", lambda size: np.full((size[1], size[0], 3), 128, np.uint8))
    with Slide(make_jpeg_slide(tmp_path / "s.tif")) as slide:
        assert isinstance(slide._source, JpegTiff)
        assert (slide.read((0, 0), 256, slide.mpp) == 128).all()
