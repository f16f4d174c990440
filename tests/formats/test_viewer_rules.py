"""What the viewers make of a TIFF, held against what was measured with the viewers themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray

LEVELS = 3


def labels(dtype: str = "uint8") -> NDArray[Any]:
    """Four fields with the values 0 to 3, 1536 x 1024 px."""
    return np.kron([[0, 1], [2, 3]], np.ones((512, 768), int)).astype(dtype)


def coloured() -> NDArray[Any]:
    return np.stack([40 * labels(), 200 - labels(), 60 + labels()], axis=-1)


def chained(path: Path, image: NDArray[Any], *, reduced: bool = True, **options: Any) -> Path:
    """A pyramid in a chain of directories; `options` as tifffile has them."""
    options = {"tile": (256, 256), "compression": 32946, "photometric": "minisblack"} | options
    options = {"resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER", "metadata": None} | options
    with tifffile.TiffWriter(path) as tiff:
        for level in range(LEVELS):
            tiff.write(image[:: 2**level, :: 2**level], subfiletype=int(reduced and level > 0), **options)
    return path


def nested(path: Path, image: NDArray[Any], *, ome: bool, **options: Any) -> Path:
    """A pyramid whose reduced levels are SubIFDs."""
    options = {"tile": (256, 256), "compression": 32946, "photometric": "minisblack"} | options
    options |= {"resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER"}
    with tifffile.TiffWriter(path, ome=ome) as tiff:
        metadata = {"axes": "YX" if image.ndim == 2 else "YXS"} if ome else None
        tiff.write(image, subifds=LEVELS - 1, metadata=metadata, **options)
        for level in range(1, LEVELS):
            tiff.write(image[:: 2**level, :: 2**level], subfiletype=1, metadata=None, **options)
    return path


COLOURS = np.zeros((3, 256), np.uint16)
COLOURS[:, 1:4] = 65535

MAKERS: dict[str, Callable[[Path], Path]] = {
    "LZW": lambda path: chained(path, labels(), compression="lzw"),
    "deflate 32946": lambda path: chained(path, labels()),
    "zlib 8": lambda path: chained(path, labels(), compression="zlib"),
    "zstd": lambda path: chained(path, labels(), compression="zstd"),
    "no reduced flag": lambda path: chained(path, labels(), reduced=False),
    "SubIFDs": lambda path: nested(path, labels(), ome=False),
    "OME": lambda path: nested(path, labels(), ome=True),
    "OME RGB": lambda path: nested(path, coloured(), ome=True, photometric="rgb"),
    "palette": lambda path: chained(path, labels(), photometric="palette", colormap=COLOURS),
    "RGB LZW": lambda path: chained(path, coloured(), photometric="rgb", compression="lzw"),
    "RGB JPEG": lambda path: chained(path, coloured(), photometric="rgb", compression="jpeg"),
    "RGB planar": lambda path: chained(path, np.moveaxis(coloured(), -1, 0), photometric="rgb", planarconfig="separate"),
    "grey JPEG": lambda path: chained(path, labels(), compression="jpeg"),
    "uint16": lambda path: chained(path, labels("uint16")),
    "float32": lambda path: chained(path, labels("float32")),
    "striped": lambda path: chained(path, labels(), tile=None),
    "RGB striped": lambda path: chained(path, coloured(), photometric="rgb", tile=None),
    "white is zero": lambda path: chained(path, labels(), photometric="miniswhite"),
    "no resolution": lambda path: chained(path, labels(), resolution=None, resolutionunit=None),
    "inches": lambda path: chained(path, labels(), resolution=(50_800, 50_800), resolutionunit="INCH"),
}
