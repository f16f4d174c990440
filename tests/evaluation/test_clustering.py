"""How well clusters agree with classes, where the best matching is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucc_path.evaluation.clustering import agreement, clustering_accuracy


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_numbers_of_clusters_mean_nothing(order: tuple[int, ...]) -> None:
    classes = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    assigned = np.array(order)[classes]
    assert clustering_accuracy(assigned, classes, count=3) == 1
    assert agreement(assigned, classes, count=3).tolist() == [[3, 0, 0], [0, 2, 0], [0, 0, 4]]


def test_the_table_is_by_class_and_by_the_class_of_the_cluster() -> None:
    """Of class 0 one strays into the cluster of class 1, and of class 1 two into that of class 0."""
    classes = np.array([0] * 5 + [1] * 6)
    assigned = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1])
    assert agreement(assigned, classes, count=2).tolist() == [[4, 1], [2, 4]]
    assert clustering_accuracy(assigned, classes, count=2) == pytest.approx(8 / 11)


def test_one_cluster_stands_for_one_class_alone() -> None:
    """All in one cluster: it cannot be right for both."""
    assert clustering_accuracy(np.zeros(10, int), np.arange(10) % 2, count=2) == 0.5


def test_a_class_in_two_clusters_counts_by_the_larger() -> None:
    classes, assigned = np.array([0] * 10 + [1] * 2), np.array([0] * 7 + [1] * 3 + [1] * 2)
    assert clustering_accuracy(assigned, classes, count=2) == pytest.approx(9 / 12)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_no_other_matching_makes_more_right(images: int, seed: int) -> None:
    assigned, classes = np.random.default_rng(seed).integers(0, 4, (2, images))
    best = max(int((np.array(order)[assigned] == classes).sum()) for order in permutations(range(4)))
    table = agreement(assigned, classes, count=4)
    assert np.trace(table) == best
    assert clustering_accuracy(assigned, classes, count=4) == pytest.approx(best / images)
    assert table.sum(axis=1).tolist() == np.bincount(classes, minlength=4).tolist()
