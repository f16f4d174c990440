"""Mask images: a PNG or TIFF, as large as the slide or smaller by one factor, whose value says what is tumour.

0 is not tumour. One other value may occur, and is tumour; where there are more, `--mask-tumour-values` must say which
are. The value of a coloured pixel is its largest channel, that of a palette its index; alpha is not looked at. A 1-bit
or white-is-zero picture counts as seen: white is not 0.

TIFF: the first page, tiled or in strips, level 0 of a pyramid; 8 to 64 bits unsigned, or 1; tiles that were never
written are 0; JPEG within TIFF is refused, for it blurs values. One tile or strip is in memory at a time, and may have
MAX_SEGMENT_BYTES. PNG: 1 to 16 bits of grey, palette, or 8 bits of colour; decoded as a whole, so only up to
MAX_PNG_PIXELS. Either is turned into runs, of which there may be MAX_RUNS.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from tifffile import COMPRESSION, PHOTOMETRIC, PLANARCONFIG, TiffFile, TiffFileError, TiffPage

from ucc_path.annotation import Annotation, Runs, from_runs, join_runs
from ucc_path.errors import AnnotationError

MAX_PNG_PIXELS = 2**30
MAX_SEGMENT_BYTES = 2**30
MAX_RUNS = 2**23

_STRIP_PIXELS = 2**24
_VALUES_NAMED = 16
_LOSSY = (COMPRESSION.OJPEG, COMPRESSION.JPEG)
# Damaged files make the decoders raise nearly anything: SyntaxError is Pillow's, RuntimeError that of imagecodecs.
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TiffFileError,
    TypeError,
    ValueError,
    struct.error,
)


class _Block(NamedTuple):
    """A rectangle of the mask and where it begins."""

    row: int
    col: int
    values: NDArray[Any]  # (rows, cols), bool or unsigned


class _Mask(NamedTuple):
    width_px: int
    height_px: int
    blocks: Iterator[_Block]  # by rows, then columns


def read(path: Path, *, size_l0: tuple[float, float] | None = None, tumour_values: tuple[int, ...] = ()) -> Annotation:
    """The tumour of a mask; `size_l0`, the slide's (width, height), lets the mask be smaller than the slide."""
    opened = _png if path.suffix.lower() == ".png" else _tiff
    try:
        with opened(path) as mask:
            scale_l0 = _scale_l0(path, mask, size_l0)
            return from_runs(_tumour_runs(path, mask.blocks, tumour_values), scale_l0=scale_l0)
    except AnnotationError:
        raise
    except (*_DAMAGE, OSError) as err:
        if isinstance(err, OSError) and err.strerror:
            what, what_now = f"cannot be read ({err.strerror})", "check the path and its permissions"
        else:
            what, what_now = f"is damaged or not the picture its name says ({err})", "save the mask anew"
        raise AnnotationError(f"{path} {what}; {what_now}") from err


def _scale_l0(path: Path, mask: _Mask, size_l0: tuple[float, float] | None) -> float:
    """Level-0 pixels per mask pixel: a whole number if one fits both sides to within a mask pixel, else their mean."""
    if size_l0 is None:
        return 1.0
    sides = list(zip(size_l0, (mask.width_px, mask.height_px), strict=True))
    least = max(side_l0 / (side_px + 1) for side_l0, side_px in sides)
    most = min(side_l0 / (side_px - 1) if side_px > 1 else math.inf for side_l0, side_px in sides)
    exact = math.sqrt(math.prod(side_l0 / side_px for side_l0, side_px in sides))
    for scale in (float(max(1, round(exact))), exact):
        if max(1.0, least) <= scale <= most:
            return scale
    raise AnnotationError(
        f"{path} is {mask.width_px} x {mask.height_px} px, which is not the slide's {size_l0[0]:.0f} x "
        f"{size_l0[1]:.0f} px divided by one factor; give the mask of this slide, uncropped"
    )


def _tumour_runs(path: Path, blocks: Iterator[_Block], tumour_values: tuple[int, ...]) -> Runs:
    bands: list[Runs] = []
    band: list[Runs] = []
    band_row, count, seen = 0, 0, set[int]()
    for row, col, values in blocks:
        if row != band_row:  # runs go on from tile to tile: join them before they pile up
            bands.append(_joined(band))
            band, band_row, count = [], row, count + len(bands[-1])
        if tumour_values:
            is_tumour = np.isin(values, tumour_values)
        else:
            is_tumour = values != 0
            seen.update(_distinct(values[is_tumour]))
        if len(seen) > _VALUES_NAMED:
            break
        if len(seen) <= 1 and is_tumour.any():
            band.append(_runs(is_tumour) + np.array([row, col, col]))
        if count + sum(map(len, band)) > MAX_RUNS:
            band = [_joined(band)]
        if count + sum(map(len, band)) > MAX_RUNS:
            raise AnnotationError(
                f"{path} has over {MAX_RUNS:,} runs of pixels, more noise than mask; give a smoother one"
            )
    if len(seen) > 1:
        names = ", ".join(map(str, sorted(seen)[:_VALUES_NAMED])) + (", ..." if len(seen) > _VALUES_NAMED else "")
        raise AnnotationError(
            f"{path} has more than one value besides 0: {names}; say which are tumour with --mask-tumour-values 1,2"
        )
    return np.concatenate([*bands, _joined(band)])


