"""`images/SPLIT/TILE_ID.png` and `masks/SPLIT/TILE_ID.png` of a data set: the pixels of a tile, and its tumour.

The image is RGB, the mask grey, 255 = tumour, both 8 bits a channel and `tile_px` wide and high, as `tiles.csv` says.
"""

from __future__ import annotations

from pathlib import Path

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from ucc_path.errors import DatasetError
from ucc_path.formats import png, tiles_csv
from ucc_path.formats.tiles_csv import TileRow


def read_image(dataset: Path, row: TileRow) -> NDArray[np.uint8]:
    """RGB (side, side, 3)."""
    return _decoded(tiles_csv.image_path(dataset, row), (row.tile_px, row.tile_px, 3), "an RGB picture")


def read_mask(dataset: Path, row: TileRow) -> NDArray[np.bool_]:
    """True where it is tumour, (side, side)."""
    pixels = _decoded(tiles_csv.mask_path(dataset, row), (row.tile_px, row.tile_px), "a grey mask")
    return np.asarray(pixels != 0)


def _decoded(path: Path, shape: tuple[int, ...], wanted: str) -> NDArray[np.uint8]:
    """The pixels of a PNG that must be of this shape; one of another shape is refused before it takes memory."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as err:
        raise DatasetError(f"{path} is missing; make the data set anew with ucc-path tile") from err
    except OSError as err:
        raise DatasetError(f"{path} cannot be read ({err.strerror}); check the file and the disk") from err
    if not data.startswith(png.SIGNATURE):
        raise DatasetError(f"{path} is not a PNG; make the data set anew with ucc-path tile")
    pixels = np.empty(shape, np.uint8)
    try:
        imagecodecs.png_decode(data, out=pixels)
    except ValueError as err:
        raise DatasetError(
            f"{path} is not {wanted} of {shape[1]} x {shape[0]} px, 8 bits a channel; "
            "make the data set anew with ucc-path tile"
        ) from err
    except imagecodecs.PngError as err:
        raise DatasetError(f"{path} is damaged ({err}); make the data set anew with ucc-path tile") from err
    return pixels
