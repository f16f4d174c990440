"""A slide file becomes pixels at a physical scale. The only module that imports openslide.

OpenSlide's `read_region(location, level, size)` mixes two planes, so it is called in one place here and nowhere else.
The commonest kind of slide goes past it, by `jpeg_tiff`, to the same pixels in less time.
Regions are read on whole pixels of a stored level: at a fraction OpenSlide would blend neighbours. What is left of the
way to the wanted place and scale is one resampling with a Lanczos filter, which passes nothing that would alias.
"""

from __future__ import annotations

import math
import os
import re
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openslide
from numpy.typing import NDArray
from PIL import Image

from ucc_path.errors import SlideError
from ucc_path.geometry import Grid, PointL0, SizeL0, scale_between
from ucc_path.slide import jpeg_tiff
from ucc_path.slide.plain_image import PlainImage
from ucc_path.slide.scale import Scale, exact_downsamples, find_scale
from ucc_path.slide.source import Pair, Source

CACHE_BYTES = 64 * 2**20  # of decoded tiles, for each open slide
MAX_THUMBNAIL_PX = 2**27  # 400 MB; a glass of 25 x 75 mm, all scanned, is 2**27 at 4 um/px and 2**25 at 8
MAX_TILE_SIDE_PX = 2**14  # OpenSlide decodes a stored tile whole: 1 GB
BLOCK_PX = 2048  # a large region is read in blocks whose source is about this wide
FILTER_SUPPORT = 3  # source pixels that Lanczos looks at to each side, times the reduction
COARSER_TOLERANCE = 1.02  # a slide of 0.504 um/px may stand for 0.5; beyond this pixels would be invented
SAME_DETAIL = 1e-3  # a level coarser than wanted by less than this share still has all the detail
SAME_PLACE_PX = 0.25  # a level is read as it is where that moves no pixel of the region by more than this

_TILE_SIDE = re.compile(r"openslide\.level\[\d+\]\.tile-(width|height)")


