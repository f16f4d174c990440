"""The runs that are compared: what is known of each, whether they can be compared, and the judge each becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ucc_path.errors import ModelError, RunError
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING
from ucc_path.features.engines import Engine, make_engine
from ucc_path.features.heads import CountHead
from ucc_path.features.levels import FromLevels
from ucc_path.features.reading import PictureShape
from ucc_path.features.smoothing import engine_of_shares
from ucc_path.formats import metrics_csv, model_safetensors, run_json
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.formats.tile_store import SAME_MPP
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.model import UCC, PixelNetwork
from ucc_path.model.card import ModelCard
from ucc_path.model.devices import choose_device
from ucc_path.model.recipes import assemble
from ucc_path.settings import SegmentationSettings
from ucc_path.workflows.assignment import CENTROIDS, assignment_of, decision_of, smoothing_px
from ucc_path.workflows.assignment import PIXELS as BY_PIXELS
from ucc_path.workflows.evaluate.judges import MIRRORED_PX, Judge, PatchJudge, PixelJudge, RefinedJudge
from ucc_path.workflows.segment.request import model_file, sha256_of

KMEANS, COLOUR = "kmeans", "colour"
"""Rows of what is made of the train tiles without a network."""
PIXELS = "-pixels"
"""Behind the name of a model that sees pixels: its mask as fine as that, and not on the grid."""

_CHANNELS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A trained model with what its folder tells of it."""

    name: str
    path: Path
    sha256: str
    card: ModelCard
    tensors: dict[str, Tensor]
    record: dict[str, Any] | None  # run.json; None where a model came without its run
    metrics: tuple[MetricsRow, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contestant:
    """One that is judged: a row of the table, or two."""

    name: str
    judge: Judge
    head: CountHead | None = None
    has_clusters: bool = False  # whose names may be matched anew
    run: Run | None = None
    remark: str = ""  # on what computes it, where that is not the usual


def read_runs(models: Sequence[Path]) -> list[Run]:
    """The runs in the order given, each with a name of its own; refuses those that cannot be compared."""
    names = _names([model_file(model) for model in models])
    runs = [_read(name, model_file(model)) for name, model in zip(names, models, strict=True)]
    first = runs[0]
    for run in runs:
        for what, ours, theirs in (
            ("scale in um/px", first.card.mpp, run.card.mpp),
            ("patch_px", first.card.settings.patch_px, run.card.settings.patch_px),
        ):
            if not math.isclose(ours, theirs, rel_tol=SAME_MPP):
                raise ModelError(
                    f"{first.path} and {run.path} have another {what} ({ours:g} and {theirs:g}), "
                    "so that their grids differ; compare them apart"
                )
    return runs


def check_fits(run: Run, rows: Sequence[TileRow], dataset: Path) -> None:
    """ModelError where a model cannot look at these tiles."""
    settings, mpp, side = run.card.settings, rows[0].mpp, rows[0].tile_px
    if not math.isclose(run.card.mpp, mpp, rel_tol=SAME_MPP):
        raise ModelError(
            f"{run.path} was trained at {run.card.mpp:g} um/px and the tiles of {dataset} are at {mpp:g}; "
            f"make tiles with ucc-path tile --mpp {run.card.mpp:g}, or take a model trained on these"
        )
    if settings.channels != _CHANNELS:
        raise ModelError(
            f"{run.path} looks at {settings.channels} channels and the tiles of {dataset} have {_CHANNELS}; "
            "take another model"
        )
    if settings.patch_px > side:
        raise ModelError(
            f"{run.path} looks at patches of {settings.patch_px} px and the tiles of {dataset} are only {side} px; "
            "make larger ones with ucc-path tile --tile-px"
        )


def contestant(run: Run, wishes: SegmentationSettings, device: str, *, tile_px: int, threads: int) -> Contestant:
    """The run's model, ready to judge."""
    where = choose_device(device)
    model = assemble(run.card, run.tensors, where)
    settings = run.card.settings
    network: nn.Module = model.network
    head = CountHead(network, run.card.labels, settings.features) if isinstance(network, UCC) else None
    if not isinstance(network, UCC):
        wishes = replace(wishes, assign="model")  # what is wished for concerns those that have a head
    assign = assignment_of(model, head, wishes)
    unet = network if isinstance(network, PixelNetwork) else model.pixels if assign == BY_PIXELS else None
    pixels, remark = None, ""
    if unet is not None:
        multiple = settings.picture_multiple
        tile = PictureShape(tile_px, MIRRORED_PX, -(-(tile_px + 2 * MIRRORED_PX) // multiple) * multiple)
        reach_px = smoothing_px(run.card, wishes)

        def make(network: nn.Module, side_px: int) -> tuple[Engine, str]:
            return _engine(network, wishes.inference, where, (1, side_px, side_px, _CHANNELS), threads)

        engine, remark = engine_of_shares(unet, tile, cell_px=1, reach_px=reach_px, make=make)
        pixels = PixelJudge(model, engine, tile.side_px, adapt=wishes.adapt)
        if unet is network:
            return Contestant(run.name, pixels, run=run, remark=remark)
    shape = (wishes.batch_size, settings.patch_px, settings.patch_px, _CHANNELS)
    engine, own_remark = _engine(network.get_submodule("extractor"), wishes.inference, where, shape, threads)
    patches_by = CENTROIDS if assign == BY_PIXELS else assign
    decision = decision_of(model, head, patches_by, neighbours=wishes.neighbours, cells_a_patch=1)
    # A second round that was taught by counts alone calls its classes as the clusters are called.
    has_clusters = assign == CENTROIDS or (assign == BY_PIXELS and run.card.supervision == "ucc")
    patches = PatchJudge(model, engine, decision, head, wishes.batch_size)
    judge: Judge = patches if pixels is None else RefinedJudge(pixels, patches)
    return Contestant(run.name, judge, head, has_clusters, run, remark or own_remark)


def _engine(
    network: nn.Module, wish: str, device: torch.device, shape: tuple[int, ...], threads: int
) -> tuple[Engine, str]:
    return make_engine(wish, FromLevels(network, _CHANNELS), device, shape=shape, threads=threads)


def _names(paths: Sequence[Path]) -> list[str]:
    """What each is called: the folder of the run, with as many folders before it as it takes to tell them apart."""
    whole = [path.resolve() for path in paths]
    doubles = [str(path) for place, path in enumerate(paths) if whole[place] in whole[:place]]
    if doubles:
        raise ModelError(f"{doubles[0]} is named twice; name every model once")
    parts = [(path.parent if path.name == model_safetensors.NAME else path.with_suffix("")).parts for path in whole]
    if len(set(parts)) < len(parts):
        raise ModelError("a run and a file beside it have one name; rename one of them")
    depth = 1
    while len({own[-depth:] for own in parts}) < len(parts):
        depth += 1
    names = ["/".join(own[-depth:]) for own in parts]
    for name in names:
        if name in (KMEANS, COLOUR, EMPTY, GRID_CEILING) or name.removesuffix(PIXELS) in set(names) - {name}:
            raise ModelError(f"a model called {name} would be taken for another row of the table; rename its folder")
        if not name.isprintable():
            raise ModelError(f"the name {name!r} has characters that cannot be written to a table; rename the folder")
    return names


def _read(name: str, path: Path) -> Run:
    card, tensors = model_safetensors.read(path)
    record, metrics = None, []
    with suppress(RunError):  # a model may be passed on without its run
        if path.name == model_safetensors.NAME:  # another file that lies there is of another run
            record = run_json.read(path.parent)
            metrics = metrics_csv.read(path.parent)
    return Run(name, path, sha256_of(path), card, tensors, record, tuple(metrics))
