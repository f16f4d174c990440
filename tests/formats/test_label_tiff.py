"""The writer of label images: what readers see at every level, and how little it takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.errors import OutputError, SettingsError
from ucc_path.formats import label_tiff, tiff_directories
from ucc_path.formats.label_tiff import level_sizes, write

Raster = NDArray[np.uint8]


def labels(rows: int, cols: int, seed: int = 0) -> Raster:
    return np.random.default_rng(seed).integers(0, 5, (rows, cols), np.uint8)


def colours(rows: int, cols: int) -> Raster:
    return np.random.default_rng(1).integers(0, 256, (rows, cols, 3), np.uint8)


def enlarged(raster: Raster, factor: int, size_px: tuple[int, int]) -> Raster:
    """What level 0 must be, made the plain way: every pixel repeated, then cropped or filled."""
    width, height = size_px
    image = np.full((height, width, *raster.shape[2:]), 255 if raster.ndim == 3 else 0, np.uint8)
    large = raster.repeat(factor, axis=0).repeat(factor, axis=1)[:height, :width]
    image[: large.shape[0], : large.shape[1]] = large
    return image


def levels_of(path: Path) -> list[Raster]:
    """The levels of a chain, as tifffile reads them."""
    with tifffile.TiffFile(path) as tiff:
        return [page.asarray() for page in tiff.pages]


def assert_levels(found: list[Raster], level_0: Raster) -> None:
    """Every level is level 0 at every second, fourth, ... pixel."""
    for n, level in enumerate(found):
        height, width = level_0.shape[0] >> n, level_0.shape[1] >> n
        assert np.array_equal(level, level_0[:: 2**n, :: 2**n][:height, :width])


@pytest.mark.parametrize(
    ("enlarge", "size_px"),
    [
        (1, None),
        (7, None),
        (32, None),
        (33, (3001, 1999)),
        (64, (2600, 2100)),
        (132, (4200, 2500)),
        (300, (4100, 4097)),
    ],
)
@pytest.mark.parametrize("make", [labels, colours])
def test_every_level_is_the_enlarged_raster_at_every_other_pixel(
    tmp_path: Path, make: Callable[[int, int], Raster], enlarge: int, size_px: tuple[int, int] | None
) -> None:
    raster = make(23, 41)
    write(tmp_path / "a.tif", raster, mpp=0.5, enlarge=enlarge, size_px=size_px)
    size_px = size_px or (41 * enlarge, 23 * enlarge)
    found = levels_of(tmp_path / "a.tif")
    assert [level.shape[1::-1] for level in found] == level_sizes(size_px)
    assert_levels(found, enlarged(raster, enlarge, size_px))


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 130),
    st.tuples(st.integers(1, 700), st.integers(1, 700)),
)
def test_any_size_and_any_factor_come_out_right(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, int], enlarge: int, size_px: tuple[int, int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tif"
    raster = labels(*shape)
    write(path, raster, mpp=8.0, enlarge=enlarge, size_px=size_px)
    assert_levels(levels_of(path), enlarged(raster, enlarge, size_px))


@pytest.mark.parametrize("make", [labels, colours])
def test_openslide_sees_every_level_its_pixels_and_the_scale(
    tmp_path: Path, make: Callable[[int, int], Raster]
) -> None:
    raster = make(70, 91)
    write(tmp_path / "a.tif", raster, mpp=0.2273, enlarge=33, size_px=(3100, 2300))
    level_0 = enlarged(raster, 33, (3100, 2300))
    with openslide.OpenSlide(tmp_path / "a.tif") as slide:
        assert slide.level_dimensions == ((3100, 2300), (1550, 1150), (775, 575), (387, 287))
        assert float(slide.properties["openslide.mpp-x"]) == pytest.approx(0.2273, rel=1e-7)
        assert float(slide.properties["openslide.mpp-y"]) == pytest.approx(0.2273, rel=1e-7)
        for n, size in enumerate(slide.level_dimensions):
            seen = np.asarray(slide.read_region((0, 0), n, size).convert("RGB"))
            expected = level_0[:: 2**n, :: 2**n][: size[1], : size[0]]
            assert np.array_equal(seen, expected if raster.ndim == 3 else expected[..., None].repeat(3, axis=2))


def test_the_tags_are_those_that_viewers_ask_for(tmp_path: Path) -> None:
    write(tmp_path / "a.tif", labels(30, 40), mpp=16.0, highest=4, enlarge=32)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert [int(page.subfiletype) for page in tiff.pages] == [0, 1, 1]
        for page in tiff.pages:
            assert {page.compression, page.photometric, page.planarconfig} == {32946, 1}
            assert (page.tilewidth, page.tilelength, page.bitspersample) == (256, 256, 8)
            assert (page.tags[340].value, page.tags[341].value) == (0, 4)
            assert 270 not in page.tags
            assert 320 not in page.tags
        assert [page.get_resolution("micrometer")[0] ** -1 for page in tiff.pages] == pytest.approx([16, 32, 64])
        assert tiff.pages.first.resolutionunit == tifffile.RESUNIT.CENTIMETER


def test_colours_carry_no_highest_value_and_no_black_is_zero(tmp_path: Path) -> None:
    write(tmp_path / "a.tif", colours(30, 40), mpp=16.0)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert tiff.pages.first.photometric == tifffile.PHOTOMETRIC.RGB
        assert 341 not in tiff.pages.first.tags


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((1, 1), [(1, 1)]),
        ((5000, 1), [(5000, 1)]),
        ((2, 2), [(2, 2), (1, 1)]),
        ((511, 300), [(511, 300), (255, 150)]),
        ((1023, 4), [(1023, 4), (511, 2)]),
        ((1024, 4), [(1024, 4), (512, 2), (256, 1)]),
        ((4096, 3), [(4096, 3), (2048, 1)]),
    ],
)
def test_there_are_two_levels_where_there_can_be_and_the_last_is_small(
    size: tuple[int, int], sizes: list[tuple[int, int]]
) -> None:
    assert level_sizes(size) == sizes


@pytest.mark.parametrize(("side_px", "tile_px"), [(4095, 256), (4096, 512)])
def test_a_large_image_has_large_tiles_in_all_its_levels(tmp_path: Path, side_px: int, tile_px: int) -> None:
    write(tmp_path / "a.tif", labels(8, 8), mpp=0.5, enlarge=512, size_px=(100, side_px))
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert {(page.tilewidth, page.tilelength) for page in tiff.pages} == {(tile_px, tile_px)}


def test_equal_tiles_of_all_levels_are_stored_once(tmp_path: Path) -> None:
    raster = np.zeros((64, 64), np.uint8)
    raster[:, 32:] = 1
    write(tmp_path / "a.tif", raster, mpp=0.5, enlarge=33, size_px=(2048, 2048))
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        tiles = [offset for page in tiff.pages for offset in page.dataoffsets]
        assert len(tiles) == 64 + 16 + 4 + 1
        # All 0, all 1, and where 0 meets 1 one in each level: the rows are alike, whatever their phase.
        assert len(set(tiles)) == 2 + 4


def test_a_tile_that_hangs_over_is_filled_with_zeros_and_shared_with_one_that_does_not(tmp_path: Path) -> None:
    write(tmp_path / "a.tif", np.zeros((3, 3), np.uint8), mpp=0.5, enlarge=100)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert len({offset for page in tiff.pages for offset in page.dataoffsets}) == 1


def test_the_same_raster_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.tif", "b.tif"):
        write(tmp_path / name, labels(50, 60), mpp=0.5, enlarge=20)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_an_image_of_two_thousand_million_pixels_needs_no_memory_of_its_own(tmp_path: Path) -> None:
    raster = np.zeros((388, 388), np.uint8)
    raster[200:300, 100:250] = 2
    tracemalloc.start()
    write(tmp_path / "a.tif", raster, mpp=0.25, enlarge=132, size_px=(51_200, 51_200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15 * 2**20
    with openslide.OpenSlide(tmp_path / "a.tif") as slide:
        assert slide.level_count == 8
        seen = np.asarray(slide.read_region((100 * 132 - 2, 200 * 132 - 2), 0, (4, 4)))[..., 0]
        assert seen.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 2], [0, 0, 2, 2]]


@pytest.mark.parametrize("make", [labels, colours])
def test_an_ome_tiff_has_its_levels_as_sub_directories_and_says_its_size_and_scale(
    tmp_path: Path, make: Callable[[int, int], Raster]
) -> None:
    raster = make(40, 50)
    write(tmp_path / "a.ome.tif", raster, mpp=0.2273, enlarge=33, as_ome=True)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tiff:
        assert tiff.is_ome
        assert len(tiff.pages) == 1
        assert len(tiff.series) == 1
        assert [int(page.subfiletype) for page in tiff.pages.first.pages] == [1, 1]
        assert_levels([level.asarray() for level in tiff.series[0].levels], enlarged(raster, 33, (1650, 1320)))
        assert len(tiff.series[0].levels) == 3
        pixels = tifffile.xml2dict(tiff.ome_metadata)["OME"]["Image"]["Pixels"]
    assert (pixels["SizeX"], pixels["SizeY"], pixels["SizeC"]) == (1650, 1320, raster[0, 0].size)
    assert (pixels["PhysicalSizeX"], pixels["PhysicalSizeY"], pixels["PhysicalSizeXUnit"]) == (0.2273, 0.2273, "µm")
    assert pixels["Channel"]["SamplesPerPixel"] == raster[0, 0].size


def test_an_ome_tiff_of_one_pixel_has_no_list_of_sub_directories(tmp_path: Path) -> None:
    write(tmp_path / "a.ome.tif", labels(1, 1), mpp=32.0, as_ome=True)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tiff:
        assert 330 not in tiff.pages.first.tags


@pytest.mark.parametrize("as_ome", [False, True])
def test_a_file_that_outgrows_classic_tiff_becomes_bigtiff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_ome: bool
) -> None:
    write(tmp_path / "small.tif", labels(40, 50), mpp=0.5, enlarge=33, as_ome=as_ome)
    monkeypatch.setattr(tiff_directories, "CLASSIC_END", 1000)
    write(tmp_path / "big.tif", labels(40, 50), mpp=0.5, enlarge=33, as_ome=as_ome)
    for name, magic in (("small.tif", b"II*\0"), ("big.tif", b"II+\0")):
        assert (tmp_path / name).read_bytes()[:4] == magic
        with tifffile.TiffFile(tmp_path / name) as tiff:
            levels = [level.asarray() for level in tiff.series[0].levels]
            assert len(levels) == 3
            assert_levels(levels, enlarged(labels(40, 50), 33, (1650, 1320)))


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tif").write_bytes(b"the old one")

    def failing(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(label_tiff, "_tile_entries", failing)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.tif", labels(4, 4), mpp=0.5)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"the old one"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write(tmp_path / "nowhere" / "a.tif", labels(4, 4), mpp=0.5)


@pytest.mark.parametrize("mpp", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_scale_is_refused(tmp_path: Path, mpp: float) -> None:
    with pytest.raises(SettingsError, match="mpp is"):
        write(tmp_path / "a.tif", labels(4, 4), mpp=mpp)


@pytest.mark.parametrize("mpp", [0.001, 0.243_094, 1 / 3, 100.0, 99_999.0])
def test_any_possible_scale_is_kept_to_seven_digits(tmp_path: Path, mpp: float) -> None:
    write(tmp_path / "a.tif", labels(2, 2), mpp=mpp)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        numerator, denominator = tiff.pages.first.tags[282].value
    assert 10_000 * denominator / numerator == pytest.approx(mpp, rel=1e-7)


@pytest.mark.parametrize(
    ("raster", "options"),
    [
        (np.zeros((4, 4), np.uint16), {}),
        (np.zeros((4, 4, 4), np.uint8), {}),
        (np.zeros((4, 4), np.uint8), {"enlarge": 0}),
        (np.zeros((4, 4), np.uint8), {"highest": 256}),
        (np.zeros((4, 4, 3), np.uint8), {"highest": 4}),
        (np.zeros((4, 4), np.uint8), {"size_px": (0, 4)}),
        (np.zeros((0, 4), np.uint8), {}),
    ],
)
def test_what_no_file_can_hold_is_refused(tmp_path: Path, raster: Raster, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"raster|has no pixels"):
        write(tmp_path / "a.tif", raster, mpp=0.5, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
