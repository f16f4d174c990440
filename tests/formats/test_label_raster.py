"""Labels of cells read back from the TIFFs they were written to, and from none else."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray

from ucc_path.errors import OutputError
from ucc_path.formats import label_raster, label_tiff


def labels(rows: int, cols: int) -> NDArray[np.uint8]:
    return np.random.default_rng(rows).integers(0, 5, (rows, cols), np.uint8)


def refusal(path: Path, rows: int = 40, cols: int = 50, pixels_a_cell: int = 1) -> str:
    with pytest.raises(OutputError) as caught:
        label_raster.read(path, rows=rows, cols=cols, pixels_a_cell=pixels_a_cell)
    message = str(caught.value)
    assert message.startswith(str(path)) and message.endswith("; segment the slide anew with --overwrite")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 700), (40, 50), (256, 512), (257, 513), (1100, 301), (5000, 3)])
def test_a_raster_of_a_pixel_a_cell_is_read_as_it_was_written(tmp_path: Path, rows: int, cols: int) -> None:
    label_tiff.write(tmp_path / "s_labels.tif", labels(rows, cols), mpp=32.0, highest=4)
    read = label_raster.read(tmp_path / "s_labels.tif", rows=rows, cols=cols)
    assert read.dtype == np.uint8 and np.array_equal(read, labels(rows, cols))


@pytest.mark.parametrize("cell_l0", [2, 33, 48, 64, 600, 1024])
@pytest.mark.parametrize("left_over_px", [0, 1, 31])
def test_a_raster_as_large_as_its_slide_is_read_cell_by_cell(tmp_path: Path, cell_l0: int, left_over_px: int) -> None:
    path, raster = tmp_path / "s_labels.tif", labels(23, 31)
    left_over_px = min(left_over_px, cell_l0 - 1)
    size_px = (31 * cell_l0 + left_over_px, 23 * cell_l0 + left_over_px)
    label_tiff.write(path, raster, mpp=0.25, highest=4, enlarge=cell_l0, size_px=size_px)
    assert np.array_equal(label_raster.read(path, rows=23, cols=31, pixels_a_cell=cell_l0), raster)


def test_a_file_of_one_level_is_enough(tmp_path: Path) -> None:
    raster = labels(23, 31)
    tifffile.imwrite(tmp_path / "a.tif", raster.repeat(8, axis=0).repeat(8, axis=1), tile=(64, 64), compression="zlib")
    assert np.array_equal(label_raster.read(tmp_path / "a.tif", rows=23, cols=31, pixels_a_cell=8), raster)


def test_of_the_levels_the_coarsest_that_will_do_is_read(tmp_path: Path) -> None:
    path, raster = tmp_path / "a.tif", labels(200, 200)
    with tifffile.TiffWriter(path) as tiff:  # levels that tell which of them was read
        for level, value in enumerate((10, 20, 30, 40)):
            side = 200 * 12 >> level
            tiff.write(np.full((side, side), value, np.uint8), tile=(256, 256), subfiletype=int(level > 0))
    assert (label_raster.read(path, rows=200, cols=200, pixels_a_cell=12) == 30).all()  # 12 = 3 * 2^2
    label_tiff.write(path, raster, mpp=0.25, enlarge=12)
    assert np.array_equal(label_raster.read(path, rows=200, cols=200, pixels_a_cell=12), raster)


def test_of_a_large_image_a_few_tiles_are_held(tmp_path: Path) -> None:
    path, raster = tmp_path / "s_labels.tif", labels(300, 300)
    label_tiff.write(path, raster, mpp=0.25, highest=4, enlarge=33)  # 98 megapixels, of which level 0 must be read
    tracemalloc.start()
    read = label_raster.read(path, rows=300, cols=300, pixels_a_cell=33)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(read, raster) and peak < 8_000_000


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "cannot be opened (No such file or directory)" in refusal(tmp_path / "none.tif")
    assert "is not a file" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"II", b"\x89PNG\r\n\x1a\n" + bytes(99), b"II*\0\xff\xff\xff\xff" + bytes(99)]
)
def test_what_is_no_tiff_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tif").write_bytes(content)
    assert "is not a whole TIFF: it " in refusal(tmp_path / "a.tif")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_wherever_it_ends(tmp_path: Path, share: float) -> None:
    path = tmp_path / "s_labels.tif"
    label_tiff.write(path, labels(40, 50), mpp=32.0)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert "is not a whole TIFF: it " in refusal(path)


def test_a_file_cut_short_whose_directory_is_whole_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, labels(40, 50), metadata=None)
    path.write_bytes(path.read_bytes()[:-100])
    assert "it is cut short, for it names pixels beyond its end" in refusal(path)


def test_damaged_pixels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s_labels.tif"
    label_tiff.write(path, labels(40, 50), mpp=32.0)
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)  # within the first tile
    path.write_bytes(content)
    assert "is damaged (" in refusal(path)


def test_a_tile_that_was_never_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, labels(40, 50), tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(path, mode="r+") as tiff:
        counts = list(tiff.pages.first.databytecounts)
        tiff.pages.first.tags["TileByteCounts"].overwrite([*counts[:-1], 0])
    assert "(a tile was never written)" in refusal(path)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((40, 50, 3), np.uint8),
        np.zeros((40, 50), np.uint16),
        np.zeros((40, 50), np.int8),
        np.zeros((40, 50), np.bool_),
    ],
    ids=["colour", "16 bits", "signed", "1 bit"],
)
def test_what_is_not_8_bit_grey_is_refused(tmp_path: Path, image: NDArray[np.generic]) -> None:
    tifffile.imwrite(tmp_path / "a.tif", image)
    assert "is not 8-bit grey" in refusal(tmp_path / "a.tif")


def test_a_grey_whose_zero_is_white_is_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", labels(40, 50), photometric="miniswhite")
    assert "is not 8-bit grey" in refusal(tmp_path / "a.tif")


@pytest.mark.parametrize("tile_px", [None, (16, 4112), (4112, 16)])
def test_what_is_in_no_tiles_or_in_huge_ones_is_refused(tmp_path: Path, tile_px: tuple[int, int] | None) -> None:
    tifffile.imwrite(tmp_path / "a.tif", labels(40, 50), tile=tile_px, compression="zlib")
    assert "is not in tiles of up to 4096 px" in refusal(tmp_path / "a.tif")


@pytest.mark.parametrize(("rows", "cols"), [(41, 50), (39, 50), (40, 51), (40, 49), (50, 40)])
def test_a_raster_of_another_grid_is_refused(tmp_path: Path, rows: int, cols: int) -> None:
    label_tiff.write(tmp_path / "s_labels.tif", labels(40, 50), mpp=32.0)
    message = refusal(tmp_path / "s_labels.tif", rows, cols)
    assert f"is 50 x 40 px, but its grid has {cols} x {rows} cells of 1 px" in message


def test_an_image_smaller_than_its_cells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s_labels.tif"
    for size_px in ((399, 320), (400, 319)):
        label_tiff.write(path, labels(40, 50), mpp=0.25, enlarge=8, size_px=size_px)
        assert "its grid has 50 x 40 cells of 8 px" in refusal(path, pixels_a_cell=8)


def test_a_level_that_is_not_half_of_the_one_before_is_refused(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(labels(80, 100), tile=(64, 64))
        tiff.write(labels(80, 100), tile=(64, 64))
    assert "not half of the one before" in refusal(tmp_path / "a.tif", pixels_a_cell=2)


def test_a_cell_without_pixels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pixels_a_cell is 0"):
        label_raster.read(tmp_path / "a.tif", rows=1, cols=1, pixels_a_cell=0)
