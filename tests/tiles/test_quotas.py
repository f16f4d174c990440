"""How many tiles of each kind, and who gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import SettingsError
from ucc_path.tiles.quotas import parse_totals, share_out


def test_totals_are_normal_then_metastases_then_mixture() -> None:
    assert parse_totals("val=1/2/3, train=0/0/7") == {
        "val": {"normal": 1, "metastases": 2, "mixture": 3},
        "train": {"normal": 0, "metastases": 0, "mixture": 7},
    }


def test_the_papers_table_can_be_asked_for_by_name() -> None:
    assert parse_totals("paper") == {
        "train": {"normal": 461, "metastases": 322, "mixture": 310},
        "val": {"normal": 278, "metastases": 245, "mixture": 211},
        "test": {"normal": 282, "metastases": 668, "mixture": 228},
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "train",
        "train=",
        "train=1/2",
        "train=1/2/3/4",
        "train=1/2/x",
        "train=1/-2/3",
        "train=1/2/3,",
        "Train=1/2/3",
        "train=1/2/3,train=1/2/3",
        "dev=1/2/3",
        "train=1.5/2/3",
        "train=1//3",
        "train=²/2/3",
        "papers",
    ],
)
def test_totals_that_are_not_understood_are_refused_showing_how_to_write_them(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--totals .* is not understood at .*; write paper, or train=461/322/310"):
        parse_totals(text)


counts = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(0, 40), max_size=8)


@given(st.integers(0, 200), counts)
def test_the_total_is_met_as_far_as_there_are_tiles_and_as_evenly_as_can_be(
    total: int, available: dict[str, int]
) -> None:
    given_out = share_out(total, available)
    assert sum(given_out.values()) == min(total, sum(available.values()))
    assert given_out.keys() == available.keys()
    assert all(0 <= given_out[slide] <= available[slide] for slide in available)
    most = max(given_out.values(), default=0)
    assert all(given_out[s] >= most - 1 for s in available if given_out[s] < available[s])


def test_who_gives_what_does_not_depend_on_the_order_of_slides() -> None:
    available = {"b": 5, "c": 1, "a": 9}
    assert share_out(8, available) == share_out(8, dict(sorted(available.items())))


def test_a_number_that_no_slides_could_meet_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not understood"):
        parse_totals("train=1/1/" + "9" * 5000)
