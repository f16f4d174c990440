"""`report.html` of `reproduce`: our table beside the paper's, then how the models count, cluster and draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ucc_path.formats import metrics_csv
from ucc_path.report.chart import Guide, Panel, Series
from ucc_path.report.page import (
    Cell,
    Html,
    Picture,
    Row,
    Section,
    bullets,
    charts,
    data_uri,
    disclosure,
    facts,
    page,
    picture_row,
    table,
)
from ucc_path.report.score_table import NOTHING, duration, figure, settings_list
from ucc_path.report.svg import distributions, drawing
from ucc_path.workflows.curves import loss_panels
from ucc_path.workflows.reproduce.method import METHOD, NAMES_OF_CLASSES, TITLES
from ucc_path.workflows.reproduce.results import FIGURES, Group, Result, grouped, name_of, paper_rows, row_of, spread

_HEAD = {
    "ucc_accuracy": "ucc accuracy",
    "min_js": "min. JS divergence",
    "clustering_kmeans": "k-means",
    "clustering_spectral": "spectral",
    "clustering_merge": "merging",
    "clustering_best": "better of k-means, spectral",
}


def page_of(experiment: str, results: list[Result]) -> str:
    groups = list(grouped(results))
    first = [own[0] for _, own in groups]  # of each model the first seed
    sections = [
        Section("How good", (_scores(experiment, groups), _cost(groups))),
        Section("Along training", (*_along(first),)),
        Section("Counting", (*_counting(first),)),
        Section("Clusters and classes", (*_clusters(experiment, first),)),
        Section("Classes apart", (*_divergence(experiment, first),)),
        Section("Drawn from mean features", (*_drawn(experiment, first),)),
        Section("Training", (*_training(first),)),
        Section("How the figures are made", (bullets(METHOD),)),
        Section("Settings and versions", (*_settings(results),)),
    ]
    footer = "Made by ucc-path reproduce; every figure is in runs/*.json, the table in metrics.csv and paper.csv."
    title = f"Clustering by unique class counts: {TITLES[experiment]}"
    return page(title, lead=_lead(groups), sections=[one for one in sections if one.parts], footer=footer)


def _lead(groups: list[tuple[Group, list[Result]]]) -> list[Html | str]:
    sentences = []
    for group, own in groups:
        mean, low, high = spread(own, "clustering_best")
        seeds = f" (mean of {len(own)} seeds, {figure(low)} to {figure(high)})" if len(own) > 1 else ""
        sentences.append(f"{name_of(group)} puts {figure(mean)} of the test images into the right cluster{seeds}.")
    return ["Networks that were told only how many classes a bag holds, and never which.", bullets(sentences)]


def _scores(experiment: str, groups: list[tuple[Group, list[Result]]]) -> Html:
    published = {(row.model, row.ucc_labels, row.pooling): row for row in paper_rows(experiment)}
    rows = []
    for group, own in groups:
        rows.append(Row(name_of(group), [_spread_cell(own, name) for name in FIGURES]))
        if group in published:
            cells = [Cell(_shown(getattr(published[group], name), name)) for name in FIGURES]
            rows.append(Row(f"paper: {name_of(group)}", cells, kind="reference"))
    caption = (
        "On all test images. Below each mean: the range over seeds. Columns from k-means on are clustering accuracies. "
        "In italics the paper's own figures."
    )
    return table(["model", *(_HEAD[name] for name in FIGURES)], rows, caption=caption)


def _spread_cell(own: list[Result], name: str) -> Cell:
    mean, low, high = spread(own, name)
    span = f"{_shown(low, name)}–{_shown(high, name)}" if len(own) > 1 and math.isfinite(low) else ""
    return Cell(_shown(mean, name), span)


def _shown(value: float, name: str) -> str:
    """A figure as it is read; counting comes so near to 1 that three digits would say it is without error."""
    return f"{value:.4f}" if name == "ucc_accuracy" and math.isfinite(value) else figure(value)


def _cost(groups: list[tuple[Group, list[Result]]]) -> Html:
    rows = []
    for group, own in groups:
        record = own[0].record
        if record["training"]:
            seconds, _, longest = spread(own, "seconds")
            peak = max(int(one.record["figures"]["peak_mb"]) for one in own)
            steps = record["training"][-1]["step"]
            words = [str(len(own)), f"{record['parameters']:,}", f"{steps:,}", duration(seconds), duration(longest)]
            rows.append(Row(name_of(group), [*map(Cell, words), Cell(f"{peak:,} MB"), Cell(str(record["device"]))]))
    head = ["model", "seeds", "parameters", "steps", "training, mean", "longest", "most memory", "on"]
    return table(head, rows, caption="What it cost.") if rows else Html("")


def _along(results: Sequence[Result]) -> list[Html | str]:
    """Clustering accuracy against ucc accuracy, as in the paper's figure, and both against steps."""
    counting = [one for one in results if one.group[0].startswith("ucc") and one.record["curve"]]
    if not counting:
        return []
    against, by_step = [], []
    for one in counting:
        points = one.record["curve"]
        against.append(Series(one.name, [p["ucc_accuracy"] for p in points], [p["clustering"] for p in points]))
        by_step.append(Series(one.name, [p["step"] for p in points], [p["clustering"] for p in points]))
    guides = [Guide(raw, "k-means of pixels") for raw in _raw_kmeans(results)]
    panels = [
        Panel("clustering accuracy against ucc accuracy", "ucc accuracy", tuple(against), guides=tuple(guides)),
        Panel("clustering accuracy along training", "step", tuple(by_step), guides=tuple(guides)),
    ]
    drawings = [drawing(panel, width=460, height=300) for panel in panels]
    caption = "On val images, by k-means; bags as those learnt from."
    return [charts(drawings, caption=caption, least_px=420)]


