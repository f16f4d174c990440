"""Cleaning of a raster against the rule applied cell by cell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from ucc_path.mask import cleaning
from ucc_path.mask.cleaning import clean
from ucc_path.settings import CLEANINGS


def raster(*rows: str) -> NDArray[np.uint8]:
    """Rows of digits; a dot is 0."""
    return np.array([[0 if cell == "." else int(cell) for cell in row] for row in rows], np.uint8)


def decide(labels: NDArray[np.uint8], row: int, col: int, how: str) -> int:
    """The rule, for one cell."""
    own = int(labels[row, col])
    window = labels[max(0, row - 1) : row + 2, max(0, col - 1) : col + 2]
    votes = Counter(int(label) for label in window.reshape(-1) if label > 0)
    if own == 0:
        return 0
    if how == "lone":
        if votes.pop(own) > 1 or not votes:
            return own
    elif votes[own] == max(votes.values()):
        return own
    return min(label for label, count in votes.items() if count == max(votes.values()))


def cleaned_cell_by_cell(labels: NDArray[np.uint8], how: str) -> NDArray[np.uint8]:
    cells = [[decide(labels, row, col, how) for col in range(labels.shape[1])] for row in range(len(labels))]
    return np.array(cells, np.uint8)


def test_none_gives_back_the_same_array() -> None:
    labels = raster("12", "21")
    assert clean(labels, "none") is labels


def test_a_lone_cell_goes_with_its_neighbours() -> None:
    assert np.array_equal(clean(raster("111", "121", "111"), "lone"), raster("111", "111", "111"))


def test_a_cell_whose_label_a_neighbour_shares_is_not_lone_even_at_a_corner() -> None:
    labels = raster("1111", "1211", "1121", "1111")
    assert np.array_equal(clean(labels, "lone"), labels)


@pytest.mark.parametrize("how", CLEANINGS)
def test_a_cell_with_nothing_around_it_stays(how: str) -> None:
    labels = raster("...", ".2.", "...")
    assert np.array_equal(clean(labels, how), labels)


def test_of_neighbours_as_common_the_lowest_label_is_taken() -> None:
    assert clean(raster("33.", ".2.", ".11"), "lone")[1, 1] == 1


def test_two_lone_cells_side_by_side_are_decided_on_what_they_were() -> None:
    assert np.array_equal(clean(raster("12"), "lone"), raster("21"))


def test_background_stays_background_and_has_no_vote() -> None:
    labels = raster("...", ".12", "...")
    assert clean(labels, "median").tolist() == labels.tolist()
    assert clean(raster("222", "2.2", "222"), "median")[1, 1] == 0


def test_the_median_takes_the_commonest_label_around_and_keeps_its_own_in_a_tie() -> None:
    assert clean(raster("22.", ".1.", "..."), "median")[1, 1] == 2
    assert clean(raster("11.", ".22", "..."), "median")[1, 1] == 2
    assert clean(raster("11.", ".3.", "22."), "median")[1, 1] == 1


def test_the_raster_given_is_not_changed() -> None:
    labels = raster("111", "121", "111")
    clean(labels, "lone"), clean(labels, "median")
    assert np.array_equal(labels, raster("111", "121", "111"))


def test_a_way_of_cleaning_that_is_none_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="one of none, lone, median, not by 'open'"):
        clean(raster("1"), "open")


@pytest.mark.parametrize("how", ["lone", "median"])
@given(labels=arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(0, 3)))
def test_any_raster_is_cleaned_as_the_rule_says_of_each_cell(how: str, labels: NDArray[np.uint8]) -> None:
    cleaned = clean(labels, how)
    assert cleaned.dtype == np.uint8
    assert np.array_equal(cleaned, cleaned_cell_by_cell(labels, how))


@pytest.mark.parametrize("how", ["lone", "median"])
@pytest.mark.parametrize("band_cells", [1, 20, 60, 10_000])
def test_bands_leave_no_trace(how: str, band_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.random.default_rng(0).integers(0, 4, (23, 20), np.uint8)
    monkeypatch.setattr(cleaning, "_BAND_CELLS", band_cells)
    assert np.array_equal(clean(labels, how), cleaned_cell_by_cell(labels, how))


@pytest.mark.parametrize("how", ["lone", "median"])
def test_the_highest_labels_are_cleaned_too(how: str) -> None:
    labels = np.full((3, 3), 255, np.uint8)
    labels[1, 1] = 254
    assert (clean(labels, how) == 255).all()
