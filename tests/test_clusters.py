"""Clusters of features, and their names by the rows whose class is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ucc_path.clusters import UNKNOWN, Clusters, fit, kmeans, margins, merge, named, named_after, nearest, refit
from ucc_path.evaluation.clustering import clustering_accuracy
from ucc_path.tiles.labelling import CLASSES, METASTASES, NORMAL

NORMAL_KIND, METASTASES_KIND = CLASSES.index(NORMAL), CLASSES.index(METASTASES)


def make_blobs(*counts: int, features: int = 4, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows about 0.1, 0.3, 0.5, ... in all features, shuffled; and the blob of each."""
    rng = np.random.default_rng(seed)
    blobs = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    rows = 0.1 + 0.2 * blobs[:, None] + rng.normal(0, 0.01, (len(blobs), features))
    return rows.astype(np.float32), blobs


def rows(*pairs: tuple[int, int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(cluster, kind, how often) as the two columns that `named` takes."""
    assigned, kinds, counts = zip(*pairs, strict=True)
    return np.repeat(assigned, counts), np.repeat(kinds, counts)


def test_each_row_goes_to_the_nearest_centre() -> None:
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], np.float32)
    features = np.array([[0.2, 0.1], [0.9, 0.4], [0.9, 0.6], [5.0, 9.0]], np.float32)
    found = nearest(features, centres)
    assert found.tolist() == [0, 1, 2, 2] and found.dtype == np.int64


def test_nearest_is_by_distance_also_where_features_are_all_but_the_same() -> None:
    rng = np.random.default_rng(0)
    features = (0.5 + 1e-6 * rng.standard_normal((200, 16))).astype(np.float32)
    centres = features[:3]
    distances = np.square(features[:, None].astype(np.float64) - centres[None].astype(np.float64)).sum(axis=2)
    assert np.array_equal(nearest(features, centres), distances.argmin(axis=1))


def test_of_two_equally_near_centres_the_first_is_taken() -> None:
    middle = np.array([[0.5, 0.5]], np.float32)
    apart = np.array([[0.0, 0.5], [1.0, 0.5]], np.float32)
    assert nearest(middle, apart).tolist() == nearest(middle, apart[::-1]).tolist() == [0]
    assert nearest(middle, np.repeat(apart, 2, axis=0)).tolist() == [0]


def test_no_rows_have_no_clusters() -> None:
    assert nearest(np.empty((0, 2), np.float32), np.zeros((2, 2), np.float32)).shape == (0,)


def test_clusters_assign_the_label_value_less_one() -> None:
    clusters = Clusters(np.array([[0.0], [1.0]], np.float32), CLASSES)
    assert nearest(np.array([[0.9], [0.1]], np.float32), clusters.centroids).tolist() == [1, 0]


@pytest.mark.parametrize("tumour_blob", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_blobs_are_found_and_have_the_place_of_their_class(tumour_blob: int, seed: int) -> None:
    features, blobs = make_blobs(300, 100, seed=seed)
    kinds = np.where(blobs == tumour_blob, METASTASES_KIND, NORMAL_KIND)
    found = fit(features, kinds, clusters=2, seed=seed)
    assert found.names == (NORMAL, METASTASES)
    assert found.centroids.dtype == np.float32
    assert np.array_equal(nearest(features, found.centroids), kinds)
    for kind in (NORMAL_KIND, METASTASES_KIND):
        np.testing.assert_allclose(found.centroids[kind], features[kinds == kind].mean(axis=0), atol=1e-4)


def test_rows_of_no_known_class_help_to_find_clusters_and_not_to_name_them() -> None:
    features, blobs = make_blobs(200, 200)
    kinds = np.full(400, UNKNOWN)
    kinds[np.flatnonzero(blobs == 1)[:2]] = NORMAL_KIND
    kinds[np.flatnonzero(blobs == 0)[:1]] = METASTASES_KIND
    found = fit(features, kinds, clusters=2, seed=0)
    assert np.array_equal(nearest(features, found.centroids), np.where(blobs == 1, NORMAL_KIND, METASTASES_KIND))


def test_clusters_are_the_same_whatever_the_number_of_threads() -> None:
    features = np.random.default_rng(0).random((6000, 16), np.float32)  # no blobs: every digit matters
    kinds = np.full(6000, UNKNOWN)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(fit(features, kinds, clusters=3, seed=0, starts=2).centroids)
    assert np.array_equal(found[0], found[1])


def test_the_seed_decides_where_it_begins() -> None:
    features = np.random.default_rng(0).random((500, 8), np.float32)
    kinds = np.full(500, UNKNOWN)
    first, again, other = (fit(features, kinds, clusters=4, seed=seed, starts=1).centroids for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_best_of_many_beginnings_is_taken() -> None:
    features = np.random.default_rng(0).random((300, 2), np.float32)
    kinds = np.full(300, UNKNOWN)

    def spread(starts: int, seed: int) -> float:
        found = fit(features, kinds, clusters=8, seed=seed, starts=starts)
        return float(np.square(features - found.centroids[nearest(features, found.centroids)]).sum())

    once, often = ([spread(starts, seed) for seed in range(8)] for starts in (1, 10))
    assert max(often) < np.mean(once) < max(once)


def test_clusters_are_named_by_the_share_of_each_class_and_not_by_its_number() -> None:
    """100 normal rows strayed into the cluster of all 90 metastases: by number it would be called normal, twice."""
    assigned, kinds = rows((1, NORMAL_KIND, 900), (0, NORMAL_KIND, 100), (0, METASTASES_KIND, 90))
    order, names = named(assigned, kinds, 2)
    assert (order.tolist(), names) == ([1, 0], (NORMAL, METASTASES))


def test_ten_times_as_many_normal_rows_do_not_outvote_the_metastases() -> None:
    """By numbers, normal in 0 and metastases in 1 explain 610 of 1100 rows; by shares it is the other way round."""
    assigned, kinds = rows(
        (0, NORMAL_KIND, 600), (1, NORMAL_KIND, 400), (0, METASTASES_KIND, 90), (1, METASTASES_KIND, 10)
    )
    order, names = named(assigned, kinds, 2)
    assert (order.tolist(), names) == ([1, 0], (NORMAL, METASTASES))


def test_both_classes_in_one_cluster_are_still_matched_one_to_one() -> None:
    assigned, kinds = rows((0, NORMAL_KIND, 10), (0, METASTASES_KIND, 8), (1, METASTASES_KIND, 2))
    order, names = named(assigned, kinds, 2)
    assert (order.tolist(), names) == ([0, 1], (NORMAL, METASTASES))


@pytest.mark.parametrize("cluster", [0, 1])
@pytest.mark.parametrize("kind", [NORMAL_KIND, METASTASES_KIND])
def test_with_one_class_known_the_other_of_two_clusters_is_the_other_class(kind: int, cluster: int) -> None:
    assigned, kinds = rows((cluster, kind, 8), (1 - cluster, kind, 2), (1 - cluster, UNKNOWN, 50))
    order, names = named(assigned, kinds, 2)
    assert names == (NORMAL, METASTASES)
    assert order[kind] == cluster and order[1 - kind] == 1 - cluster


@pytest.mark.parametrize("clusters", [2, 3])
def test_with_no_class_known_clusters_are_called_by_their_numbers(clusters: int) -> None:
    assigned, kinds = rows((0, UNKNOWN, 3), (1, UNKNOWN, 3))
    order, names = named(assigned, kinds, clusters)
    assert order.tolist() == list(range(clusters))
    assert names == ("cluster 1", "cluster 2", "cluster 3")[:clusters]


def test_of_three_clusters_two_are_classes_and_the_third_keeps_its_number() -> None:
    assigned, kinds = rows((2, NORMAL_KIND, 9), (0, METASTASES_KIND, 9), (1, METASTASES_KIND, 4), (1, UNKNOWN, 99))
    order, names = named(assigned, kinds, 3)
    assert (order.tolist(), names) == ([2, 0, 1], (NORMAL, METASTASES, "cluster 3"))


def test_metastases_are_the_second_label_also_where_they_are_all_that_is_known() -> None:
    assigned, kinds = rows((0, METASTASES_KIND, 9), (1, METASTASES_KIND, 1), (1, UNKNOWN, 5), (2, UNKNOWN, 5))
    order, names = named(assigned, kinds, 3)
    assert (order.tolist(), names) == ([1, 0, 2], ("cluster 1", METASTASES, "cluster 3"))


def test_normal_is_the_first_label_of_three() -> None:
    assigned, kinds = rows((2, NORMAL_KIND, 9), (0, UNKNOWN, 5), (1, UNKNOWN, 5))
    order, names = named(assigned, kinds, 3)
    assert (order.tolist(), names) == ([2, 0, 1], (NORMAL, "cluster 2", "cluster 3"))


def margin_of(row: NDArray[np.float64], centres: NDArray[np.float64]) -> tuple[int, float]:
    """By geometry: the distance to the nearest plane that halves the way to another centre, in halves of that way."""
    own = int(np.argmin(np.linalg.norm(centres - row, axis=1)))
    found = 1.0
    for other in np.delete(centres, own, axis=0):
        way = other - centres[own]
        length = float(np.linalg.norm(way))
        to_plane = length / 2 - float((row - centres[own]) @ way) / length
        found = min(found, to_plane / (length / 2))
    return own, found


@pytest.mark.parametrize("clusters", [2, 3, 7])
def test_a_margin_is_the_distance_to_the_boundary_in_halves_of_the_way_between_two_centres(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    features, centres = rng.random((400, 5), np.float32), rng.random((clusters, 5), np.float32)
    chosen, sure = margins(features, centres)
    wanted = [margin_of(row, centres.astype(np.float64)) for row in features.astype(np.float64)]
    assert sure.dtype == np.float32 and np.array_equal(chosen, nearest(features, centres))
    assert chosen.tolist() == [own for own, _ in wanted]
    np.testing.assert_allclose(sure, [margin for _, margin in wanted], atol=1e-6)
    assert 0 <= sure.min() < 0.2 and (clusters > 2 or sure.max() == 1)


def test_a_margin_is_zero_on_the_boundary_and_one_at_a_centre_and_beyond() -> None:
    centres = np.array([[0.0, 0.0], [1.0, 0.0]], np.float32)
    features = np.array([[0.5, 9.0], [0.0, 0.0], [1.0, -3.0], [-5.0, 0.0], [0.25, 0.0], [0.9, 0.0]], np.float32)
    chosen, sure = margins(features, centres)
    assert chosen.tolist() == [0, 0, 1, 0, 0, 1]
    np.testing.assert_allclose(sure, [0, 1, 1, 1, 0.5, 0.8], atol=1e-6)


def test_centres_in_one_place_leave_no_margin_and_one_centre_no_doubt() -> None:
    features = np.array([[0.2], [0.7]], np.float32)
    chosen, sure = margins(features, np.full((2, 1), 0.5, np.float32))
    assert chosen.tolist() == [0, 0] and sure.tolist() == [0, 0]
    assert margins(features, np.full((1, 1), 0.5, np.float32))[1].tolist() == [1, 1]
    assert margins(features[:0], np.zeros((2, 1), np.float32))[1].shape == (0,)


HOW = ["kmeans", "spectral"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_rows_clustered_anew_keep_the_places_of_the_known_centres(how: str, order: tuple[int, ...]) -> None:
    """The known centres are those of another slide: all are shifted, and stand in any order."""
    features, blobs = make_blobs(80, 60, 40)
    known = (0.13 + 0.2 * np.array(order)[:, None] * np.ones(4)).astype(np.float32)
    assigned, centres = refit(features, known, how=how, seed=0)
    assert assigned.dtype == np.int64 and centres.dtype == np.float32
    assert np.array_equal(np.array(order)[assigned], blobs)
    for place, blob in enumerate(order):
        np.testing.assert_allclose(centres[place], features[blobs == blob].mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("how", HOW)
def test_a_slide_stained_otherwise_is_clustered_by_its_own_rows(how: str) -> None:
    """Nearest to the known centres all rows would be of the first class."""
    features, blobs = make_blobs(100, 100)
    known = np.array([[0.25] * 4, [0.9] * 4], np.float32)
    assert not nearest(features, known).any()
    assert np.array_equal(refit(features, known, how=how, seed=0)[0], blobs)


@pytest.mark.parametrize("how", HOW)
def test_centres_are_matched_one_to_one_for_the_shortest_way_of_all(how: str) -> None:
    """Both centres are nearest to the second known one; the other has to have one of them."""
    features, blobs = make_blobs(100, 100)
    known = np.array([[0.9] * 4, [0.5] * 4], np.float32)
    assigned, centres = refit(features, known, how=how, seed=0)
    assert np.array_equal(assigned, 1 - blobs) and centres[0, 0] > centres[1, 0]


def test_spectral_clustering_sees_rings_and_k_means_does_not() -> None:
    rng = np.random.default_rng(0)
    ring = np.repeat([0, 1], 150)
    angle, radius = rng.uniform(0, 2 * np.pi, 300), np.where(ring == 0, 0.1, 0.4) + rng.normal(0, 0.005, 300)
    features = (0.5 + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])).astype(np.float32)
    known = np.array([[0.5, 0.5], [0.5, 0.9]], np.float32)
    agree = {how: float((refit(features, known, how=how, seed=0)[0] == ring).mean()) for how in HOW}
    assert max(agree["spectral"], 1 - agree["spectral"]) == 1.0  # both rings are centred in one place
    assert 0.2 < agree["kmeans"] < 0.8


@pytest.mark.parametrize("how", HOW)
def test_rows_clustered_anew_are_the_same_for_one_seed_and_any_number_of_threads(how: str) -> None:
    features = np.random.default_rng(0).random((600, 8), np.float32)
    known = features[:3]
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(refit(features, known, how=how, seed=7))
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("how", HOW)
def test_a_few_rows_can_be_clustered_anew(how: str) -> None:
    features = np.array([[0.1], [0.11], [0.9], [0.91]], np.float32)
    assigned, _ = refit(features, np.array([[1.0], [0.0]], np.float32), how=how, seed=0)
    assert assigned.tolist() == [1, 1, 0, 0]


class CountsBits:
    """A perfect counter: a row of features is (place, class), and a bag's count is how many classes it holds."""

    def __init__(self, counts: tuple[int, ...], classes: int) -> None:
        self.counts, self._classes = np.array(counts), classes

    def added_by(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.eye(self._classes, dtype=np.float32)[np.rint(features[:, 1]).astype(int)]

    def probabilities(self, means: NDArray[np.float32]) -> NDArray[np.float32]:
        held = (means > 0.02).sum(axis=1)
        nearest_count = np.abs(held[:, None] - self.counts).argmin(axis=1)
        return np.where(np.arange(len(self.counts)) == nearest_count[:, None], 0.9, 0.1 / len(self.counts)).astype(
            np.float32
        )


def make_looks(*places: tuple[float, int], each: int = 40) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows about each (place, class); the class moves a row so little that k-means goes by the place alone."""
    rng = np.random.default_rng(0)
    classes = np.repeat([of for _, of in places], each)
    first = np.repeat([place for place, _ in places], each) + rng.normal(0, 0.05, len(classes))
    return np.column_stack([first, classes]).astype(np.float32), classes


LOOKS = ((0.0, 0), (100.0, 0), (50.0, 1), (56.0, 2))
"""The first class looks like 0 or like 100, and the two others are near each other."""


@pytest.mark.parametrize("counts", [(1, 2, 3, 4), (1, 2), (2, 3, 4)])
def test_merging_joins_the_looks_of_a_class_where_k_means_splits_it(counts: tuple[int, ...]) -> None:
    """Also by a head that was taught by no pure bag, and knows no count of 1."""
    features, classes = make_looks(*LOOKS)
    head = CountsBits(counts, classes=3)
    alone = nearest(features, kmeans(features, 3, 0))
    assert clustering_accuracy(alone, classes, count=3) == 0.5  # two classes in one cluster, one class in two
    merged = merge(features, head, clusters=3, first=8, seed=0)
    assert merged.centroids.shape == (8, 2) and sorted(set(merged.clusters.tolist())) == [0, 1, 2]
    assert clustering_accuracy(merged.of(features), classes, count=3) == 1.0


def test_a_head_that_counts_from_three_on_is_given_two_further_clusters() -> None:
    features, classes = make_looks(*LOOKS, (200.0, 3), (300.0, 4))
    merged = merge(features, CountsBits((3, 4, 5), classes=5), clusters=5, first=6, seed=0)
    assert clustering_accuracy(merged.of(features), classes, count=5) == 1.0


def test_merging_is_the_same_for_one_seed_and_needs_no_more_rows_than_there_are() -> None:
    features, classes = make_looks(*LOOKS, each=2)
    head = CountsBits((1, 2), classes=3)
    first, again = (merge(features, head, clusters=3, first=100, seed=4) for _ in range(2))
    assert np.array_equal(first.centroids, again.centroids) and np.array_equal(first.clusters, again.clusters)
    assert len(first.centroids) == 8
    assert clustering_accuracy(first.of(features), classes, count=3) == 1.0


def test_merging_rows_that_are_all_alike_leaves_one_cluster() -> None:
    features = np.zeros((30, 2), np.float32)
    merged = merge(features, CountsBits((1, 2), classes=2), clusters=2, first=6, seed=0)
    assert not merged.of(features).any()


def test_many_rows_are_merged_piece_by_piece_to_the_same_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    features, _ = make_looks(*LOOKS)
    head = CountsBits((1, 2), classes=3)
    whole = merge(features, head, clusters=3, first=8, seed=0)
    monkeypatch.setattr("ucc_path.clusters.fitting._AT_ONCE", 7)
    assert np.array_equal(merge(features, head, clusters=3, first=8, seed=0).clusters, whole.clusters)


def test_between_centres_of_one_class_there_is_no_boundary() -> None:
    """Three centres on a line, of which the first two are of one class."""
    centres = np.array([[0.0], [1.0], [2.0]], np.float32)
    features = np.array([[0.0], [0.9], [1.0], [1.25], [1.5], [1.75], [2.0]], np.float32)
    chosen, sure = margins(features, centres, np.array([1, 1, 0]))
    assert chosen.tolist() == [1, 1, 1, 1, 1, 0, 0]
    np.testing.assert_allclose(sure, [1, 1, 1, 0.5, 0, 0.5, 1], atol=1e-6)


def test_one_class_of_several_centres_leaves_no_doubt() -> None:
    centres = np.array([[0.0], [1.0]], np.float32)
    chosen, sure = margins(np.array([[0.5], [0.2]], np.float32), centres, np.array([2, 2]))
    assert chosen.tolist() == [2, 2] and sure.tolist() == [1, 1]


def test_clusters_are_named_after_the_known_centres_by_the_means_of_their_rows() -> None:
    features, blobs = make_blobs(30, 20, 10)
    known = (0.13 + 0.2 * np.array([2, 0, 1])[:, None] * np.ones(4)).astype(np.float32)
    assert named_after(known, features, blobs).tolist() == [1, 2, 0]


def test_a_cluster_without_rows_takes_the_place_that_is_left() -> None:
    features = np.array([[0.9], [0.91]], np.float32)
    known = np.array([[0.1], [0.9]], np.float32)
    assert named_after(known, features, np.array([0, 0])).tolist() == [1, 0]
