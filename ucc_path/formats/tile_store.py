"""The tiles of a data set, unpacked once into NumPy arrays that training maps into memory.

    SPLIT_images.npy    uint8 (tiles, side, side, 3), red green blue
    SPLIT_masks.npy     bool (tiles, side, side), True = tumour; absent where masks are not asked for
    SPLIT_tissue.npy    bool (tiles, cells, cells), cells of a quarter patch
    SPLIT_levels.npy    int64 (tiles, 3, 256), how often each level occurs in each channel of the tissue

One row a tile, in the order in which the tiles were given; SPLIT is train, val or test. The images get their final name
last: where they stand, the store of the split is whole. The caller remembers which tiles and settings it is of. In
memory there are three tiles for each core, however many there are on disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order, usable_cores
from ucc_path.bags import TileSet, cell_px, pixels_of_cells, tissue_cells
from ucc_path.errors import DatasetError
from ucc_path.formats import tile_png
from ucc_path.formats.atomic import PARTIAL, explaining, replacing
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.settings import TissueSettings
from ucc_path.stain import count_levels
from ucc_path.tiles.splits import SPLITS

_ARRAYS = ("images", "masks", "tissue", "levels")
SAME_MPP = 0.01  # slides of one scanner differ by less

Array = NDArray[Any]


def common_scale(rows: Sequence[TileRow]) -> tuple[int, float]:
    """The side (px) and the mpp of all tiles; one model cannot learn from several."""
    if not rows:
        raise DatasetError("the data set has no tiles for this; make it anew with ucc-path tile from more slides")
    first = rows[0]
    for row in rows:
        if row.tile_px != first.tile_px or not math.isclose(row.mpp, first.mpp, rel_tol=SAME_MPP):
            raise DatasetError(
                f"the tiles are not alike: {first.tile_id} has {first.tile_px} px at {first.mpp:g} um/px, "
                f"{row.tile_id} has {row.tile_px} px at {row.mpp:g} um/px; "
                "make the data set anew with ucc-path tile and one --mpp"
            )
    return first.tile_px, first.mpp


def write(
    folder: Path,
    dataset: Path,
    rows: Sequence[TileRow],
    *,
    split: str,
    patch_px: int,
    tissue: TissueSettings,
    with_masks: bool,
) -> Iterator[int]:
    """Unpacks the tiles `rows` of a data set into `folder`, in place of what is there; yields how many are done."""
    side, mpp = common_scale(rows)
    cells = side // cell_px(patch_px)
    arrays: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
        "images": ((side, side, 3), np.uint8),  # first in, last out: renamed after the others
        "masks": ((side, side), np.bool_),
        "tissue": ((cells, cells), np.bool_),
        "levels": ((3, 256), np.int64),
    }
    with explaining(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in arrays:
            _path(folder, split, name).unlink(missing_ok=True)
    if not with_masks:
        del arrays["masks"]

    def unpacked(row: TileRow) -> dict[str, Array]:
        image = tile_png.read_image(dataset, row)
        is_tissue = tissue_cells(image, mpp, patch_px, tissue)
        levels = count_levels(pixels_of_cells(image, is_tissue, cell_px(patch_px)))
        found: dict[str, Array] = {"images": image, "tissue": is_tissue, "levels": levels}
        if with_masks:
            found["masks"] = tile_png.read_mask(dataset, row)
        return found

    with ExitStack() as stack:
        files = {}
        for name, (shape, dtype) in arrays.items():
            partial = stack.enter_context(replacing(_path(folder, split, name), durable=True))
            files[name] = stack.enter_context(partial.open("wb"))
            _write_header(files[name], (len(rows), *shape), dtype)
        for done, tile in enumerate(in_order(unpacked, rows, usable_cores()), start=1):
            # Not through a memory map: on a full disk that ends the process instead of raising an error.
            for name, file in files.items():
                with explaining(_path(folder, split, name)):
                    file.write(np.ascontiguousarray(tile[name]).data)
            yield done


def is_whole(folder: Path, split: str) -> bool:
    """Whether the tiles of a split have been unpacked to the last."""
    return _path(folder, split, "images").is_file()


def read(folder: Path, split: str, labels: NDArray[np.int64] | None = None) -> TileSet:
    """The tiles of a split, mapped into memory; `labels` are those of the rows they were made of, -1 if not given."""
    images, tissue = (_mapped(_path(folder, split, name)) for name in ("images", "tissue"))
    masks = _mapped(_path(folder, split, "masks")) if _path(folder, split, "masks").exists() else None
    if labels is None:
        labels = np.full(len(images), -1, np.int64)
    lengths = {len(array) for array in (images, tissue, masks, labels) if array is not None}
    if len(lengths) > 1:
        raise DatasetError(
            f"{folder} holds {len(images)} {split} tiles, not {len(labels)} or not all of each; "
            "remove it and run the command again"
        )
    return TileSet(images, masks, tissue, labels)


def is_part(path: Path) -> bool:
    """Whether a file is one of a store, by its name; half written or whole."""
    split, _, name = path.name.removesuffix(PARTIAL).partition("_")
    return split in SPLITS and name in {f"{array}.npy" for array in _ARRAYS}


def read_levels(folder: Path, split: str) -> NDArray[np.int64]:
    """How often each level occurs in the tissue of each tile, (tiles, 3, 256)."""
    return np.asarray(_mapped(_path(folder, split, "levels")), np.int64)


def _path(folder: Path, split: str, name: str) -> Path:
    return folder / f"{split}_{name}.npy"


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _mapped(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as err:
        raise DatasetError(
            f"{path} cannot be read ({getattr(err, 'strerror', None) or err}); "
            f"remove {path.parent} and run the command again"
        ) from err
    return array