def _raw_kmeans(results: Sequence[Result]) -> list[float]:
    """How well raw pixels cluster, where that was run."""
    return [row_of(one.record).clustering_kmeans for one in results if one.group[0] == "kmeans"]


def _shaded(
    values: np.ndarray[Any, np.dtype[np.float64]], texts: Sequence[Sequence[str]], names: Sequence[str]
) -> list[Row]:
    return [
        Row(name, [Cell(text, shade=float(value)) for text, value in zip(words, line, strict=True)])
        for name, words, line in zip(names, texts, values, strict=True)
    ]


def _matrix(counts: Sequence[Sequence[int]], names: Sequence[str], *, head: str, caption: str) -> Html:
    """A table of counts, each row shaded by its shares."""
    values = np.array(counts, np.float64)
    shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
    texts = [[f"{count:,}" if count else "" for count in line] for line in counts]
    return table([head, *names], _shaded(shares, texts, names), caption=caption)


def _counting(results: Iterable[Result]) -> list[Html | str]:
    parts: list[Html | str] = []
    for one in results:
        if one.record["counting"]:
            low, _, _high = one.record["variant"]["ucc_labels"].partition("-")
            names = [f"ucc {int(low) + place}" for place in range(len(one.record["counting"]))]
            caption = f"{one.name}: test bags by their count, and by the count that was said of them."
            parts.append(_matrix(one.record["counting"], names, head="is", caption=caption))
    return parts


def _clusters(experiment: str, results: Iterable[Result]) -> list[Html | str]:
    names = NAMES_OF_CLASSES[experiment]
    parts: list[Html | str] = []
    for one in results:
        tables = [
            _matrix(counts, names, head="is", caption=f"{one.name}, {way}: test images by class and by cluster.")
            for way, counts in one.record["clusters"].items()
        ]
        what = "raw pixels" if one.name in one.record["clusters"] else ", ".join(one.record["clusters"])
        parts.append(disclosure(f"{one.name}: {what}", tables))
    return parts


def _divergence(experiment: str, results: Iterable[Result]) -> list[Html | str]:
    names = NAMES_OF_CLASSES[experiment]
    parts: list[Html | str] = []
    for one in results:
        if not one.record["divergence"]:
            continue
        values = np.array(one.record["divergence"], np.float64)
        texts = [
            ["" if row == col else figure(values[row, col]) for col in range(len(values))] for row in range(len(values))
        ]
        apart = table(
            ["", *names],
            _shaded(values / math.log(2), texts, names),
            caption="Jensen-Shannon divergence of the features of two classes; 0 is alike, 0.693 nothing in common.",
        )
        shown = distributions(np.array(one.record["densities"], np.float64), names)
        least = figure(one.record["figures"]["min_js"])
        parts.append(
            disclosure(f"{one.name}: at least {least} apart; the distribution of each feature", [apart, shown])
        )
    return parts


def _drawn(experiment: str, results: Iterable[Result]) -> list[Html | str]:
    pictures = [
        Picture(data_uri("image/png", one.picture), one.name, f"the {len(NAMES_OF_CLASSES[experiment])} classes")
        for one in results
        if one.picture
    ]
    if not pictures:
        return []
    words = f"What each decoder draws of the mean features of a class: {', '.join(NAMES_OF_CLASSES[experiment])}."
    return [words, *(picture_row([picture], largest_px=640) for picture in pictures)]


def _training(results: Iterable[Result]) -> list[Html | str]:
    parts: list[Html | str] = []
    for one in results:
        if one.record["training"]:
            rows = [metrics_csv.MetricsRow(**row) for row in one.record["training"]]
            drawings = [drawing(panel) for panel in loss_panels(rows, one.record["best_step"])]
            parts.append(disclosure(one.key, [charts(drawings)]))
    return parts


def _settings(results: list[Result]) -> list[Html]:
    parts = [disclosure(one.key, [settings_list(one.record["settings"])]) for one in results if one.record["training"]]
    versions = results[0].record["versions"] if results else {NOTHING: NOTHING}
    return [*parts, disclosure("Versions", [facts(versions)])]
