"""PNG pictures: 8-bit grey or RGB, written quickly, the same picture to the same bytes.

    signature, IHDR (8 bits, colour type 0 or 2, no interlace), one IDAT, IEND

Every row is filtered with "up", a single subtraction over the whole picture, and packed with ISA-L at level 1. On
stained tissue that is an eighth of the time of libpng at its fastest, at nearly the same size; tiles are read faster
than libpng packs them.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from ucc_path.formats.atomic import replacing

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2}
_FILTER_UP = 2
_LEVEL = 1


def write(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Writes grey (rows, cols) or RGB (rows, cols, 3); no half file ever stands under `path`."""
    with replacing(path) as partial:
        partial.write_bytes(encode(pixels))


def read(path: Path) -> NDArray[np.uint8]:
    """The pixels of a PNG that `write` made: grey (rows, cols) or RGB (rows, cols, 3)."""
    return np.asarray(imagecodecs.png_decode(path.read_bytes()), np.uint8)


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of the PNG of grey (rows, cols) or RGB (rows, cols, 3) pixels."""
    rows, cols = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.dtype != np.uint8 or channels not in _COLOUR_TYPES:
        raise ValueError(f"pixels of {pixels.dtype} with {channels} channels are not grey or RGB bytes")
    lines = np.ascontiguousarray(pixels).reshape(rows, cols * channels)
    filtered = np.empty((rows, 1 + cols * channels), np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[0, 1:] = lines[0]
    np.subtract(lines[1:], lines[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", cols, rows, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    data = isal_zlib.compress(filtered, _LEVEL)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))
