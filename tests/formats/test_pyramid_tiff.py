"""The pyramid writer: what OpenSlide and other readers see, and what is left behind when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from numpy.typing import NDArray

from ucc_path.errors import OutputError, SettingsError
from ucc_path.formats import pyramid_tiff, tiff_directories

RGB = NDArray[np.uint8]


def soft_picture(width: int, height: int) -> RGB:
    """Slow waves, another in each channel: JPEG keeps them to a few grey levels, and no two places look alike."""
    y, x = np.mgrid[:height, :width]
    red, green, blue = np.sin(x / 170) + np.cos(y / 130), np.sin((x + y) / 210), np.cos((x - 2 * y) / 260)
    return np.stack([170 + 35 * red, 120 + 60 * green, 150 + 50 * blue], axis=-1).astype(np.uint8)


def tiles_of(picture: RGB, tile_px: int = 256) -> Iterator[RGB]:
    for y in range(0, picture.shape[0], tile_px):
        for x in range(0, picture.shape[1], tile_px):
            yield picture[y : y + tile_px, x : x + tile_px]


def write(path: Path, picture: RGB, *, mpp: float = 0.5) -> Path:
    size_px = (picture.shape[1], picture.shape[0])
    pyramid_tiff.write(path, tiles_of(picture), size_px=size_px, mpp=mpp, tile_px=256)
    return path


def level(path: Path, number: int) -> NDArray[np.int64]:
    with openslide.OpenSlide(str(path)) as slide:
        region = slide.read_region((0, 0), number, slide.level_dimensions[number])
        return np.asarray(region.convert("RGB")).astype(np.int64)


def test_openslide_sees_every_level_and_the_scale(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", soft_picture(2100, 1301), mpp=0.2273)
    with openslide.OpenSlide(str(path)) as slide:
        assert slide.level_dimensions == ((2100, 1301), (1050, 650), (525, 325))
        assert float(slide.properties["openslide.mpp-x"]) == pytest.approx(0.2273, rel=1e-4)
        assert float(slide.properties["openslide.mpp-y"]) == pytest.approx(0.2273, rel=1e-4)


@pytest.mark.parametrize("size", [(1281, 1025), (2049, 513), (1030, 1536)])
def test_each_level_is_the_average_of_the_one_below(tmp_path: Path, size: tuple[int, int]) -> None:
    expected = soft_picture(*size)
    path = write(tmp_path / "a.tif", expected)
    for number, (width, height) in enumerate(pyramid_tiff.level_sizes(size)):
        found = level(path, number)
        assert found.shape == (height, width, 3)
        assert np.abs(found - expected).max() <= 8  # JPEG
        assert np.abs((found - expected).mean(axis=(0, 1))).max() < 0.7
        expected = pyramid_tiff.halve(expected)


def test_a_pixel_of_a_half_is_the_rounded_mean_of_four() -> None:
    four = np.array([[[0], [1]], [[0], [1]], [[9], [9]]], np.uint8)
    assert pyramid_tiff.halve(four).tolist() == [[[1]]]


def test_other_readers_see_the_same_colours(tmp_path: Path) -> None:
    picture = soft_picture(600, 520)
    path = write(tmp_path / "a.tif", picture)
    assert np.abs(tifffile.imread(path).astype(int) - picture).max() <= 8


def test_a_tile_that_recurs_is_stored_once(tmp_path: Path) -> None:
    picture = np.full((1024, 1024, 3), 243, np.uint8)
    picture[:256, :256] = soft_picture(256, 256)
    with tifffile.TiffFile(write(tmp_path / "a.tif", picture)) as tiff:
        assert len(set(tiff.pages[0].dataoffsets)) == 2


def test_only_the_levels_above_the_first_are_marked_as_reduced(tmp_path: Path) -> None:
    with tifffile.TiffFile(write(tmp_path / "a.tif", soft_picture(2100, 600))) as tiff:
        assert [page.is_reduced for page in tiff.pages] == [False, True, True]


def test_a_file_that_outgrows_classic_tiff_becomes_bigtiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = soft_picture(1100, 700)
    small = write(tmp_path / "small.tif", picture)
    monkeypatch.setattr(tiff_directories, "CLASSIC_END", 10_000)
    big = write(tmp_path / "big.tif", picture)
    assert small.read_bytes()[:4] == b"II*\0"
    assert big.read_bytes()[:4] == b"II+\0"
    for number in (0, 1):
        assert np.array_equal(level(small, number), level(big, number))


def test_a_source_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"the old one")

    def failing() -> Iterator[RGB]:
        yield soft_picture(256, 256)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pyramid_tiff.write(path, failing(), size_px=(512, 512), mpp=0.5, tile_px=256)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tif"]
    assert path.read_bytes() == b"the old one"


def test_too_few_tiles_are_a_fault_and_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tile \(0, 1\) of a.tif is missing"):
        pyramid_tiff.write(tmp_path / "a.tif", [soft_picture(256, 256)], size_px=(512, 512), mpp=0.5, tile_px=256)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write(tmp_path / "nowhere" / "a.tif", soft_picture(300, 300))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"size_px": (0, 10)}, "0 x 10"),
        ({"tile_px": 100}, "tile_px is 100"),
        ({"tile_px": 0}, "tile_px is 0"),
        ({"mpp": 0.0}, "mpp is 0.0"),
        ({"mpp": float("nan")}, "mpp is nan"),
        ({"quality": 101}, "quality is 101"),
    ],
)
def test_what_no_file_can_have_is_refused(wrong: dict[str, float], named: str) -> None:
    settings = {"size_px": (512, 512), "mpp": 0.5, "tile_px": 256, "quality": 85} | wrong
    with pytest.raises(SettingsError, match=named):
        pyramid_tiff.check(**settings)  # type: ignore[arg-type]
