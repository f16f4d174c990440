"""The distribution of a bag's features, held against the paper's formulas written out term by term."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from ucc_path.model import AveragePooling, KernelDensity

BINS, SIGMA = 5, 0.15
BAG = ((0.1, 0.9), (0.35, 0.5), (0.8, 0.55))  # three instances of two features
OTHER_BAG = ((0.0, 1.0), (0.2, 0.45), (0.25, 0.3))


def places(bins: int) -> list[float]:
    return [k / (bins - 1) for k in range(bins)]


def gaussian(v: float, f: float, sigma: float) -> float:
    return math.exp(-((v - f) ** 2) / (2 * sigma**2)) / math.sqrt(2 * math.pi * sigma**2)


def density(bag: Sequence[Sequence[float]], bins: int = BINS, sigma: float = SIGMA) -> list[float]:
    """The paper's h: for each feature j, for each place v, 1/n sum_i N(v; f_ji, sigma)."""
    return [
        sum(gaussian(v, instance[j], sigma) for instance in bag) / len(bag)
        for j in range(len(bag[0]))
        for v in places(bins)
    ]


def pooled(bag: Sequence[Sequence[float]], pooling: KernelDensity) -> Tensor:
    result: Tensor = pooling(torch.tensor([bag]))
    return result[0]


def make_features(bags: int = 3, instances: int = 7, features: int = 4, seed: int = 0) -> Tensor:
    return torch.rand(bags, instances, features, generator=torch.Generator().manual_seed(seed))


