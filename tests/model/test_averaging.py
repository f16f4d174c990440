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
