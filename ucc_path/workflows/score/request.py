"""What is asked of `score`: segmented slides, and the annotation of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucc_path.errors import AnnotationError, OutputError, few
from ucc_path.evaluation.matching import by_names
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING
from ucc_path.formats import segmentation_json
from ucc_path.formats.annotation_files import annotation_for, index_annotations
from ucc_path.settings import UNANNOTATED, AnnotationSettings, EvaluationSettings
from ucc_path.tiles.camelyon import rule_for
from ucc_path.workflows.events import Notice


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Paths, settings and wishes of one `ucc-path score`."""

    folder: Path  # that `segment` has made
    annotations: Path
    output: Path
    unannotated: str = UNANNOTATED[0]
    not_exhaustive: tuple[str, ...] = ()  # names of slides whose tumour is not all outlined
    camelyon_rules: bool = True
    workers: int = 1
    overwrite: bool = False
    annotation: AnnotationSettings = AnnotationSettings()
    evaluation: EvaluationSettings = EvaluationSettings()


@dataclass(frozen=True, slots=True)
class Source:
    """A segmented slide and its truth."""

    name: str
    record: Mapping[str, Any]
    annotation: Path | None  # None: there is no tumour
    is_exhaustive: bool  # whether all its tumour is outlined


@dataclass(frozen=True, slots=True)
class Sources:
    """All slides that are scored, and what is to be said of them and of others."""

    slides: tuple[Source, ...]
    model: str  # by what they were segmented
    remarks: tuple[str, ...]

    def notices(self) -> list[Notice]:
        return [Notice(remark) for remark in self.remarks]


def sources_of(request: ScoreRequest) -> Sources:
    """The slides to be scored; refuses what cannot be compared."""
    if not request.folder.is_dir():
        raise OutputError(f"{request.folder} is not a folder; name one that ucc-path segment has made")
    records = segmentation_json.all_in(request.folder)
    if not records:
        raise OutputError(f"{request.folder} holds no segmented slides; make them with ucc-path segment -o")
    for name, record in records.items():
        _require_whole(segmentation_json.path_of(request.folder, name), record)
    model = _model_of(request.folder, records)
    unknown = sorted(set(request.not_exhaustive) - set(records))
    if unknown:
        raise OutputError(f"there is no slide {few(unknown)} in {request.folder}; check --not-exhaustive")
    rules = {name: rule_for(name) if request.camelyon_rules else None for name in records}
    left_out = {name: rule.reason for name, rule in rules.items() if rule is not None and not rule.kinds}
    if len(left_out) == len(records):
        raise OutputError(f"no slide in {request.folder} is left to be scored; see --no-camelyon-rules")
    matched = _matched(request, [name for name in records if name not in left_out])
    remarks = [f"{name}: {reason}" for name, reason in left_out.items()]
    skipped = sorted(records.keys() - matched.keys() - left_out.keys())
    if skipped:
        remarks.append(f"without an annotation, and therefore skipped: {few(skipped)}")
    if not all(record["model"]["converged"] for record in records.values()):
        remarks.append(f"{model} did no better than guessing when it was trained: its masks mean nothing")
    slides = []
    for name, annotation in sorted(matched.items()):
        is_exhaustive = rules[name] is None and name not in request.not_exhaustive
        if not is_exhaustive:
            remarks.append(f"{name}: its tumour is not all outlined, so that tissue beside the outlines is left out")
        slides.append(Source(name, records[name], annotation, is_exhaustive))
    return Sources(tuple(slides), model, tuple(remarks))


def _require_whole(path: Path, record: Mapping[str, Any]) -> None:
    """OutputError where a record lacks what is needed of it; somebody may have edited it."""
    try:
        parts = [record["slide"]["size_l0"], record["slide"]["mpp"], record["grid"]["cell_l0"], record["grid"]["rows"]]
        parts += [record["grid"]["cols"], record["settings"]["request"], record["settings"]["segmentation"]]
        parts += [record["settings"]["tissue"], [found["name"] for found in record["classes"]]]
        parts += [record["model"][key] for key in ("path", "sha256", "converged", "model", "supervision")]
    except (KeyError, TypeError) as err:
        raise OutputError(f"{path} is not whole (no {err}); segment the slide anew with --overwrite") from err


def _model_of(folder: Path, records: Mapping[str, Mapping[str, Any]]) -> str:
    """What the model is called; one that says what is tumour, and only one."""
    by_hash: dict[str, str] = {}
    for name, record in records.items():
        by_hash.setdefault(record["model"]["sha256"], name)
        if not by_names([found["name"] for found in record["classes"]]):
            raise OutputError(
                f"no class of {folder}/{name} is called tumour, since its model's clusters have no names; "
                "segment it with a model trained on tiles with kinds"
            )
    if len(by_hash) > 1:
        raise OutputError(
            f"{' and '.join(list(by_hash.values())[:2])} in {folder} were segmented by two models; score them apart"
        )
    path = Path(str(next(iter(records.values()))["model"]["path"]))
    names = (path.parent.name, folder.resolve().name, "model")
    return next(name for name in names if name and name.isprintable() and name not in (EMPTY, GRID_CEILING))


def _matched(request: ScoreRequest, names: Sequence[str]) -> dict[str, Path | None]:
    """The annotation of each slide that has one, or is to be taken for normal."""
    index = index_annotations(request.annotations)
    matched = {name: annotation_for(index, name) for name in names}
    missing = sorted(name for name, path in matched.items() if path is None)
    if len(missing) == len(names) and request.unannotated != "normal":
        there = few(sorted(index)) if index else "nothing"
        raise AnnotationError(
            f"{request.annotations} annotates none of the slides of {request.folder}, which are {few(missing)}; "
            f"it is for {there}: give --annotations for these slides"
        )
    if missing and request.unannotated == "error":
        raise AnnotationError(
            f"there is no annotation for {few(missing)} in {request.annotations}; "
            "say what that means with --unannotated normal or --unannotated skip"
        )
    skipped = set(missing) if request.unannotated == "skip" else set()
    return {name: path for name, path in matched.items() if name not in skipped}
