"""The second round of a training: what it leaves, what it is taught by, how it goes on, and where there is none."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, UNREFINED, add_tile, tile_pixels, trained
from forks import Forks, Started
from states import spoil
from torch import Tensor

from ucc_path.formats import metrics_csv, model_safetensors, run_json, tiles_csv
from ucc_path.model.recipes import NETWORK, PIXELS, TrainedModel, assemble
from ucc_path.settings import ModelSettings, TrainingSettings
from ucc_path.workflows.train import TrainRequest

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Started]
MakeDataset = Callable[..., Path]

STATE = Path("second-round") / "resume" / "state.safetensors"
SHORT = ("--steps", "4", "--evaluate-every", "2")
SIDE = 64
LEARNT = {"normal": 0.95, "metastases": 0.95, "mixture": 0.85}
"""The least share of a tile of each kind that a tiny network of pixels draws rightly; half of a mixture is a guess."""


QUICK = """
[model]
patch_px = 16
width = 1
encoder = "blocks"
features = 2
hidden = [4]

[training]
steps = 10
refine = 4
bag_size = 4
bags_per_step = 2
evaluate_every = 5
validation_bags = 4
save_every_s = 0
"""
"""Steps as quick as can be, four in the second round for one in the first, and a saved state after each."""


def tensors_of(run: Path, prefix: str = "") -> dict[str, Tensor]:
    tensors = model_safetensors.read(run / model_safetensors.NAME)[1]
    return {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def model_of(run: Path) -> TrainedModel:
    return assemble(*model_safetensors.read(run / model_safetensors.NAME), torch.device("cpu"))


def assert_unrefined(run: Path) -> None:
    assert not tensors_of(run, PIXELS)
    assert model_of(run).card.assign == "centroids"
    assert not (run / "second-round").exists()
    assert run_json.read(run)["second_round"] is None


def assert_same(run: Path, other: Path) -> None:
    for name in ("model.safetensors", "metrics.csv", "second-round/metrics.csv"):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    assert sorted(path.name for path in (run / "second-round").iterdir()) == ["loss.png", "metrics.csv"]
    assert not (run / "resume").exists()


def rightly_drawn(run: Path, kind: str) -> float:
    """The share of a tile not seen before that the network of pixels gives its true class."""
    model = model_of(run)
    assert model.pixels is not None
    rgb, mask = tile_pixels(kind, np.random.default_rng(99), SIDE)
    with torch.no_grad():
        logits = model.pixels(model.preparation(torch.from_numpy(rgb[None])))[0].numpy()
    return float(((logits > 0) == (mask > 0)).mean())


@pytest.fixture(scope="module")
def kinds_run(forks: Forks, whole_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the whole run, but taught kinds."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "tiny.toml").write_text(TINY)
    how = ("--settings", "tiny.toml", "--supervision", "kind", "-o", "kinds")
    done = forks.start(folder, "train", whole_run.parent / "dataset", *how).wait()
    assert done.returncode == 0, done.stderr
    return folder / "kinds"


@pytest.fixture(params=["counts", "kinds"])
def refined_run(request: pytest.FixtureRequest, whole_run: Path, kinds_run: Path) -> Path:
    return whole_run if request.param == "counts" else kinds_run


def test_counts_or_kinds_teach_a_network_of_pixels_which_then_says_the_classes(refined_run: Path) -> None:
    model = model_of(refined_run)
    assert model.pixels is not None and model.centroids is not None
    assert (model.card.assign, model.card.classes) == ("pixels", ("normal", "metastases"))
    assert model.card.converged
    assert [rightly_drawn(refined_run, kind) > least for kind, least in LEARNT.items()] == [True] * 3


def test_the_record_and_the_table_tell_of_the_second_round(refined_run: Path) -> None:
    record, rows = run_json.read(refined_run), metrics_csv.read(refined_run / "second-round")
    told = record["second_round"]
    assert (told["steps"], told["stopped"], told["resumed_at_step"]) == (16, "steps", None)  # 0.4 of 40
    assert [row.step for row in rows] == [16]  # evaluated half as often as the first, and at the end
    assert told["best_step"] == 16 and rows[-1].val_loss is not None
    assert told["parameters"] == sum(tensor.numel() for tensor in tensors_of(refined_run, PIXELS).values())
    assert record["seconds"] >= told["seconds"]
    assert (record["steps"], record["stopped"]) == (40, "steps")  # of the first


def test_what_is_done_is_said(make_dataset: MakeDataset, run_train: Run) -> None:
    make_dataset()
    done = run_train(*SHORT, "-v")
    assert done.returncode == 0, done.stderr
    assert "parameters learn where in the tiles the classes are" in done.stderr
    assert "second round: 96 of 96 tiles" in done.stderr  # two steps of 48 tiles of 64 px


def test_kinds_change_nothing_but_the_names_where_counts_are_taught(
    whole_run: Path, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    """Without kinds, and with each other's: the classes change places at most, and what is learnt is the same."""
    dataset = make_dataset()
    rows = tiles_csv.read(dataset)
    other = {"normal": "metastases", "metastases": "normal", "mixture": "mixture"}
    for name, kinds in (("without", dict.fromkeys(other)), ("swapped", other)):
        tiles_csv.write(dataset, [dataclasses.replace(row, kind=kinds[row.kind or ""]) for row in rows])
        done = run_train("-o", name)
        assert done.returncode == 0, done.stderr
    without, swapped = tmp_path / "without", tmp_path / "swapped"
    assert model_of(without).card.classes == ("cluster 1", "cluster 2")
    assert model_of(swapped).card.classes == model_of(whole_run).card.classes == ("normal", "metastases")

    def same(one: Path, another: Path, prefix: str) -> bool:
        ours, theirs = tensors_of(one, prefix), tensors_of(another, prefix)
        return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)

    assert same(without, whole_run, NETWORK) and same(without, swapped, NETWORK)
    assert not same(whole_run, swapped, PIXELS)
    assert [same(without, run, PIXELS) for run in (whole_run, swapped)].count(True) == 1
    # With each other's names the network of pixels calls tumour normal.
    assert [1 - rightly_drawn(swapped, kind) > least for kind, least in LEARNT.items()] == [True] * 3


