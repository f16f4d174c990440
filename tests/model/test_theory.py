"""The paper's propositions, on the model's own pooling and head.

A toy stands for the feature extractor: instances of class a have features about 0.2, those of class b about 0.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ucc_path.model import UCC
from ucc_path.settings import ModelSettings

LEVELS = (0.2, 0.8)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_model(seed: int = 0, **changes: object) -> UCC:
    torch.manual_seed(seed)
    settings = ModelSettings(**{"patch_px": 8, "width": 2, "features": 2, "hidden": (16,), **changes})  # type: ignore[arg-type]
    return UCC(settings, with_decoder=False).eval()


def make_set(instances: int, seed: int = 0) -> Tensor:
    return torch.rand(1, instances, 2, generator=torch.Generator().manual_seed(seed))


def instances_of(classes: Sequence[int], seed: int = 0) -> Tensor:
    """(instances, 2) features, near the level of each one's class."""
    noise = 0.02 * torch.randn(len(classes), 2, generator=torch.Generator().manual_seed(seed))
    return torch.tensor(LEVELS)[torch.tensor(classes)][:, None] + noise


def lessons(copies: int = 2) -> list[tuple[Tensor, int]]:
    """Bags with their counts: pure ones, and mixtures of all proportions, each of many sizes."""
    shares = [(n, 0) for n in range(1, 9)] + [(0, n) for n in range(1, 9)]
    shares += [(a, b) for a in range(1, 9) for b in range(1, 9)]
    return [
        (instances_of([0] * a + [1] * b, seed=copy)[None], int(a > 0 and b > 0))
        for copy in range(copies)
        for a, b in shares
    ]


def taught(model: UCC, steps: int = 200) -> float:
    """Trains the head alone to count; the share of bags counted rightly. Pure bags weigh as much as mixed ones."""
    bags = lessons()
    pooled = torch.cat([model.pooling(features) for features, _ in bags])
    counts = torch.tensor([count for _, count in bags])
    adam = torch.optim.Adam(model.head.parameters(), lr=0.02)
    weight = 1 / torch.bincount(counts).float()
    for _ in range(steps):
        adam.zero_grad()
        functional.cross_entropy(model.head(pooled), counts, weight / weight.sum()).backward()  # type: ignore[no-untyped-call]
        adam.step()
    right = (model.head(pooled).argmax(1) == counts).float()
    return float((right[counts == 0].mean() + right[counts == 1].mean()) / 2)


@cache
def perfect_counter() -> UCC:
    """A model whose head counts every bag of the toy rightly."""
    model = make_model()
    assert taught(model) == 1.0
    return model


def counted(model: UCC, features: Tensor) -> int:
    return int(model.count(features).argmax()) + 1


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("pooling", ["kde", "average"])
def test_the_count_does_not_depend_on_the_order_of_the_instances(pooling: str, normalise: bool) -> None:
    model = make_model(pooling=pooling, normalise=normalise)
    patches = torch.randn(2, 6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    logits, _ = model(patches)
    shuffled, _ = model(patches[:, [4, 2, 5, 0, 1, 3]])
    torch.testing.assert_close(shuffled, logits)
    assert not torch.allclose(logits[0], logits[1], atol=1e-4)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_b3_sets_of_equal_distribution_have_a_union_of_the_same_count(seed: int, normalise: bool) -> None:
    """Proposition B.3: h of both equal, so is h of the union, and hence what is predicted; for any weights."""
    model = make_model(seed, normalise=normalise)
    one = make_set(4, seed)
    other = torch.cat([one.flip(1), one], dim=1)  # the same distribution, twice as many
    union = torch.cat([one, other], dim=1)
    torch.testing.assert_close(model.pooling(other), model.pooling(one))
    torch.testing.assert_close(model.count(union), model.count(one), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(model.count(make_set(4, seed + 50)), model.count(one), atol=1e-3)


def test_1_sets_counted_one_whose_union_is_counted_two_have_different_distributions() -> None:
    """Proposition 1, by a model that does count so."""
    model = perfect_counter()
    one, other = instances_of([0] * 5, seed=90)[None], instances_of([1] * 3, seed=91)[None]
    union = torch.cat([one, other], dim=1)
    assert [counted(model, bag) for bag in (one, other, union)] == [1, 1, 2]
    assert (model.pooling(one) - model.pooling(other)).abs().max() > 1


@pytest.mark.parametrize("seed", range(3))
def test_3_two_classes_that_look_alike_to_the_extractor_cannot_be_counted(seed: int) -> None:
    """Proposition 3 turned round: were h of two pure sets equal, their union would be counted as each of them is."""
    model = perfect_counter() if seed == 0 else make_model(seed)
    one = other = instances_of([0, 0, 0], seed)[None]  # "other" is of another class, and the extractor cannot tell
    union = torch.cat([one, other], dim=1)
    assert counted(model, union) == counted(model, one) == counted(model, other)  # and not 2 where these are 1


def merged(instances: int, count: Callable[[Sequence[int]], int], rng: np.random.Generator) -> set[frozenset[int]]:
    """The proof of proposition 2: single instances, merged by pairs at random while a union still counts one."""
    groups = [[instance] for instance in range(instances)]
    while True:
        order = [(a, b) for a in range(len(groups)) for b in range(a)]
        rng.shuffle(order)
        pair = next(((a, b) for a, b in order if count(groups[a] + groups[b]) == 1), None)
        if pair is None:
            return {frozenset(group) for group in groups}
        groups[pair[1]] += groups.pop(pair[0])


def partition(classes: Sequence[int]) -> set[frozenset[int]]:
    return {frozenset(i for i, kind in enumerate(classes) if kind == each) for each in set(classes)}


@pytest.mark.parametrize("kinds", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_2_a_perfect_counter_clusters_perfectly(kinds: int, seed: int) -> None:
    rng = np.random.default_rng((kinds, seed))
    classes = rng.integers(0, kinds, 14).tolist()
    assert merged(14, lambda members: len({classes[i] for i in members}), rng) == partition(classes)


@pytest.mark.parametrize("seed", range(3))
def test_2_a_head_that_has_learnt_to_count_clusters_instances_of_which_it_knows_no_class(seed: int) -> None:
    model, rng = perfect_counter(), np.random.default_rng(seed)
    classes = rng.permutation([0] * 6 + [1] * 5).tolist()
    features = instances_of(classes, seed=100 + seed)
    with torch.no_grad():
        found = merged(11, lambda members: counted(model, features[None, members]), rng)
    assert found == partition(classes)


def test_b2_a_linear_head_gives_a_union_the_mean_of_its_parts_and_so_cannot_count() -> None:
    model = make_model(hidden=())
    best = taught(model)
    one, other = instances_of([0] * 4)[None], instances_of([1] * 4)[None]
    union = model.count(torch.cat([one, other], dim=1))
    torch.testing.assert_close(union, (model.count(one) + model.count(other)) / 2)
    assert best < 0.8


def test_b2_the_models_head_is_not_linear_and_can_count() -> None:
    model = perfect_counter()
    one, other = model.pooling(instances_of([0] * 4)[None]), model.pooling(instances_of([1] * 4)[None])
    halfway = (model.head(one) + model.head(other)) / 2
    assert (model.head((one + other) / 2) - halfway).abs().max() > 1
