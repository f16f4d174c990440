"""The figures of models as tables of a page, and what they mean in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ucc_path.evaluation.paper import PAPER
from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import Summary, Table
from ucc_path.report.page import Cell, Html, Row, facts, table

NOTHING = "–"
MEANINGS = (
    "TPR: share of the tumour that is found. FPR: share of the rest that is taken for tumour. TNR = 1 − FPR, "
    "FNR = 1 − TPR. PA, pixel accuracy: share of all pixels that are right.",
    "balanced: the mean of TPR and TNR, which a mask without tumour cannot raise above 0.5. IoU: what is tumour in "
    "both masks, divided by what is tumour in either; Dice: the same counted twice, divided by the sum of both.",
    "Where an image has no tumour but some is predicted, IoU and Dice are 0.",
    "Background counts as not tumour. What is not defined, such as the TPR of an image without tumour, is left out of "
    "means and shown as –.",
)
EMPTY_MEANS = "empty is the mask in which nothing is tumour: its PA is what a model without any worth reaches here."


def figure(value: float | None) -> str:
    """A figure as it is read.

    >>> figure(0.8184), figure(math.nan)
    ('0.818', '–')
    """
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.3f}"


def span(low: float, high: float) -> str:
    """An interval as it is read; nothing where it is not known."""
    return f"{low:.3f}–{high:.3f}" if math.isfinite(low) and math.isfinite(high) else ""


def score_table(scores: Table, averaging: str, *, caption: str, by_slides: bool = False) -> Html:
    """One row a model; `by_slides` shows the intervals with slides drawn again.

    Beside the mean over images stand the paper's own figures, which are the same mean of other images.
    """
    rows = [Row(model, _cells(by_averaging[averaging], by_slides)) for model, by_averaging in scores.items()]
    if averaging == "image":
        rows += [Row(f"paper: {name}", _published(values), kind="reference") for name, values in PAPER.items()]
    return table(["model", *FIGURES], rows, caption=caption)


def _cells(summary: Summary, by_slides: bool) -> list[Cell]:
    lows, highs = (summary.low_slides, summary.high_slides) if by_slides else (summary.low, summary.high)
    return [Cell(figure(value), span(low, high)) for value, low, high in zip(summary.value, lows, highs, strict=True)]


def _published(values: Mapping[str, float]) -> list[Cell]:
    return [Cell(figure(values.get(name))) for name in FIGURES]


def in_words(name: str, summary: Summary) -> str:
    """A model's figures as a sentence."""
    found, alarm, right = (summary.value[FIGURES.index(which)] for which in ("TPR", "FPR", "PA"))
    return (
        f"{name} finds {percent(found)} of the tumour and takes {percent(alarm)} of the rest for tumour; "
        f"{percent(right)} of the pixels are right"
    )


def ranked(scores: Table, models: Sequence[str], averaging: str, which: str) -> str:
    """Models from the best to the worst by one figure, with the figure."""
    place = FIGURES.index(which)
    values = {model: float(scores[model][averaging].value[place]) for model in models}
    known = sorted((model for model in models if math.isfinite(values[model])), key=lambda model: -values[model])
    return ", ".join(f"{model} {figure(values[model])}" for model in known)


def percent(share: float) -> str:
    """
    >>> percent(0.071), percent(0.9962), percent(math.nan)
    ('7\\xa0%', '99.6\\xa0%', 'an unknown share')
    """
    if 0 < share < 0.01 or 0.99 < share < 1:  # all and nothing are to be said only of those
        return f"{100 * share:.1f}\u00a0%"
    return f"{100 * share:.0f}\u00a0%" if math.isfinite(share) else "an unknown share"


def duration(seconds: float | None) -> str:
    """
    >>> duration(245), duration(42.3), duration(7300), duration(None)
    ('4 min 5 s', '42 s', '2 h 1 min', '–')
    """
    if seconds is None:
        return NOTHING
    minutes, left = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def settings_list(settings: Mapping[str, Mapping[str, object]]) -> Html:
    """Settings by table, as a list to read."""
    return facts({f"{group} {name}": shown(value) for group, own in settings.items() for name, value in own.items()})


def shown(value: object) -> str:
    """A setting as it is read."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or NOTHING
    return f"{value:g}" if isinstance(value, float) else str(value)
