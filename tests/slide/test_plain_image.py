"""Plain pictures in the place of slides."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from conftest import open_files
from numpy.typing import NDArray
from PIL import Image

from ucc_path.errors import SlideError
from ucc_path.slide import Slide

WIDTH, HEIGHT = 301, 203


def make_pixels(channels: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)


def read_all(path: Path) -> NDArray[np.uint8]:
    with Slide(path, slide_mpp=0.5) as slide:
        assert slide.vendor == "plain image"
        width, height = slide.size_l0
        return slide.read_rectangle((0, 0), (int(width), int(height)), 0.5)


def save(path: Path, picture: Image.Image, **options: Any) -> Path:
    picture.save(path, **options)
    return path


def make_huge_png(path: Path, side: int) -> Path:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")
    )
    return path


def make_huge_tiff(path: Path, side: int) -> Path:
    tags = [(256, side), (257, side), (258, 8), (259, 8), (262, 1), (273, 8), (277, 1), (278, side), (279, 8)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    path.write_bytes(b"II*\0" + struct.pack("<IQH", 16, 0, len(tags)) + entries + struct.pack("<I", 0))
    return path


def test_a_png_is_a_slide_of_one_level_with_its_own_scale(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", Image.fromarray(make_pixels()), dpi=(50_800, 50_800))
    with Slide(path) as slide:
        assert slide.size_l0 == (WIDTH, HEIGHT)
        assert slide.mpp == pytest.approx(0.5, rel=1e-3)
        assert slide.downsamples == (1.0,)
        np.testing.assert_array_equal(slide.read((10, 20), 100, slide.mpp), make_pixels()[20:120, 10:110])


def test_a_jpeg_is_a_slide_with_the_pixels_that_its_decoder_gives(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", Image.fromarray(make_pixels()), dpi=(25_400, 25_400))
    with Slide(path) as slide:
        assert slide.mpp == pytest.approx(1.0)
    with Image.open(path) as picture:
        np.testing.assert_array_equal(read_all(path), np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize(
    "options",
    [
        {"rowsperstrip": 16},
        {"rowsperstrip": 16, "compression": "zlib"},
        {"rowsperstrip": 16, "compression": "lzw", "predictor": True},
        {"rowsperstrip": 16, "planarconfig": "separate"},
        {"bigtiff": True},
        {"byteorder": ">"},
    ],
    ids=str,
)
def test_a_striped_tiff_is_a_slide(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.tif"
    options = dict(options)
    writer = {name: options.pop(name) for name in ("bigtiff", "byteorder") if name in options}
    pixels = make_pixels()
    stored = np.moveaxis(pixels, 2, 0) if "planarconfig" in options else pixels
    with tifffile.TiffWriter(path, **writer) as tiff:
        tiff.write(
            stored,
            photometric="rgb",
            resolution=(20_000, 20_000),
            resolutionunit="CENTIMETER",
            metadata=None,
            **options,
        )
    with Slide(path) as slide:
        assert slide.mpp == pytest.approx(0.5)
    np.testing.assert_array_equal(read_all(path), pixels)


def test_a_scale_in_inches_is_understood_and_one_without_a_unit_is_none(tmp_path: Path) -> None:
    for unit, mpp in (("INCH", 25_400 / 50_000), ("NONE", None)):
        path = tmp_path / f"{unit}.tif"
        tifffile.imwrite(
            path, make_pixels(), photometric="rgb", resolution=(50_000, 50_000), resolutionunit=unit, metadata=None
        )
        if mpp is None:
            with pytest.raises(SlideError, match="does not record its scale"):
                Slide(path)
        else:
            with Slide(path) as slide:
                assert slide.mpp == pytest.approx(mpp)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_a_grey_picture_becomes_three_equal_channels(tmp_path: Path, ending: str) -> None:
    grey = make_pixels(1)[..., 0]
    rgb = read_all(save(tmp_path / f"a.{ending}", Image.fromarray(grey)))
    np.testing.assert_array_equal(rgb, np.repeat(grey[..., None], 3, axis=2))


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_what_is_transparent_is_white(tmp_path: Path, ending: str) -> None:
    rgba = make_pixels(4)
    rgba[..., 3] = 255
    rgba[:50, :, 3] = 0
    rgb = read_all(save(tmp_path / f"a.{ending}", Image.fromarray(rgba)))
    assert (rgb[:50] == 255).all()
    np.testing.assert_array_equal(rgb[50:], rgba[50:, :, :3])


def test_a_fourth_channel_that_is_not_said_to_be_alpha_hides_nothing(tmp_path: Path) -> None:
    path, pixels = tmp_path / "a.tif", make_pixels(4)
    pixels[..., 3] = 0
    tifffile.imwrite(path, pixels, photometric="rgb", extrasamples=["unspecified"], metadata=None)
    np.testing.assert_array_equal(read_all(path), pixels[..., :3])


def test_a_palette_png_has_the_colours_of_its_palette(tmp_path: Path) -> None:
    picture = Image.fromarray(make_pixels()).quantize(16)
    np.testing.assert_array_equal(read_all(save(tmp_path / "a.png", picture)), np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (1, 1), (3, 3)])
@pytest.mark.parametrize("ending", ["png", "tif"])
def test_a_picture_of_a_single_row_or_column_is_read(tmp_path: Path, shape: tuple[int, int], ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    np.testing.assert_array_equal(read_all(save(tmp_path / f"a.{ending}", Image.fromarray(pixels))), pixels)


def test_beyond_a_picture_and_wholly_outside_it_is_white(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", Image.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8)))
    with Slide(path, slide_mpp=0.5) as slide:
        assert (slide.read((WIDTH - 10, HEIGHT - 10), 20, 0.5)[..., 0] == 0).sum() == 100
        assert (slide.read((-15, -15), 20, 0.5)[..., 0] == 0).sum() == 25
        for outside in [(-500, 0), (0, -500), (WIDTH, 0), (0, HEIGHT), (9999, 9999)]:
            assert (slide.read(outside, 20, 0.5) == 255).all()
            assert (slide.read(outside, 20, 0.6)[5:15, 5:15] == 255).all()


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_are_refused(tmp_path: Path, ending: str) -> None:
    path = save(tmp_path / f"a.{ending}", Image.fromarray(np.full((20, 20), 40_000, np.uint16)))
    with pytest.raises(SlideError, match=rf"a\.{ending} .*(8 bits|uint16).*export it as an 8-bit RGB picture"):
        Slide(path, slide_mpp=0.5)


@pytest.mark.parametrize("photometric", ["miniswhite", "palette", "separated"])
def test_a_tiff_whose_colours_would_be_misread_is_refused(tmp_path: Path, photometric: str) -> None:
    path = tmp_path / "a.tif"
    pixels = make_pixels(4) if photometric == "separated" else make_pixels(1)[..., 0]
    options: dict[str, Any] = {"colormap": np.zeros((3, 256), np.uint16)} if photometric == "palette" else {}
    tifffile.imwrite(path, pixels, photometric=photometric, metadata=None, **options)
    with pytest.raises(SlideError, match=f"holds its colours as {photometric.upper()}; export it as an 8-bit RGB"):
        Slide(path, slide_mpp=0.5)


@pytest.mark.parametrize("side", [12_000, 100_000, 2**31 - 1])
def test_a_png_too_large_is_refused_from_its_header_alone(tmp_path: Path, side: int) -> None:
    path = make_huge_png(tmp_path / "huge.png", side)
    started = time.monotonic()
    with pytest.raises(SlideError, match=r"huge\.png is a plain picture.*134 megapixels.*tiled pyramidal TIFF"):
        Slide(path, slide_mpp=0.5)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("side", [12_000, 100_000, 2**31 - 1])
def test_a_tiff_too_large_is_refused_from_its_header_alone(tmp_path: Path, side: int) -> None:
    path = make_huge_tiff(tmp_path / "huge.tif", side)
    tracemalloc.start()
    try:
        with pytest.raises(SlideError, match=rf"huge\.tif is a plain picture of {side} x {side} px, more than the 134"):
            Slide(path, slide_mpp=0.5)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def make_bytes(kind: str) -> bytes:
    file = io.BytesIO()
    if kind in ("png", "jpeg"):
        Image.fromarray(make_pixels()).save(file, kind)
    else:
        compression = None if kind == "raw tiff" else kind.split()[0]
        tifffile.imwrite(
            file, make_pixels(), photometric="rgb", rowsperstrip=32, compression=compression, metadata=None
        )
    return file.getvalue()


@pytest.mark.parametrize("kind", ["png", "jpeg", "raw tiff", "zlib tiff", "lzw tiff", "jpeg tiff"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_picture_cut_short_is_refused(tmp_path: Path, kind: str, share: float) -> None:
    path = tmp_path / f"cut.{kind.split()[-1]}"
    whole = make_bytes(kind)
    path.write_bytes(whole)
    assert read_all(path).shape == (HEIGHT, WIDTH, 3)
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(SlideError, match=r"cut\..*(is a damaged picture|is neither a slide|is cut short)") as error:
        Slide(path, slide_mpp=0.5)
    assert "\n" not in str(error.value)


def test_a_closed_picture_frees_its_memory(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", Image.fromarray(np.zeros((2000, 2000, 3), np.uint8)))
    tracemalloc.start()
    try:
        slide = Slide(path, slide_mpp=0.5)
        assert tracemalloc.get_traced_memory()[0] > 11e6
        slide.close()
        assert tracemalloc.get_traced_memory()[0] < 2e6
    finally:
        tracemalloc.stop()


def test_no_file_stays_open_whether_a_picture_is_read_or_refused(tmp_path: Path) -> None:
    good = save(tmp_path / "a.png", Image.fromarray(make_pixels()))
    huge = make_huge_tiff(tmp_path / "huge.tif", 100_000)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(make_bytes("jpeg")[:5000])
    read_all(good)
    before = open_files()
    for _ in range(3):
        read_all(good)
        for bad in (huge, cut):
            with pytest.raises(SlideError):
                Slide(bad, slide_mpp=0.5)
    assert open_files() == before


@pytest.mark.parametrize("kept", [0.5, 0.98])  # within the first level, within the second
def test_a_large_slide_cut_short_is_called_that_and_not_too_large(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "download.tif"
    tile = np.zeros((2048, 2048, 3), np.uint8)
    with tifffile.TiffWriter(path) as tiff:
        for side in (12_288, 2048, 2048):  # the directory of each level before its tiles, so that the last is lost
            tiff.write(
                (tile for _ in range((side // 2048) ** 2)),
                shape=(side, side, 3),
                dtype=np.uint8,
                tile=(2048, 2048),
                photometric="rgb",
                compression="zlib",
                subfiletype=int(side < 12_288),
            )
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * kept))
    with pytest.raises(SlideError, match=r"download\.tif (is cut short|cannot be opened).*; copy"):
        Slide(path, slide_mpp=0.5)


def test_a_tiff_without_any_picture_in_it_is_called_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "download.tif"
    path.write_bytes(b"II*\0" + struct.pack("<I", 50_000) + b"\0" * 3000)
    with pytest.raises(SlideError, match=r"download\.tif is cut short, or damaged; copy or export it again"):
        Slide(path, slide_mpp=0.5)
