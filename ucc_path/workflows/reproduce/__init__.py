"""The paper's experiments on labelled images, repeated with this library: the work of `ucc-path reproduce`.

Each model with each seed is a run, whose record is written when it is done. What is finished is left alone: an
experiment that was interrupted is simply run again, and runs of other settings can be added to the same folder.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ucc_path.errors import DivergedError, OutputError
from ucc_path.formats import png, report_html, report_json, reproduction_csv, reproduction_json
from ucc_path.formats.atomic import explaining, locked_folder
from ucc_path.formats.reproduction_csv import ReproductionRow
from ucc_path.model.devices import choose_device, in_words, keep_memory
from ucc_path.workflows.events import Event, Step
from ucc_path.workflows.peak import forget_peak, peak_mb
from ucc_path.workflows.reproduce.data import Images, read_images
from ucc_path.workflows.reproduce.judging import Verdict, even_bags, judge, judge_raw, share_right
from ucc_path.workflows.reproduce.learning import Learnt, learn
from ucc_path.workflows.reproduce.page import page_of
from ucc_path.workflows.reproduce.request import ReproduceRequest, Variant, variants_of
from ucc_path.workflows.reproduce.results import Result, paper_rows, read_results, row_of, usable
from ucc_path.workflows.versions import versions

__all__ = ["ReproduceReport", "ReproduceRequest", "reproduce"]


@dataclass(frozen=True, slots=True)
class ReproduceReport:
    """What came of it: a row for each run in the folder."""

    output: Path
    rows: tuple[ReproductionRow, ...]


def reproduce(request: ReproduceRequest) -> Generator[Event, None, ReproduceReport]:
    """Trains and judges what is not finished yet, and writes the tables and the report of all that is."""
    variants = variants_of(request)
    device = choose_device(request.device)
    images = read_images(request.experiment, request.data, request.model)
    if device.type == "cpu":
        keep_memory()
    with locked_folder(request.output) as folder, in_words():
        with explaining(folder):
            (folder / reproduction_json.FOLDER).mkdir(parents=True, exist_ok=True)
        todo = [one for one in variants if request.overwrite or not _is_finished(folder, request, one, images)]
        _require_usable(folder, request.experiment, but_for=[one.key for one in todo])
        if len(todo) < len(variants):
            yield Step(f"{len(variants) - len(todo)} of {len(variants)} runs are finished and are left as they are")
        for number, variant in enumerate(todo, start=1):
            yield Step(f"Run {number} of {len(todo)}: {variant.key}")
            yield from _run(folder, request, variant, images, device)
        results = read_results(folder, request.experiment)
        _write(folder, request.experiment, results)
    return ReproduceReport(request.output, tuple(row_of(result.record) for result in results))


def _require_usable(folder: Path, experiment: str, *, but_for: Collection[str]) -> None:
    """Refuses runs of which no report could be made, before hours are spent on others."""
    for result in read_results(folder, experiment, but_for=but_for):
        with usable(folder, result):
            page_of(experiment, [result])


def _identity(request: ReproduceRequest, variant: Variant, images: Images) -> dict[str, Any]:
    """All that the figures of a run depend on."""
    return {
        "experiment": request.experiment,
        "variant": {
            "model": variant.name,
            "ucc_labels": variant.labels,
            "pooling": variant.pooling,
            "seed": variant.seed,
        },
        "settings": variant.settings(),
        "data": {"fingerprint": images.fingerprint},
    }


def _is_finished(folder: Path, request: ReproduceRequest, variant: Variant, images: Images) -> bool:
    """Whether there is a record of this very run; OutputError where it is one of other settings or images."""
    if not reproduction_json.path_of(folder, variant.key).exists():
        return False
    record = reproduction_json.read(folder, variant.key)
    wanted: dict[str, Any] = report_json.plain(_identity(request, variant, images))
    for name, value in wanted.items():
        found = record.get(name)
        if name == "data" and isinstance(found, dict):
            found = {"fingerprint": found.get("fingerprint")}
        if found != value:
            raise OutputError(
                f"{folder} holds a run {variant.key} of other {name}; "
                "replace it with --overwrite, or choose another folder with -o"
            )
    return True


def _run(
    folder: Path, request: ReproduceRequest, variant: Variant, images: Images, device: torch.device
) -> Generator[Event, None, None]:
    forget_peak()
    learnt: Learnt | None = None
    if variant.kind:
        train, val = images.split(variant.seed)
        bags = even_bags(variant, images.test) if variant.kind == "ucc" else None
        try:
            learnt = yield from learn(variant, train, val, device)
        except DivergedError as err:
            raise DivergedError(
                f"the loss of {variant.key} is no longer a number; "
                f"give a learning_rate below {variant.training.learning_rate:g} under [training] in the settings file"
            ) from err
        yield Step(f"Counting and clustering {len(images.test):,} test images")
        verdict = judge(variant, learnt, images.test, bags, device)
    else:
        verdict = judge_raw(variant, images.test)
    if verdict.generated is not None:
        png.write(reproduction_json.picture_of(folder, variant.key), _strip(verdict.generated))
    record = _identity(request, variant, images) | _facts(learnt, verdict) | {"device": str(device)}
    record["data"] |= images.sizes
    reproduction_json.write(folder, variant.key, record | {"versions": versions()})


def _facts(learnt: Learnt | None, verdict: Verdict) -> dict[str, Any]:
    clusters = verdict.clusters or {}
    apart = verdict.divergence
    figures = {
        "ucc_accuracy": None if verdict.counting is None else share_right(verdict.counting),
        "min_js": None if apart is None else float(np.nanmin(apart[~np.eye(len(apart), dtype=np.bool_)])),
        **{f"clustering_{way}": share_right(table) for way, table in clusters.items()},
        "seconds": learnt.seconds if learnt else None,
        "peak_mb": peak_mb(),
    }
    return {
        "figures": figures,
        "counting": verdict.counting,
        "divergence": apart,
        "densities": verdict.densities,
        "clusters": clusters,
        "curve": [asdict(point) for point in learnt.curve] if learnt else [],
        "training": [asdict(row) for row in learnt.rows] if learnt else [],
        "best_step": learnt.best_step if learnt else None,
        "parameters": learnt.parameters if learnt else None,
    }


def _strip(pictures: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Pictures (n, side, side, channels) side by side; grey where there is one channel."""
    strip = np.concatenate(list(pictures), axis=1)
    return strip[..., 0] if strip.shape[2] == 1 else strip


def _write(folder: Path, experiment: str, results: list[Result]) -> None:
    reproduction_csv.write(folder / reproduction_csv.NAME, [row_of(result.record) for result in results])
    reproduction_csv.write(folder / reproduction_csv.PAPER_NAME, paper_rows(experiment))
    report_html.write(folder / report_html.NAME, page_of(experiment, results))
