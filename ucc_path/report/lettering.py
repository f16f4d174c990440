"""Words on a picture, in the font that Pillow brings along."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from PIL import Image, ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
INK = (30, 30, 30)
_EDGE_PX = 6


@cache
def font_of(size_px: int) -> Font:
    """The built-in font; in a Pillow without FreeType a bitmap of one size."""
    try:
        return ImageFont.load_default(size_px)
    except ImportError:
        return ImageFont.load_default()


def height_of(font: Font) -> int:
    """Rows that a line takes, whatever it says: words beside each other stand on one line."""
    return round(font.getbbox("Ag")[3])


def width_of(text: str, font: Font) -> int:
    return round(font.getbbox(_drawable(text))[2]) if text else 0


def fitting(text: str, font: Font, most_px: int) -> str:
    """The text, or as much of its beginning as fits."""
    text = _drawable(text)
    if width_of(text, font) <= most_px:
        return text
    fits = bisect_right(range(len(text)), most_px, key=lambda length: width_of(text[:length] + "...", font))
    return text[: fits - 1].rstrip() + "..." if fits else ""


def write(picture: Image.Image, corner_px: tuple[int, int], text: str, font: Font) -> None:
    """Draws one line of text; `corner_px` is (column, row) of its top left."""
    ImageDraw.Draw(picture).text(corner_px, _drawable(text), INK, font)


def write_centred(picture: Image.Image, middle_px: tuple[int, int], text: str, font: Font, most_px: int) -> None:
    """The same with `middle_px` the middle of its top, moved as far aside as it takes to stay off the edge."""
    shown = fitting(text, font, min(most_px, picture.width - 2 * _EDGE_PX))
    taken_px = width_of(shown, font)
    left = min(max(middle_px[0] - taken_px // 2, _EDGE_PX), picture.width - _EDGE_PX - taken_px)
    write(picture, (left, middle_px[1]), shown, font)


def _drawable(text: str) -> str:
    """One line, of characters that the bitmap font has too."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line.encode("latin-1", "replace").decode("latin-1")
