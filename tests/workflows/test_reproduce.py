"""The paper's experiments on small files of bars, whose places are the classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from labelled import QUICK, SMALL, make_digits, request_of, write_cifar10, write_cifar100, write_idx, write_mnist
from PIL import Image
from reports import finished, table_rows

from ucc_path.errors import DatasetError, DivergedError, OutputError, SettingsError, UccPathError
from ucc_path.formats import png
from ucc_path.formats.atomic import locked_folder
from ucc_path.settings import ModelSettings
from ucc_path.workflows.events import Step
from ucc_path.workflows.reproduce import reproduce
from ucc_path.workflows.reproduce.data import read_images
from ucc_path.workflows.reproduce.request import NAMES, labels_from, variants_of


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mnist(tmp_path_factory.mktemp("images") / "mnist")


@pytest.fixture
def run(mnist: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """`run("ucc", training_seed=1)`: into `out` with settings that cost nothing; the keys of the runs it made."""

    def repeat(*models: str, data: Path = mnist, output: str = "out", **changes: Any) -> list[str]:
        events, _ = finished(reproduce(request_of(data, tmp_path / output, *models, **changes)))
        steps = [event.text for event in events if isinstance(event, Step)]
        return [text.split(": ")[1] for text in steps if text.startswith("Run ")]

    return repeat


def records(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((folder / "runs").glob("*.json"))}


def test_counts_alone_teach_counting_and_clusters_that_are_classes(mnist: Path, tmp_path: Path) -> None:
    _, report = finished(reproduce(request_of(mnist, tmp_path / "out", "ucc-alpha1", text=SMALL)))
    (learnt,) = report.rows
    assert (learnt.model, learnt.ucc_labels, learnt.pooling, learnt.seed) == ("ucc-alpha1", "1-4", "kde", 0)
    assert learnt.ucc_accuracy > 0.45  # of four counts
    assert learnt.clustering_best > 0.8  # of ten classes
    assert learnt.clustering_merge > 0.5
    record = records(tmp_path / "out")["ucc-alpha1_1-4_kde_seed0"]
    assert [sum(row) for row in record["counting"]] == [100] * 4
    assert all(sum(row) == 8 for table in record["clusters"].values() for row in table)
    assert [point["step"] for point in record["curve"]] == [50, 100, 150]
    losses = [row["val_loss"] for row in record["training"]]
    assert losses[-1] < losses[0] < 1.5 and losses[-1] < 0.8 * np.log(4)
    assert record["best_step"] in (100, 150)


def test_every_model_of_the_paper_leaves_its_row_its_record_and_its_picture(
    run: Callable[..., list[str]], tmp_path: Path
) -> None:
    made = run(*reversed(NAMES))
    out = tmp_path / "out"
    assert made == [
        "ucc_1-4_kde_seed0",
        "ucc2+_2-4_kde_seed0",
        "ucc-alpha1_1-4_kde_seed0",
        "ucc2+-alpha1_2-4_kde_seed0",
        "autoencoder_seed0",
        "supervised_seed0",
        "kmeans_seed0",
        "spectral_seed0",
    ]
    assert {path.name for path in out.iterdir()} == {"metrics.csv", "paper.csv", "report.html", "runs"}
    rows = table_rows(out / "metrics.csv")
    assert [row["model"] for row in rows] == list(NAMES)
    filled = {row["model"]: {name for name, cell in row.items() if cell} for row in rows}
    always = {"model", "seed", "peak_mb", "clustering_best"}
    ways = {"clustering_kmeans", "clustering_spectral"}
    features = always | ways | {"min_js", "seconds"}
    counts = features | {"ucc_labels", "pooling", "ucc_accuracy", "clustering_merge"}
    for name in NAMES[:4]:
        assert filled[name] == counts
    assert filled["autoencoder"] == filled["supervised"] == features
    assert filled["kmeans"] == always | {"clustering_kmeans"}
    assert filled["spectral"] == always | {"clustering_spectral"}
    pictures = {path.stem for path in (out / "runs").glob("*.png")}
    assert pictures == {made[0], made[1], made[4]}  # those with a decoder
    assert Image.open(out / "runs" / f"{made[0]}.png").size == (10 * 16, 16)
    assert {path.stem for path in (out / "runs").glob("*.json")} == set(made)
    for record in records(out).values():
        assert record["data"] | {"fingerprint": ""} == {"fingerprint": "", "train": 400, "val": 100, "test": 80}


def test_the_best_column_is_the_better_of_k_means_and_spectral(run: Callable[..., list[str]], tmp_path: Path) -> None:
    run("ucc", "autoencoder")
    for row in table_rows(tmp_path / "out" / "metrics.csv"):
        assert float(row["clustering_best"]) == max(float(row[f"clustering_{way}"]) for way in ("kmeans", "spectral"))


@pytest.mark.parametrize(
    ("experiment", "write", "classes", "side_px"),
    [("cifar10", write_cifar10, 10, 32), ("cifar100", write_cifar100, 20, 32)],
)
def test_photographs_are_learnt_in_colours(
    experiment: str,
    write: Callable[..., Path],
    classes: int,
    side_px: int,
    run: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    data = write(tmp_path / "images", train=80, test=6)
    text = QUICK.replace("patch_px = 16", "stem_stride = 4\npatch_px = 32")
    run("ucc", "kmeans", data=data, experiment=experiment, text=text)
    (record, raw) = (records(tmp_path / "out")[key] for key in ("ucc_1-4_kde_seed0", "kmeans_seed0"))
    assert np.array(record["divergence"]).shape == (classes, classes)
    assert np.array(record["densities"]).shape == (classes, 2, 11)
    assert np.array(record["clusters"]["merge"]).shape == (classes, classes)
    assert raw["figures"]["clustering_kmeans"] == 1.0  # a bar in a place of its own for each class
    picture = Image.open(tmp_path / "out" / "runs" / "ucc_1-4_kde_seed0.png")
    assert picture.mode == "RGB" and picture.size == (classes * side_px, side_px)


def test_the_same_seed_gives_the_same_figures_and_pictures(run: Callable[..., list[str]], tmp_path: Path) -> None:
    for output in ("first", "again"):
        run("ucc", "supervised", "kmeans", output=output)
    found = []
    for output in ("first", "again"):
        own = records(tmp_path / output)
        for record in own.values():
            for name in ("seconds", "peak_mb"):
                record["figures"].pop(name)
        found.append(own)
    assert found[0] == found[1]
    pictures = [png.read(tmp_path / output / "runs" / "ucc_1-4_kde_seed0.png") for output in ("first", "again")]
    assert np.array_equal(*pictures)


def test_other_seeds_are_other_runs(run: Callable[..., list[str]], tmp_path: Path) -> None:
    assert run("ucc", seeds=2, training_seed=5) == ["ucc_1-4_kde_seed5", "ucc_1-4_kde_seed6"]
    first, second = records(tmp_path / "out").values()
    assert first["training"] != second["training"]
    assert [row["seed"] for row in table_rows(tmp_path / "out" / "metrics.csv")] == ["5", "6"]


def test_finished_runs_are_left_as_they_are(run: Callable[..., list[str]], tmp_path: Path) -> None:
    assert len(run("ucc", "kmeans")) == 2
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    assert run("ucc", "kmeans") == []
    assert run("ucc", "kmeans", "spectral") == ["spectral_seed0"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [row["model"] for row in table_rows(tmp_path / "out" / "metrics.csv")] == ["ucc", "kmeans", "spectral"]


def test_overwrite_makes_what_is_asked_for_anew_and_nothing_else(run: Callable[..., list[str]], tmp_path: Path) -> None:
    run("ucc", "kmeans")
    raw = (tmp_path / "out" / "runs" / "kmeans_seed0.json").stat().st_mtime_ns
    assert run("ucc", overwrite=True, training_steps=2) == ["ucc_1-4_kde_seed0"]
    assert records(tmp_path / "out")["ucc_1-4_kde_seed0"]["best_step"] == 2
    assert (tmp_path / "out" / "runs" / "kmeans_seed0.json").stat().st_mtime_ns == raw


def test_other_counts_and_poolings_are_added_and_models_that_do_not_count_are_not_run_again(
    run: Callable[..., list[str]], tmp_path: Path
) -> None:
    models = ("ucc", "autoencoder", "supervised", "kmeans", "spectral")
    run(*models)
    assert run(*models, model_pooling="average") == ["ucc_1-4_average_seed0"]
    assert run(*models, model_ucc_labels=[1, 2, 3]) == ["ucc_1-3_kde_seed0"]
    rows = table_rows(tmp_path / "out" / "metrics.csv")
    assert [(row["model"], row["ucc_labels"], row["pooling"]) for row in rows[:3]] == [
        ("ucc", "1-3", "kde"),
        ("ucc", "1-4", "kde"),
        ("ucc", "1-4", "average"),
    ]
    assert len(rows) == 7


def test_clusters_of_pixels_are_the_same_run_however_networks_are_trained(run: Callable[..., list[str]]) -> None:
    run("kmeans")
    assert run("kmeans", training_steps=3, model_width=2) == []


def refusal(make: Callable[[], Any], error: type[UccPathError]) -> str:
    with pytest.raises(error) as found:
        make()
    text = str(found.value)
    assert "\n" not in text and len(text) < 400
    return text


@pytest.mark.parametrize("changes", [{"training_steps": 3}, {"model_width": 2}, {"reproduction_min_share": 0.5}])
def test_a_run_of_other_settings_is_neither_kept_nor_replaced(
    changes: dict[str, Any], run: Callable[..., list[str]], tmp_path: Path
) -> None:
    run("ucc")
    before = (tmp_path / "out" / "runs" / "ucc_1-4_kde_seed0.json").read_bytes()
    text = refusal(lambda: run("ucc", **changes), OutputError)
    assert text.endswith(
        "out holds a run ucc_1-4_kde_seed0 of other settings; "
        "replace it with --overwrite, or choose another folder with -o"
    )
    assert (tmp_path / "out" / "runs" / "ucc_1-4_kde_seed0.json").read_bytes() == before


def test_a_run_of_other_images_is_neither_kept_nor_replaced(run: Callable[..., list[str]], tmp_path: Path) -> None:
    run("kmeans")
    other = write_mnist(tmp_path / "other", seed=1)
    assert "holds a run kmeans_seed0 of other data; " in refusal(lambda: run("kmeans", data=other), OutputError)


def test_runs_of_another_experiment_are_refused_before_anything_is_learnt(
    run: Callable[..., list[str]], tmp_path: Path
) -> None:
    run("kmeans", data=write_cifar10(tmp_path / "cifar"), experiment="cifar10", model_patch_px=32)
    for overwrite in (False, True):
        text = refusal(lambda overwrite=overwrite: run("ucc", overwrite=overwrite), OutputError)
        assert text.endswith("out holds runs of 'cifar10'; choose another folder with -o")
    assert [path.stem for path in (tmp_path / "out" / "runs").iterdir()] == ["kmeans_seed0"]
    assert "holds a run kmeans_seed0 of other experiment" in refusal(lambda: run("kmeans"), OutputError)


def test_a_folder_that_another_run_writes_is_refused(run: Callable[..., list[str]], tmp_path: Path) -> None:
    with locked_folder(tmp_path / "out"):
        assert "another run is writing" in refusal(lambda: run("kmeans"), OutputError)
    assert run("kmeans") == ["kmeans_seed0"]


def test_a_file_in_the_place_of_the_folder_is_refused(run: Callable[..., list[str]], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    assert "out cannot be written" in refusal(lambda: run("kmeans"), OutputError)


SOUND = {"format": "ucc-path reproduction run", "version": 1, "experiment": "mnist"}
HOSTILE: dict[str, Any] = {
    "no JSON": None,
    "a list": [],
    "nothing of ours": {"a": 1},
    "a later version": {**SOUND, "version": 2},
    "no variant": SOUND,
    "a variant that is none": {**SOUND, "variant": 3},
    "a model that there is not": {"variant": {"model": "a\nb", "ucc_labels": "", "pooling": "", "seed": 0}},
    "a seed that is none": {"variant": {"model": "kmeans", "ucc_labels": "", "pooling": "", "seed": "0"}},
    "labels that are none": {"variant": {"model": "kmeans", "ucc_labels": None, "pooling": "", "seed": 0}},
    "one more of a variant": {"variant": {"model": "kmeans", "ucc_labels": "", "pooling": "", "seed": 0, "a\nb": 1}},
    "no figures": {"figures": {}},
    "figures that are words": {"figures": {"clustering_kmeans": "many", "peak_mb": 1}},
    "more memory than any": {"figures": {"peak_mb": float("inf")}},
    "a figure larger than any": {"figures": {"min_js": 10**400, "peak_mb": 1}},
    "settings that are none": {"settings": 3, "training": [{"step": 1}]},
    "tables of another size": {"clusters": {"kmeans": [[1, 2], [3]]}},
    "clusters that are none": {"clusters": None},
    "a table of words": {"clusters": {"kmeans": [["a"] * 10] * 10}},
    "counting that is none": {"counting": 7},
    "rows of training that are none": {"training": [{"what": 1}]},
    "a divergence without densities": {"divergence": [[0.0] * 10] * 10, "densities": None},
    "versions that are none": {"versions": 5},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_record_that_was_changed_costs_one_line_and_no_work(
    what: str, run: Callable[..., list[str]], tmp_path: Path
) -> None:
    if not (tmp_path / "out").exists():
        run("kmeans")
    path = tmp_path / "out" / "runs" / "kmeans_seed0.json"
    sound = json.loads(path.read_text())
    changed = HOSTILE[what]
    other = path.with_name("kmeans_seed7.json")
    is_part = isinstance(changed, dict) and "format" not in changed and "a" not in changed
    other.write_text("{" if changed is None else json.dumps({**sound, **changed} if is_part else changed))
    text = refusal(lambda: run("ucc"), OutputError)
    assert str(other) in text and text.endswith("; remove it, or make it anew with --overwrite")
    assert not list(path.parent.glob("ucc_*"))
    other.replace(path)
    assert run("kmeans", overwrite=True) == ["kmeans_seed0"]
    assert records(tmp_path / "out").keys() == {"kmeans_seed0"}


@pytest.mark.parametrize(
    ("models", "changes", "message"),
    [
        (("ucc3",), {}, f"--models has no 'ucc3'; it can be {', '.join(NAMES)}"),
        (("ucc2+",), {"model_ucc_labels": [1, 2]}, "ucc2+ counts from 2 on; give --ucc-labels up to 3 or more"),
        (
            ("ucc",),
            {"model_ucc_labels": [1, 3]},
            "ucc_labels is [1, 3]; give counts without a gap, such as [1, 2, 3, 4]",
        ),
        (("ucc",), {"model_ucc_labels": [2, 1]}, "ucc_labels is [2, 1]; give two or more counts, rising"),
        (
            ("ucc",),
            {"model_ucc_labels": [9, 10, 11], "training_bag_size": 8},
            "ucc_labels go up to 11, and a bag of 8 ",
        ),
        (("ucc",), {"model_patch_px": 8}, "the images are 12 px wide and patch_px is 8; give 12 or more"),
        (("ucc",), {"model_patch_px": 18}, "patch_px is 18; with stem_stride 2 give a multiple of 8"),
        (("ucc",), {"model_channels": 3}, "channels is 3 and the images have 1; give 1, or leave it out"),
        (("ucc",), {"training_learning_rate": 0}, "learning_rate is 0; give more than 0"),
        (("ucc",), {"training_seed": -1}, "seed is -1; give from 0 to 1e+09"),
    ],
)
def test_wishes_that_do_not_fit_are_refused(
    models: tuple[str, ...], changes: dict[str, Any], message: str, run: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert message in refusal(lambda: run(*models, **changes), SettingsError)
    assert not list(tmp_path.glob("out/runs/*"))


def test_no_model_at_all_is_refused(mnist: Path, tmp_path: Path) -> None:
    request = replace(request_of(mnist, tmp_path / "out"), models=())
    assert refusal(lambda: variants_of(request), SettingsError).startswith("--models has no 'name'; it can be ucc, ")


@pytest.mark.parametrize("text", ["", "4", "1-", "0-4", "4-1", "2-2", "1-4-6", "a-b", "-1-4", "1-1000", "1,4", " 1-4"])
def test_a_range_of_counts_that_is_none_is_refused(text: str) -> None:
    message = f"--ucc-labels {text!r} is no range of counts; give one such as 1-4"
    assert refusal(lambda: labels_from(text), SettingsError) == message


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (
            {"each": 15},
            {},
            r"class \d has \d val images, fewer than a bag of 8; get the whole data set, or give a small",
        ),
        ({}, {"each": 3}, r"class 0 has 3 test images, fewer than a bag of 8; get the whole data set, or give a small"),
        ({"classes": 9}, {}, r"the train images of \S+ are not of 10 classes; get the whole data set"),
        ({}, {"classes": 9}, r"the test images of \S+ are not of 10 classes; get the whole data set"),
        ({"classes": 11}, {}, r"the train images of \S+ are not of 10 classes; get the whole data set"),
        ({"each": 0}, {}, r"the train images of \S+ are not of 10 classes; get the whole data set"),
    ],
)
def test_images_that_are_too_few_or_of_other_classes_are_refused_before_anything_is_learnt(
    train: dict[str, int], test: dict[str, int], message: str, run: Callable[..., list[str]], tmp_path: Path
) -> None:
    for prefix, how in (("train", {"each": 50} | train), ("t10k", {"each": 8} | test)):
        images, labels = make_digits(how.pop("each"), **how)
        write_idx(tmp_path / "few" / f"{prefix}-images-idx3-ubyte", images)
        write_idx(tmp_path / "few" / f"{prefix}-labels-idx1-ubyte", labels)
    found = refusal(lambda: run("ucc", data=tmp_path / "few", training_bag_size=8, training_steps=10**6), DatasetError)
    assert re.match(message, found)


def test_a_loss_that_is_no_number_is_said_with_what_to_change(
    run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(*_: Any) -> Iterator[Any]:
        raise DivergedError("start anew with a --learning-rate below 0.001")
        yield

    monkeypatch.setattr("ucc_path.workflows.reproduce.learn", diverging)
    assert refusal(lambda: run("autoencoder"), DivergedError) == (
        "the loss of autoencoder_seed0 is no longer a number; "
        "give a learning_rate below 0.001 under [training] in the settings file"
    )


def test_images_lie_in_the_middle_of_larger_squares(tmp_path: Path) -> None:
    write_mnist(tmp_path, train=2, test=1)
    images = read_images("mnist", tmp_path, ModelSettings(channels=1, classes=10, patch_px=16))
    assert images.learning.images.shape == (20, 16, 16, 1)
    assert np.array_equal(images.learning.images[:, 2:14, 2:14, 0], make_digits(2)[0])
    assert images.learning.images.sum() == make_digits(2)[0].astype(int).sum()


def test_a_fifth_of_the_images_is_for_validation_by_the_seed(tmp_path: Path) -> None:
    write_mnist(tmp_path, train=10, test=1)
    images = read_images("mnist", tmp_path, ModelSettings(channels=1, classes=10, patch_px=12 + 4))
    (train, val), (again, _), (other, _) = (images.split(seed) for seed in (0, 0, 1))
    assert (len(train), len(val)) == (80, 20)
    assert np.array_equal(train.images, again.images) and not np.array_equal(train.images, other.images)
    pixels = {image.tobytes() for part in (train, val) for image in part.images}
    assert len(pixels) == 100
