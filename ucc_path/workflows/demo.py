"""The whole workflow, from slides to a report, on slides it makes itself or on the user's own: `ucc-path demo`.

Every stage does what its command does, and says what would be typed. What an earlier run has finished is used again, so
that an interrupted demo goes on where it was.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from ucc_path.errors import DatasetError, OutputError
from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import EMPTY, Table
from ucc_path.formats import dataset_json, tiles_csv
from ucc_path.formats.atomic import explaining
from ucc_path.settings import TilingSettings, TrainingSettings
from ucc_path.synthetic import make_slide
from ucc_path.workflows.evaluate import EvaluateRequest, evaluate
from ucc_path.workflows.evaluate.runs import COLOUR, KMEANS
from ucc_path.workflows.events import Event, Progress, Step
from ucc_path.workflows.score import ScoreRequest, score_slides
from ucc_path.workflows.score.slide import EXACT
from ucc_path.workflows.segment import SegmentRequest, segment
from ucc_path.workflows.slides import by_name, expand
from ucc_path.workflows.tile import TileRequest, tile
from ucc_path.workflows.train import TrainRequest, train

SLIDE_PX = (6000, 6000)
SLIDE_MPP = 0.5
TUMOUR_SHARES = (0.5, 0.4, 0.6, 0.45, 0.55)  # of the tissue of each slide
TILING = TilingSettings(tile_px=256, per_slide=24)
OWN_TILING = TilingSettings(per_slide=40)
TRAINING = TrainingSettings(supervision="kind", steps=400)
UNET_TRAINING = TrainingSettings(steps=150, crop_px=128, evaluate_every=25)

STAGES = 7


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """Where to work, and on what."""

    output: Path
    slides: Path | None = None  # the user's own; None: they are made
    annotations: Path | None = None  # of those; None: beside them
    tiling: TilingSettings = TILING
    training: TrainingSettings = TRAINING
    unet_training: TrainingSettings = UNET_TRAINING
    workers: int = 1
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a demo."""

    slides: Path
    dataset: Path
    ucc: Path
    unet: Path
    segmented: Path
    report: Path
    slide_report: Path

    @classmethod
    def of(cls, output: Path, slides: Path | None) -> Places:
        names = ("dataset", "ucc", "unet", "segmented", "report", "report-slides")
        return cls(slides or output / "slides", *(output / name for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class DemoReport:
    """What came of it."""

    places: Places
    unseen: tuple[str, ...]  # names of the slides that were segmented
    tiles: Table  # figures on the tiles of those slides
    slides: Table  # figures on all of them

    def in_words(self) -> str:
        """How much of the tissue that no model has seen each one gets right."""
        pa = FIGURES.index("PA")
        on_tiles = {name: found["pooled-tissue"].value[pa] for name, found in self.tiles.items()}
        on_slide = self.slides[self.places.ucc.name + EXACT]["pooled-tissue"].value[pa]
        others = ", ".join(
            f"{name} {on_tiles[row]:.3f}"
            for name, row in (
                ("Unet", self.places.unet.name),
                ("raw k-means", KMEANS),
                ("colour", COLOUR),
                (EMPTY, EMPTY),
            )
            if row in on_tiles
        )
        return (
            f"On unseen tissue ({', '.join(self.unseen)}) the UCC model, taught by tile labels alone, is right on "
            f"{on_slide:.3f} of the whole slide, and {on_tiles[self.places.ucc.name]:.3f} of its tiles ({others})"
        )


def demo(request: DemoRequest) -> Generator[Event, None, DemoReport]:
    """Slides, tiles, two models, a mask of slides that neither has seen, and what it is worth."""
    places = Places.of(request.output, request.slides)
    if request.slides is None:
        yield from _make_slides(request, places.slides)
    else:
        yield _step(1, f"Your slides in {places.slides} are used")
    yield from _tile(request, places)
    yield from _train(request, places)
    unseen = yield from _segment(request, places)
    yield _step(6, "Comparing the models with the truth", f"evaluate {places.dataset} -m {places.ucc} -m {places.unet}")
    compared = yield from evaluate(
        EvaluateRequest(places.dataset, (places.ucc, places.unet), places.report, overwrite=True)
    )
    annotations = request.annotations or places.slides
    yield _step(7, "Scoring the whole slide", f"score {places.segmented} --annotations {annotations}")
    scored = yield from score_slides(
        ScoreRequest(
            places.segmented,
            annotations,
            places.slide_report,
            unannotated="skip",
            workers=request.workers,
            overwrite=True,
        )
    )
    return DemoReport(places, unseen, compared.table, scored.table)


def _step(number: int, what: str, command: str = "") -> Step:
    typed = f" On your own slides you would type:\n  ucc-path {command}" if command else ""
    return Step(f"{number} of {STAGES}: {what}.{typed}")


def _make_slides(request: DemoRequest, folder: Path) -> Generator[Event, None, None]:
    """Slides that are there from an earlier run are kept."""
    with explaining(folder):
        folder.mkdir(parents=True, exist_ok=True)
    count = len(TUMOUR_SHARES)
    yield _step(1, f"Making {count} slides with known tumour in {folder}, so that nothing need be downloaded")
    for number, tumour_share in enumerate(TUMOUR_SHARES, start=1):
        path = folder / f"case_{number}.tif"
        yield Progress("making slides", number - 1, count, "slides")
        if request.overwrite or not (path.exists() and path.with_suffix(".xml").exists()):
            make_slide(
                path,
                seed=number,
                size_px=SLIDE_PX,
                mpp=SLIDE_MPP,
                tumour_share=tumour_share,
                workers=request.workers,
            )
    yield Progress("making slides", count, count, "slides")


def _tile(request: DemoRequest, places: Places) -> Generator[Event, None, None]:
    tiling = request.tiling
    where = f" --annotations {request.annotations}" if request.annotations else ""
    how = f"--tile-px {tiling.tile_px} --per-slide {tiling.per_slide}"
    command = f"tile {places.slides}{where} {how} -o {places.dataset}"
    yield _step(2, "Cropping tiles, each with one label: normal, metastases, or a mixture", command)
    if not request.overwrite and (places.dataset / dataset_json.NAME).exists():
        yield Step(f"{places.dataset} is there already and is used; start anew with --overwrite")
        return
    yield from tile(
        TileRequest(
            slides=expand([places.slides]),
            output=places.dataset,
            annotations=request.annotations,
            workers=request.workers,
            overwrite=request.overwrite,
            tiling=tiling,
        )
    )


def _train(request: DemoRequest, places: Places) -> Generator[Event, None, None]:
    for number, (model, run, training, what) in enumerate(
        (
            ("ucc", places.ucc, request.training, "Training the UCC model from the labels of the tiles alone"),
            ("unet", places.unet, request.unet_training, "Training a Unet to compare with, from full masks"),
        ),
        start=3,
    ):
        how = "--supervision kind" if model == "ucc" else "--model unet"
        yield _step(number, what, f"train {places.dataset} {how} -o {run}")
        yield from train(
            TrainRequest(
                dataset=places.dataset,
                output=run,
                model=model,
                training=training,
                resume=not request.overwrite,
                overwrite=request.overwrite,
            )
        )


def _segment(request: DemoRequest, places: Places) -> Generator[Event, None, tuple[str, ...]]:
    """The slides whose tiles are test tiles."""
    unseen = tuple(sorted({row.slide for row in tiles_csv.read(places.dataset) if row.split == "test"}))
    if not unseen:
        raise DatasetError(f"{places.dataset} has no test tiles, so that no slide is unseen; give three slides or more")
    slides = by_name(expand([places.slides]))
    lost = [name for name in unseen if name not in slides]
    if lost:
        raise OutputError(
            f"{places.dataset} is of other slides ({lost[0]} is not in {places.slides}); start anew with --overwrite"
        )
    chosen = tuple(slides[name] for name in unseen)
    yield _step(5, f"Segmenting {', '.join(unseen)}, never seen in training", f"segment {chosen[0]} -m {places.ucc}")
    yield from segment(
        SegmentRequest(
            slides=chosen,
            model=places.ucc,
            output=places.segmented,
            workers=request.workers,
            overwrite=request.overwrite,
        )
    )
    return unseen
