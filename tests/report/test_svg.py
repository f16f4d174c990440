"""Drawings: that curves are where the numbers say, are told apart without colour, and that odd numbers do no harm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.report.chart import AXIS, COLOURS, DASHES, Guide, Mark, Panel, Series
from ucc_path.report.svg import DASH_PATTERNS, MARKERS, distributions, drawing

SVG = "{http://www.w3.org/2000/svg}"
Points = list[tuple[float, float]]

# On scales of 0 to 10 and 0 to 1, whose ends are round numbers, so that the frame is known.
DIAGONAL = Series("up", [0, 5, 10], [0.0, 0.5, 1.0])


@dataclass(frozen=True)
class Line:
    points: Points
    colour: str
    dashes: str


def lines_of(root: ElementTree.Element) -> list[Line]:
    """All lines below an element that are not in a drawing within it."""
    found = [child for child in root if child.tag == f"{SVG}polyline"]
    return [
        Line(points_of(line.attrib["points"]), line.attrib["stroke"], line.attrib["stroke-dasharray"]) for line in found
    ]


def points_of(text: str) -> Points:
    return [(float(x), float(y)) for x, y in (point.split(",") for point in text.split())]


class Chart:
    """A drawing, read back."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        inner = self.root.find(f"{SVG}svg")
        assert inner is not None
        self.inner = inner
        self.lines = lines_of(self.root)
        self.curves = lines_of(inner)
        self.texts = [(element.text, element.attrib) for element in self.root.iter(f"{SVG}text")]
        axis = next(line for line in self.lines if line.colour == f"rgb{AXIS}")
        self.left, self.bottom = min(x for x, _ in axis.points), max(y for _, y in axis.points)
        self.right = max(x for x, _ in axis.points)
        upright = [line.points for line in self.lines if len({x for x, _ in line.points}) == 1]
        self.top = min(y for points in upright for _, y in points)

    def shares(self, points: Points) -> Points:
        """Places in the inner drawing as shares of the axes."""
        left, top = float(self.inner.attrib["x"]), float(self.inner.attrib["y"])
        wide, tall = self.right - self.left, self.bottom - self.top
        return [((x + left - self.left) / wide, (self.bottom - y - top) / tall) for x, y in points]

    def dashed(self) -> list[Line]:
        return [line for line in self.lines if line.colour == f"rgb{DASHES}"]

    def place_of(self, text: str) -> tuple[float, float]:
        named = next(attributes for said, attributes in self.texts if said == text)
        return float(named["x"]), float(named["y"])


def make_chart(
    *series: Series,
    mark: Mark | None = None,
    guides: tuple[Guide, ...] = (),
    y_range: tuple[float, float] | None = None,
) -> Chart:
    return Chart(drawing(Panel("Loss", "step", series, mark, guides), y_range=y_range))


def near(*points: tuple[float, float], within: float = 0.002) -> list[object]:
    return [pytest.approx(point, abs=within) for point in points]


def test_a_curve_passes_where_its_values_belong() -> None:
    chart = make_chart(DIAGONAL)
    assert chart.shares(chart.curves[0].points) == near((0, 0), (0.5, 0.5), (1, 1))


def test_a_drawing_has_its_size_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(drawing(Panel("Loss", "step", (DIAGONAL,)), width=300, height=200))
    assert (root.attrib["width"], root.attrib["height"], root.attrib["viewBox"]) == ("300", "200", "0 0 300 200")
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", "Loss: up")
    assert {"Loss", "step", "up"} <= {element.text for element in root.iter(f"{SVG}text")}


def test_nothing_has_an_id_that_could_be_there_twice() -> None:
    text = drawing(Panel("Loss", "step", (DIAGONAL,) * 8, Mark(5, "best"), (Guide(0.5, "guessing"),)))
    assert all("id" not in element.attrib for element in ElementTree.fromstring(text).iter())
    assert "url(" not in text


def test_each_curve_has_a_colour_and_dashes_of_its_own_and_the_legend_shows_both() -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    chart = make_chart(*(Series(name, [0, 1], [0, place]) for place, name in enumerate(names)))
    assert [curve.colour for curve in chart.curves] == [f"rgb{colour}" for colour in COLOURS[:6]]
    assert len({curve.dashes for curve in chart.curves}) == len(names)
    for name, curve in zip(names, chart.curves, strict=True):
        x, y = chart.place_of(name)
        sample = min(
            (line for line in chart.lines if line.points[0][0] < x),
            key=lambda line: abs(line.points[0][1] - y) + abs(line.points[-1][0] - x),
        )
        assert (sample.colour, sample.dashes) == (curve.colour, curve.dashes), name


