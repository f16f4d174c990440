"""A raster of labels or colours as a pyramidal, tiled TIFF that pathology viewers open with all its levels.

The file, packed as in `tiff_directories`:

- at first     the header
- then         zlib streams, one per tile, level 0 first; a tile that recurs, in whichever level, is stored once
- at the end   one image file directory (IFD) per level, the largest first, chained; no ImageDescription, no colour map

Each IFD: NewSubfileType (0, then 1 = reduced image; OpenSlide insists), ImageWidth, ImageLength, BitsPerSample 8,
Compression 32946 (DEFLATE by its old number, the only one ASAP knows), PhotometricInterpretation 1 (0 is black) or 2
(RGB), SamplesPerPixel 1 or 3, XResolution and YResolution in pixels per centimetre (ASAP reads them so whatever the
unit says), PlanarConfiguration 1, ResolutionUnit 3 (cm), TileWidth, TileLength, TileOffsets, TileByteCounts, and for
grey, where the highest value is known, SMinSampleValue 0 and SMaxSampleValue. Tiles are 256 px, or 512 px where a side
of level 0 has 4096 px or more, the same in all levels (large_image insists). One that hangs over is filled with 0.

Level n+1 is half of level n, rounded down; pixel (r, c) of level n is pixel (r * 2^n, c * 2^n) of level 0: labels are
never mixed. The last level is the first below 512 px on both sides, but level 1 at the earliest, unless level 0 is
only 1 px wide or high.

The OME-TIFF, for QuPath, has the same tiles; its reduced levels are SubIFDs of the first IFD and not in the chain, and
the ImageDescription of that IFD is OME-XML of the 2016-06 schema with one image, its size and its scale.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from ucc_path.errors import SettingsError
from ucc_path.formats import atomic, tiff_directories
from ucc_path.formats.tiff_directories import DESCRIPTION, HEADER_BYTES, LONG, LONG8, RATIONAL, SHORT, Entry

LAST_LEVEL_BELOW_PX = 512
LARGE_TILES_FROM_PX = 4096

_DEFLATE = 32946
_LEVEL = 1
_WHITE = 255
_OME = (  # with µ as it is: Bio-Formats takes a file with &#181; in its XML for no OME-TIFF at all
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openmicroscopy.org/Schemas/OME/2016-06'
    ' http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd">'
    '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8"'
    ' SizeX="{width_px}" SizeY="{height_px}" SizeC="{channels}" SizeZ="1" SizeT="1"'
    ' PhysicalSizeX="{mpp}" PhysicalSizeXUnit="µm" PhysicalSizeY="{mpp}" PhysicalSizeYUnit="µm">'
    '<Channel ID="Channel:0:0" SamplesPerPixel="{channels}"/><TiffData IFD="0" PlaneCount="1"/>'
    "</Pixels></Image></OME>"
)


class _Span(NamedTuple):
    """One side of a tile: the lines of the raster it shows, and how often each."""

    lines: NDArray[
        np.int64
    ]  # a line beyond the raster stands for the rest of the image, one beyond that for its outside
    copies: NDArray[np.int64]
    on_raster: int  # so many lines, the first, are of the raster
    on_image: int


class _Place(NamedTuple):
    """Where a tile lies in the file."""

    offset: int
    byte_count: int


def level_sizes(size_px: tuple[int, int]) -> list[tuple[int, int]]:
    """Width and height of each level.

    >>> level_sizes((1100, 301)), level_sizes((20, 9))
    ([(1100, 301), (550, 150), (275, 75)], [(20, 9), (10, 4)])
    """
    sizes = [size_px]
    while min(sizes[-1]) >= 2 and (len(sizes) == 1 or max(sizes[-1]) >= LAST_LEVEL_BELOW_PX):
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    return sizes


def write(
    path: Path,
    raster: NDArray[np.uint8],
    *,
    mpp: float,
    highest: int | None = None,
    enlarge: int = 1,
    size_px: tuple[int, int] | None = None,
    as_ome: bool = False,
) -> None:
    """Write a raster, (rows, cols) grey or (rows, cols, 3) RGB, each pixel of it `enlarge` pixels wide and high.

    `mpp` is the scale of the written level 0, um/px. `size_px`, its (width, height), crops the enlarged raster, or
    goes beyond it: the image is 0 or white there. `highest` is the largest value that a grey pixel may have. Holds the
    raster, a few tiles and the table of tiles, never the enlarged image. Nothing stands under `path` until it is whole.
    """
    if size_px is None:
        size_px = (raster.shape[1] * enlarge, raster.shape[0] * enlarge)
    _check(raster, size_px=size_px, mpp=mpp, highest=highest, enlarge=enlarge)
    tile_px = 256 if max(size_px) < LARGE_TILES_FROM_PX else 512
    directories = []
    with atomic.replacing(path) as partial, partial.open("wb") as stream:
        tiles = _Tiles(stream, raster)
        for n, (width_px, height_px) in enumerate(level_sizes(size_px)):
            cols = _spans(width_px, tile_px, raster.shape[1], 2**n, enlarge)
            rows = _spans(height_px, tile_px, raster.shape[0], 2**n, enlarge)
            places = [tiles.place(row, col) for row in rows for col in cols]
            image = [Entry(254, LONG, (int(n > 0),)), Entry(256, LONG, (width_px,)), Entry(257, LONG, (height_px,))]
            pixels = _pixel_entries(tiles.channels, highest)
            directories.append([*image, *pixels, *_scale_entries(mpp * 2**n), *_tile_entries(tile_px, places)])
        if as_ome:
            words = _OME.format(width_px=size_px[0], height_px=size_px[1], channels=tiles.channels, mpp=float(mpp))
            directories[0].append(tiff_directories.text(DESCRIPTION, words))
        tiff_directories.write(stream, directories, as_sub_ifds=as_ome)


def _check(
    raster: NDArray[np.uint8], *, size_px: tuple[int, int], mpp: float, highest: int | None, enlarge: int
) -> None:
    if raster.dtype != np.uint8 or raster.shape[2:] not in ((), (3,)):
        raise ValueError(f"a raster of {raster.dtype} {raster.shape} is neither grey nor RGB bytes")
    if enlarge < 1 or (highest is not None and (raster.ndim == 3 or not 0 <= highest <= 255)):
        raise ValueError(f"enlarge {enlarge} or highest {highest} is impossible for a raster of shape {raster.shape}")
    if min(size_px) < 1:
        raise SettingsError(f"an image of {size_px[0]} x {size_px[1]} px has no pixels; give a size of at least 1 x 1")
    if not 0.001 <= mpp <= 100_000:
        raise SettingsError(f"mpp is {mpp}; give micrometres per pixel of the raster, usually 0.25 to 100")


def _spans(side_px: int, tile_px: int, lines: int, step: int, enlarge: int) -> list[_Span]:
    """A side of a level cut into tiles; `step` is the level's downsample, `lines` the side of the raster."""
    spans = []
    for start in range(0, side_px, tile_px):
        pixels = np.arange(start, start + tile_px)
        shown = np.where(pixels < side_px, np.minimum(pixels * step // enlarge, lines), lines + 1)
        distinct, copies = np.unique(shown, return_counts=True)
        spans.append(_Span(distinct, copies, int((distinct < lines).sum()), int((distinct <= lines).sum())))
    return spans


class _Tiles:
    """Cuts tiles from the raster, and remembers of each where it went."""

    def __init__(self, stream: BinaryIO, raster: NDArray[np.uint8]) -> None:
        self._stream = stream
        self._raster = raster if raster.ndim == 3 else raster[:, :, None]
        self.channels = self._raster.shape[2]
        self._stored: dict[bytes, _Place] = {}
        stream.write(bytes(HEADER_BYTES))

    def place(self, rows: _Span, cols: _Span) -> _Place:
        """Where the tile lies; it is packed only if none like it was before.

        Equal tiles are known by their smallest form: the block of raster pixels without the lines that only repeat
        the one before, and how often each is shown. So the commonest ones are never enlarged at all.
        """
        block = self._block(rows, cols)  # (lines, lines, channels)
        block, row_copies = _merged(block, rows.copies)
        block, col_copies = _merged(block.swapaxes(0, 1), cols.copies)  # now columns first
        form = hashlib.blake2b(digest_size=16)
        for part in (np.array(block.shape), row_copies, col_copies, np.ascontiguousarray(block)):
            form.update(part.data)
        key = form.digest()
        if key not in self._stored:
            tile = block.repeat(col_copies, axis=0).swapaxes(0, 1).repeat(row_copies, axis=0)
            data = isal_zlib.compress(np.ascontiguousarray(tile), _LEVEL)
            self._stored[key] = _Place(self._stream.tell(), len(data))
            self._stream.write(data)
        return self._stored[key]

    def _block(self, rows: _Span, cols: _Span) -> NDArray[np.uint8]:
        on_raster = self._raster[rows.lines[: rows.on_raster, None], cols.lines[: cols.on_raster]]
        if rows.on_raster == len(rows.lines) and cols.on_raster == len(cols.lines):
            return on_raster
        block = np.zeros((len(rows.lines), len(cols.lines), self.channels), np.uint8)
        block[: rows.on_image, : cols.on_image] = _WHITE if self.channels == 3 else 0
        block[: rows.on_raster, : cols.on_raster] = on_raster
        return block


def _merged(block: NDArray[np.uint8], copies: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The block without lines equal to the one before, whose copies are counted there."""
    is_new = np.ones(len(block), np.bool_)
    is_new[1:] = (block[1:] != block[:-1]).any(axis=(1, 2))
    if is_new.all():
        return block, copies
    first = np.flatnonzero(is_new)
    return block[first], np.add.reduceat(copies, first)


def _pixel_entries(channels: int, highest: int | None) -> list[Entry]:
    entries = [
        Entry(258, SHORT, (8,) * channels),
        Entry(259, SHORT, (_DEFLATE,)),
        Entry(262, SHORT, (2 if channels == 3 else 1,)),
        Entry(277, SHORT, (channels,)),
        Entry(284, SHORT, (1,)),
    ]
    if highest is not None:
        entries += [Entry(340, SHORT, (0,)), Entry(341, SHORT, (highest,))]
    return entries


def _scale_entries(mpp: float) -> list[Entry]:
    per_cm = 10_000 / mpp  # (um/cm) / (um/px) = px/cm
    # The simplest fraction that is right to the last of the 31 bits a part of it may have.
    fraction = Fraction(per_cm).limit_denominator(int(2**31 / max(1.0, per_cm)))
    resolution = (fraction.numerator, fraction.denominator)
    return [Entry(282, RATIONAL, resolution), Entry(283, RATIONAL, resolution), Entry(296, SHORT, (3,))]


def _tile_entries(tile_px: int, places: list[_Place]) -> list[Entry]:
    return [
        Entry(322, LONG, (tile_px,)),
        Entry(323, LONG, (tile_px,)),
        Entry(324, LONG8, tuple(place.offset for place in places)),
        Entry(325, LONG, tuple(place.byte_count for place in places)),
    ]
