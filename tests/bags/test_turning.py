"""The eight ways to lay down a picture."""

from __future__ import annotations

import numpy as np
import pytest

from ucc_path.bags.turning import TURNS, turn_in_place


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 1), (3, 3, 4)], ids=["mask", "grey", "colours"])
def test_the_eight_turns_differ_and_are_those_of_a_square(shape: tuple[int, ...]) -> None:
    picture = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    pictures = np.stack([picture] * TURNS)
    turn_in_place(pictures, np.arange(TURNS))
    transposed = picture.swapaxes(0, 1)
    square = [view[::down, ::right] for view in (picture, transposed) for down in (1, -1) for right in (1, -1)]
    assert len({turned.tobytes() for turned in pictures}) == TURNS
    assert {turned.tobytes() for turned in pictures} == {view.tobytes() for view in square}


def test_turn_zero_leaves_a_picture_as_it_is_and_each_has_its_own_turn() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (4, 5, 5, 3), np.uint8)
    before = pictures.copy()
    turn_in_place(pictures, np.array([0, 1, 0, 4]))
    assert np.array_equal(pictures[[0, 2]], before[[0, 2]])
    assert np.array_equal(pictures[1], np.rot90(before[1]))
    assert np.array_equal(pictures[3], before[3][:, ::-1])
