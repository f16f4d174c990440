"""`report.html` of `evaluate`: the table first, then pictures, then curves, then settings and versions."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING
from ucc_path.formats import jpeg
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
    escaped,
    facts,
    link,
    page,
    paragraph,
    picture_row,
    table,
)
from ucc_path.report.score_table import (
    EMPTY_MEANS,
    MEANINGS,
    NOTHING,
    duration,
    figure,
    in_words,
    percent,
    ranked,
    score_table,
    settings_list,
)
from ucc_path.report.svg import distributions, drawing
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.curves import loss_panels
from ucc_path.workflows.evaluate.pictures import Shown
from ucc_path.workflows.evaluate.results import ModelResult, Results, settings_of
from ucc_path.workflows.evaluate.runs import COLOUR, KMEANS, PIXELS
from ucc_path.workflows.versions import versions

_CAPTIONS = {
    "image": "Mean over images, all pixels, as the paper reports. Below each figure: its {share} interval, {drawn} "
    "drawn again. In italics the paper's own figures, on other images.",
    "image-tissue": "Mean over images, tissue alone.",
    "pooled": "All pixels of all images together.",
    "pooled-tissue": "All pixels of tissue together.",
}


def page_of(results: Results, tiles: Sequence[Shown], dataset_href: str) -> str:
    """`dataset_href` leads from the report to the data set."""
    request = results.request
    names = ", ".join(model.run.name for model in results.models)
    title = f"{names} on {request.split} tiles of {request.dataset.resolve().name}"
    sections = [
        Section("How good", (*_tables(results),)),
        Section("What it cost", (_costs(results),)),
        Section("Pictures", (*_pictures(results, tiles, dataset_href),)),
        Section("Counting", (*_counting(results),)),
        Section("Features", (*_features(results),)),
        Section("Training", (*_training(results),)),
        Section("How the figures are made", (bullets(_method(results)),)),
        Section("Settings and versions", (*_settings(results),)),
    ]
    footer = "Made by ucc-path evaluate; every figure is in metrics.json. For research use; it is not a medical device."
    return page(title, lead=_lead(results), sections=[one for one in sections if one.parts], footer=footer)


def _lead(results: Results) -> list[Html | str]:
    row, slides = results.rows[0], len(results.slides)
    where = f"{slides} slides" if slides > 1 else f"one slide, {results.slides[0]}"
    data = (
        f"{len(results.rows)} tiles of {row.tile_px} px at {row.mpp:g} µm/px from {where}. Tumour covers "
        f"{percent(results.tumour_share(''))} of them and {percent(results.tumour_share('-tissue'))} of their tissue."
    )
    empty = results.table[EMPTY]["image"].value[FIGURES.index("PA")]
    names = [name for name in results.table if name not in (EMPTY, GRID_CEILING)]
    order = ranked(results.table, names, "pooled-tissue", "balanced")
    sentences = [
        *(in_words(model.run.name, results.table[model.run.name]["image"]) + "." for model in results.models),
        f"With no tumour drawn at all, {percent(empty)} of the pixels would be right; so look at the balanced "
        f"accuracy, which is 0.5 then. On all tissue together: {order}.",
    ]
    return [data, bullets([*sentences, *(f"Note: {remark}." for remark in results.remarks)])]


def _tables(results: Results) -> list[Html]:
    share = f"{results.request.evaluation.confidence:.0%}"
    first, *others = _CAPTIONS
    scores = results.table
    parts = [score_table(scores, first, caption=_CAPTIONS[first].format(share=share, drawn="images"))]
    if any(np.isfinite(found[first].low_slides).any() for found in scores.values()):
        caption = _CAPTIONS[first].format(share=share, drawn="whole slides")
        again = score_table(scores, first, caption=caption, by_slides=True)
        parts.append(disclosure("The same with intervals over slides", [again]))
    parts += [score_table(scores, name, caption=_CAPTIONS[name]) for name in others[:1]]
    pooled = [score_table(scores, name, caption=_CAPTIONS[name]) for name in others[1:]]
    return [*parts, disclosure("All pixels together, whatever image they are of", pooled)]


def _costs(results: Results) -> Html:
    rows = []
    for model in results.models:
        cost = model.cost
        tiles = NOTHING if cost.tiles is None else f"{cost.tiles:,}"
        words = [cost.learnt_from, tiles, f"{cost.parameters:,}", duration(cost.seconds), cost.device or NOTHING]
        rows.append(Row(model.run.name, [*map(Cell, words), Cell("yes" if model.run.card.converged else "no")]))
    head = ["model", "learnt from", "train tiles", "parameters", "training", "on", "learnt anything"]
    return table(head, rows, caption="What each model was given, and the time it took.")


def _pictures(results: Results, tiles: Sequence[Shown], dataset_href: str) -> list[Html | str]:
    if not tiles:
        return []
    first = results.models[0].run.name
    parts: list[Html | str] = [
        f"Tumour is shown at full strength with a line around it; everything else is faded. Tiles are chosen by the "
        f"pixel accuracy (PA) of {first} on tissue: of tiles that hold both kinds the best, the typical and the worst; "
        "then the worst of those that hold one kind."
    ]
    for one in tiles:
        row = one.row
        place = f"{row.slide}, x {row.x_l0:,} y {row.y_l0:,}"
        href = f"{dataset_href}/images/{row.split}/{quote(row.tile_id)}.png"
        kind = row.kind or "no kind"
        words = f"{one.sort.capitalize()}: PA {figure(one.accuracy)}, {kind}, "
        caption = Html(escaped(words) + link(href, place) + escaped(" (level-0 pixels of the slide)"))
        pictures = [
            Picture(data_uri("image/jpeg", jpeg.encode(pixels)), name, f"{name} of {row.tile_id}")
            for name, pixels in one.pictures
        ]
        parts.append(picture_row(pictures, caption=caption))
    return parts


def _counting(results: Results) -> list[Html | str]:
    parts: list[Html | str] = []
    for model in results.models:
        found = model.counting
        if found is None:
            continue
        parts.append(
            f"{model.run.name} counts the classes of {figure(found.accuracy)} of the tiles rightly (ucc accuracy); "
            f"{figure(found.balanced)} as the mean over the counts, since they are not equally frequent."
        )
        of_row = np.maximum(found.confusion.sum(axis=1, keepdims=True), 1)
        shares = found.confusion / of_row
        rows = [
            Row(
                f"is {label}", [Cell(f"{count:,}", shade=float(share)) for count, share in zip(line, part, strict=True)]
            )
            for label, line, part in zip(found.labels, found.confusion.tolist(), shares, strict=True)
        ]
        head = [model.run.name, *(f"taken for {label}" for label in found.labels)]
        parts.append(table(head, rows, caption="Tiles by their label and by what the model says."))
    return parts


def _features(results: Results) -> list[Html | str]:
    parts: list[Html | str] = []
    for model in results.models:
        if model.features is None:
            continue
        counts = ", ".join(f"{count:,} {name}" for name, count in zip(CLASSES, model.features.patches, strict=True))
        parts.append(
            f"{model.run.name}: Jensen-Shannon divergence {figure(model.features.divergence)} between the features of "
            f"the two classes ({counts} patches); 0 is alike, 0.693 has nothing in common."
        )
        if np.isfinite(model.features.densities).all():
            title = f"Distribution of each feature of {model.run.name}"
            parts.append(disclosure(title, [distributions(model.features.densities, CLASSES)]))
    return parts


def _training(results: Results) -> list[Html | str]:
    parts: list[Html | str] = []
    for model in results.models:
        if model.run.metrics:
            panels = loss_panels(model.run.metrics, model.cost.best_step)
            parts.append(charts([drawing(panel) for panel in panels], caption=_how_it_learnt(model)))
    return parts


def _how_it_learnt(model: ModelResult) -> str:
    return f"{model.run.name}: model {model.run.card.model}, learnt from {model.cost.learnt_from}."


def _method(results: Results) -> list[str]:
    request, patch_px = results.request, results.patch_px
    least = request.segmentation.min_tissue
    matched = {
        "names": "by the names in the model, which pure training tiles gave them",
        "oracle": "by the truth of these very tiles, the best match there is (--match oracle): kinder than any use",
    }[request.match]
    method = [
        *MEANINGS,
        EMPTY_MEANS,
        f"{GRID_CEILING} is the truth on the grid, each patch being what most of it is: the highest PA that masks of "
        f"{patch_px}-px patches can reach.",
        f"{KMEANS}: raw pixels of {results.baseline_split} patches in two clusters. {COLOUR}: a linear classifier on "
        f"the mean colour of {results.baseline_split} patches, taught by the pure tiles.",
        f"All are judged on the same tiles and the same grid of {patch_px}-px patches; a patch that is less than "
        f"{least:.0%} tissue is background.",
        f"Clusters are matched to classes {matched}.",
        "Intervals are percentiles of the figures of images (or slides) drawn again with replacement, "
        f"{request.evaluation.resamples:,} times, the same draws for all models.",
        "Counting: all patches of tissue of a tile are one bag.",
        "Divergence: of each feature by itself, its kernel density at the model's bins over all patches of a class, "
        "divided by its sum; Jensen-Shannon with the natural logarithm; mean over features. A patch is of the class "
        "that most of it is. The paper does not say how its figures were taken.",
        "The paper's figures are those of its own crops of CAMELYON16 and stand there for orientation only.",
    ]
    if any(name.endswith(PIXELS) for name in results.table):
        method.append(
            "A Unet sees pixels, and a UCC model with a second round has one. On the grid a patch gets the class that "
            f"is likelier over its pixels; {PIXELS} behind a name is the mask as fine as it is, as in the pictures."
        )
    return method


def _settings(results: Results) -> list[Html]:
    runs = {model.run.name: f"{model.run.path} (sha256 {model.run.sha256[:12]})" for model in results.models}
    trained = [
        disclosure(f"How {model.run.name} was trained", [settings_list(model.trained_with)])
        for model in results.models
        if model.trained_with
    ]
    data = {"data set": str(results.request.dataset), "split": results.request.split, "match": results.request.match}
    return [
        paragraph("Models and data"),
        facts({**data, **runs}),
        disclosure("Settings", [settings_list(settings_of(results.request))]),
        *trained,
        disclosure("Versions", [facts(versions())]),
    ]