def test_as_many_curves_as_can_be_have_a_look_of_their_own() -> None:
    many = math.lcm(len(COLOURS), len(DASH_PATTERNS))
    chart = make_chart(*(Series("", [0, 1], [0, 1]) for _ in range(many)))
    assert len({(curve.colour, curve.dashes) for curve in chart.curves}) == many == len(COLOURS) * len(DASH_PATTERNS)


def test_more_names_make_the_drawing_taller_and_leave_room_for_the_curves() -> None:
    chart = make_chart(*(Series(f"a rather long name {place}", [0, 1], [0, 1]) for place in range(30)))
    assert float(chart.root.attrib["height"]) > 230
    assert chart.bottom - chart.top >= 80
    assert all(chart.place_of(f"a rather long name {place}")[1] < chart.top for place in range(30))


def test_a_value_that_is_not_a_number_leaves_a_gap() -> None:
    chart = make_chart(DIAGONAL, Series("", list(range(11)), [0.5] * 4 + [math.nan, math.inf] + [0.5] * 5))
    ends = [[round(10 * x) for x, _ in chart.shares(curve.points)][:: len(curve.points) - 1] for curve in chart.curves]
    assert ends == [[0, 10], [0, 3], [6, 10]]


def test_a_point_that_stands_alone_has_the_marker_of_its_curve_which_the_legend_shows_too() -> None:
    chart = make_chart(DIAGONAL, Series("", [2, 3, 4, 5], [0.8, math.nan, 0.2, 0.2]))
    (marker,) = chart.inner.findall(f"{SVG}path")
    place = tuple(float(number) for number in marker.attrib["transform"][10:-1].split())
    assert chart.shares([(place[0], place[1])]) == near((0.2, 0.8))
    assert marker.attrib["d"] == MARKERS[1] != MARKERS[0]
    assert [path.attrib["d"] for path in chart.root.findall(f"{SVG}path")] == [MARKERS[1]]


def test_a_guide_is_a_dashed_line_at_its_height_with_its_words_at_the_right() -> None:
    chart = make_chart(DIAGONAL, guides=(Guide(0.7, "guessing"), Guide(math.nan, "nothing")))
    (line,) = chart.dashed()
    height = chart.bottom - 0.7 * (chart.bottom - chart.top)
    assert line.points == near((chart.left, height), (chart.right, height), within=0.1) and line.dashes != "none"
    x, y = chart.place_of("guessing")
    assert x > chart.right and abs(y - height) < 8


def test_a_guide_that_is_nowhere_takes_no_room() -> None:
    nowhere = (Guide(math.nan, "a long name"), Guide(math.inf, "a long name"))
    assert make_chart(DIAGONAL, guides=nowhere).right == make_chart(DIAGONAL).right


def test_words_of_guides_at_nearly_one_height_do_not_overlap_and_long_ones_wrap() -> None:
    chart = make_chart(DIAGONAL, guides=(Guide(0.5, "the mean of all"), Guide(0.501, "guessing")))
    rows = [chart.place_of(text)[1] for text in ("guessing", "the mean of", "all")]
    assert min(np.diff(rows)) > 11.9


def test_a_mark_is_a_dashed_line_at_its_place_with_words_above_the_frame() -> None:
    chart = make_chart(DIAGONAL, mark=Mark(4, "best"))
    (line,) = chart.dashed()
    col = chart.left + 0.4 * (chart.right - chart.left)
    assert line.points == near((col, chart.top), (col, chart.bottom), within=0.1)
    assert chart.place_of("best")[1] < chart.top


def test_a_range_is_kept_and_what_lies_outside_is_cut_off() -> None:
    chart = make_chart(Series("", [0, 1, 2], [0.5, 3.0, 1e300]), guides=(Guide(9, "far"),), y_range=(0, 2))
    assert [text for text, named in chart.texts if named.get("text-anchor") == "end"] == [
        "0",
        "0.5",
        "1.0",
        "1.5",
        "2.0",
    ]
    shares = chart.shares(chart.curves[0].points)
    assert shares[:2] == near((0, 0.25), (0.5, 1.5)) and 10 < shares[2][1] < 1e6
    assert chart.dashed() == []
    # A drawing within a drawing hides what is outside of it.
    assert float(chart.inner.attrib["height"]) < chart.bottom - chart.top + 10


