"""Settings from tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ucc_path.errors import SettingsError
from ucc_path.settings import TABLES, AnnotationSettings, TilingSettings, from_table


def test_an_empty_table_is_the_defaults() -> None:
    assert from_table(TilingSettings(), {}, "x") == TilingSettings()


def test_what_a_table_names_is_set_and_the_rest_keeps_its_default() -> None:
    assert from_table(TilingSettings(), {"tile_px": 64}, "x") == dataclasses.replace(TilingSettings(), tile_px=64)


def test_a_whole_number_will_do_where_a_fraction_may_stand() -> None:
    mpp = from_table(TilingSettings(), {"mpp": 2}, "x").mpp
    assert mpp == 2.0 and isinstance(mpp, float)


def test_lists_become_tuples_so_that_settings_stay_frozen() -> None:
    settings = from_table(AnnotationSettings(), {"tumour_groups": ["a"], "mask_tumour_values": [1, 2]}, "x")
    assert settings.tumour_groups == ("a",)
    assert settings.mask_tumour_values == (1, 2)
    assert hash(settings) == hash(dataclasses.replace(settings))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TilingSettings().tile_px = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "name", "value", "wanted"),
    [
        (TilingSettings, "tile_px", 3.5, "a whole number"),
        (TilingSettings, "tile_px", True, "a whole number"),
        (TilingSettings, "tile_px", "512", "a whole number"),
        (TilingSettings, "mpp", "1", "a number"),
        (TilingSettings, "mpp", False, "a number"),
        (TilingSettings, "mpp", float("nan"), "finite"),
        (TilingSettings, "mpp", float("-inf"), "finite"),
        (TilingSettings, "mpp", 10**400, "finite"),
        (AnnotationSettings, "tumour_groups", "tumour", "a list of strings"),
        (AnnotationSettings, "tumour_groups", ["a", 1], "a list of strings"),
        (AnnotationSettings, "mask_tumour_values", [True], "a list of whole numbers"),
        (AnnotationSettings, "mask_tumour_values", [1.0], "a list of whole numbers"),
        (AnnotationSettings, "mask_tumour_values", 1, "a list of whole numbers"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_naming_the_setting(
    settings: type[Any], name: str, value: Any, wanted: str
) -> None:
    with pytest.raises(SettingsError, match=rf"^lab\.toml \[t\] {name} is .*{wanted}"):
        from_table(settings(), {name: value}, "lab.toml [t]")


def test_an_unknown_setting_is_refused_naming_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"\[tiling\] has no setting 'tile_size'; it has: .*tile_px"):
        from_table(TilingSettings(), {"tile_size": 3}, "[tiling]")


@pytest.mark.parametrize("settings", TABLES.values())
def test_every_setting_has_a_help_text_and_takes_its_own_default(settings: type[Any]) -> None:
    assert all(field.metadata["help"] for field in dataclasses.fields(settings))
    assert from_table(settings(), dataclasses.asdict(settings()), "x") == settings()
