"""The label of a tile."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ucc_path.errors import SettingsError
from ucc_path.settings import TilingSettings
from ucc_path.tiles.labelling import KINDS, UCC_OF_KIND, check_thresholds, kind_of, kind_ranges

DEFAULT = TilingSettings()


@pytest.mark.parametrize(
    ("share", "kind"),
    [
        (0.0, "normal"),
        (0.19999, "normal"),
        (0.2, None),
        (0.25, None),
        (0.3, None),
        (0.30001, "mixture"),
        (0.5, "mixture"),
        (0.69999, "mixture"),
        (0.7, None),
        (0.8, None),
        (0.80001, "metastases"),
        (1.0, "metastases"),
    ],
)
def test_the_kind_follows_the_share_and_the_thresholds_themselves_belong_to_none(
    share: float, kind: str | None
) -> None:
    assert kind_of(share, DEFAULT) == kind


def test_pure_tiles_count_one_class_and_mixtures_two() -> None:
    assert UCC_OF_KIND == {"normal": 1, "metastases": 1, "mixture": 2}
    assert set(KINDS) == set(UCC_OF_KIND)


def test_the_thresholds_are_settings() -> None:
    strict = dataclasses.replace(DEFAULT, normal_below=0.01, metastases_above=0.99)
    assert [kind_of(share, strict) for share in (0.005, 0.1, 0.9, 0.995)] == ["normal", None, None, "metastases"]


def test_no_share_is_in_the_range_of_two_kinds() -> None:
    for share in np.linspace(0, 1, 1001):
        assert sum(low < share < high for low, high in kind_ranges(DEFAULT).values()) <= 1


def test_kinds_that_touch_are_allowed() -> None:
    touching = dataclasses.replace(DEFAULT, mixture_above=0.2, mixture_below=0.8)
    check_thresholds(touching)
    assert [kind_of(share, touching) for share in (0.19, 0.21, 0.79, 0.81)] == [
        "normal",
        "mixture",
        "mixture",
        "metastases",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"normal_below": 0.31},
        {"mixture_above": 0.7},
        {"mixture_below": 0.81},
        {"metastases_above": 1.0},
        {"normal_below": 0.0},
        {"normal_below": -0.1},
        {"mixture_above": 0.8, "mixture_below": 0.4},
        {"normal_below": float("nan")},
    ],
)
def test_thresholds_that_do_not_rise_are_refused_naming_them(changes: dict[str, float]) -> None:
    settings = dataclasses.replace(DEFAULT, **changes)
    with pytest.raises(SettingsError, match=r"the thresholds must rise, .*they are ") as error:
        check_thresholds(settings)
    assert all(f"{value:g}" in str(error.value) for value in changes.values())
