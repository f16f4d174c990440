"""Which viewers open a TIFF as a pyramid, and why not.

OpenSlide is asked itself. The others go by rules, read in their source and, except ASAP's, tried on files:

- QuPath       gives RGB to OpenSlide; OME-TIFF, and all that is not RGB, to Bio-Formats, which finds reduced levels
               only as SubIFDs of an OME-TIFF
- ASAP         tiled; no xml, XML or DICOM in the description; few codecs, sample types and colour spaces; channels
               together; each tiled directory of the chain narrower than the last, no SubIFDs; the scale is 10000 /
               XResolution whatever the unit
- tiffslide    each level a half, third or quarter of the last, in the chain or as SubIFDs; no two of one size;
               channels together
- HistomicsUI  large_image: tiled, all levels with one tile size and near a power of two; what its own reader refuses
               goes to OpenSlide
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from ucc_path.errors import SlideError
from ucc_path.formats import tiff_images
from ucc_path.formats.tiff_images import Image, Images
from ucc_path.slide import Slide, reader

SCALE_TOLERANCE = 0.01

_CODECS = {1: "none", 5: "LZW", 7: "JPEG", 8: "zlib", 32773: "PackBits", 32946: "DEFLATE"}
_CODECS |= {33003: "JPEG 2000", 33005: "JPEG 2000", 34712: "JPEG 2000", 50000: "zstd", 50001: "WebP"}
_ASAP_CODECS = (1, 5, 7, 32946, 33005)
_JPEG, _WEBP = 7, 50001
_MINISBLACK, _RGB, _YCBCR = 1, 2, 6
_UINT, _FLOAT = 1, 3
_CENTIMETRE = 3

_STRIPS = "it is stored in strips; write tiles of 256 or 512 px"
_ALONE = "it holds one image only; write further ones, each half as wide and high as the last"
_SMALL_STRIPS = "its smaller images are stored in strips; write them in tiles like the first"
_UNMARKED = "its smaller images are not marked as reduced; write NewSubfileType 1 in every directory but the first"
_SUB_IFDS = "its smaller images are SubIFDs, which are not looked for; write them as a chain of directories"
_PLANAR = "its channels are stored apart; write them together (PlanarConfiguration 1)"
_NO_PARTS = "no other image is half as large as the first; write halves"
_OTHER_TILES = "its images have tiles of different sizes; write all with the tiles of the first"
_LOSSY = "JPEG invents values between the labels; write DEFLATE with tag 32946, or LZW"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a viewer makes of a file; with one level it is shown, but slowly if it is large.

    A reason says what is wrong and what to write instead; it may also be a warning about a file that opens.
    """

    viewer: str
    opens: bool
    levels: int
    reasons: tuple[str, ...] = ()


def examine(path: Path) -> tuple[Verdict, ...]:
    """The verdict of each viewer; OverlayError if the file is not a whole TIFF."""
    images = tiff_images.read(path)
    image = images.chain[0]
    openslide = _openslide(path, images)
    verdicts = (
        openslide,
        _qupath(images, openslide),
        _asap(images),
        _tiffslide(images),
        _large_image(images, openslide),
    )
    is_blurred = image.codec == _JPEG and image.photometric == _MINISBLACK
    return tuple(replace(v, reasons=(*v.reasons, _LOSSY)) if v.opens and is_blurred else v for v in verdicts)


def describe(path: Path) -> str:
    """Size, scale and packing of the first image, in a line."""
    image = tiff_images.read(path).chain[0]
    scale = f"{image.mpp:.4g} um/px" if image.mpp else "no scale"
    tiles = f"tiles of {image.tile_px[0]} x {image.tile_px[1]} px" if image.tile_px else "strips"
    samples = f"{image.samples} x {image.bits} bits"
    return f"{image.width_px} x {image.height_px} px, {scale}, {samples}, {_packing(image)}, {tiles}"


