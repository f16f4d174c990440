"""Where the scale of a slide comes from."""

from __future__ import annotations

import pytest

from ucc_path.errors import SlideError
from ucc_path.slide.scale import find_scale


def recorded(x: object = None, y: object = None, **others: str) -> dict[str, str]:
    pairs = {"openslide.mpp-x": x, "openslide.mpp-y": y, **others}
    return {name: str(value) for name, value in pairs.items() if value is not None}


def test_the_recorded_scale_is_taken_and_its_source_named() -> None:
    scale = find_scale("s", recorded(0.25, 0.25), None)
    assert (scale.mpp, scale.source) == (0.25, "openslide.mpp-x, mpp-y")


def test_axes_that_differ_a_little_are_averaged() -> None:
    assert find_scale("s", recorded(0.25, 0.26), None).mpp == pytest.approx(0.255)


def test_one_axis_is_enough() -> None:
    assert find_scale("s", recorded(0.25), None).mpp == 0.25


def test_a_decimal_comma_is_understood() -> None:
    assert find_scale("s", recorded("0,2431", "0,2431"), None).mpp == 0.2431


@pytest.mark.parametrize("properties", [{}, recorded(0.00499, 0.00499), recorded(1, 2), recorded("nan", 3)])
def test_the_scale_that_the_user_gives_wins_over_whatever_is_recorded(properties: dict[str, str]) -> None:
    scale = find_scale("s", properties, 0.5)
    assert (scale.mpp, scale.source) == (0.5, "--slide-mpp")


@pytest.mark.parametrize("text", [None, "", "nan", "inf", "-0.25", "0", "about 0.5", "0.25 um"])
def test_a_scale_that_is_no_number_counts_as_not_recorded(text: str | None) -> None:
    with pytest.raises(
        SlideError, match=r"^a\.svs does not record its scale; give it with --slide-mpp in um/px \(usually"
    ):
        find_scale("a.svs", recorded(text, text), None)


@pytest.mark.parametrize("mpp", [0.00499, 0.0499, 20.1, 352.8])
def test_a_recorded_scale_that_no_scan_has_is_refused_naming_it(mpp: float) -> None:
    with pytest.raises(
        SlideError, match=rf"^a\.svs records a scale of {mpp:.4g} um/px, outside 0\.05-20 .*--slide-mpp"
    ):
        find_scale("a.svs", recorded(mpp, mpp), None)


@pytest.mark.parametrize("mpp", [0.05, 20.0])
def test_the_ends_of_the_range_are_within_it(mpp: float) -> None:
    assert find_scale("s", recorded(mpp, mpp), None).mpp == mpp
    assert find_scale("s", {}, mpp).mpp == mpp


@pytest.mark.parametrize("mpp", [0.0, -1.0, 0.01, 100.0, float("nan"), float("inf")])
def test_a_given_scale_that_no_scan_has_is_refused(mpp: float) -> None:
    with pytest.raises(SlideError, match=r"outside 0\.05-20 um/px; give another --slide-mpp"):
        find_scale("s", recorded(0.25, 0.25), mpp)


def test_pixels_that_are_not_square_are_refused_naming_both_sides() -> None:
    with pytest.raises(
        SlideError, match=r"^a\.svs records pixels that are not square \(0\.25 x 0\.3 um\).*--slide-mpp"
    ):
        find_scale("a.svs", recorded(0.25, 0.3), None)


def test_the_objective_is_given_as_a_hint_and_never_used_as_a_fact() -> None:
    objective = {"openslide.objective-power": "40"}
    with pytest.raises(SlideError, match=r"\(its 40x objective suggests about 0\.25\)"):
        find_scale("s", objective, None)
    with pytest.raises(SlideError, match=r"\(its 40x objective suggests about 0\.25\)"):
        find_scale("s", recorded(300, 300) | objective, None)