class _OpenSlideFile:
    """An OpenSlide handle. Once a read has failed OpenSlide fails all later ones: it is then `spent`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_spent = False
        self._handle = openslide.OpenSlide(path)
        self._handle.set_cache(openslide.OpenSlideCache(CACHE_BYTES))
        self.properties: Mapping[str, str] = dict(self._handle.properties)
        self.vendor = self.properties.get(openslide.PROPERTY_NAME_VENDOR, "unknown")
        self.size_l0 = self._handle.dimensions
        self.level_sizes = tuple(self._handle.level_dimensions)
        self.downsamples = tuple(self._handle.level_downsamples)
        self._refuse_huge_tiles()

    def _refuse_huge_tiles(self) -> None:
        sides = [int(text) for name, text in self.properties.items() if _TILE_SIDE.fullmatch(name) and text.isdecimal()]
        if max(sides, default=0) > MAX_TILE_SIDE_PX:
            self.close()
            raise SlideError(
                f"{self._path} is stored in tiles {max(sides)} px wide, which cannot be read in parts; "
                "convert it to a pyramidal TIFF with tiles of 512 px"
            )

    def read_level(
        self, level: int, first_col: int, first_row: int, cols: int, rows: int
    ) -> tuple[NDArray[np.uint8], Pair]:
        """As `Source` has it.

        OpenSlide takes places in whole level-0 pixels and divides them by its own downsample, which is a fraction
        where the sizes of the levels do not divide evenly; the place it then reads from is not the one asked for.
        Left of and above the slide it also drops that fraction, a pixel too much or too little: white is put there.
        """
        downsample = self.downsamples[level]
        white_cols, white_rows = min(cols, max(0, -first_col)), min(rows, max(0, -first_row))
        if white_cols == cols or white_rows == rows:
            return np.full((rows, cols, 3), 255, np.uint8), (0.0, 0.0)
        first_col, first_row = first_col + white_cols, first_row + white_rows
        x_l0, y_l0 = round(first_col * downsample), round(first_row * downsample)
        rgb = self._read(x_l0, y_l0, level, (cols - white_cols, rows - white_rows))
        if white_cols or white_rows:
            rgb = np.pad(rgb, ((white_rows, 0), (white_cols, 0), (0, 0)), constant_values=255)
        return rgb, (x_l0 / downsample - first_col, y_l0 / downsample - first_row)

    def _read(self, x_l0: int, y_l0: int, level: int, size_px: tuple[int, int]) -> NDArray[np.uint8]:
        try:
            rgba = self._handle.read_region((x_l0, y_l0), level, size_px)
        except openslide.OpenSlideError as err:
            self.is_spent = True
            raise SlideError(
                f"{self._path} cannot be read near x={x_l0}, y={y_l0} ({err}); the file is damaged: copy it again"
            ) from err
        if rgba.getchannel("A").getextrema() != (255, 255):  # beyond the edge, or never scanned
            rgba = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
        return np.asarray(rgba.convert("RGB"))

    def close(self) -> None:
        self._handle.close()


class Slide:
    """A whole-slide image, or a plain picture in its place, read by place and physical scale.

    Safe to use from several threads. Sent to another process, it opens its file anew there. Closes with `with`.
    """

    def __init__(self, path: str | Path, slide_mpp: float | None = None) -> None:
        self.path = Path(path)
        self._slide_mpp = slide_mpp
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._source: Source | None = _open(self.path)
        self.vendor = self._source.vendor
        self.size_l0 = SizeL0(*self._source.size_l0)
        self.properties = self._source.properties
        self.downsamples = exact_downsamples(self._source.size_l0, self._source.level_sizes, self._source.downsamples)
        try:
            self.scale: Scale = find_scale(str(self.path), self.properties, slide_mpp)
        except SlideError:
            self.close()
            raise

    @property
    def mpp(self) -> float:
        """Micrometres a level-0 pixel."""
        return self.scale.mpp

    def read(self, corner_l0: Pair, side_px: int, mpp: float) -> NDArray[np.uint8]:
        """RGB (side_px, side_px, 3) of the square whose top left corner is `corner_l0`, at `mpp` um/px.

        White beyond the edge of the scan. Finer than the slide itself is refused.
        """
        return self.read_rectangle(corner_l0, (side_px, side_px), mpp)

    def read_rectangle(self, corner_l0: Pair, size_px: tuple[int, int], mpp: float) -> NDArray[np.uint8]:
        """RGB (height, width, 3) of a rectangle of `size_px` = (width, height) pixels at `mpp`; memory: the result."""
        width_px, height_px = size_px
        if width_px < 1 or height_px < 1:
            raise ValueError(f"a region of {width_px} x {height_px} px has no pixels")
        self.refuse_finer(mpp)
        scale_l0 = scale_between(mpp, self.mpp)
        level = self._best_level(scale_l0)
        step = max(1, int(BLOCK_PX * self.downsamples[level] / scale_l0))
        if width_px <= step and height_px <= step:
            return self._read_block(PointL0(*corner_l0), size_px, scale_l0, level)
        region = np.empty((height_px, width_px, 3), np.uint8)
        for row in range(0, height_px, step):
            for col in range(0, width_px, step):
                corner = PointL0(corner_l0[0] + col * scale_l0, corner_l0[1] + row * scale_l0)
                block_px = (min(step, width_px - col), min(step, height_px - row))
                region[row : row + step, col : col + step] = self._read_block(corner, block_px, scale_l0, level)
        return region

    def thumbnail(self, mpp: float) -> NDArray[np.uint8]:
        """The whole slide at `mpp`, or at its own scale where that is coarser; white fills the last row and column."""
        scale_l0 = max(1.0, scale_between(mpp, self.mpp))
        grid = Grid.covering(self.size_l0, scale_l0)
        if grid.cols * grid.rows > MAX_THUMBNAIL_PX:
            raise SlideError(
                f"{self.path} of {self.size_l0.width} x {self.size_l0.height} px at {self.mpp:.4g} um/px is too large "
                f"to be seen whole at {mpp:g} um/px; give its true scale with --slide-mpp, or a coarser mpp in [tissue]"
            )
        return self.read_rectangle((0, 0), (grid.cols, grid.rows), scale_l0 * self.mpp)

    def refuse_finer(self, mpp: float) -> None:
        """SlideError where `mpp` is finer than the slide's own scale: no detail can be invented."""
        if not math.isfinite(mpp) or mpp <= 0:
            raise SlideError(f"a scale of {mpp:g} um/px is not possible; give a positive number")
        if self.mpp > mpp * COARSER_TOLERANCE:
            raise SlideError(
                f"{self.path} has {self.mpp:.4g} um/px, coarser than the {mpp:.4g} asked for; "
                f"give --mpp {self.mpp:.4g} or more, or leave this slide out"
            )

    def alignment_l0(self, mpp: float, side_px: int) -> int:
        """Squares whose corners are multiples of this are cut from a stored level without resampling, if any can be."""
        scale_l0 = scale_between(mpp, self.mpp)
        downsample = self.downsamples[self._best_level(scale_l0)]
        is_stored = downsample.is_integer() and _is_same_scale(scale_l0 / downsample, side_px)
        return round(downsample) if is_stored else 1

    def _best_level(self, scale_l0: float) -> int:
        """The coarsest level that still has all the detail."""
        fit = [n for n, downsample in enumerate(self.downsamples) if downsample <= scale_l0 * (1 + SAME_DETAIL)]
        return fit[-1] if fit else 0

    def _read_block(self, corner: PointL0, size_px: tuple[int, int], scale_l0: float, level: int) -> NDArray[np.uint8]:
        width_px, height_px = size_px
        downsample = self.downsamples[level]
        reduction = scale_l0 / downsample  # source pixels a wanted pixel
        if _is_same_scale(reduction, max(size_px)):
            reduction = 1.0
        left, top = corner.x / downsample, corner.y / downsample  # in pixels of the level
        if reduction == 1.0 and left == round(left) and top == round(top):
            rgb, offset = self._opened().read_level(level, round(left), round(top), width_px, height_px)
            if offset == (0.0, 0.0):
                return rgb
        margin = math.ceil(FILTER_SUPPORT * reduction) + 1
        first_col, first_row = math.floor(left) - margin, math.floor(top) - margin
        cols = math.ceil(left + width_px * reduction) + margin - first_col
        rows = math.ceil(top + height_px * reduction) + margin - first_row
        rgb, (offset_x, offset_y) = self._opened().read_level(level, first_col, first_row, cols, rows)
        left, top = left - first_col - offset_x, top - first_row - offset_y
        box = (left, top, left + width_px * reduction, top + height_px * reduction)
        return np.asarray(Image.fromarray(rgb).resize(size_px, Image.Resampling.LANCZOS, box=box))

    def _opened(self) -> Source:
        """The file, opened anew where its handle is spent, or came here by a fork: two processes must not share one."""
        with self._lock:
            if self._source is None:
                raise SlideError(f"{self.path} was closed; open it again")
            if self._source.is_spent or self._pid != os.getpid():
                # The old one is left to its owners: other threads may be reading from it.
                self._source, self._pid = _open(self.path), os.getpid()
            return self._source

    def reopened(self) -> Slide:
        """The same slide with a handle of its own, which no other thread can spend."""
        return Slide(self.path, self._slide_mpp)

    def close(self) -> None:
        with self._lock:
            if self._source is not None:
                self._source.close()
                self._source = None

    def __enter__(self) -> Slide:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Slide], tuple[Path, float | None]]:
        return Slide, (self.path, self._slide_mpp)


