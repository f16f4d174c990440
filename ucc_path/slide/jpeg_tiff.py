"""The commonest slides, pyramidal TIFFs of JPEG tiles, decoded directly: the same pixels as OpenSlide in less time.

OpenSlide draws every stored tile onto a canvas; here each is decoded once into memory and copied. Only files that
OpenSlide itself has opened as generic TIFF come here, and only if every level is of the plainest kind.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import NDArray

from ucc_path.errors import SlideError

VENDOR = "generic-tiff"  # what OpenSlide calls slides of this kind
MAX_TILE_SIDE_PX = 2048
MAX_TILE_BYTES = 64 * 2**20

_JPEG_SCAN, _JPEG_END = b"\xff\xda", b"\xff\xd9"
_STRAY_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")  # within a scan only zeros and restarts may follow FF
_COLOUR_SPACES = {tifffile.PHOTOMETRIC.YCBCR: "YCBCR", tifffile.PHOTOMETRIC.RGB: "RGB"}


@dataclass(frozen=True, slots=True)
class _Level:
    """Where the tiles of a level are in the file, and how they are packed."""

    width_px: int
    height_px: int
    tile_width_px: int
    tile_height_px: int
    offsets: NDArray[np.int64]
    byte_counts: NDArray[np.int64]
    tables: bytes | None
    colour_space: str


class JpegTiff:
    """An open file, its levels, and the tiles that were decoded last; safe to use from several threads."""

    is_spent = False  # a damaged tile does not harm the others

    def __init__(self, path: Path, levels: tuple[_Level, ...], properties: Mapping[str, str], cache_bytes: int) -> None:
        self._path = path
        self._levels = levels
        self._file = path.open("rb")
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[int, int], NDArray[np.uint8]] = OrderedDict()
        self._room = cache_bytes
        self.properties = properties
        self.vendor = VENDOR
        self.level_sizes = tuple((level.width_px, level.height_px) for level in levels)
        self.size_l0 = self.level_sizes[0]
        self.downsamples = tuple(self.size_l0[0] / width for width, _ in self.level_sizes)

    def read_level(
        self, level: int, first_col: int, first_row: int, cols: int, rows: int
    ) -> tuple[NDArray[np.uint8], tuple[float, float]]:
        """RGB (rows, cols, 3) of a level's own pixels, white beyond its edge; the place is always the one asked for."""
        plan = self._levels[level]
        region = np.full((rows, cols, 3), 255, np.uint8)
        last_col, last_row = min(first_col + cols, plan.width_px), min(first_row + rows, plan.height_px)
        tiles_across = -(-plan.width_px // plan.tile_width_px)
        for tile_row in range(max(0, first_row) // plan.tile_height_px, -(-last_row // plan.tile_height_px)):
            for tile_col in range(max(0, first_col) // plan.tile_width_px, -(-last_col // plan.tile_width_px)):
                tile = self._tile(level, tile_row * tiles_across + tile_col)
                top, left = tile_row * plan.tile_height_px, tile_col * plan.tile_width_px
                r0, r1 = max(first_row, top), min(last_row, top + plan.tile_height_px)
                c0, c1 = max(first_col, left), min(last_col, left + plan.tile_width_px)
                if tile is not None and r0 < r1 and c0 < c1:
                    part = tile[r0 - top : r1 - top, c0 - left : c1 - left]
                    region[r0 - first_row : r1 - first_row, c0 - first_col : c1 - first_col] = part
        return region, (0.0, 0.0)

    def close(self) -> None:
        self._file.close()
        self._cache.clear()

    def _tile(self, level: int, index: int) -> NDArray[np.uint8] | None:
        """A decoded tile; None where the file has none, which means white."""
        with self._lock:
            if (level, index) in self._cache:
                self._cache.move_to_end((level, index))
                return self._cache[level, index]
        tile = self._decode(self._levels[level], index)
        if tile is not None:
            with self._lock:
                if (level, index) not in self._cache:
                    self._cache[level, index] = tile
                    self._room -= tile.nbytes
                while self._room < 0 and len(self._cache) > 1:
                    self._room += self._cache.popitem(last=False)[1].nbytes
        return tile

    def _decode(self, level: _Level, index: int) -> NDArray[np.uint8] | None:
        offset, byte_count = int(level.offsets[index]), int(level.byte_counts[index])
        if byte_count == 0:
            return None
        tile = np.empty((level.tile_height_px, level.tile_width_px, 3), np.uint8)
        try:
            data = os.pread(self._file.fileno(), min(byte_count, MAX_TILE_BYTES), offset)
            # What is missing of a tile, as after a broken download, the decoder would fill with grey.
            if len(data) < byte_count or not data.rstrip(b"\0").endswith(_JPEG_END):
                raise ValueError("it is cut short")
            _decode_into(tile, data, level)
            if _ends_grey(tile) and _ends_early(data, tile, level):
                raise ValueError("its data end too early")
        except (imagecodecs.Jpeg8Error, ValueError, OSError) as err:
            if "memory" in str(err).lower():  # that is no damage of the file
                raise MemoryError(str(err)) from err
            raise SlideError(
                f"{self._path} cannot be read: tile {index} of {level.width_px} x {level.height_px} px is damaged "
                f"({err}); copy the file again"
            ) from err
        return tile


def _decode_into(tile: NDArray[np.uint8], data: bytes, level: _Level) -> None:
    """With `out` the size that the JPEG claims is checked before anything is made for it."""
    imagecodecs.jpeg8_decode(data, tables=level.tables, colorspace=level.colour_space, outcolorspace="RGB", out=tile)


def _ends_grey(tile: NDArray[np.uint8]) -> bool:
    """The decoder fills what it has no data for with this grey, and says nothing."""
    return bool((tile[-8:, -8:] == 128).all())


def _ends_early(data: bytes, tile: NDArray[np.uint8], level: _Level) -> bool:
    """Whether a tile that ends grey is damaged: more data, of whatever content, would then have filled it."""
    scan = data.rfind(_JPEG_SCAN)
    longer = data[:scan] + _JPEG_SCAN + _STRAY_MARKER.sub(b"", data[scan + 2 :]) + b"\x55" * 4096 + _JPEG_END
    filled = np.empty_like(tile)
    _decode_into(filled, longer, level)
    return not _ends_grey(filled)


def open_plain(
    path: Path, properties: Mapping[str, str], level_sizes: tuple[tuple[int, int], ...], cache_bytes: int
) -> JpegTiff | None:
    """The file, if every level that OpenSlide found is made of JPEG tiles of the plainest kind; otherwise None."""
    try:
        with tifffile.TiffFile(path) as tiff:
            pages: list[Any] = [page for page in tiff.pages if getattr(page, "is_tiled", False)]
            if [(page.imagewidth, page.imagelength) for page in pages] != list(level_sizes):
                return None
            levels = tuple(_level(page) for page in pages)
    # tifffile meets what OpenSlide has passed over: whatever it stumbles on, OpenSlide reads the file.
    except Exception:
        return None
    if not levels or any(level is None for level in levels):
        return None
    return JpegTiff(path, tuple(level for level in levels if level is not None), properties, cache_bytes)


def _level(page: Any) -> _Level | None:
    is_plain = (
        page.compression == tifffile.COMPRESSION.JPEG
        and page.photometric in _COLOUR_SPACES
        and page.dtype == np.uint8
        and page.samplesperpixel == 3
        and page.planarconfig == tifffile.PLANARCONFIG.CONTIG
        and max(page.tilewidth, page.tilelength) <= MAX_TILE_SIDE_PX
    )
    tiles = -(-page.imagewidth // page.tilewidth) * -(-page.imagelength // page.tilelength)
    if not is_plain or len(page.dataoffsets) != tiles or len(page.databytecounts) != tiles:
        return None
    return _Level(
        width_px=page.imagewidth,
        height_px=page.imagelength,
        tile_width_px=page.tilewidth,
        tile_height_px=page.tilelength,
        offsets=np.array(page.dataoffsets, np.int64),
        byte_counts=np.array(page.databytecounts, np.int64),
        tables=page.jpegtables,
        colour_space=_COLOUR_SPACES[page.photometric],
    )
