"""Models are compared on tiles whose tumour is known, and a report is written: the work of `ucc-path evaluate`.

Tiles are read a few at a time and leave only their counts, so that memory does not grow with their number.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ucc_path.ahead import in_order, usable_cores
from ucc_path.errors import ModelError
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING, Table
from ucc_path.formats import image_scores_csv, png, report_csv, report_html, report_json
from ucc_path.formats.atomic import replacing_folder
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.report.comparison import strip
from ucc_path.report.svg import drawing
from ucc_path.stain import Change
from ucc_path.tissue import check_tissue_settings
from ucc_path.workflows.curves import loss_panels
from ucc_path.workflows.evaluate.adapting import adapt
from ucc_path.workflows.evaluate.baseline import baselines
from ucc_path.workflows.evaluate.judges import Empty, GridCeiling
from ucc_path.workflows.evaluate.page import page_of
from ucc_path.workflows.evaluate.pictures import Shown, choose, draw
from ucc_path.workflows.evaluate.remarks import check_names, remarks_on
from ucc_path.workflows.evaluate.request import EvaluateRequest, choose_tiles
from ucc_path.workflows.evaluate.results import Results, image_names, record_of, results_of
from ucc_path.workflows.evaluate.runs import (
    COLOUR,
    KMEANS,
    Contestant,
    Run,
    check_fits,
    contestant,
    read_runs,
)
from ucc_path.workflows.evaluate.tally import Tally, TileCounts, count_tiles
from ucc_path.workflows.evaluate.tiles import Reading, chunks, read_tile, standards
from ucc_path.workflows.events import Event, Notice, Progress, Step

__all__ = ["EvaluateReport", "EvaluateRequest", "evaluate"]

FIGURES_FOLDER = "figures"
_PATCHES_AT_ONCE = 512


@dataclass(frozen=True, slots=True, eq=False)
class EvaluateReport:
    """What came of it."""

    output: Path
    table: Table


def evaluate(request: EvaluateRequest) -> Generator[Event, None, EvaluateReport]:
    """Judges the tiles by all models and baselines, and writes the report."""
    check_tissue_settings(request.tissue)
    rows, notices = choose_tiles(request)
    runs = read_runs(request.models)
    for run in runs:
        check_fits(run, rows, request.dataset)
    remarks = [remark for run in runs for remark in remarks_on(run, rows, request.dataset, request.split)]
    notes = [*notices, *map(Notice, remarks)]
    yield from notes
    patch_px = runs[0].card.settings.patch_px
    reading = Reading(request.dataset, patch_px, request.segmentation.min_tissue, request.tissue)
    with replacing_folder(request.output, marker=report_json.NAME, overwrite=request.overwrite) as folder:
        known = yield from _standards(rows, runs, reading)
        contestants, baseline_split = yield from _contestants(request, runs, reading, rows[0].tile_px, notes)
        if request.segmentation.adapt > 0:
            yield from adapt(rows, contestants, known, reading)
        tallies = yield from _judge(rows, contestants, known, reading)
        yield Step("Writing the report")
        every = [note.text for note in notes]
        results = results_of(request, rows, tallies, patch_px=patch_px, baseline_split=baseline_split, remarks=every)
        shown = list(_shown(results, tallies, known, reading))
        _write(folder, results, shown)
    return EvaluateReport(request.output, results.table)


def _standards(
    rows: Sequence[TileRow], runs: Sequence[Run], reading: Reading
) -> Generator[Event, None, Mapping[str, Change]]:
    """Of the slides' stains, where a model looks at them."""
    if all(run.card.settings.colours != "slide" for run in runs):
        return {}
    slides = len({row.slide for row in rows})
    found: dict[str, Change] = {}
    yield Progress("looking at stains", 0, slides, "slides")
    for slide, standard in standards(rows, reading, usable_cores()):
        found[slide] = standard
        yield Progress("looking at stains", len(found), slides, "slides")
    return found


