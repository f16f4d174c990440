"""PNG pictures, decoded by Pillow."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image

from ucc_path.errors import OutputError
from ucc_path.formats import png

sides = st.integers(1, 40)
shapes = st.one_of(st.tuples(sides, sides), st.tuples(sides, sides, st.sampled_from([1, 3])))


@given(arrays.arrays(np.uint8, shapes))
def test_what_is_written_is_what_others_read(pixels: NDArray[np.uint8]) -> None:
    with Image.open(io.BytesIO(png.encode(pixels))) as picture:
        assert picture.mode == ("RGB" if pixels.ndim == 3 and pixels.shape[2] == 3 else "L")
        decoded = np.asarray(picture)
    np.testing.assert_array_equal(decoded, pixels.squeeze(2) if picture.mode == "L" and pixels.ndim == 3 else pixels)


def test_the_same_pixels_give_the_same_bytes_in_any_order_of_memory() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)
    strange = np.asfortranarray(pixels)[::-1][::-1]
    assert png.encode(pixels) == png.encode(pixels.copy()) == png.encode(strange)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    for pixels in (np.arange(60, dtype=np.uint8).reshape(6, 10), np.arange(180, dtype=np.uint8).reshape(6, 10, 3)):
        png.write(tmp_path / "a.png", pixels)
        np.testing.assert_array_equal(png.read(tmp_path / "a.png"), pixels)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize(
    "pixels", [np.zeros((4, 4), bool), np.zeros((4, 4), np.float32), np.zeros((4, 4, 4), np.uint8)], ids=str
)
def test_what_is_neither_grey_nor_rgb_bytes_is_a_mistake_of_the_caller(pixels: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="are not grey or RGB bytes"):
        png.encode(pixels)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"none/a\.png cannot be written \(No such file or directory\)"):
        png.write(tmp_path / "none" / "a.png", np.zeros((2, 2), np.uint8))
