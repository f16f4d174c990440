"""A slide as a pyramidal, tiled JPEG TIFF that OpenSlide, QuPath, ASAP and libtiff open with all its levels.

The file, packed as in `tiff_directories`:

- at first     the header
- then         JPEG streams, one per tile, of all levels as they became known; a tile that recurs is stored once
- at the end   one image file directory (IFD) per level, chained, the largest first; no SubIFDs, no ImageDescription

Each IFD: NewSubfileType (0, then 1 = reduced image; OpenSlide insists), ImageWidth, ImageLength, BitsPerSample 8 8 8,
Compression 7 (JPEG), PhotometricInterpretation 6 (YCbCr), SamplesPerPixel 3, XResolution and YResolution in pixels per
centimetre (ASAP reads them so whatever the unit says), PlanarConfiguration 1, ResolutionUnit 3 (cm), TileWidth,
TileLength, TileOffsets, TileByteCounts, YCbCrSubSampling 2 2, ReferenceBlackWhite (full range). Every stream carries
its own tables. All levels have the same tile size.

Level n+1 is half of level n, rounded down; each of its pixels is the mean of the four below it, taken before JPEG. The
last level is the first whose longer side is below 1024 px. A tile that hangs over the edge repeats the last pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from ucc_path.errors import SettingsError
from ucc_path.formats import atomic, tiff_directories
from ucc_path.formats.tiff_directories import HEADER_BYTES, LONG, LONG8, RATIONAL, SHORT, Entry

LAST_LEVEL_BELOW_PX = 1024

RGB = NDArray[np.uint8]


@dataclass(slots=True)
class _Level:
    """What is known of one level so far: where its tiles lie, and the band of rows not yet written."""

    width_px: int
    height_px: int
    tile_px: int
    offsets: list[int] = field(default_factory=list)
    byte_counts: list[int] = field(default_factory=list)
    band: RGB | None = None

    @property
    def rows(self) -> int:
        return -(-self.height_px // self.tile_px)

    @property
    def cols(self) -> int:
        return -(-self.width_px // self.tile_px)

    def tile_shape(self, row: int, col: int) -> tuple[int, int, int]:
        """The part of a tile that lies on the image."""
        height = min(self.tile_px, self.height_px - row * self.tile_px)
        return height, min(self.tile_px, self.width_px - col * self.tile_px), 3


def level_sizes(size_px: tuple[int, int]) -> list[tuple[int, int]]:
    """Width and height of each level.

    >>> level_sizes((2051, 900))
    [(2051, 900), (1025, 450), (512, 225)]
    """
    sizes = [size_px]
    while max(sizes[-1]) >= LAST_LEVEL_BELOW_PX and min(sizes[-1]) >= 2:
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    return sizes


def halve(rgb: RGB) -> RGB:
    """Half the size, each pixel the rounded mean of four; an odd last row or column is left out."""
    height, width = rgb.shape[0] // 2 * 2, rgb.shape[1] // 2 * 2
    even = rgb[:height, :width].astype(np.uint16)
    total = even[0::2, 0::2] + even[0::2, 1::2] + even[1::2, 0::2] + even[1::2, 1::2]
    return ((total + 2) >> 2).astype(np.uint8)


def write(
    path: Path,
    tiles: Iterable[RGB],
    *,
    size_px: tuple[int, int],
    mpp: float,
    tile_px: int = 512,
    quality: int = 85,
) -> None:
    """Write level-0 tiles, given row by row from the top left, and all levels above them.

    A tile is (height, width, 3), `tile_px` square but cropped where the image ends. Holds one band of tiles per level:
    about 6 * tile_px * width bytes in all. Nothing stands under `path` until the file is whole.
    """
    check(size_px=size_px, mpp=mpp, tile_px=tile_px, quality=quality)
    with atomic.replacing(path) as partial, partial.open("wb") as stream:
        writer = _Writer(stream, [_Level(w, h, tile_px) for w, h in level_sizes(size_px)], quality)
        base, given = writer.levels[0], iter(tiles)
        for row in range(base.rows):
            for col in range(base.cols):
                tile = next(given, None)
                if tile is None or tile.shape != base.tile_shape(row, col) or tile.dtype != np.uint8:
                    was, wanted = "missing" if tile is None else tile.shape, base.tile_shape(row, col)
                    raise ValueError(f"tile ({row}, {col}) of {path.name} is {was}; it must be uint8 {wanted}")
                writer.add(0, row, col, tile)
        writer.finish(mpp)


def check(*, size_px: tuple[int, int], mpp: float, tile_px: int, quality: int) -> None:
    """Refuse what no file of this format can have."""
    if min(size_px) < 1:
        raise SettingsError(f"an image of {size_px[0]} x {size_px[1]} px has no pixels; give a size of at least 1 x 1")
    if tile_px < 16 or tile_px % 16:
        raise SettingsError(f"tile_px is {tile_px}; TIFF wants a multiple of 16, usually 256 or 512")
    if not 0.001 <= mpp <= 1000:
        raise SettingsError(f"mpp is {mpp}; give micrometres per pixel, usually 0.25 or 0.5")
    if not 1 <= quality <= 100:
        raise SettingsError(f"JPEG quality is {quality}; give 1 to 100, usually 85")


class _Writer:
    """Takes tiles level by level, passes their halves up, and keeps the ledger of where each one went."""

    def __init__(self, stream: BinaryIO, levels: list[_Level], quality: int) -> None:
        self.levels = levels
        self._stream = stream
        self._quality = quality
        self._stored: dict[tuple[tuple[int, ...], bytes], tuple[int, int]] = {}
        stream.write(bytes(HEADER_BYTES))

    def add(self, index: int, row: int, col: int, tile: RGB) -> None:
        level = self.levels[index]
        offset, count = self._store(tile, level.tile_px)
        level.offsets.append(offset)
        level.byte_counts.append(count)
        if index + 1 < len(self.levels):
            self._pass_up(index, row, col, tile)

    def _store(self, tile: RGB, tile_px: int) -> tuple[int, int]:
        # Glass recurs thousands of times: it is recognised by its digest, encoded once and pointed at ever after.
        key = (tile.shape, hashlib.blake2b(np.ascontiguousarray(tile).data, digest_size=16).digest())
        if key not in self._stored:
            hang = ((0, tile_px - tile.shape[0]), (0, tile_px - tile.shape[1]), (0, 0))
            whole = np.pad(tile, hang, mode="edge") if any(after for _, after in hang) else np.ascontiguousarray(tile)
            data = imagecodecs.jpeg8_encode(
                whole, level=self._quality, colorspace="RGB", outcolorspace="YCBCR", subsampling="420"
            )
            self._stored[key] = (self._stream.tell(), len(data))
            self._stream.write(data)
        return self._stored[key]

    def _pass_up(self, index: int, row: int, col: int, tile: RGB) -> None:
        below, level = self.levels[index], self.levels[index + 1]
        if level.band is None:
            level.band = np.zeros((level.tile_px, level.width_px, 3), np.uint8)
        half = level.tile_px // 2
        small = halve(tile)
        top, left = row % 2 * half, col * half
        level.band[top : top + small.shape[0], left : left + small.shape[1]] = small
        band_is_full = col == below.cols - 1 and (row % 2 == 1 or row == below.rows - 1)
        if band_is_full and row // 2 < level.rows:  # a last row of one pixel has no half
            for up in range(level.cols):
                height, width, _ = level.tile_shape(row // 2, up)
                left = up * level.tile_px
                self.add(index + 1, row // 2, up, level.band[:height, left : left + width].copy())

    def finish(self, mpp: float) -> None:
        """Append the directories, which make it a file."""
        directories = [_entries(level, reduced=n > 0, mpp=mpp * 2**n) for n, level in enumerate(self.levels)]
        tiff_directories.write(self._stream, directories)


def _entries(level: _Level, *, reduced: bool, mpp: float) -> list[Entry]:
    # (um/cm) / (um/px) = px/cm, as a fraction of whole numbers that keeps six digits of mpp
    resolution = (10_000 * 100_000, round(mpp * 100_000))
    return [
        Entry(254, LONG, (int(reduced),)),
        Entry(256, LONG, (level.width_px,)),
        Entry(257, LONG, (level.height_px,)),
        Entry(258, SHORT, (8, 8, 8)),
        Entry(259, SHORT, (7,)),
        Entry(262, SHORT, (6,)),
        Entry(277, SHORT, (3,)),
        Entry(282, RATIONAL, resolution),
        Entry(283, RATIONAL, resolution),
        Entry(284, SHORT, (1,)),
        Entry(296, SHORT, (3,)),
        Entry(322, LONG, (level.tile_px,)),
        Entry(323, LONG, (level.tile_px,)),
        Entry(324, LONG8, tuple(level.offsets)),
        Entry(325, LONG, tuple(level.byte_counts)),
        Entry(530, SHORT, (2, 2)),
        Entry(532, RATIONAL, (0, 1, 255, 1, 128, 1, 255, 1, 128, 1, 255, 1)),
    ]