def library_version() -> str:
    """The version of the OpenSlide library itself, not of its Python package."""
    return str(openslide.__library_version__)


def levels_of(path: Path) -> tuple[tuple[int, int], ...]:
    """Width and height of the levels that OpenSlide itself sees; a plain picture is refused here, in its words."""
    try:
        with openslide.OpenSlide(path) as opened:
            return tuple(opened.level_dimensions)
    except openslide.OpenSlideError as err:
        raise SlideError(f"{path} is not opened by OpenSlide ({err}); convert it to a pyramidal TIFF") from err


def _open(path: Path) -> Source:
    """The file by OpenSlide, or else as a plain picture."""
    try:
        if path.is_dir():
            raise SlideError(f"{path} is a folder; name the slide file in it")
        if not stat.S_ISREG(path.stat().st_mode):  # from a pipe one would wait for ever
            raise SlideError(f"{path} is not a file that holds a slide; name one")
        with path.open("rb") as file:
            if not file.read(1):
                raise SlideError(f"{path} is empty; copy it again")
    except SlideError:
        raise
    except OSError as err:
        reason = err.strerror or err
        raise SlideError(f"{path} cannot be opened ({reason}); check the path and its permissions") from err
    try:
        return _quickest(path, _OpenSlideFile(path))
    except openslide.OpenSlideUnsupportedFormatError:
        return PlainImage(path)
    except openslide.OpenSlideError as err:
        try:
            return PlainImage(path)
        except SlideError:
            raise SlideError(
                f"{path} cannot be opened by OpenSlide ({err}); copy it again, or convert it to a pyramidal JPEG TIFF"
            ) from err


def _quickest(path: Path, file: _OpenSlideFile) -> Source:
    """The same file without OpenSlide, if it is of the kind that can be decoded directly."""
    if file.vendor != jpeg_tiff.VENDOR:
        return file
    direct = jpeg_tiff.open_plain(path, file.properties, file.level_sizes, CACHE_BYTES)
    if direct is None:
        return file
    file.close()
    return direct


def _is_same_scale(reduction: float, side_px: int) -> bool:
    return abs(reduction - 1) * side_px < SAME_PLACE_PX
