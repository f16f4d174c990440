"""A data set becomes a model: what is learnt, by each kind of model, and what is left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tile_pixels
from PIL import Image

from ucc_path.clusters import nearest
from ucc_path.features import features_of
from ucc_path.formats import metrics_csv, model_safetensors, png, tiles_csv
from ucc_path.model.recipes import CENTROIDS, TrainedModel, assemble
from ucc_path.settings import TrainingSettings
from ucc_path.workflows import train as workflow
from ucc_path.workflows.events import Notice

CPU = torch.device("cpu")
LEFT_BEHIND = ["loss.png", "metrics.csv", "model.safetensors", "run.json"]
REFINED = [*LEFT_BEHIND, "second-round"]

Run = Callable[..., subprocess.CompletedProcess[str]]
MakeDataset = Callable[..., Path]


def model_of(run: Path) -> TrainedModel:
    return assemble(*model_safetensors.read(run / model_safetensors.NAME), CPU)


def record_of(run: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((run / "run.json").read_text())
    return record


def model_bytes(run: Path) -> bytes:
    return (run / model_safetensors.NAME).read_bytes()


def test_a_run_leaves_the_model_its_record_and_its_curves_and_nothing_else(whole_run: Path) -> None:
    assert sorted(path.name for path in whole_run.iterdir()) == REFINED
    assert sorted(path.name for path in (whole_run / "second-round").iterdir()) == ["loss.png", "metrics.csv"]
    assert sorted(path.name for path in whole_run.parent.iterdir()) == ["dataset", "run", "tiny.toml"]
    for folder in (whole_run, whole_run / "second-round"):
        with Image.open(folder / "loss.png") as picture:
            assert picture.mode == "RGB"


def test_a_tiny_data_set_is_learnt_in_a_few_dozen_steps(whole_run: Path) -> None:
    rows = metrics_csv.read(whole_run)
    assert [row.step for row in rows] == [10, 20, 30, 40]
    assert (rows[-1].val_accuracy or 0) > 0.9
    assert model_of(whole_run).card.converged


def test_the_clusters_are_named_and_pure_patches_fall_into_their_own(whole_run: Path) -> None:
    model = model_of(whole_run)
    assert model.card.classes == ("normal", "metastases")
    assert model.centroids is not None
    for place, kind in enumerate(model.card.classes):
        pixels, _ = tile_pixels(kind, np.random.default_rng(99), 64)  # a tile it has not seen
        patches = pixels.reshape(4, 16, 4, 16, 3).swapaxes(1, 2).reshape(-1, 16, 16, 3)
        features = features_of(patches, model.network.get_submodule("extractor"), model.preparation, CPU)
        assert (nearest(features, model.centroids.numpy()) == place).all()


def test_the_card_holds_what_is_needed_besides_the_slide(whole_run: Path) -> None:
    card = model_of(whole_run).card
    assert (card.model, card.supervision, card.labels) == ("ucc", "ucc", ("ucc 1", "ucc 2"))
    assert (card.mpp, card.settings.patch_px, card.alpha) == (2.0, 16, 0.5)


def test_the_record_tells_of_the_data_the_settings_and_the_end(whole_run: Path) -> None:
    record = record_of(whole_run)
    assert record["finished"] is True
    assert (record["model"], record["steps"], record["stopped"]) == ("ucc", 40, "steps")
    assert (record["device"], record["processes"], record["resumed_at_step"]) == ("cpu", 1, None)
    assert (record["converged"], record["classes"]) == (True, ["normal", "metastases"])
    data = record["data"]
    assert isinstance(data, dict)
    assert data["tiles"] == {"train": {"ucc 1": 8, "ucc 2": 8}, "val": {"ucc 1": 8, "ucc 2": 8}}
    assert data["path"] == "dataset"


@pytest.mark.parametrize(
    ("arguments", "model", "supervision", "labels", "left_behind"),
    [
        (("--supervision", "kind"), "ucc", "kind", ("normal", "metastases", "mixture"), REFINED),
        (("--alpha", "1"), "ucc", "ucc", ("ucc 1", "ucc 2"), REFINED),
        (("--model", "autoencoder"), "autoencoder", "none", (), LEFT_BEHIND),
        (("--alpha", "0"), "autoencoder", "none", (), LEFT_BEHIND),
    ],
    ids=["kind", "without decoder", "autoencoder", "without labels"],
)
def test_the_other_models_whose_classes_are_clusters_can_be_trained_and_used(
    arguments: tuple[str, ...],
    model: str,
    supervision: str,
    labels: tuple[str, ...],
    left_behind: list[str],
    make_dataset: MakeDataset,
    run_train: Run,
    tmp_path: Path,
) -> None:
    make_dataset()
    done = run_train(*arguments, "--steps", "10")
    assert done.returncode == 0, done.stderr
    trained = model_of(tmp_path / "run")
    assert (trained.card.model, trained.card.supervision, trained.card.labels) == (model, supervision, labels)
    assert trained.card.classes == ("normal", "metastases")
    assert trained.centroids is not None
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == left_behind


@pytest.mark.parametrize("model", ["unet", "supervised"])
def test_a_model_that_learns_from_masks_learns_them(
    model: str, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    done = run_train("--model", model, "--steps", "30")
    assert done.returncode == 0, done.stderr
    assert (metrics_csv.read(tmp_path / "run")[-1].val_accuracy or 0) > 0.9
    trained = model_of(tmp_path / "run")
    assert trained.card.converged
    assert trained.card.supervision == "mask"
    assert trained.centroids is None
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == LEFT_BEHIND


def test_averages_can_be_pooled_in_place_of_densities(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    settings = (tmp_path / "tiny.toml").read_text().replace("[model]", "[model]\npooling = 'average'")
    (tmp_path / "tiny.toml").write_text(settings)
    assert run_train("--steps", "10").returncode == 0
    assert model_of(tmp_path / "run").card.settings.pooling == "average"


def test_an_autoencoder_needs_no_labels_and_its_clusters_have_numbers(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(train={"unlabelled": 6}, val={"unlabelled": 2})
    done = run_train("--model", "autoencoder", "--steps", "10")
    assert done.returncode == 0, done.stderr
    assert model_of(tmp_path / "run").card.classes == ("cluster 1", "cluster 2")
    assert "called by their numbers" in done.stdout


def test_the_same_seed_gives_the_same_bytes_however_often_it_is_saved(
    whole_run: Path, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    (tmp_path / "tiny.toml").write_text((tmp_path / "tiny.toml").read_text() + "save_every_s = 0\n")
    assert run_train().returncode == 0
    assert model_bytes(tmp_path / "run") == model_bytes(whole_run)
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == (whole_run / "metrics.csv").read_bytes()


def test_another_seed_gives_another_model(
    whole_run: Path, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    assert run_train("--seed", "1", "--steps", "10").returncode == 0
    rows, others = metrics_csv.read(tmp_path / "run"), metrics_csv.read(whole_run)
    assert rows[0].step == others[0].step
    assert rows[0] != others[0]


def test_the_best_weights_are_kept_and_training_stops_where_nothing_gets_better(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    done = run_train("--learning-rate", "1e-12", "--patience", "2", "--evaluate-every", "3")
    assert done.returncode == 0, done.stderr
    record = record_of(tmp_path / "run")
    assert (record["stopped"], record["best_step"], record["steps"]) == ("early", 3, 9)
    assert "the validation loss fell no more" in done.stdout
    assert "Kept the weights of step 3" in done.stdout


def test_what_has_learnt_nothing_is_said_and_marked(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    done = run_train("--learning-rate", "1e-12", "--steps", "10")
    assert done.returncode == 0
    assert "Note: the loss stayed at" in done.stderr and "another --learning-rate than 1e-12" in done.stderr
    assert not model_of(tmp_path / "run").card.converged
    assert record_of(tmp_path / "run")["converged"] is False


def test_what_is_learnt_by_heart_and_not_understood_is_said(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset()
    swapped = {"1": "2", "2": "1"}
    rows = [row for row in tiles_csv.read(dataset) if row.split == "val"]
    lines = [f"{row.tile_id},,{swapped[str(row.ucc)]},me,now\n" for row in rows]
    (dataset / "labels.csv").write_text("tile_id,kind,ucc,who,when\n" + "".join(lines))
    done = run_train()
    assert done.returncode == 0
    assert "the slides differ too much" in done.stderr
    assert not model_of(tmp_path / "run").card.converged


def test_without_val_tiles_all_steps_are_taken_and_the_last_weights_kept(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(val={})
    done = run_train("--patience", "1", "--steps", "20")
    assert done.returncode == 0, done.stderr
    assert "Note: there are no val tiles: all --steps are taken and the last weights are kept" in done.stderr
    assert record_of(tmp_path / "run")["best_step"] == 20
    assert all(row.val_loss is None for row in metrics_csv.read(tmp_path / "run"))
    assert "Kept the weights of step 20: train loss" in done.stdout


def test_val_tiles_of_one_label_alone_are_no_validation(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(val={"normal": 4})
    done = run_train("--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "Note: there are no val tiles labelled ucc 2" in done.stderr
    assert "the last weights are kept" in done.stderr


def test_tiles_without_a_label_are_left_out_and_counted(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(train={"normal": 3, "mixture": 3, "unlabelled": 5})
    done = run_train("--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "Note: 5 of 11 train tiles have no label for this and are not used" in done.stderr
    assert "tiles: 3 ucc 1, 3 ucc 2" in done.stderr


def test_the_labels_that_people_gave_win(make_dataset: MakeDataset, run_train: Run) -> None:
    dataset = make_dataset(train={"normal": 3, "mixture": 3, "unlabelled": 2})
    lines = ["train_000,,,me,now", "train_006,mixture,,me,now", "train_007,,1,me,now"]
    (dataset / "labels.csv").write_text("\n".join(["tile_id,kind,ucc,who,when", *lines, ""]))
    done = run_train("--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "Note: 1 of 8 train tiles have no label" in done.stderr
    assert "tiles: 3 ucc 1, 4 ucc 2" in done.stderr


def test_tiles_with_too_little_tissue_are_left_out_and_counted(make_dataset: MakeDataset, run_train: Run) -> None:
    dataset = make_dataset()
    glass = np.full((64, 64, 3), 243, np.uint8)
    for row in tiles_csv.read(dataset)[:2]:
        png.write(tiles_csv.image_path(dataset, row), glass)
    done = run_train("--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "Note: 2 of 16 train tiles have too little tissue for a bag and are not used" in done.stderr


def test_centroids_are_kept_only_where_classes_are_clusters(whole_run: Path) -> None:
    _, tensors = model_safetensors.read(whole_run / model_safetensors.NAME)
    assert tensors[CENTROIDS].shape == (2, 4)


def test_counts_beyond_two_are_told_apart_where_the_data_set_has_them(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset(train={"normal": 3, "mixture": 6}, val={"normal": 1, "mixture": 2})
    mixtures = [row for row in tiles_csv.read(dataset) if row.kind == "mixture"]
    lines = [f"{row.tile_id},,3,me,now\n" for row in mixtures[::2]]
    (dataset / "labels.csv").write_text("tile_id,kind,ucc,who,when\n" + "".join(lines))
    settings = (tmp_path / "tiny.toml").read_text().replace("[model]", "[model]\nucc_labels = [1, 2, 3]\nclasses = 3")
    (tmp_path / "tiny.toml").write_text(settings)
    done = run_train("--steps", "2")
    assert done.returncode == 0, done.stderr
    card = model_of(tmp_path / "run").card
    assert card.labels == ("ucc 1", "ucc 2", "ucc 3")
    assert card.classes == ("normal", "cluster 2", "cluster 3")


@pytest.mark.parametrize(("precision", "is_told"), [("bfloat16", True), ("float32", False)])
def test_half_precision_that_a_device_only_emulates_is_told_of(
    precision: str, is_told: bool, make_dataset: MakeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "emulates_bfloat16", lambda device: True)
    settings = TrainingSettings(precision=precision)
    events = workflow.train(workflow.TrainRequest(make_dataset(), tmp_path / "run", training=settings))
    first = next(events)
    events.close()
    assert (first == Notice("this cpu only emulates bfloat16; --precision float32 is quicker here")) is is_told
