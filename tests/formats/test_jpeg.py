"""JPEG pictures for pages."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ucc_path.formats import jpeg

ROW, COL = np.mgrid[0:40, 0:72]  # the height is whole blocks of 8, the width too, but not of 16


def decoded(data: bytes) -> NDArray[np.int16]:
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.mode) == ("JPEG", "RGB")
        return np.array(picture).astype(np.int16)


def farthest(pixels: NDArray[np.uint8]) -> int:
    """By how many levels any colour of any pixel comes back other than it was."""
    found = decoded(jpeg.encode(pixels))
    assert found.shape == pixels.shape
    return int(np.abs(found - pixels).max())


def test_colours_come_back_within_a_few_levels_each_in_its_place() -> None:
    assert farthest(np.stack([120 + ROW, 60 + COL, 200 - COL - ROW], axis=2).astype(np.uint8)) <= 5


def test_a_picture_of_a_size_that_no_block_divides_keeps_it() -> None:
    assert farthest(np.full((13, 7, 3), (205, 140, 190), np.uint8)) <= 2


def test_colours_do_not_run_into_each_other() -> None:
    # Red and blue stripes whose sides are not on even columns: with colours stored half as fine they would blend.
    stripes = np.where((COL % 16 < 5)[..., None], (200, 60, 60), (60, 110, 200)).astype(np.uint8)
    assert farthest(stripes) <= 12


def test_a_part_of_a_picture_is_as_good_as_a_copy_of_it() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    part = pixels[5:50:2, 40:8:-1]
    assert jpeg.encode(part) == jpeg.encode(part.copy())