def misfits(path: Path, slide_path: Path) -> tuple[str, ...]:
    """Why the overlay would not lie where it belongs on a slide; none where it does.

    ASAP enlarges an overlay by one whole number, the slide's side divided by the overlay's, and shows none whose sides
    ask for two. It need not reach the slide's last pixels, if less than one of its own is missing. Where a scale is
    not recorded the sizes alone are compared.
    """
    image = tiff_images.read(path).chain[0]
    (width_l0, height_l0), slide_mpp = _size_and_scale(slide_path)
    across, down = width_l0 // image.width_px, height_l0 // image.height_px
    if not (across and down):
        return (f"it is larger than the slide's {width_l0} x {height_l0} px; give the slide it was made from",)
    by_scale = image.mpp / slide_mpp if image.mpp and slide_mpp else None
    rest_l0 = max(width_l0 - across * image.width_px, height_l0 - down * image.height_px)
    if across != down or rest_l0 > across:
        factor = max(1, round(by_scale)) if by_scale else max(across, down)
        what = (
            f"the slide is {width_l0 / image.width_px:.5g} times as wide and {height_l0 / image.height_px:.5g} as high"
        )
        does = f"shows it up to {rest_l0} px off" if across == down else "does not show it"
        size = (width_l0 // factor, height_l0 // factor)
        what_now = f"write it {size[0]} x {size[1]} px large, {factor} times smaller than the slide"
        if size == (image.width_px, image.height_px):
            what_now = "the slide is too small for pixels so large: write each of them as several"
        return (f"{what}, not one whole number, so ASAP {does}; {what_now}",)
    if slide_mpp and by_scale and abs(by_scale / across - 1) > SCALE_TOLERANCE:
        what = f"its pixels are {by_scale:.4g} times as wide as the slide's by its scale, {across} times by its size"
        return (f"{what}; write {slide_mpp * across:.4g} um/px if the size is right",)
    return ()


def _size_and_scale(slide_path: Path) -> tuple[tuple[int, int], float | None]:
    try:
        with Slide(slide_path) as slide:
            return (int(slide.size_l0.width), int(slide.size_l0.height)), slide.mpp
    except SlideError:
        with Slide(slide_path, slide_mpp=1.0) as slide:  # it has no scale; if it cannot be opened, that is said here
            return (int(slide.size_l0.width), int(slide.size_l0.height)), None


def _packing(image: Image) -> str:
    return f"compression {image.codec} ({_CODECS.get(image.codec, 'of no known name')})"


def _why_flat(images: Images) -> str:
    """For viewers that look for marked, tiled images in the chain."""
    if len(images.chain) == 1:
        return _SUB_IFDS if images.sub_ifds else _ALONE
    return _UNMARKED if any(image.tile_px for image in images.chain[1:]) else _SMALL_STRIPS


def _refused(viewer: str, *reasons: str) -> Verdict:
    return Verdict(viewer, False, 0, reasons)


def _openslide(path: Path, images: Images) -> Verdict:
    viewer, image = "OpenSlide", images.chain[0]
    try:
        levels = len(reader.levels_of(path))
    except SlideError as err:
        what = f"it says: {err.__cause__}; write tiles of DEFLATE (tag 32946), LZW or JPEG"
        return _refused(viewer, what if image.tile_px else _STRIPS)
    if image.bits > 16:
        return _refused(viewer, f"it opens, but samples of {image.bits} bits cannot be read; write 8 bits")
    reasons = [_why_flat(images)] if levels == 1 else []
    if image.bits == 16:
        reasons.append("values are brought from 16 to 8 bits, so that 300 is read as 1; write 8 bits")
    return Verdict(viewer, True, levels, tuple(reasons))


def _qupath(images: Images, openslide: Verdict) -> Verdict:
    viewer, image = "QuPath", images.chain[0]
    is_ome = "<OME " in image.description
    is_rgb = image.photometric in (_RGB, _YCBCR) and image.bits == 8
    if is_rgb and not is_ome and openslide.opens:
        return replace(openslide, viewer=viewer)
    if image.codec not in _CODECS or image.codec == _WEBP:
        return _refused(viewer, f"{_packing(image)} is unknown to it; write DEFLATE, LZW or JPEG")
    if is_ome:
        reasons = () if images.sub_ifds else ("an OME-TIFF has its smaller images as SubIFDs; write them so",)
        return Verdict(viewer, True, 1 + len(images.sub_ifds), reasons)
    what_now = "write an OME-TIFF with the smaller images as SubIFDs, or RGB"
    not_rgb = f"of an image that is not RGB it shows the largest level only; {what_now}"
    return Verdict(viewer, True, 1, openslide.reasons if is_rgb else (not_rgb,))


def _asap(images: Images) -> Verdict:
    viewer, image = "ASAP", images.chain[0]
    tiled = [other for other in images.chain if other.tile_px]
    faults = []
    if not image.tile_px:
        faults.append(_STRIPS)
    if any(word in image.description for word in ("xml", "XML", "DICOM")):
        faults.append("its description holds XML or DICOM; write no description")
    if image.codec not in _ASAP_CODECS:
        faults.append(f"{_packing(image)} is unknown to it; write DEFLATE with tag 32946, or LZW")
    if image.photometric not in (_MINISBLACK, _RGB, _YCBCR) or (
        image.photometric == _RGB and image.samples not in (3, 4)
    ):
        what = f"PhotometricInterpretation {image.photometric} of {image.samples} samples is unknown to it"
        faults.append(f"{what}; write 1 (0 is black) of one sample, or 2 (RGB) of three")
    if image.is_planar:
        faults.append(_PLANAR)
    if (image.sample_format, image.bits) not in ((_UINT, 8), (_UINT, 16), (_UINT, 32), (_FLOAT, 32)):
        faults.append(
            f"samples of {image.bits} bits, format {image.sample_format}, are unknown to it; write 8, unsigned"
        )
    if any(after.width_px >= before.width_px for before, after in pairwise(tiled)):
        faults.append("a directory is not narrower than the one before; write the levels from the largest down")
    if faults:
        return _refused(viewer, *faults)
    warnings = [_why_flat(images)] if len(tiled) == 1 else []
    if image.mpp is None:
        warnings.append("it has no scale; write XResolution and YResolution in pixels per centimetre")
    elif image.unit != _CENTIMETRE:
        warnings.append("its resolution is taken for pixels per centimetre; write it so, with ResolutionUnit 3")
    return Verdict(viewer, True, len(tiled), tuple(warnings))


def _tiffslide(images: Images) -> Verdict:
    viewer, image = "tiffslide", images.chain[0]
    if image.is_planar:
        return _refused(viewer, _PLANAR)
    if image.codec not in _CODECS:
        return _refused(viewer, f"{_packing(image)} is unknown to it; write DEFLATE, LZW or JPEG")
    others = (*images.sub_ifds, *images.chain[1:])
    if any((other.width_px, other.height_px) == (image.width_px, image.height_px) for other in others):
        return _refused(viewer, "two of its images have one size, which it takes for a stack; write each half as large")
    levels = max(_steps_down(image, others, factor) for factor in (2, 3, 4))
    return Verdict(viewer, True, levels, (_NO_PARTS if others else _ALONE,) if levels == 1 else ())


def _steps_down(image: Image, others: tuple[Image, ...], factor: int) -> int:
    """How many levels there are, each the last divided by the factor."""
    levels = 1
    for other in others:
        if _is_part(image, other, factor) and (other.samples, other.bits) == (image.samples, image.bits):
            image, levels = other, levels + 1
    return levels


def _is_part(whole: Image, part: Image, factor: int) -> bool:
    sides = ((whole.width_px, part.width_px), (whole.height_px, part.height_px))
    return all(side // factor <= smaller <= -(-side // factor) for side, smaller in sides)


def _large_image(images: Images, openslide: Verdict) -> Verdict:
    viewer, image = "HistomicsUI", images.chain[0]
    is_grey = image.photometric == _MINISBLACK
    is_colour = image.photometric in (_RGB, _YCBCR) and not image.is_planar
    if not (image.tile_px and image.codec in _CODECS and (is_grey or is_colour) and image.bits >= 8):
        return replace(openslide, viewer=viewer)
    tiles = max(image.width_px / image.tile_px[0], image.height_px / image.tile_px[1])
    if tiles <= 1:
        return Verdict(
            viewer, True, 1, ("an image no larger than one tile has one level there; larger ones have more",)
        )
    others = (*images.sub_ifds, *images.chain[1:])
    alike = [other for other in others if other.tile_px == image.tile_px]
    halvings = range(1, math.ceil(math.log2(tiles)) + 1)
    levels = 1 + sum(any(_is_part(image, other, 2**n) for other in alike) for n in halvings)
    if levels > 1 or not others:
        return Verdict(viewer, True, levels, () if others else (_ALONE,))
    is_tiled = any(other.tile_px for other in others)
    return Verdict(viewer, True, levels, (_NO_PARTS if alike else _OTHER_TILES if is_tiled else _SMALL_STRIPS,))
