"""Which clusters are tumour: by name, and by truth where it is allowed to look."""

from __future__ import annotations

import numpy as np
import pytest

from ucc_path.evaluation.matching import MATCHES, by_names, by_truth

BACKGROUND = (50, 50)


def matched(*clusters: tuple[int, int], background: tuple[int, int] = BACKGROUND) -> frozenset[int]:
    """By truth, given the pixels of each cluster that are not tumour, and that are."""
    return by_truth(np.array([background, *clusters]))


def test_names_come_before_the_truth() -> None:
    assert MATCHES == ("names", "oracle")


@pytest.mark.parametrize(
    ("classes", "tumour"),
    [
        (["normal", "metastases"], {2}),
        (["metastases", "normal"], {1}),
        (["normal", "metastases", "cluster 3", "metastases"], {2, 4}),
        (["cluster 1", "cluster 2"], set()),
        ([], set()),
    ],
)
def test_by_names_a_class_is_tumour_if_it_is_called_so(classes: list[str], tumour: set[int]) -> None:
    assert by_names(classes) == tumour


@pytest.mark.parametrize(
    ("clusters", "tumour"),
    [
        # Of both most is normal. 60 + 15 are right if the second is tumour, 20 + 10 if the first is.
        (((60, 10), (20, 15)), {2}),
        (((20, 15), (60, 10)), {1}),
        # The first has more tumour than the second, but 90 + 10 are more than 15 + 20.
        (((90, 20), (15, 10)), {2}),
        # Of both most is tumour. 60 + 8 are right if the first is tumour, 2 + 10 if the second is.
        (((2, 60), (8, 10)), {1}),
        # There is no tumour: one has to be it nevertheless, and the smaller one does less harm.
        (((9, 0), (5, 0)), {2}),
    ],
)
def test_two_clusters_are_matched_one_to_one_whatever_most_of_them_is(
    clusters: tuple[tuple[int, int], ...], tumour: set[int]
) -> None:
    assert matched(*clusters) == tumour


@pytest.mark.parametrize(
    ("clusters", "tumour"),
    [
        (((5, 1), (1, 5), (2, 3)), {2, 3}),
        (((60, 10), (20, 15), (9, 8)), set()),
        (((0, 1), (1, 2), (2, 3)), {1, 2, 3}),
        (((3, 4), (9, 9), (0, 0), (4, 3)), {1}),
        (((1, 2),), {1}),
        (((2, 1),), set()),
    ],
)
def test_of_more_or_fewer_clusters_each_is_what_most_of_it_is(
    clusters: tuple[tuple[int, int], ...], tumour: set[int]
) -> None:
    assert matched(*clusters) == tumour


@pytest.mark.parametrize("background", [(0, 1000), (1000, 0), (0, 0)])
def test_the_background_is_never_tumour_and_does_not_count(background: tuple[int, int]) -> None:
    assert matched((60, 10), (20, 15), background=background) == {2}
    assert matched((5, 1), (1, 5), (1, 5), background=background) == {2, 3}
    assert matched(background=background) == set()


def test_where_neither_kind_is_more_frequent_a_cluster_is_not_tumour_but_of_two_one_is() -> None:
    assert matched((5, 5), (0, 0), (1, 1)) == set()
    assert len(matched((5, 5), (5, 5))) == len(matched((0, 0), (0, 0))) == 1


def test_label_values_are_whole_numbers_of_python() -> None:
    found = [*matched((9, 1), (1, 9)), *matched((9, 1), (1, 9), (1, 9)), *by_names(["metastases"])]
    assert [type(value) for value in found] == [int] * 4
