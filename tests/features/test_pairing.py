"""A network of pixels and one of patches side by side: each cell has its share of tumour and its patch's features."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.features.levels import Table
from ucc_path.features.pairing import PairedEngine
from ucc_path.features.reading import PictureShape

Pictures = NDArray[np.uint8]
Values = NDArray[np.float32]
TABLE = np.zeros(3 * 256, np.float32)


class Shares:
    """In place of a network of pixels: of each cell its first pixel."""

    name = "one"

    def __init__(self, shape: PictureShape, cell_px: int) -> None:
        self._core, self._cell_px = slice(shape.margin_px, shape.margin_px + shape.core_px), cell_px

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        core = pictures[:, self._core, self._core, :1]
        return core[:, :: self._cell_px, :: self._cell_px].astype(np.float32)


class Corners:
    """In place of an extractor: a patch becomes its first pixel and its last one; remembers how many came."""

    def __init__(self, name: str = "one") -> None:
        self.name = name
        self.came: list[int] = []

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        self.came.append(len(pictures))
        return np.stack([pictures[:, 0, 0, 0], pictures[:, -1, -1, 0]], axis=1).astype(np.float32)


def make(features: Corners, *, margin_px: int, core_px: int, cell_px: int, patch_px: int, at_once: int) -> PairedEngine:
    side = 2 * margin_px + core_px + 3  # a picture may be larger still, so that it can be halved
    shape = PictureShape(core_px, margin_px, side)
    return PairedEngine(Shares(shape, cell_px), features, shape, patch_px, cell_px, at_once)


def make_pictures(engine: PairedEngine, count: int) -> Pictures:
    side = engine.shape.side_px
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)


@pytest.mark.parametrize("at_once", [1, 7, 1000])
@pytest.mark.parametrize(
    ("margin_px", "core_px", "cell_px", "patch_px"), [(8, 24, 8, 8), (8, 24, 4, 8), (8, 24, 3, 8), (7, 12, 1, 8)]
)
def test_the_patch_of_a_cell_lies_around_it(
    margin_px: int, core_px: int, cell_px: int, patch_px: int, at_once: int
) -> None:
    how = {"margin_px": margin_px, "core_px": core_px, "cell_px": cell_px, "patch_px": patch_px}
    engine = make(Corners(), **how, at_once=at_once)
    pictures = make_pictures(engine, 2)
    found = engine(pictures, TABLE)
    cells = core_px // cell_px
    assert found.shape == (2, cells, cells, 3) and found.dtype == np.float32
    before = (patch_px - cell_px) // 2
    for row in range(cells):
        for col in range(cells):
            top, left = (margin_px + cell_px * place for place in (row, col))
            assert np.array_equal(found[:, row, col, 0], pictures[:, top, left, 0])
            first, last = pictures[:, top - before, left - before], pictures[:, top - before + 7, left - before + 7]
            assert np.array_equal(found[:, row, col, 1:], np.stack([first[:, 0], last[:, 0]], axis=1))


def test_of_a_fine_mask_a_few_patches_are_looked_at_at_a_time_and_always_as_many() -> None:
    features = Corners()
    engine = make(features, margin_px=8, core_px=32, cell_px=1, patch_px=8, at_once=100)
    engine(make_pictures(engine, 2), TABLE)
    assert features.came == [100] * 22  # of 1,024 in each picture


@pytest.mark.parametrize(("other", "name"), [("one", "one"), ("torch", "one and torch")])
def test_what_computes_is_named_once_unless_there_are_two(other: str, name: str) -> None:
    assert make(Corners(other), margin_px=8, core_px=8, cell_px=8, patch_px=8, at_once=1).name == name
