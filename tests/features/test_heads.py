"""The head of a model, asked by features that are known: it says what the whole network says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ucc_path.features.heads import CountHead
from ucc_path.model import UCC
from ucc_path.settings import ModelSettings

COUNTS = ("ucc 1", "ucc 2")
KINDS = ("normal", "metastases", "mixture")
POOLINGS = [{"pooling": "kde"}, {"pooling": "kde", "normalise": True, "bins": 7}, {"pooling": "average"}]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_network(outputs: int = 2, **changes: object) -> UCC:
    torch.manual_seed(0)
    settings = ModelSettings(**{"patch_px": 16, "width": 4, "features": 5, "hidden": (8,), **changes})  # type: ignore[arg-type]
    return UCC(settings, outputs=outputs, with_decoder=False)


def make_bags(bags: int = 3, instances: int = 7) -> NDArray[np.float32]:
    return np.random.default_rng(0).random((bags, instances, 5), np.float32)


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_the_mean_of_what_patches_add_is_judged_as_their_bag_by_the_network(pooling: dict[str, object]) -> None:
    network, bags = make_network(**pooling), make_bags()
    head = CountHead(network, COUNTS, features=5)
    added = np.stack([head.added_by(bag) for bag in bags])
    assert added.dtype == np.float32 and added.shape == (3, 7, head.width)
    with torch.no_grad():
        wanted = torch.softmax(network.count(torch.from_numpy(bags)), dim=1).numpy()
    np.testing.assert_allclose(head.probabilities(added.mean(axis=1)), wanted, atol=1e-6)
    assert np.ptp(wanted[:, 0]) > 1e-4  # the bags are told apart


def test_bags_of_different_sizes_are_judged_side_by_side() -> None:
    network, patches = make_network(), make_bags(1, 9)[0]
    head = CountHead(network, COUNTS, features=5)
    added = head.added_by(patches)
    found = head.probabilities(np.stack([added[:2].mean(axis=0), added.mean(axis=0)]))
    for row, bag in zip(found, (patches[:2], patches), strict=True):
        with torch.no_grad():
            wanted = torch.softmax(network.count(torch.from_numpy(bag)[None]), dim=1)[0].numpy()
        np.testing.assert_allclose(row, wanted, atol=1e-6)


def test_means_in_other_precision_and_order_of_memory_are_taken() -> None:
    head = CountHead(make_network(), COUNTS, features=5)
    means = head.added_by(make_bags(1, 4)[0])
    found = head.probabilities(np.asfortranarray(means.astype(np.float64)))  # type: ignore[arg-type]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, head.probabilities(means), atol=1e-6)


def test_no_patches_add_nothing() -> None:
    head = CountHead(make_network(), COUNTS, features=5)
    assert head.added_by(np.zeros((0, 5), np.float32)).shape == (0, head.width)


@pytest.mark.parametrize(
    ("labels", "counts", "tells_classes"),
    [
        (COUNTS, [1, 2], False),
        (("ucc 2", "ucc 3", "ucc 4"), [2, 3, 4], False),
        (("ucc 1", "ucc 10"), [1, 10], False),
        (KINDS, [1, 1, 2], True),
        (("metastases", "mixture", "normal"), [1, 2, 1], True),
        (("normal", "mixture"), [1, 2], False),
    ],
)
def test_labels_say_what_is_counted_and_whether_classes_are_told(
    labels: tuple[str, ...], counts: list[int], tells_classes: bool
) -> None:
    head = CountHead(make_network(len(labels)), labels, features=5)
    assert head.counts.tolist() == counts
    assert head.tells_classes is tells_classes


def test_the_count_is_that_of_which_all_labels_together_are_likeliest() -> None:
    probabilities = np.array([[0.35, 0.25, 0.4], [0.2, 0.2, 0.6]], np.float32)
    assert CountHead(make_network(3), KINDS, features=5).predicted(probabilities).tolist() == [1, 2]
    by_count = CountHead(make_network(3), ("ucc 2", "ucc 3", "ucc 4"), features=5)
    assert by_count.predicted(probabilities).tolist() == [4, 4]


def test_a_mixture_is_all_that_holds_more_than_one_class() -> None:
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], np.float32)
    by_count = CountHead(make_network(3), ("ucc 1", "ucc 2", "ucc 3"), features=5)
    np.testing.assert_allclose(by_count.mixture(probabilities), [0.5, 0.9], atol=1e-6)
    by_kind = CountHead(make_network(3), KINDS, features=5)
    np.testing.assert_allclose(by_kind.mixture(probabilities), [0.2, 0.8], atol=1e-6)


@pytest.mark.parametrize("labels", [KINDS, ("mixture", "metastases", "normal")])
def test_classes_are_in_their_own_order_and_leave_mixtures_out(labels: tuple[str, ...]) -> None:
    of_label = {"normal": 0.1, "metastases": 0.3, "mixture": 0.6}
    head = CountHead(make_network(3), labels, features=5)
    probabilities = np.array([[of_label[label] for label in labels]], np.float32)
    np.testing.assert_allclose(head.classes(probabilities), [[0.25, 0.75]], atol=1e-6)


def test_where_nothing_is_left_for_a_class_none_is_likelier() -> None:
    head = CountHead(make_network(3), KINDS, features=5)
    assert head.classes(np.array([[0.0, 0.0, 1.0]], np.float32)).tolist() == [[0.0, 0.0]]


def test_a_network_that_goes_on_learning_does_not_change_a_head_that_was_made() -> None:
    network = make_network()
    head = CountHead(network, COUNTS, features=5)
    means = head.added_by(make_bags(1, 4)[0])
    before = head.probabilities(means)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    assert np.array_equal(head.probabilities(means), before)
