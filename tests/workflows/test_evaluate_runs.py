"""The runs that are compared: what each is called, what its clusters mean, what is said of it; which are refused."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from conftest import TINY, write_dataset
from forks import Forks
from reports import evaluated, figures_in, notices, table_rows

from ucc_path.errors import ModelError, SettingsError
from ucc_path.formats import model_safetensors, report_json, run_json
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import CENTROIDS
from ucc_path.settings import SegmentationSettings
from ucc_path.workflows.evaluate.runs import read_runs
from ucc_path.workflows.train.data import fingerprint

TILES = {"normal": 3, "metastases": 2, "mixture": 4}

Copy = Callable[..., Path]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("compared") / "dataset", test=TILES)


@pytest.fixture
def copy(clustered_run: Path, tmp_path: Path) -> Copy:
    """`copy("a/run", converged=False)`: a copy of the tiny run whose card says something else."""

    def make(name: str, *, swapped: bool = False, **changed: Any) -> Path:
        path = Path(shutil.copytree(clustered_run, tmp_path / name))
        card, tensors = model_safetensors.read(path / model_safetensors.NAME)
        if swapped:
            tensors[CENTROIDS] = torch.flip(tensors[CENTROIDS], dims=[0])
        model_safetensors.write(path / model_safetensors.NAME, replace(card, **changed), tensors)
        return path

    return make


def card_of(run: Path) -> ModelCard:
    return model_safetensors.read(run / model_safetensors.NAME)[0]


def facts(report: Path, name: str) -> dict[str, Any]:
    (found,) = [model for model in report_json.read(report)["models"] if model["name"] == name]
    return dict(found)


def change_record(run: Path, **data: Any) -> None:
    """Other words about its data in the record of a run; None takes them out."""
    record = json.loads((run / "run.json").read_text())
    record["data"] = {key: value for key, value in (record["data"] | data).items() if value is not None}
    run_json.write(run, {key: value for key, value in record.items() if key not in ("format", "version")})


def test_a_model_that_counts_all_tiles_rightly_errs_nowhere(clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    evaluated(dataset, clustered_run, output=tmp_path / "report")
    counting = facts(tmp_path / "report", "run")["ucc"]
    assert counting["labels"] == ["ucc 1", "ucc 2"]
    assert counting["confusion"] == [[5, 0], [0, 4]]
    assert counting["accuracy"] == counting["balanced"] == 1
    assert figures_in(tmp_path / "report", "run")["PA"] == 1


def test_labels_that_people_gave_are_what_counts_are_compared_with(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test=TILES)
    # Two of the normal tiles, and one of the mixtures.
    lines = ["test_032,mixture,,me,now", "test_033,mixture,,me,now", "test_037,normal,,me,now"]
    (dataset / "labels.csv").write_text("\n".join(["tile_id,kind,ucc,who,when", *lines, ""]))
    evaluated(dataset, clustered_run, output=tmp_path / "report")
    counting = facts(tmp_path / "report", "run")["ucc"]
    assert counting["confusion"] == [[3, 1], [2, 3]]
    assert counting["accuracy"] == pytest.approx(6 / 9, abs=1e-6)
    assert counting["balanced"] == pytest.approx((3 / 4 + 3 / 5) / 2, abs=1e-6)


def test_a_model_of_kinds_tells_three_of_them_apart(forks: Forks, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    how = ("--settings", "tiny.toml", "--supervision", "kind", "-o", "kinds")
    done = forks.start(tmp_path, "train", dataset, *how).wait()
    assert done.returncode == 0, done.stderr
    for assign, matched_by in (("centroids", "names"), ("head", "classes")):
        wishes = SegmentationSettings(inference="torch", batch_size=64, assign=assign)
        evaluated(dataset, tmp_path / "kinds", output=tmp_path / assign, segmentation=wishes)
        found = facts(tmp_path / assign, "kinds")
        assert found["ucc"]["labels"] == ["normal", "metastases", "mixture"]
        assert found["ucc"]["confusion"] == [[3, 0, 0], [0, 2, 0], [0, 0, 4]]
        assert found["matched_by"] == matched_by  # a head names classes itself, and an oracle may not
        assert figures_in(tmp_path / assign, "kinds")["TPR"] > 0.7


def test_clusters_with_each_others_names_are_wrong_by_name_and_right_by_the_truth(
    copy: Copy, dataset: Path, tmp_path: Path
) -> None:
    swapped = copy("swapped", swapped=True)
    found = {}
    for match in ("names", "oracle"):
        evaluated(dataset, swapped, output=tmp_path / match, match=match)
        found[match] = figures_in(tmp_path / match, "swapped", "pooled")
        record = report_json.read(tmp_path / match)
        assert record["match"] == facts(tmp_path / match, "swapped")["matched_by"] == match
        assert ("--match oracle" in (tmp_path / match / "report.html").read_text()) == (match == "oracle")
    assert (found["names"]["TPR"], found["names"]["FPR"]) == (0, 1)
    assert (found["oracle"]["TPR"], found["oracle"]["FPR"]) == (1, 0)


def test_nothing_is_said_of_a_run_that_learnt_from_other_slides(
    clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    events = evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert not [text for text in notices(events) if "run" in text.split()]


def assert_remarked(report: Path, events: list[Any], text: str) -> None:
    assert text in notices(events)
    assert text in report_json.read(report)["notes"]
    assert text in (report / "report.html").read_text()


def test_a_run_that_learnt_nothing_is_named(copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    events = evaluated(dataset, copy("lazy", converged=False), clustered_run, output=tmp_path / "report")
    text = "lazy did no better than guessing when it was trained: its mask means nothing"
    assert_remarked(tmp_path / "report", events, text)
    assert not any(said.startswith("run did") for said in notices(events))
    assert [facts(tmp_path / "report", name)["converged"] for name in ("lazy", "run")] == [False, True]


def test_a_run_that_was_trained_on_these_slides_is_named(
    copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    known = copy("known")
    change_record(known, slides={"train": ["train", "test"], "val": ["val"]})
    events = evaluated(dataset, known, clustered_run, output=tmp_path / "report")
    text = "known was trained on slides of these tiles (test): its figures promise too much"
    assert_remarked(tmp_path / "report", events, text)
    assert not any(said.startswith("run was") for said in notices(events))


def test_a_model_without_its_run_may_have_seen_anything(
    copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    bare, silent, old = (copy(name) for name in ("bare", "silent", "old"))
    for path in bare.iterdir():
        if path.name != model_safetensors.NAME:
            path.unlink()
    change_record(silent, slides=None)  # as runs of before, which did not tell their slides
    change_record(old, slides=None, fingerprint=fingerprint(dataset))  # but was made of these tiles, by their splits
    events = evaluated(dataset, bare, silent, old, output=tmp_path / "report")
    for name in ("bare", "silent"):
        text = f"it is not known on which slides {name} was trained; if on these, its figures mean nothing"
        assert_remarked(tmp_path / "report", events, text)
    assert not any("old" in text.split() for text in notices(events))
    assert facts(tmp_path / "report", "bare")["cost"]["seconds"] is None
    assert facts(tmp_path / "report", "bare")["training"] == []


def test_what_a_model_was_given_and_needed_is_told(clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    evaluated(dataset, clustered_run, output=tmp_path / "report")
    found, record = facts(tmp_path / "report", "run"), run_json.read(clustered_run)
    assert found["cost"] == {
        "learnt_from": "unique class counts",
        "tiles": 16,
        "parameters": record["parameters"],
        "seconds": record["seconds"],
        "device": "cpu",
        "best_step": record["best_step"],
    }
    assert [row["step"] for row in found["training"]] == [10, 20, 30, 40]
    assert found["features"]["patches"] == [16 * (3 + 4 / 2), 16 * (2 + 4 / 2)]
    assert 0 < found["divergence"] < 0.6932


def test_runs_of_one_name_are_told_apart_by_their_folders(copy: Copy, dataset: Path, tmp_path: Path) -> None:
    runs = [copy("a/run"), copy("b/run", swapped=True)]
    evaluated(dataset, *runs, output=tmp_path / "report")
    names = [row["model"] for row in table_rows(tmp_path / "report" / "metrics.csv") if row["averaging"] == "image"]
    assert names == ["a/run", "b/run", "kmeans", "colour", "empty", "grid-ceiling"]
    assert figures_in(tmp_path / "report", "a/run")["TPR"] == 1 and figures_in(tmp_path / "report", "b/run")["TPR"] == 0
    figures = [path.name for path in (tmp_path / "report" / "figures").glob("training_*")]
    assert {name.split("_")[1] for name in figures} == {"a", "b"}


def test_a_model_may_be_named_by_its_file(clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    alone = tmp_path / "models" / "best.safetensors"
    alone.parent.mkdir()
    shutil.copyfile(clustered_run / model_safetensors.NAME, alone)
    evaluated(dataset, clustered_run / model_safetensors.NAME, alone, output=tmp_path / "report")
    names = [row["model"] for row in table_rows(tmp_path / "report" / "metrics.csv") if row["averaging"] == "image"]
    assert names[:2] == ["run", "best"]


@pytest.mark.parametrize("name", ["kmeans", "colour", "empty", "grid-ceiling"])
def test_a_run_called_like_a_baseline_is_refused(copy: Copy, dataset: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=f"a model called {name} would be taken for another row .* rename its folder"):
        evaluated(dataset, copy(name), output=tmp_path / "report")


def test_a_run_called_like_the_pixels_of_another_is_refused(
    copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="a model called run-pixels would be taken for another row"):
        evaluated(dataset, clustered_run, copy("run-pixels"), output=tmp_path / "report")


def test_a_name_that_would_rule_a_terminal_is_refused(copy: Copy, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the name 'odd\\x1b\[2J' has characters that cannot be written to a table"):
        evaluated(dataset, copy("odd\x1b[2J"), output=tmp_path / "report")


def test_a_model_named_twice_is_refused(clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.safetensors is named twice; name every model once"):
        evaluated(dataset, clustered_run, clustered_run / model_safetensors.NAME, output=tmp_path / "report")


def test_models_whose_grids_differ_are_refused(copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    coarse = copy("coarse", mpp=4.0)
    with pytest.raises(ModelError, match=r"another scale in um/px \(2 and 4\), so that their grids differ; compare"):
        evaluated(dataset, clustered_run, coarse, output=tmp_path / "report")
    large = copy("large", settings=replace(card_of(clustered_run).settings, patch_px=32))
    with pytest.raises(ModelError, match=r"large.* have another patch_px \(16 and 32\), so that their grids differ"):
        evaluated(dataset, clustered_run, large, output=tmp_path / "report")


def test_a_model_that_cannot_look_at_these_tiles_is_refused(
    copy: Copy, clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        ModelError, match=r"was trained at 1 um/px and the tiles of .*dataset are at 2; .*--mpp 1, or take a model"
    ):
        evaluated(dataset, copy("fine", mpp=1.0), output=tmp_path / "report")
    settings = card_of(clustered_run).settings
    large = copy("large", settings=replace(settings, patch_px=128))
    with pytest.raises(ModelError, match=r"patches of 128 px and the tiles of .*dataset are only 64 px; make larger"):
        evaluated(dataset, large, output=tmp_path / "report")
    grey = copy("grey", settings=replace(settings, channels=1, colours="light"), mean=(0.5,), std=(0.2,))
    with pytest.raises(ModelError, match=r"looks at 1 channels and the tiles of .*dataset have 3; take another"):
        evaluated(dataset, grey, output=tmp_path / "report")


def test_clusters_without_names_are_judged_only_by_the_truth(copy: Copy, dataset: Path, tmp_path: Path) -> None:
    nameless = copy("nameless", classes=("cluster 1", "cluster 2"))
    with pytest.raises(
        ModelError, match=r"no cluster of nameless has the name of tumour \(cluster 1, cluster 2\).*give --match oracle"
    ):
        evaluated(dataset, nameless, output=tmp_path / "report")
    assert not list(tmp_path.glob("report*"))
    evaluated(dataset, nameless, output=tmp_path / "report", match="oracle")
    assert figures_in(tmp_path / "report", "nameless")["PA"] == 1


def test_a_head_that_only_counts_cannot_say_classes(clustered_run: Path, dataset: Path, tmp_path: Path) -> None:
    wishes = SegmentationSettings(inference="torch", assign="head")
    with pytest.raises(SettingsError, match="--assign head is for models that were taught which class"):
        evaluated(dataset, clustered_run, output=tmp_path / "report", segmentation=wishes)
    assert not list(tmp_path.glob("report*"))


def test_a_model_that_is_not_there_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model .*nowhere; train one with ucc-path train"):
        evaluated(dataset, tmp_path / "nowhere", output=tmp_path / "report")


def test_a_run_and_a_file_of_its_name_beside_it_do_not_become_one(copy: Copy, tmp_path: Path) -> None:
    run = copy("run")
    twin = Path(shutil.copyfile(run / model_safetensors.NAME, tmp_path / "run.safetensors"))

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it never ended")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(3)
    try:
        names = [found.name for found in read_runs([run, twin])]
    except ModelError as err:
        names = [str(err)]  # which is as good, if it names them
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(names)) == len(names) and all("run" in name for name in names)
