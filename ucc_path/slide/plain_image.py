"""A plain picture (PNG, JPEG, TIFF) that stands in for a slide of one level.

Such files cannot be read in parts, so the whole picture is held in memory; that is why its size is limited.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ucc_path.errors import SlideError

MAX_PX = 2**27  # 134 megapixels: 400 MB of RGB
UM_PER_INCH = 25_400
UM_PER_RESOLUTION_UNIT = {2: UM_PER_INCH, 3: 10_000}  # of TIFF: inch, centimetre
PICTURES = ("PNG", "JPEG")  # besides TIFF; Pillow knows many more, some of which run other programs
JPEG, YCBCR = tifffile.COMPRESSION.JPEG, tifffile.PHOTOMETRIC.YCBCR
TIFF_COLOURS = (tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.RGB, YCBCR)
EXPORT = "export it as an 8-bit RGB picture of the stained slide"
ALPHA = ((1,), (2,))  # what `extrasamples` says of a fourth channel that is one
TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class PlainImage:
    """Pixels in memory behind the few calls that a slide needs of its file."""

    is_spent = False
    vendor = "plain image"
    downsamples: tuple[float, ...] = (1.0,)

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            is_tiff = file.read(4) in TIFF_MAGIC
        read = _read_tiff if is_tiff else _read_picture
        try:
            self._rgb, mpp = read(path)
        except (UnidentifiedImageError, tifffile.TiffFileError) as err:
            raise SlideError(f"{path} is neither a slide that OpenSlide reads nor a picture; check the file") from err
        except SlideError:
            raise
        # A damaged picture makes its decoder fail in any way at all: codecs have errors of their own.
        except Exception as err:
            is_told = not isinstance(err, (TypeError, LookupError, ArithmeticError))  # those speak of our own code
            reason = _first_line(err) if is_told else "what it says of itself does not fit together"
            raise SlideError(f"{path} is a damaged picture ({reason}); copy or export it again") from err
        self.size_l0: tuple[int, int] = (self._rgb.shape[1], self._rgb.shape[0])
        self.level_sizes: tuple[tuple[int, int], ...] = (self.size_l0,)
        self.properties: Mapping[str, str] = (
            {} if mpp is None else {"openslide.mpp-x": str(mpp[0]), "openslide.mpp-y": str(mpp[1])}
        )

    def read_level(
        self, level: int, first_col: int, first_row: int, cols: int, rows: int
    ) -> tuple[NDArray[np.uint8], tuple[float, float]]:
        """RGB of a region, white where it lies beyond the picture; the place is always the one asked for."""
        region = np.full((rows, cols, 3), 255, np.uint8)
        top, left = max(0, first_row), max(0, first_col)
        inside = self._rgb[top : max(top, first_row + rows), left : max(left, first_col + cols)]
        to_row, to_col = top - first_row, left - first_col
        region[to_row : to_row + inside.shape[0], to_col : to_col + inside.shape[1]] = inside
        return region, (0.0, 0.0)

    def close(self) -> None:
        self._rgb = np.empty((0, 0, 3), np.uint8)


def _refuse_above_limit(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PX:
        raise _too_large(path, f" of {width} x {height} px")


def _too_large(path: Path, size: str = "") -> SlideError:
    return SlideError(
        f"{path} is a plain picture{size}, more than the {MAX_PX // 10**6} megapixels that are read whole; "
        "convert it to a tiled pyramidal TIFF"
    )


def _read_picture(path: Path) -> tuple[NDArray[np.uint8], tuple[float, float] | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is checked below
        try:
            opened = Image.open(path, formats=PICTURES)
        except Image.DecompressionBombError as err:  # Pillow has a limit of its own, above ours
            raise _too_large(path) from err
        with opened as picture:
            _refuse_above_limit(path, *picture.size)
            if picture.mode.startswith(("I", "F")):
                raise SlideError(f"{path} has more than 8 bits a channel; {EXPORT}")
            dpi = picture.info.get("dpi")
            mpp = (UM_PER_INCH / float(dpi[0]), UM_PER_INCH / float(dpi[1])) if dpi and min(dpi) > 0 else None
            return _on_white(picture), mpp


def _on_white(picture: Image.Image) -> NDArray[np.uint8]:
    if "A" in picture.getbands() or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        picture = Image.alpha_composite(white, rgba)
    return np.asarray(picture.convert("RGB"))


def _read_tiff(path: Path) -> tuple[NDArray[np.uint8], tuple[float, float] | None]:
    with tifffile.TiffFile(path) as tiff:
        page: Any = tiff.pages[0] if len(tiff.pages) else None
        # First of all, for it is what happens most: of a slide that is cut short OpenSlide only says it is none.
        is_large = page is not None and page.imagewidth * page.imagelength > MAX_PX
        if page is None or not _has_all_data(tiff, page) or (is_large and _has_lost_a_page(tiff)):
            raise SlideError(f"{path} is cut short, or damaged; copy or export it again")
        _refuse_above_limit(path, page.imagewidth, page.imagelength)
        if page.dtype != np.uint8 or page.samplesperpixel not in (1, 3, 4):
            raise SlideError(f"{path} holds {page.samplesperpixel} channel(s) of {page.dtype}; {EXPORT}")
        if page.photometric not in TIFF_COLOURS or (page.photometric == YCBCR and page.compression != JPEG):
            raise SlideError(f"{path} holds its colours as {page.photometric.name}; {EXPORT}")
        samples = page.asarray()
        size = (page.imagelength, page.imagewidth)
        if page.planarconfig == tifffile.PLANARCONFIG.SEPARATE:
            samples = np.moveaxis(samples.reshape(-1, *size), 0, -1)
        samples = samples.reshape(*size, -1)
        if page.samplesperpixel == 4 and page.extrasamples[:1] not in ALPHA:
            samples = samples[..., :3]
        grey_or_colour = samples[..., 0] if samples.shape[2] == 1 else samples
        return _on_white(Image.fromarray(np.ascontiguousarray(grey_or_colour))), _tiff_mpp(page)


def _has_all_data(tiff: tifffile.TiffFile, page: Any) -> bool:
    if len(page.dataoffsets) != len(page.databytecounts):
        return False
    ends = [start + count for start, count in zip(page.dataoffsets, page.databytecounts, strict=True)]
    return bool(max(ends, default=0) <= tiff.filehandle.size)


def _has_lost_a_page(tiff: tifffile.TiffFile) -> bool:
    """Whether the last page found says that a further one begins where the file has ended."""
    tiff.filehandle.seek(tiff.pages.next_page_offset or 0)
    (next_page,) = struct.unpack(tiff.tiff.offsetformat, tiff.filehandle.read(tiff.tiff.offsetsize))
    return bool(next_page > tiff.filehandle.size)


def _tiff_mpp(page: Any) -> tuple[float, float] | None:
    um_per_unit = UM_PER_RESOLUTION_UNIT.get(int(page.tags.valueof("ResolutionUnit", default=2)))
    per_axis = [page.tags.valueof(f"{axis}Resolution") for axis in "XY"]
    if um_per_unit is None or None in per_axis or any(n <= 0 or d <= 0 for n, d in per_axis):
        return None
    (x_pixels, x_units), (y_pixels, y_units) = per_axis
    return um_per_unit * x_units / x_pixels, um_per_unit * y_units / y_pixels


def _first_line(err: Exception) -> str:
    return (str(err) or type(err).__name__).splitlines()[0][:120]
