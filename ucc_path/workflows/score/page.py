"""`report.html` of `score`: the table first, then each slide, lesions, pictures, then settings and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ucc_path.evaluation.froc import FALSE_POSITIVES, Froc
from ucc_path.evaluation.scores import FIGURES, figures_of
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING
from ucc_path.formats import jpeg
from ucc_path.report.chart import Panel, Series
from ucc_path.report.comparison import AGREEMENT
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
    legend,
    page,
    picture_row,
    table,
)
from ucc_path.report.score_table import (
    EMPTY_MEANS,
    MEANINGS,
    NOTHING,
    figure,
    in_words,
    percent,
    score_table,
    settings_list,
)
from ucc_path.report.svg import drawing
from ucc_path.workflows.score.results import Results, settings_of
from ucc_path.workflows.score.slide import EXACT, SlideScore
from ucc_path.workflows.versions import versions

_CAPTIONS = {
    "image-tissue": "Mean over slides, tissue alone. Below each figure: its {share} interval, slides drawn again.",
    "pooled-tissue": "The tissue of all slides together.",
    "image": "Mean over slides, glass included. In italics the paper's own figures, on other images.",
    "pooled": "All of all slides together, glass included.",
}

SlidePicture = tuple[str, np.ndarray[Any, np.dtype[np.uint8]]]


def page_of(results: Results, pictures: Mapping[str, Sequence[SlidePicture]]) -> str:
    """`pictures` are those of some slides, by name, in the order in which they are shown."""
    model, folder = results.sources.model, results.request.folder.resolve().name
    sections = [
        Section("How good", (*_tables(results),)),
        Section("Slide by slide", (_by_slide(results),)),
        Section("Lesions", (*_lesions(results),)),
        Section("Pictures", (*_pictures(results, pictures),)),
        Section("How the figures are made", (bullets(_method(results)),)),
        Section("Settings and versions", (*_settings(results),)),
    ]
    footer = "Made by ucc-path score; every figure is in metrics.json. For research use; it is not a medical device."
    lead = _lead(results)
    return page(f"{model} on the slides of {folder}", lead=lead, sections=sections, footer=footer)


def _lead(results: Results) -> list[Html | str]:
    tumour = sum(slide.tumour_mm2 for slide in results.slides)
    slides = len(results.slides)
    data = f"{slides} {'slides' if slides > 1 else 'slide'} with {tumour:.4g} mm² of outlined tumour."
    model = results.sources.model
    sentences = [in_words(f"On tissue, {model}", results.table[model + EXACT]["pooled-tissue"]) + "."]
    empty = results.table[EMPTY]["pooled-tissue"].value[FIGURES.index("PA")]
    sentences.append(f"With no tumour drawn at all, {percent(empty)} of the tissue would be right.")
    if results.froc.lesions:
        score = figure(results.froc.score)
        found = f"{results.froc.hit} of {results.froc.lesions} lesions are hit; FROC score {score} (CAMELYON16)."
        sentences.append(found)
    left_out = sum(slide.left_out_mm2 for slide in results.slides)
    if left_out:
        sentences.append(f"{left_out:.4g} mm² of tissue is left out, since nobody has looked for all tumour there.")
    return [data, bullets([*sentences, *(f"Note: {remark}." for remark in results.remarks)])]


def _tables(results: Results) -> list[Html]:
    share = f"{results.request.evaluation.confidence:.0%}"
    first, *others = _CAPTIONS
    parts = [score_table(results.table, first, caption=_CAPTIONS[first].format(share=share))]
    parts.append(score_table(results.table, others[0], caption=_CAPTIONS[others[0]]))
    rest = [score_table(results.table, name, caption=_CAPTIONS[name]) for name in others[1:]]
    return [*parts, disclosure("Glass included", rest)]


def _by_slide(results: Results) -> Html:
    rows = []
    for slide in results.slides:
        values = figures_of(slide.counts[EXACT]["-tissue"])
        lesions = slide.hits.best_score[~slide.hits.is_itc]
        areas = [f"{slide.tumour_mm2:.4g}", f"{slide.found_mm2:.4g}"]
        hit = f"{np.count_nonzero(np.isfinite(lesions))} of {len(lesions)}" if len(lesions) else NOTHING
        words = [*areas, *map(figure, values), hit, str(len(slide.hits.false_scores))]
        rows.append(Row(slide.name, [Cell(word) for word in words]))
    head = ["slide", "tumour mm²", "found mm²", *FIGURES, "lesions hit", "false alarms"]
    return table(head, rows, caption="Each slide, tissue alone, exact to the pixel; also in images.csv.")


def _lesions(results: Results) -> list[Html | str]:
    if not results.froc.lesions:
        return ["No slide here has a lesion large enough to count, so that there is no FROC."]
    sizes = {
        "all lesions": results.froc,
        **results.froc_by_size,
        "as the organisers' program": results.froc_as_organisers,
    }
    rows = [Row(name, _froc_cells(found)) for name, found in sizes.items()]
    head = ["lesions", "there", "hit", "FROC", *(f"at {rate:g}" for rate in FALSE_POSITIVES)]
    panel = froc_panel(results)
    caption = (
        "Share of lesions that are hit at so many false alarms a slide, by size; the score is the mean of the six. "
        "Isolated tumour cells (below 275 µm) are not in all lesions."
    )
    near = replace(panel, title=f"Up to {FALSE_POSITIVES[-1]:g} false alarms a slide")
    curves = [
        drawing(panel, y_range=(0.0, 1.0)),
        drawing(near, x_range=(0.0, FALSE_POSITIVES[-1]), y_range=(0.0, 1.0)),
    ]
    return [table(head, rows, caption=caption), charts(curves, caption="From the surest polygons to all of them.")]


def froc_panel(results: Results) -> Panel:
    """Lesions found against false alarms."""
    curve = Series("all lesions", results.froc.false_positives.tolist(), results.froc.sensitivity.tolist())
    return Panel("Lesions found", "false alarms a slide", (curve,))


def _froc_cells(found: Froc) -> list[Cell]:
    return [
        Cell(str(found.lesions)),
        Cell(str(found.hit)),
        Cell(figure(found.score)),
        *(Cell(figure(at)) for at in found.at),
    ]


def _pictures(results: Results, pictures: Mapping[str, Sequence[SlidePicture]]) -> list[Html | str]:
    by_name = {slide.name: slide for slide in results.slides}
    parts: list[Html | str] = [
        "The slides with the highest, the middle and the lowest balanced accuracy; the others are in figures/.",
        legend(AGREEMENT),
    ]
    for name, own in pictures.items():
        shown_here = [
            Picture(data_uri("image/jpeg", jpeg.encode(pixels)), label, f"{label} of {name}") for label, pixels in own
        ]
        parts.append(picture_row(shown_here, caption=_caption(by_name[name]), largest_px=520))
    return parts


def _caption(slide: SlideScore) -> str:
    values = dict(zip(FIGURES, figures_of(slide.counts[EXACT]["-tissue"]), strict=True))
    words = ", ".join(f"{name} {figure(values[name])}" for name in ("TPR", "FPR", "PA", "balanced", "IoU"))
    return f"{slide.name}: {words}."


def _method(results: Results) -> list[str]:
    model = results.sources.model
    return [
        *MEANINGS,
        f"{model}: cell by cell of the mask's grid; a cell is what most of it is. {model}{EXACT}: the same mask to the "
        "pixel, by the area of its polygons inside and outside the outlines.",
        EMPTY_MEANS,
        f"{GRID_CEILING} is the truth on the grid: the highest PA that a mask of such cells can reach.",
        "Tissue is what the model judged; the rest is background and counts as not tumour.",
        "Intervals are percentiles of the figures of slides drawn again with replacement, "
        f"{results.request.evaluation.resamples:,} times.",
        "Where not all tumour of a slide is outlined, only its outlined tumour counts (TPR, FNR), and no false alarms.",
        "FROC as CAMELYON16: outlines closer than 75 µm are one lesion; those with a major axis below 275 µm are "
        "isolated tumour cells and ignored. Each polygon of tumour is one detection, at its innermost cell, with its "
        "score (the mean certainty of its cells) as confidence. Here with each slide's own scale; the organisers' "
        "program takes 0.243 µm/px for all, which is the last row.",
        f"FROC is of {results.froc_slides} slides, those whose tumour is all outlined.",
    ]


def _settings(results: Results) -> list[Html]:
    data = {
        "slides": str(results.request.folder),
        "annotations": str(results.request.annotations),
        "model": f"{results.sources.slides[0].record['model']['path']}",
    }
    return [
        facts(data),
        disclosure("Settings", [settings_list(settings_of(results))]),
        disclosure("Versions", [facts(versions())]),
    ]