def _distinct(values: NDArray[Any]) -> list[int]:
    if len(values) == 0 or values.min() == values.max():  # nearly always, and far quicker than sorting
        return [int(value) for value in values[:1]]
    return [int(value) for value in np.unique(values)]


def _runs(is_tumour: NDArray[np.bool_]) -> Runs:
    rows, cols = is_tumour.shape
    framed = np.zeros((rows, cols + 2), np.bool_)
    framed[:, 1:-1] = is_tumour
    flips = np.flatnonzero(framed[:, 1:] != framed[:, :-1])  # in each row a start, an end, a start, ...
    row, col = np.divmod(flips, cols + 1)
    return np.column_stack([row[::2], col[::2], col[1::2]])


def _joined(runs: list[Runs]) -> Runs:
    return join_runs(np.concatenate(runs)) if runs else np.zeros((0, 3), np.int64)


@contextmanager
def _png(path: Path) -> Iterator[_Mask]:
    # Not Image.open: its limit on pixels is global, and lower than a mask may need.
    with path.open("rb") as file, PngImageFile(file) as image:
        width, height = image.size
        if width * height > MAX_PNG_PIXELS:
            raise AnnotationError(
                f"{path} has over {MAX_PNG_PIXELS:,} pixels, too many for PNG; save the mask as a tiled TIFF"
            )
        if image.mode in ("RGB", "RGBA", "LA") and any("16" in str(tile[3]) for tile in image.tile):
            raise AnnotationError(f"{path} has 16 bits a channel, which PNG reads as 8; save the mask as grey values")
        yield _Mask(width, height, _png_blocks(image))


def _png_blocks(image: Image.Image) -> Iterator[_Block]:
    colours = {"RGB": 3, "RGBA": 3, "LA": 1}.get(image.mode, 1)
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        strip = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
        if strip.ndim == 3:
            strip = strip[..., :colours].max(axis=2)
        yield _Block(top, 0, strip)


@contextmanager
def _tiff(path: Path) -> Iterator[_Mask]:
    with TiffFile(path) as tiff:
        page = tiff.pages.first
        if page.compression in _LOSSY:
            raise AnnotationError(
                f"{path} is compressed as JPEG, which blurs values; save the mask with LZW or deflate"
            )
        if page.dtype is None or page.dtype.kind not in "bu":
            raise AnnotationError(
                f"{path} has pixels of type {page.dtype}; save the mask as whole numbers, 8 or 16 bits"
            )
        if page.samplesperpixel > 1 and page.planarconfig != PLANARCONFIG.CONTIG:
            raise AnnotationError(f"{path} keeps its channels apart; save the mask as grey values")
        rows = page.tilelength if page.is_tiled else min(page.rowsperstrip, page.imagelength)
        cols = page.tilewidth if page.is_tiled else page.imagewidth
        if rows * cols * page.samplesperpixel * page.dtype.itemsize > MAX_SEGMENT_BYTES:
            raise AnnotationError(
                f"{path} has strips or tiles of over {MAX_SEGMENT_BYTES >> 20} MB; save the mask as a tiled TIFF"
            )
        ends = [offset + count for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True)]
        if max(ends, default=0) > path.stat().st_size:
            raise AnnotationError(f"{path} is cut short: it names data beyond its end; copy or save the mask anew")
        yield _Mask(page.imagewidth, page.imagelength, _tiff_blocks(page))


def _tiff_blocks(page: TiffPage) -> Iterator[_Block]:
    colours = page.samplesperpixel - len(page.extrasamples)
    for data, (_, _, row, col, _), _ in page.segments(maxworkers=1):
        if data is None:
            continue
        values = data[0, : page.imagelength - row, : page.imagewidth - col, :colours].max(axis=2)
        if page.bitspersample == 1:  # some codecs give 0 and 255
            values = values != 0
        if page.photometric == PHOTOMETRIC.MINISWHITE:
            values = ~values
        yield _Block(row, col, values)
