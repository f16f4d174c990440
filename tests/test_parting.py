"""Small clusters become two groups by nothing but how many classes tiles hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.clusters import parted_by_counts
from ucc_path.clusters.parting import MOST_CLUSTERS

OF_CLASS = np.array([0, 1, 1, 0, 1, 0, 0])  # each class has several looks


def make_shares(of_class: NDArray[np.int64] = OF_CLASS) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Tiles of the one class, of the other and of both, each with a few of the looks of its classes."""
    rng = np.random.default_rng(0)
    rows, is_mixed = [], []
    for number in range(60):
        held = [(0,), (1,), (0, 1)][number % 3]
        row = np.zeros(len(of_class))
        for kind in held:
            looks = rng.permutation(np.flatnonzero(of_class == kind))[:2]
            row[looks] = rng.uniform(0.2, 0.8, len(looks))
            row[looks] /= row[looks].sum() * len(held)
        rows.append(row)
        is_mixed.append(len(held) == 2)
    return np.array(rows), np.array(is_mixed)


def parted(
    shares: NDArray[np.float64], is_mixed: NDArray[np.bool_], slides: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Of tiles of one slide, unless told otherwise."""
    slides = np.zeros(len(shares), np.int64) if slides is None else slides
    return parted_by_counts(shares, is_mixed, slides).is_second


def same_parting(found: NDArray[np.bool_], of_class: NDArray[np.int64]) -> bool:
    return bool((found == (of_class == 1)).all() or (found == (of_class == 0)).all())


def test_looks_of_one_class_come_together_whatever_their_numbers() -> None:
    shares, is_mixed = make_shares()
    rng = np.random.default_rng(1)
    for order in (np.arange(len(OF_CLASS)), *(rng.permutation(len(OF_CLASS)) for _ in range(5))):
        assert same_parting(parted(shares[:, order], is_mixed), OF_CLASS[order])


def test_tiles_in_any_order_say_the_same() -> None:
    shares, is_mixed = make_shares()
    order = np.random.default_rng(1).permutation(len(shares))
    assert np.array_equal(parted(shares[order], is_mixed[order]), parted(shares, is_mixed))


def test_a_few_wrong_labels_and_a_little_of_the_other_class_do_no_harm() -> None:
    shares, is_mixed = make_shares()
    is_mixed[:4] = ~is_mixed[:4]
    stray = np.random.default_rng(1).dirichlet(np.ones(shares.shape[1]), len(shares))
    assert same_parting(parted(0.9 * shares + 0.1 * stray, is_mixed), OF_CLASS)


def test_counts_decide_and_not_which_clusters_are_large() -> None:
    """The same patches, told to be mixed otherwise, are parted otherwise."""
    shares = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    for mixed, lone in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2)):
        is_mixed = np.zeros(3, np.bool_)
        is_mixed[[mixed, next(tile for tile in range(3) if tile != mixed and shares[tile, lone])]] = True
        found = parted(shares, is_mixed)
        assert same_parting(found, (np.arange(3) == lone).astype(np.int64))


def test_a_slide_with_many_tiles_does_not_rule() -> None:
    """One slide, whose labels say something else, has as many tiles as two others together."""
    shares, is_mixed = make_shares()
    wrong = np.roll(shares, 1, axis=1)  # as if each cluster were the next one
    tiles, labels = np.concatenate([shares, wrong, wrong]), np.tile(is_mixed, 3)
    slides = np.concatenate([np.arange(len(shares)) // 30, np.full(2 * len(shares), 2)])
    assert same_parting(parted(tiles, labels, slides), OF_CLASS)
    assert not same_parting(parted(tiles, labels), OF_CLASS)


def test_slides_whose_tiles_are_all_of_one_count_are_left_out_unless_all_are() -> None:
    shares, is_mixed = make_shares()
    alone = parted(shares, is_mixed)
    mixtures = np.full((9, len(OF_CLASS)), 1 / len(OF_CLASS))
    tiles, labels = np.concatenate([shares, mixtures]), np.append(is_mixed, np.ones(9, np.bool_))
    slides = np.repeat([0, 1], [len(shares), 9])
    assert np.array_equal(parted(tiles, labels, slides), alone)
    by_count = is_mixed.astype(np.int64)  # a slide of mixtures and one of pure tiles: together they tell all the same
    assert same_parting(parted(shares, is_mixed, by_count), OF_CLASS)


def test_a_look_that_only_mixtures_have_does_not_pass_for_a_class() -> None:
    """Of tiles of one class one in six is of the rarer; the last cluster lies where the two meet."""
    pure = np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [5, 1], axis=0)
    mixtures = np.tile([0.28, 0.28, 0.44], (4, 1))
    found = parted(np.concatenate([pure, mixtures]), np.arange(10) >= 6)
    assert found[0] != found[1]


def test_the_last_cluster_is_in_the_first_group() -> None:
    shares, is_mixed = make_shares()
    assert not parted(shares, is_mixed)[-1]
    assert not parted(shares[:, ::-1], is_mixed)[-1]


@pytest.mark.parametrize("clusters", [2, MOST_CLUSTERS])
def test_few_and_many_clusters_can_be_parted(clusters: int) -> None:
    of_class = np.arange(clusters) % 2
    assert same_parting(parted(*make_shares(of_class)), of_class)


@pytest.mark.parametrize("clusters", [1, MOST_CLUSTERS + 1])
def test_too_few_or_too_many_clusters_are_refused(clusters: int) -> None:
    with pytest.raises(ValueError, match=f"^{clusters} clusters cannot be parted; give 2 to {MOST_CLUSTERS}$"):
        parted(np.full((4, clusters), 1 / clusters), np.array([True, False, True, False]))


def test_how_well_the_counts_are_said_tells_a_good_cut_from_a_bad_one() -> None:
    shares, is_mixed = make_shares()
    one_slide = np.zeros(len(shares), np.int64)
    good = parted_by_counts(shares, is_mixed, one_slide)
    both_in_one = np.column_stack([shares[:, :2].sum(axis=1), shares[:, 2:]])  # the first two are of two classes
    assert good.right > parted_by_counts(both_in_one, is_mixed, one_slide).right