def test_the_density_is_the_papers_sum_feature_after_feature() -> None:
    found = KernelDensity(BINS, SIGMA)(torch.tensor([BAG, OTHER_BAG]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor([density(BAG), density(OTHER_BAG)]))


@pytest.mark.parametrize(("bins", "sigma"), [(2, 0.1), (11, 0.1), (11, 0.02), (101, 0.3)])
def test_bins_and_sigma_are_honoured(bins: int, sigma: float) -> None:
    pooling = KernelDensity(bins, sigma)
    assert pooling.width(2) == 2 * bins
    torch.testing.assert_close(pooled(BAG, pooling), torch.tensor(density(BAG, bins, sigma)))


def test_a_normalised_feature_sums_to_one_and_keeps_its_shape() -> None:
    features = make_features()
    plain = KernelDensity(BINS, SIGMA)(features).unflatten(1, (4, BINS))
    shares = KernelDensity(BINS, SIGMA, normalise=True)(features).unflatten(1, (4, BINS))
    torch.testing.assert_close(shares.sum(dim=-1), torch.ones(3, 4))
    torch.testing.assert_close(shares / shares[..., :1], plain / plain[..., :1])
    assert (plain.sum(dim=-1) - 1).abs().min() > 0.1  # so it was not so before


def test_the_gradient_is_the_papers_formula() -> None:
    pooling = KernelDensity(BINS, SIGMA)
    found = torch.func.jacrev(lambda bag: pooling(bag[None])[0])(torch.tensor(BAG))
    wanted = torch.zeros(2, BINS, len(BAG), 2)  # of h_j(v) by f_ji: nothing by any other feature
    for j in range(2):
        for k, v in enumerate(places(BINS)):
            for i, instance in enumerate(BAG):
                f = instance[j]
                wanted[j, k, i, j] = (
                    (1 / len(BAG))
                    * ((v - f) / (SIGMA**2 * math.sqrt(2 * math.pi * SIGMA**2)))
                    * math.exp(-((v - f) ** 2) / (2 * SIGMA**2))
                )
    torch.testing.assert_close(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)
    assert wanted.abs().max() > 1


@pytest.mark.parametrize("pooling", [KernelDensity(), KernelDensity(normalise=True), AveragePooling()], ids=repr)
def test_the_order_of_the_instances_does_not_matter(pooling: torch.nn.Module) -> None:
    features = make_features()
    order = torch.tensor([3, 0, 6, 1, 5, 4, 2])
    torch.testing.assert_close(pooling(features[:, order]), pooling(features))
    assert not torch.allclose(pooling(features[..., [1, 0, 2, 3]]), pooling(features), atol=1e-3)  # features differ


def test_a_bag_does_not_depend_on_the_other_bags() -> None:
    features = make_features()
    together = KernelDensity()(features)
    torch.testing.assert_close(torch.cat([KernelDensity()(bag[None]) for bag in features]), together)


@pytest.mark.parametrize("pooling", [KernelDensity(), AveragePooling()], ids=repr)
def test_a_union_is_the_mean_of_its_parts_weighted_by_their_sizes(pooling: torch.nn.Module) -> None:
    features = make_features(bags=1, instances=10)
    small, large = features[:, :3], features[:, 3:]
    torch.testing.assert_close(pooling(features), 0.3 * pooling(small) + 0.7 * pooling(large))


def test_normalised_a_union_is_so_only_where_no_mass_falls_beside_the_bins() -> None:
    """Its parts are divided by their own sums: these are equal inside [0, 1], but at the edge half the mass is lost."""
    pooling = KernelDensity(normalise=True)

    def gap(low: float, high: float) -> float:
        """By how much the union of three low and seven high values is not the weighted mean of the two."""
        parts = pooling(torch.full((1, 3, 1), low)), pooling(torch.full((1, 7, 1), high))
        union = pooling(torch.tensor([low] * 3 + [high] * 7).reshape(1, 10, 1))
        return float((union - (0.3 * parts[0] + 0.7 * parts[1])).abs().max())

    assert gap(0.45, 0.55) < 1e-4
    assert gap(0.0, 0.5) > 0.01


def test_the_density_tells_bags_apart_that_have_the_same_mean() -> None:
    split, middle = torch.tensor([0.2, 0.8]).reshape(1, 2, 1), torch.full((1, 2, 1), 0.5)
    torch.testing.assert_close(AveragePooling()(split), AveragePooling()(middle))
    assert (KernelDensity()(split) - KernelDensity()(middle)).abs().max() > 1


@pytest.mark.parametrize("pooling", [KernelDensity(), KernelDensity(normalise=True), AveragePooling()], ids=repr)
def test_half_precision_around_it_changes_nothing(pooling: torch.nn.Module) -> None:
    for features in (make_features(), make_features().bfloat16()):
        alone = pooling(features.float())
        with torch.autocast("cpu", torch.bfloat16):
            within = pooling(features)
        assert within.dtype == torch.float32
        assert torch.equal(within, alone)


POOLINGS = [KernelDensity(BINS, SIGMA), KernelDensity(BINS, SIGMA, normalise=True), AveragePooling()]


@pytest.mark.parametrize("pooling", POOLINGS, ids=repr)
def test_a_bag_is_made_from_the_mean_of_what_its_instances_add(pooling: KernelDensity | AveragePooling) -> None:
    features = make_features()
    added = pooling.of_instances(features)
    assert added.shape == (3, 7, pooling.width(4))
    assert torch.equal(pooling.of_bag(added.mean(dim=1)), pooling(features))


@pytest.mark.parametrize("pooling", POOLINGS, ids=repr)
def test_parts_of_a_bag_add_up_to_it(pooling: KernelDensity | AveragePooling) -> None:
    features = make_features(bags=1, instances=10)
    sums = [pooling.of_instances(part).sum(dim=0) for part in (features[0, :1], features[0, 1:4], features[0, 4:])]
    torch.testing.assert_close(pooling.of_bag(torch.stack(sums).sum(dim=0)[None] / 10), pooling(features))


@pytest.mark.parametrize("pooling", POOLINGS, ids=repr)
def test_what_an_instance_adds_does_not_depend_on_the_others(pooling: KernelDensity | AveragePooling) -> None:
    features = make_features()
    together = pooling.of_instances(features)
    assert torch.equal(pooling.of_instances(features[1, 2]), together[1, 2])
