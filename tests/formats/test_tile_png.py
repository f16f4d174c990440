"""The picture and the mask of one tile; how a whole data set is refused is tested with the store of tiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.errors import DatasetError
from ucc_path.formats import png, tile_png
from ucc_path.formats.tiles_csv import TileRow, image_path, mask_path

SIDE = 32
ROW = TileRow("t", "s", "val", 0, 0, SIDE, 1.0, 0.5, "mixture", 2)


def make_tile(dataset: Path) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Noise, and a mask that is not the same when turned or mirrored."""
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    is_tumour = np.zeros((SIDE, SIDE), np.bool_)
    is_tumour[3:9, 5:30] = True
    for path, picture in ((image_path(dataset, ROW), pixels), (mask_path(dataset, ROW), is_tumour * np.uint8(255))):
        path.parent.mkdir(parents=True)
        png.write(path, picture)
    return pixels, is_tumour


def test_the_image_and_the_mask_of_a_tile_are_read_back(tmp_path: Path) -> None:
    pixels, is_tumour = make_tile(tmp_path)
    image, mask = tile_png.read_image(tmp_path, ROW), tile_png.read_mask(tmp_path, ROW)
    assert image.dtype == np.uint8 and np.array_equal(image, pixels)
    assert mask.dtype == np.bool_ and np.array_equal(mask, is_tumour)


def test_a_mask_is_tumour_wherever_it_is_not_black(tmp_path: Path) -> None:
    make_tile(tmp_path)
    grey = np.arange(SIDE * SIDE, dtype=np.uint16).reshape(SIDE, SIDE) % 3
    png.write(mask_path(tmp_path, ROW), grey.astype(np.uint8))
    assert np.array_equal(tile_png.read_mask(tmp_path, ROW), grey > 0)


def encoded(*shape: int) -> bytes:
    return bytes(imagecodecs.png_encode(np.zeros(shape, np.uint8)))


@pytest.mark.parametrize(
    ("read", "path_of", "wanted", "shape"),
    [
        (tile_png.read_image, image_path, "an RGB picture", (SIDE, SIDE, 3)),
        (tile_png.read_mask, mask_path, "a grey mask", (SIDE, SIDE)),
    ],
    ids=["image", "mask"],
)
def test_a_picture_that_is_not_the_tile_is_refused(
    tmp_path: Path,
    read: Callable[[Path, TileRow], object],
    path_of: Callable[[Path, TileRow], Path],
    wanted: str,
    shape: tuple[int, ...],
) -> None:
    make_tile(tmp_path)
    path = path_of(tmp_path, ROW)
    whole, anew = path.read_bytes(), "make the data set anew with ucc-path tile$"
    for data, message in (
        (b"GIF89a" + whole, rf"t\.png is not a PNG; {anew}"),
        (encoded(SIDE, SIDE + 1, *shape[2:]), rf"t\.png is not {wanted} of 32 x 32 px, 8 bits a channel; {anew}"),
        (encoded(*((SIDE, SIDE) if len(shape) == 3 else (SIDE, SIDE, 3))), rf"t\.png is not {wanted} of 32 x 32 px"),
        (whole[:-30], rf"t\.png is damaged \(.*\); {anew}"),
    ):
        path.write_bytes(data)
        with pytest.raises(DatasetError, match=message):
            read(tmp_path, ROW)
    path.unlink()
    with pytest.raises(DatasetError, match=rf"{path} is missing; {anew}"):
        read(tmp_path, ROW)
    path.mkdir()
    with pytest.raises(DatasetError, match=r"t\.png cannot be read \(Is a directory\); check the file and the disk$"):
        read(tmp_path, ROW)
