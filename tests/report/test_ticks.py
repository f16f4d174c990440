"""Scales and ticks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.report.ticks import nice_step, scale_of


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 1], ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.13, 0.94], ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([-3, 4], ["-4", "-2", "0", "2", "4"]),
        ([0, 200_000], ["0", "50,000", "100,000", "150,000", "200,000"]),
        ([0, 3e12], ["0", "1e12", "2e12", "3e12"]),
        ([0, 2e-7], ["0", "5e-8", "1e-7", "1.5e-7", "2e-7"]),
        ([], ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([math.nan, math.inf], ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_ticks_are_round_numbers_with_the_digits_they_need(values: list[float], labels: list[str]) -> None:
    assert scale_of(values, most_ticks=5, is_round=True).labels == labels


def test_steps_of_training_are_never_halved() -> None:
    assert scale_of([0, 2], most_ticks=10, is_round=False, is_whole=True).labels == ["0", "1", "2"]


@pytest.mark.parametrize("value", [0.0, 0.5, -3.0, 1e300, 1e-300, 5e-324])
def test_a_constant_lies_in_the_middle_of_a_scale(value: float) -> None:
    scale = scale_of([value, value], most_ticks=4, is_round=False)
    assert scale.low < value < scale.high or abs(value) < 1e-99
    assert scale.share(value) == pytest.approx(0.5)


@given(st.lists(st.floats(), min_size=1, max_size=4), st.integers(1, 12), st.booleans())
def test_every_scale_holds_its_values_and_few_ticks_that_read_differently(
    values: list[float], most_ticks: int, is_round: bool
) -> None:
    scale = scale_of(values, most_ticks=most_ticks, is_round=is_round)
    assert scale.low < scale.high
    assert all(-1e-6 <= scale.share(value) <= 1 + 1e-6 for value in values if math.isfinite(value))
    assert len(scale.ticks) <= most_ticks + 2
    assert len(set(scale.labels)) == len(scale.labels)


@given(st.floats(1e-90, 1e290))
def test_a_step_is_one_two_or_five_times_a_power_of_ten(least: float) -> None:
    step = nice_step(least)
    assert f"{step:.0e}"[0] in "125"
    assert least * (1 - 1e-6) <= step <= least * 2.6
