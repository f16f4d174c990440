"""The slides of CAMELYON16 that have a rule."""

from __future__ import annotations

import pytest

from ucc_path.tiles.camelyon import kinds_allowed, rule_for
from ucc_path.tiles.labelling import KINDS


@pytest.mark.parametrize("name", ["tumor_010", "tumor_092", "tumor_110", "test_114", "Tumor_010", "tumor_10"])
def test_a_slide_whose_tumour_is_not_all_outlined_gives_metastases_alone(name: str) -> None:
    rule = rule_for(name)
    assert rule is not None and rule.kinds == ("metastases",)
    assert "not all outlined" in rule.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_049", "duplicate"),
        ("normal_086", "tumor_111"),
        ("Normal_86", "tumor_111"),
        ("normal_144", "in doubt"),
        ("normal_144_mask", "in doubt"),
    ],
)
def test_a_slide_that_misleads_is_left_out_and_the_reason_is_told(name: str, reason: str) -> None:
    rule = rule_for(name)
    assert rule is not None and rule.kinds == ()
    assert reason in rule.reason and "left out" in rule.reason


@pytest.mark.parametrize(
    "name", ["tumor_001", "tumor_100", "tumor_111", "test_1140", "test_014", "normal_010", "my_tumor_010", "tumor", ""]
)
def test_any_other_slide_has_no_rule(name: str) -> None:
    assert rule_for(name) is None


def test_twenty_training_slides_are_not_exhaustive() -> None:
    rules = [rule_for(f"tumor_{number:03d}") for number in range(1, 112)]
    assert sum(rule is not None for rule in rules) == 20


def test_a_slide_without_a_rule_may_give_every_kind() -> None:
    assert kinds_allowed(None) == KINDS
    assert kinds_allowed(rule_for("tumor_010")) == ("metastases",)
