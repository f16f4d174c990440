"""The mean of weights, on weights whose mean is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ucc_path.model.averaging import Average


def make_network(value: float = 0.0) -> nn.Linear:
    network = nn.Linear(2, 1)
    set_weights(network, value)
    return network


def set_weights(network: nn.Module, value: float) -> None:
    for parameter in network.parameters():
        parameter.data.fill_(value)


def weights_of(network: nn.Module) -> set[float]:
    return {round(float(value), 6) for parameter in network.parameters() for value in parameter.detach().flatten()}


def test_the_mean_goes_to_the_weights_by_the_share_that_does_not_stay() -> None:
    network = make_network(0.0)
    average = Average(network, 0.9)
    set_weights(network, 1.0)
    expected = 0.0
    for step in range(1000, 1005):
        average.update(step)
        expected = 0.9 * expected + 0.1
    with average.in_place():
        assert weights_of(network) == {round(expected, 6)}


def test_the_beginning_is_soon_forgotten() -> None:
    network = make_network(100.0)
    average = Average(network, 0.999)
    set_weights(network, 1.0)
    for step in range(1, 31):
        average.update(step)
    with average.in_place():
        assert max(weights_of(network)) < 1.01


def test_the_weights_come_back_after_the_block_even_after_an_error() -> None:
    network = make_network(1.0)
    average = Average(network, 0.5)
    set_weights(network, 3.0)
    with pytest.raises(ZeroDivisionError), average.in_place():
        assert weights_of(network) == {1.0}
        raise ZeroDivisionError
    assert weights_of(network) == {3.0}
    with average.in_place():
        assert weights_of(network) == {1.0}


def test_without_a_share_the_weights_themselves_are_in_place() -> None:
    network = make_network(1.0)
    average = Average(network, 0.0)
    set_weights(network, 3.0)
    average.update(1)
    with average.in_place():
        assert weights_of(network) == {3.0}
    assert average.state() == {}


def test_a_restored_average_is_the_same_and_one_of_another_network_is_refused() -> None:
    network = make_network(1.0)
    average = Average(network, 0.5)
    set_weights(network, 2.0)
    average.update(1000)
    other = Average(make_network(7.0), 0.5)
    other.restore(average.state())
    assert all(torch.equal(a, b) for a, b in zip(other.state().values(), average.state().values(), strict=True))
    with pytest.raises(KeyError):
        other.restore({"weight": torch.zeros(1, 2)})


def make_normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))


def test_what_a_batch_norm_has_counted_is_averaged_with_the_weights() -> None:
    network = make_normed()
    average = Average(network, 0.5)
    network[0].running_mean.fill_(8.0)
    network[0].running_var.fill_(5.0)
    average.update(1000)
    with average.in_place():
        assert network[0].running_mean.item() == 4.0  # half of 0 and half of 8
        assert network[0].running_var.item() == 3.0
    assert network[0].running_mean.item() == 8.0
    assert {"0.running_mean", "0.running_var"} < average.state().keys()
    assert "0.num_batches_tracked" not in average.state()


def test_a_network_with_batch_norm_is_judged_by_what_belongs_to_its_averaged_weights() -> None:
    """Weights and counts of one moment: by the counts of another the answer would be another."""
    network = make_normed().eval()
    average = Average(network, 0.999)
    rows = torch.tensor([[100.0], [102.0]])
    before = network(rows).detach()
    for buffer in (network[0].running_mean, network[0].running_var):
        buffer.add_(50.0)
    with average.in_place():
        assert torch.equal(network(rows), before)
    assert not torch.allclose(network(rows), before)


def test_a_restored_average_has_the_counts_of_a_batch_norm_too() -> None:
    network, other = make_normed(), make_normed()
    average = Average(network, 0.5)
    network[0].running_mean.fill_(8.0)
    average.update(1000)
    restored = Average(other, 0.5)
    restored.restore(average.state())
    with restored.in_place():
        assert other[0].running_mean.item() == 4.0