def _contestants(
    request: EvaluateRequest, runs: Sequence[Run], reading: Reading, tile_px: int, notes: list[Notice]
) -> Generator[Event, None, tuple[list[Contestant], str]]:
    """The models, then what they are compared with; and the split that the baselines are of.

    What is to be said of them is added to `notes`.
    """
    known = len(notes)
    threads, found = usable_cores(), []
    for run in runs:
        found.append(contestant(run, request.segmentation, request.device, tile_px=tile_px, threads=threads))
        check_names(found[-1], request)
        if found[-1].remark:
            notes.append(Notice(f"{run.name}: {found[-1].remark}"))
    plain = yield from baselines(request, reading, threads)
    kmeans = Contestant(KMEANS, plain.kmeans, has_clusters=True)
    try:
        check_names(kmeans, request)
        found.append(kmeans)
    except ModelError:
        notes.append(Notice("no kinds of tiles are known, so that raw clusters have no names: kmeans is left out"))
    if plain.colour is not None:
        found.append(Contestant(COLOUR, plain.colour))
    if plain.split != "train":
        notes.append(Notice(f"there are no train tiles, so that the baselines are made of {plain.split} tiles"))
    yield from notes[known:]
    return [*found, Contestant(EMPTY, Empty()), Contestant(GRID_CEILING, GridCeiling())], plain.split


def _judge(
    rows: Sequence[TileRow], contestants: Sequence[Contestant], known: Mapping[str, Change], reading: Reading
) -> Generator[Event, None, list[Tally]]:
    tallies = [Tally(one) for one in contestants]
    patches = max(1, reading.patch_side(rows[0]) ** 2)
    groups = list(chunks(rows, max(1, _PATCHES_AT_ONCE // patches)))

    def work(group: list[TileRow]) -> list[list[TileCounts]]:
        tiles = [read_tile(row, reading) for row in group]
        return count_tiles(tiles, contestants, known.get(group[0].slide))

    done = 0
    yield Progress("judging", 0, len(rows), "tiles")
    for group, found in zip(groups, in_order(work, groups, usable_cores()), strict=True):
        for row, counted in zip(group, found, strict=True):
            for tally, own in zip(tallies, counted, strict=True):
                tally.add(row, own)
        done += len(group)
        yield Progress("judging", done, len(rows), "tiles")
    return tallies


def _shown(
    results: Results, tallies: Sequence[Tally], known: Mapping[str, Change], reading: Reading
) -> Generator[Shown, None, None]:
    """The tiles in the report, judged once more, since their masks were not kept."""
    first = results.counts[results.models[0].run.name]["-tissue"]
    drawn = [tally for tally in tallies if tally.contestant.run or tally.contestant.name == KMEANS]
    accuracy = (first[:, 0] + first[:, 2]) / first.sum(axis=1).clip(min=1)
    for sort, places in choose(first, results.request.evaluation.pictures).items():
        for place in places:
            row = results.rows[place]
            pictures = draw(read_tile(row, reading), drawn, known.get(row.slide), results.request.match)
            yield Shown(sort, row, float(accuracy[place]), tuple(pictures))


def _write(folder: Path, results: Results, shown: Sequence[Shown]) -> None:
    figures = folder / FIGURES_FOLDER
    figures.mkdir()
    for number, one in enumerate(shown, start=1):
        png.write(figures / f"{number:02}_{one.sort.replace(' ', '_')}_{one.row.tile_id}.png", strip(one.pictures))
    for model in results.models:
        for panel in loss_panels(model.run.metrics, model.cost.best_step) if model.run.metrics else ():
            name = f"training_{model.run.name}_{panel.title}".replace(" ", "_").replace("/", "_")
            report_html.write(figures / f"{name}.svg", drawing(panel))
    report_csv.write(folder, results.table)
    image_scores_csv.write(folder, image_names(results.rows), results.counts)
    dataset_href = results.request.dataset.resolve().as_uri()
    with suppress(ValueError):  # on another drive
        dataset_href = quote(os.path.relpath(results.request.dataset.resolve(), results.request.output.resolve()))
    report_html.write(folder / report_html.NAME, page_of(results, shown, dataset_href))
    report_json.write(folder, record_of(results))
