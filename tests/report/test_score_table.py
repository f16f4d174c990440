"""The figures of models as they are read on a page."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from ucc_path.evaluation.summary import Summary, Table
from ucc_path.report.score_table import MEANINGS, duration, figure, in_words, percent, ranked, score_table, shown, span

FIGURES = ["TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice"]
PAPER = {
    "paper: UCC": ["0.818", "0.149", "0.851", "0.182", "0.863", "–", "–", "–"],
    "paper: Unet": ["0.860", "0.126", "0.874", "0.140", "0.889", "–", "–", "–"],
    "paper: k-means": ["0.370", "0.271", "0.729", "0.630", "0.512", "–", "–", "–"],
}
AVERAGINGS = ["image", "pooled", "image-tissue", "pooled-tissue"]
EVIL = "<b>a</b> & \"c\" 'd'"


def make_summary(first: float = 0.0) -> Summary:
    """Figures of which no two are alike: a tenth more each, and hundredths around them."""
    value = first + np.arange(8) / 10
    return Summary(value, value - 0.01, value + 0.02, value - 0.03, value + 0.04)


def make_table(**first: float) -> Table:
    """Each averaging is a thousandth more than the one before it."""
    return {
        model: {name: make_summary(value + place / 1000) for place, name in enumerate(AVERAGINGS)}
        for model, value in first.items()
    }


def element(html: str) -> ElementTree.Element:
    """The table as a browser would have it; what is not closed or not escaped is refused."""
    return ElementTree.fromstring(html)


def rows_of(html: str, *, small: bool = False) -> dict[str, list[str]]:
    """By the name of the row, the figures or what stands small below them."""
    return {
        str(row[0].text): [
            (cell.findtext("small") or "") if small else str(cell.text).strip() for cell in row.findall("td")
        ]
        for row in element(html).iterfind(".//tbody/tr")
    }


def test_a_figure_has_three_decimals_or_is_a_dash() -> None:
    assert [figure(value) for value in (0.8184, 0.8186, 1.0, 0.0)] == ["0.818", "0.819", "1.000", "0.000"]
    assert [figure(value) for value in (None, math.nan, math.inf)] == ["–"] * 3


def test_a_span_has_two_ends_or_is_not_there() -> None:
    assert span(0.1234, 0.9876) == "0.123–0.988"
    assert [span(0.1, math.nan), span(math.nan, 0.1), span(math.nan, math.nan)] == [""] * 3


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0, "0 s"),
        (42.3, "42 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),  # never 60 s
        (245, "4 min 5 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7300, "2 h 1 min"),  # seconds are left out, not rounded
        (100 * 3600, "100 h 0 min"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_a_share_is_said_in_whole_percent() -> None:
    # The sign does not go to the next line without its number.
    assert [percent(share) for share in (0.0, 0.071, 0.678, 1.0)] == ["0\xa0%", "7\xa0%", "68\xa0%", "100\xa0%"]
    assert percent(math.nan) == "an unknown share"


def test_the_figures_of_a_model_are_said_in_words() -> None:
    summary = make_summary()  # TPR 0, FPR 0.1, PA 0.4
    assert in_words("m", summary) == (
        "m finds 0\xa0% of the tumour and takes 10\xa0% of the rest for tumour; 40\xa0% of the pixels are right"
    )
    assert in_words("m", Summary(*[np.full(8, np.nan)] * 5)).startswith("m finds an unknown share of the tumour")


def test_models_are_ranked_from_the_best_by_the_figure_asked_for_and_those_without_it_are_left_out() -> None:
    table = make_table(low=0.1, high=0.3, other=0.9, unknown=math.nan)
    assert ranked(table, ["low", "unknown", "high"], "pooled", "FPR") == "high 0.401, low 0.201"
    assert ranked(table, ["unknown"], "pooled", "FPR") == ""


def test_a_setting_is_shown_as_it_is_read() -> None:
    assert [shown(value) for value in (0.1, 1e-4, 2.0, 7, True, "fast", None)] == [
        *("0.1", "0.0001", "2", "7", "True", "fast", "None"),
    ]
    assert [shown(value) for value in ((1, 2), ["a"], ())] == ["1, 2", "a", "–"]


def test_a_table_has_a_column_a_figure_and_a_row_a_model_in_the_order_given() -> None:
    html = score_table(make_table(b=0.1, a=0.2), "pooled", caption="All pixels together.")
    assert [head.text for head in element(html).iterfind(".//thead/tr/th")] == ["model", *FIGURES]
    assert list(rows_of(html)) == ["b", "a"]
    assert element(html).findtext("figcaption") == "All pixels together."


@pytest.mark.parametrize(
    ("averaging", "last"), [("image", 0), ("pooled", 1), ("image-tissue", 2), ("pooled-tissue", 3)]
)
def test_a_model_has_the_figures_of_the_averaging_asked_for(averaging: str, last: int) -> None:
    html = score_table(make_table(m=0.1), averaging, caption="")
    assert rows_of(html)["m"] == [f"0.{tenths}0{last}" for tenths in range(1, 9)]


def test_below_each_figure_stands_its_interval_over_images_or_over_slides() -> None:
    table = make_table(m=0.1)
    by_image, by_slide = (score_table(table, "image", caption="", by_slides=is_so) for is_so in (False, True))
    assert rows_of(by_image, small=True)["m"] == [f"0.{low}90–0.{low + 1}20" for low in range(8)]
    assert rows_of(by_slide, small=True)["m"] == [f"0.{low}70–0.{low + 1}40" for low in range(8)]
    assert rows_of(by_image)["m"] == rows_of(by_slide)["m"]


def test_the_papers_figures_stand_apart_below_the_mean_over_images() -> None:
    html = score_table(make_table(m=0.1), "image", caption="")
    own, reference = element(html).iterfind(".//tbody")
    assert [body.get("class") for body in (own, reference)] == ["", "reference"]
    assert [row[0].text for row in own] == ["m"] and [row[0].text for row in reference] == list(PAPER)
    assert {name: row for name, row in rows_of(html).items() if name != "m"} == PAPER
    assert set(rows_of(html, small=True)["paper: UCC"]) == {""}


@pytest.mark.parametrize("averaging", ["pooled", "image-tissue", "pooled-tissue"])
def test_the_papers_figures_do_not_stand_beside_what_the_paper_does_not_report(averaging: str) -> None:
    assert list(rows_of(score_table(make_table(m=0.1), averaging, caption=""))) == ["m"]


def test_what_is_not_defined_is_a_dash_without_an_interval() -> None:
    summary = make_summary(0.1)
    for part in (summary.value, summary.low, summary.high):
        part[0] = np.nan
    html = score_table({"m": {"pooled": summary}}, "pooled", caption="")
    assert rows_of(html)["m"][:2] == ["–", "0.200"]
    assert rows_of(html, small=True)["m"][:2] == ["", "0.190–0.220"]
    assert "shown as –" in " ".join(MEANINGS)


def test_names_and_words_are_text_whatever_they_hold() -> None:
    html = score_table(make_table(**{EVIL: 0.1, "b": 0.2}), "pooled", caption=EVIL)
    assert list(rows_of(html)) == [EVIL, "b"]
    assert element(html).findtext("figcaption") == EVIL
    assert element(html).find(".//b") is None