def test_counts_that_people_gave_are_enough(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    dataset = make_dataset()
    rows = tiles_csv.read(dataset)
    lines = [f"{row.tile_id},,{row.ucc},me,now\n" for row in rows]
    (dataset / "labels.csv").write_text("tile_id,kind,ucc,who,when\n" + "".join(lines))
    tiles_csv.write(dataset, [dataclasses.replace(row, kind=None, ucc=None, tumour_fraction=None) for row in rows])
    shutil.rmtree(dataset / "masks")
    done = run_train()
    assert done.returncode == 0, done.stderr
    assert model_of(tmp_path / "run").card.assign == "pixels"
    right = {kind: rightly_drawn(tmp_path / "run", kind) for kind in LEARNT}
    if right["normal"] < 0.5:  # which class is which nobody has said
        right = {kind: 1 - share for kind, share in right.items()}
    assert [right[kind] > least for kind, least in LEARNT.items()] == [True] * 3


def test_light_in_place_of_stains_can_be_learnt_from(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    (tmp_path / "tiny.toml").write_text(TINY.replace("[model]", '[model]\ncolours = "light"'))
    done = run_train()
    assert done.returncode == 0, done.stderr
    assert [rightly_drawn(tmp_path / "run", kind) > least for kind, least in LEARNT.items()] == [True] * 3


def test_without_val_tiles_the_last_weights_are_kept(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset(val={})
    done = run_train(*SHORT)
    assert done.returncode == 0, done.stderr
    assert run_json.read(tmp_path / "run")["second_round"]["best_step"] == 2
    assert all(row.val_loss is None for row in metrics_csv.read(tmp_path / "run" / "second-round"))


def test_val_tiles_that_lack_a_class_are_no_validation(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(val={"normal": 2, "mixture": 2})
    done = run_train(*SHORT, "--supervision", "kind")
    assert done.returncode == 0, done.stderr
    assert "Note: there are no val tiles labelled metastases" in done.stderr
    assert "Without them nothing tells how well the second round does" in done.stderr
    assert all(row.val_loss is None for row in metrics_csv.read(tmp_path / "run" / "second-round"))


@pytest.mark.parametrize(("tile_px", "patch_px", "each"), [(128, 32, 1), (72, 24, 2), (520, 16, 1)])
def test_tiles_and_patches_of_other_sizes_and_one_tile_of_a_class_will_do(
    tile_px: int, patch_px: int, each: int, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    few = {"normal": each, "metastases": each, "mixture": each}
    make_dataset(train=few, val=few, tile_px=tile_px)
    (tmp_path / "tiny.toml").write_text(TINY.replace("patch_px = 16", f"patch_px = {patch_px}"))
    done = run_train(*SHORT, "--supervision", "kind", "--bag-size", "4")
    assert done.returncode == 0, done.stderr
    assert tensors_of(tmp_path / "run", PIXELS)


def test_without_a_second_round_there_is_no_network_of_pixels(clustered_run: Path) -> None:
    assert_unrefined(clustered_run)


@pytest.mark.parametrize(
    ("expected", "supervision", "training", "model"),
    [
        (True, "ucc", {}, {}),
        (True, "kind", {}, {}),
        (True, "kind", {}, {"ucc_labels": (1, 2, 3)}),  # which it does not look at
        (False, "ucc", {"refine": 0.0}, {}),
        (False, "kind", {"refine": 0.0}, {}),
        (False, "ucc", {}, {"ucc_labels": (1, 2, 3)}),
        (False, "ucc", {}, {"ucc_labels": (2, 3)}),
        (False, "ucc", {}, {"classes": 3}),
        (False, "kind", {}, {"classes": 3}),
        (False, "none", {}, {}),
    ],
)
def test_a_second_round_is_for_two_classes_and_labels_that_tell_them_from_a_mixture(
    expected: bool, supervision: str, training: dict[str, Any], model: dict[str, Any]
) -> None:
    request = TrainRequest(
        Path("dataset"),
        Path("run"),
        model_settings=ModelSettings(**model),
        training=TrainingSettings(supervision=supervision, **training),
    )
    assert request.refines is expected


def test_three_classes_are_left_to_clusters(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    (tmp_path / "tiny.toml").write_text(TINY.replace("[model]", "[model]\nclasses = 3"))
    done = run_train(*SHORT)
    assert done.returncode == 0, done.stderr
    assert_unrefined(tmp_path / "run")


def test_tiles_that_cannot_teach_it_are_said_and_the_model_does_without(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(train={"normal": 4, "mixture": 4})  # no tile that is all tumour
    done = run_train()
    assert done.returncode == 0, done.stderr
    assert "Note: there is no second round: there are no train tiles labelled metastases" in done.stderr
    assert_unrefined(tmp_path / "run")


def test_a_tile_too_bare_for_a_patch_tells_nothing_of_a_class(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset(train={"metastases": 4, "mixture": 4})
    strip = np.broadcast_to(np.arange(SIDE) < 4, (SIDE, SIDE))  # of which no patch has enough
    add_tile(dataset, "bare", np.zeros_like(strip), tissue=strip, slide="train", split="train")
    (tmp_path / "tiny.toml").write_text(TINY + "min_tissue = 0.75\n[tissue]\nmin_area_um2 = 1\n")
    done = run_train()
    assert done.returncode == 0, done.stderr
    assert "Note: 1 of 9 train tiles have too little tissue for a bag" in done.stderr
    assert "Note: there is no second round: there are no train tiles labelled normal" in done.stderr


def test_overwriting_clears_the_second_round_of_before(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    assert run_train(*SHORT).returncode == 0
    assert (tmp_path / "run" / "second-round").is_dir()
    (tmp_path / "tiny.toml").write_text(UNREFINED)
    assert run_train(*SHORT, "--overwrite").returncode == 0
    assert_unrefined(tmp_path / "run")


@pytest.fixture(scope="module")
def quick_run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run that nothing disturbed, to compare with."""
    return trained(forks, tmp_path_factory.mktemp("undisturbed"), QUICK)


@pytest.fixture
def start_quick(start_train: Start, make_dataset: MakeDataset, tmp_path: Path) -> Start:
    """The same run on its way."""
    make_dataset()
    (tmp_path / "tiny.toml").write_text(QUICK)
    return start_train


@pytest.fixture
def stopped(start_quick: Start, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The same run, told to stop in its second round."""
    started = start_quick()
    started.wait_for((tmp_path / "run" / STATE).exists)
    started.send(signal.SIGTERM)
    return started.wait()


def test_a_second_round_that_diverges_before_it_is_judged_costs_nothing_else(
    stopped: subprocess.CompletedProcess[str], start_quick: Start, tmp_path: Path
) -> None:
    assert stopped.returncode == 130, stopped.stderr
    spoil(tmp_path / "run" / "second-round", keeps_best=False)
    done = start_quick("--resume").wait()
    assert done.returncode == 0, done.stderr
    assert "Note: there is no second round: the loss is no longer a number at step" in done.stderr
    assert_unrefined(tmp_path / "run")


def test_told_to_stop_in_the_second_round_it_saves_and_goes_on_to_the_same_bytes(
    stopped: subprocess.CompletedProcess[str], quick_run: Path, start_quick: Start, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert stopped.returncode == 130, stopped.stderr
    before = run_json.read(run)
    step = before["second_round"]["steps"]
    assert (before["finished"], before["second_round"]["stopped"]) == (False, None)
    assert stopped.stderr.splitlines()[-1] == (
        f"Stopped at step {step}, and saved. Go on with the same command and --resume."
    )
    assert 0 < step < 40 and not (run / "model.safetensors").exists()
    done = start_quick("--resume").wait()
    assert done.returncode == 0, done.stderr
    assert_same(run, quick_run)
    after = run_json.read(run)
    assert (after["resumed_at_step"], after["second_round"]["resumed_at_step"]) == (10, step)
    assert after["second_round"]["seconds"] >= before["second_round"]["seconds"]


def test_killed_in_the_second_round_again_and_again_it_goes_on_to_the_same_bytes(
    quick_run: Path, start_quick: Start, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for count in (0, 1, 2):
        started = start_quick("--resume")
        started.wait_for(lambda count=count: is_saved_after(count, run))  # type: ignore[misc]
        started.wait_for(started.stderr.exists)
        started.kill()
    done = start_quick("--resume").wait()
    assert done.returncode == 0, done.stderr
    assert_same(run, quick_run)


def is_saved_after(evaluations: int, run: Path) -> bool:
    """Whether the second round has come so far."""
    path = run / "second-round" / metrics_csv.NAME
    lines = path.read_bytes().count(b"\n") if path.exists() else 0
    return (run / STATE).exists() and max(0, lines - 1) >= evaluations


def test_a_second_round_is_begun_anew_where_the_first_goes_on(
    stopped: subprocess.CompletedProcess[str], start_quick: Start, tmp_path: Path
) -> None:
    more = ("--steps", "12")
    assert start_quick(*more, "-o", "whole").wait().returncode == 0
    done = start_quick(*more, "--resume").wait()
    assert done.returncode == 0, done.stderr
    assert run_json.read(tmp_path / "run")["second_round"]["resumed_at_step"] is None
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_fewer_steps_than_the_second_round_has_taken_are_refused_with_a_number_that_will_do(
    start_quick: Start, tmp_path: Path
) -> None:
    """The first round stops early, so that fewer steps are enough for it."""
    unteachable = QUICK.replace("steps = 10", "steps = 200\npatience = 1\nlearning_rate = 1e-30")
    (tmp_path / "tiny.toml").write_text(unteachable)
    started = start_quick()
    started.wait_for(lambda: is_saved_after(6, tmp_path / "run"))  # 60 steps, for which 15 of --steps are needed
    started.send(signal.SIGTERM)
    assert started.wait().returncode == 130
    taken = run_json.read(tmp_path / "run")["second_round"]["steps"]
    least = -(-taken // 4)
    refused = start_quick("--steps", str(least - 1), "--resume").wait()
    assert refused.returncode == 2
    assert f"has taken {taken} steps; give --steps {least} or more" in refused.stderr
    assert start_quick("--steps", str(least), "--resume").wait().returncode == 0
