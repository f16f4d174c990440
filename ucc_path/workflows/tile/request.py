"""What `tile` is asked for, checked before any work is done, and which annotation goes with which slide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ucc_path.engine.values import Cluster
from ucc_path.errors import AnnotationError, OutputError, SettingsError, few
from ucc_path.formats import split_csv
from ucc_path.formats.annotation_files import annotation_for, index_annotations
from ucc_path.settings import DEFAULT_SPLIT, UNANNOTATED, AnnotationSettings, TilingSettings, TissueSettings
from ucc_path.tiles.camelyon import SlideRule, rule_for
from ucc_path.tiles.labelling import check_thresholds
from ucc_path.tiles.quotas import Totals
from ucc_path.tiles.splits import CAMELYON16, assign_by_table, parse_shares
from ucc_path.tissue import check_tissue_settings
from ucc_path.workflows.slides import by_name


@dataclass(frozen=True, slots=True)
class TileRequest:
    """Everything `tile` is asked for."""

    slides: tuple[Path, ...]
    output: Path
    annotations: Path | None = None  # None: beside each slide
    unannotated: str = UNANNOTATED[0]
    split: str = DEFAULT_SPLIT
    split_csv: Path | None = None
    totals: Totals | None = None  # instead of so many a slide
    unlabelled: bool = False
    slide_mpp: float | None = None
    camelyon_rules: bool = True
    preview: Path | None = None
    workers: int = 1
    cluster: Cluster | None = None  # None: processes of this machine
    overwrite: bool = False
    tiling: TilingSettings = TilingSettings()
    tissue: TissueSettings = TissueSettings()
    annotation: AnnotationSettings = AnnotationSettings()


@dataclass(frozen=True, slots=True)
class Source:
    """A slide with its name (the file's, without ending), its annotation, and the rule it is under, if any."""

    name: str
    slide: Path
    annotation: Path | None
    rule: SlideRule | None


def sources_of(request: TileRequest) -> list[Source]:
    """The slides to be worked on, by name; refuses what cannot be meant."""
    _check_numbers(request)
    slides = by_name(request.slides)
    _check_preview(request, slides)
    if request.split_csv:
        assign_by_table(slides, split_csv.read(request.split_csv))
    if request.unlabelled:  # no labels: neither annotations nor the rules about them matter
        return [Source(name, path, None, None) for name, path in sorted(slides.items())]
    matched = _match(request, slides)
    return [
        Source(name, slides[name], annotation, rule_for(name) if request.camelyon_rules else None)
        for name, annotation in sorted(matched.items())
    ]


def _check_numbers(request: TileRequest) -> None:
    tiling = request.tiling
    check_thresholds(tiling)
    if tiling.tile_px < 1 or tiling.per_slide < 1 or request.workers < 1:
        raise SettingsError("the side of a tile, the tiles of a slide and the workers must each be 1 or more")
    if tiling.mpp < 0:
        raise SettingsError(f"a scale of {tiling.mpp:g} um/px is not possible; give a positive --mpp, or native")
    if not 0 <= tiling.max_overlap < 1 or not 0 <= tiling.min_tissue <= 1:
        raise SettingsError("min_tissue and max_overlap are shares of a tile; give 0 to 1, max_overlap below 1")
    check_tissue_settings(request.tissue)
    if request.unlabelled and request.totals:
        raise SettingsError("--totals counts labelled tiles and --unlabelled makes none; give --per-slide instead")
    if request.split != CAMELYON16:
        parse_shares(request.split)


def _check_preview(request: TileRequest, slides: Mapping[str, Path]) -> None:
    """No picture may take the place of a slide, or of anything else that is not said to be replaced."""
    if request.preview is None:
        return
    preview, output = request.preview.absolute(), request.output.absolute()
    if output in (preview, *preview.parents):
        raise OutputError(f"--preview {request.preview} lies in the data set, which is replaced; choose a folder apart")
    for name, slide in slides.items():
        picture = preview_path(request.preview, name)
        if picture.exists() and slide.exists() and picture.samefile(slide):
            raise OutputError(f"the preview of {slide} would replace the slide; choose another folder with --preview")
        if picture.exists() and not request.overwrite:
            raise OutputError(f"{picture} exists; replace it with --overwrite, or choose another folder with --preview")


def preview_path(folder: Path, name: str) -> Path:
    """Where the preview of the slide of this name is put."""
    return folder / f"{name}.png"


def _match(request: TileRequest, slides: Mapping[str, Path]) -> dict[str, Path | None]:
    """The annotation of each slide that is to be worked on."""
    there = {name: path for name, path in slides.items() if path.exists()}  # the others fail when they are opened
    folders = {request.annotations or path.parent for path in there.values()}
    indexes = {folder: index_annotations(folder) for folder in folders}
    matched = {
        name: annotation_for(indexes[request.annotations or path.parent], name) if name in there else None
        for name, path in slides.items()
    }
    missing = sorted(name for name in there if matched[name] is None)
    if missing and request.unannotated == "error":
        where = request.annotations or "the folder of the slide"
        raise AnnotationError(
            f"there is no annotation for {few(missing)} in {where}; name their folder with --annotations, "
            "or say what that means with --unannotated normal or --unannotated skip"
        )
    skipped = set(missing) if request.unannotated == "skip" else set()
    if skipped == set(slides):
        raise AnnotationError("no slide has an annotation, so none is left; give --annotations, or --unlabelled")
    return {name: annotation for name, annotation in matched.items() if name not in skipped}