def test_a_range_along_x_is_kept_too() -> None:
    panel = Panel("", "", (Series("", [0.2, 0.6], [0, 1]),), Mark(3, "far"))
    chart = Chart(drawing(panel, x_range=(0, 1)))
    assert [x for x, _ in chart.shares(chart.curves[0].points)] == pytest.approx([0.2, 0.6], abs=0.002)
    assert chart.dashed() == []


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (0, math.nan), (0, math.inf)])
def test_a_range_that_runs_nowhere_is_a_mistake_of_the_caller(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="a scale cannot run from"):
        make_chart(DIAGONAL, y_range=ends)


@pytest.mark.parametrize("text", ["x" * 500, "<b>&\"'", "two\nlines", "Ж 漢字 \x1b[31m", "\ud800"])
def test_any_text_is_kept_inside_the_drawing(text: str) -> None:
    panel = Panel(text, text, (Series(text, [0, 1], [0, 1]),), Mark(1, text), (Guide(0.5, text),))
    chart = Chart(drawing(panel).encode("utf-8").decode("utf-8"))
    assert all(len(said or "") < 70 for said, _ in chart.texts)
    assert not list(chart.root.iter("b"))


def test_the_label_of_the_last_tick_is_not_cut_off() -> None:
    chart = make_chart(Series("", [0, 200_000], [0, 1]))
    assert chart.place_of("200,000")[0] + 20 <= 340


ODD = [0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, 1 + 1e-15, 123456789.0, math.nan, math.inf, -math.inf]
numbers = st.sampled_from(ODD) | st.floats()


@settings(max_examples=40)
@given(st.lists(st.tuples(numbers, numbers), max_size=5), numbers, numbers)
def test_no_numbers_are_too_odd_to_draw(points: list[tuple[float, float]], mark: float, guide: float) -> None:
    series = Series("name", [x for x, _ in points], [y for _, y in points])
    text = drawing(Panel("title", "step", (series,), Mark(mark, "mark"), (Guide(guide, "guide"),)), y_range=(0, 1))
    assert Chart(text).right > Chart(text).left
    assert "nan" not in text and "inf" not in text


def test_nothing_at_all_can_be_drawn() -> None:
    assert Chart(drawing(Panel("", "", ()))).curves == []


def tiny_charts(
    densities: NDArray[np.float64], names: list[str], titles: list[str] | None = None
) -> tuple[str, list[Chart]]:
    text = distributions(densities, names, titles=titles)
    drawings = [svg for svg in ElementTree.fromstring(text).iter(f"{SVG}svg") if svg.find(f"{SVG}svg") is not None]
    return text, [Chart(ElementTree.tostring(svg, encoding="unicode")) for svg in drawings]


def test_each_feature_has_a_tiny_chart_with_a_curve_for_each_class_on_one_scale() -> None:
    densities = np.array([[[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]], [[1.0, 0.0, 1.0], [0.0, 4.0, 0.0]]])
    _, charts = tiny_charts(densities, ["normal", "metastases"])
    assert [chart.texts[0][0] for chart in charts] == ["1", "2"]
    for feature, chart in enumerate(charts):
        assert chart.root.attrib["aria-label"] == str(feature + 1)
        assert [curve.dashes for curve in chart.curves] == ["none", DASH_PATTERNS[1]]
        for curve, values in zip(chart.curves, densities[:, feature], strict=True):
            assert chart.shares(curve.points) == near(*zip([0, 0.5, 1], values / 4, strict=True))


def test_one_legend_names_the_classes_of_all_charts() -> None:
    text, charts = tiny_charts(np.ones((2, 5, 4)), ["<normal>", "metastases"], titles=list("abcde"))
    assert [chart.texts[0][0] for chart in charts] == list("abcde")
    items = ElementTree.fromstring(text).findall("ul/li")
    assert ["".join(item.itertext()) for item in items] == ["<normal>", "metastases"]
    samples = [item.find(f"{SVG}svg") for item in items]
    assert [lines_of(svg)[0].dashes for svg in samples if svg is not None] == ["none", DASH_PATTERNS[1]]


@pytest.mark.parametrize("value", [math.nan, 0.0, math.inf])
@pytest.mark.parametrize("bins", [0, 1, 5])
def test_densities_without_a_highest_value_can_be_drawn(value: float, bins: int) -> None:
    text, charts = tiny_charts(np.full((2, 3, bins), value), ["a", "b"])
    assert len(charts) == 3 and "nan" not in text and "inf" not in text


def test_a_name_for_each_class_and_a_title_for_each_feature_are_needed() -> None:
    with pytest.raises(ValueError):
        distributions(np.ones((2, 3, 4)), ["one"])
    with pytest.raises(ValueError):
        distributions(np.ones((2, 3, 4)), ["one", "two"], titles=["1"])
