"""The model file: what goes in comes out, and nothing else comes in."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from ucc_path.errors import ModelError
from ucc_path.formats import model_safetensors
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import assemble
from ucc_path.settings import ENCODERS, PRESETS, ModelSettings

CARD = ModelCard(
    model="ucc",
    supervision="ucc",
    labels=("1", "2"),
    settings=ModelSettings(width=2, hidden=(4,)),
    alpha=0.5,
    mpp=0.5,
    mean=(0.7, 0.5, 0.625),
    std=(0.2, 0.25, 0.1),
    classes=("normal", "métastases µ"),
    converged=True,
    versions={"torch": "2.10", "ucc-path": "0.1.0"},
)
TENSORS = {
    "network.head.weight": torch.arange(6.0).reshape(2, 3),
    "network.norm.count": torch.tensor(3),
    "centroids": torch.ones(2, 16),
}


def make_model(folder: Path, card: ModelCard = CARD, tensors: dict[str, Tensor] | None = None) -> Path:
    path = folder / "model.safetensors"
    model_safetensors.write(path, card, TENSORS if tensors is None else tensors)
    return path


def make_foreign(folder: Path, tensors: dict[str, Tensor] | None = None, **changes: Any) -> Path:
    """A file whose record a stranger has changed; a change to None takes the key away."""
    record = json.loads(json.dumps(dataclasses.asdict(CARD)))
    record = {"format": "ucc-path model", "version": 1, **record, **changes}
    text = json.dumps({key: value for key, value in record.items() if value is not None})
    path = folder / "model.safetensors"
    path.write_bytes(save(TENSORS if tensors is None else tensors, {"ucc-path": text}))
    return path


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@pytest.mark.parametrize("settings", [CARD.settings, *(preset["model"] for preset in PRESETS.values())])
def test_what_is_written_is_read_back(tmp_path: Path, settings: ModelSettings) -> None:
    card = dataclasses.replace(CARD, settings=settings)
    found, tensors = model_safetensors.read(make_model(tmp_path, card))
    assert found == card
    assert same(tensors, TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_model_without_clusters_labels_or_convergence_is_one_too(tmp_path: Path) -> None:
    card = dataclasses.replace(
        CARD, model="unet", supervision="mask", labels=(), converged=False, versions=MappingProxyType({})
    )
    path = make_model(tmp_path, card, {"network.w": torch.ones(1)})
    found, tensors = model_safetensors.read(path)
    assert found == dataclasses.replace(card, versions={})
    assert list(tensors) == ["network.w"]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    first = make_model(tmp_path).read_bytes()
    card = dataclasses.replace(
        CARD, versions=dict(reversed(CARD.versions.items())), mean=tuple(np.float64(m) for m in CARD.mean)
    )
    assert make_model(tmp_path, card, dict(reversed(TENSORS.items()))).read_bytes() == first


def test_a_file_as_it_is_specified_is_read(tmp_path: Path) -> None:
    assert model_safetensors.read(make_foreign(tmp_path))[0] == CARD


BAD_FIELDS: list[tuple[str, Any, str]] = [
    *(
        (field.name, None, f"its record lacks '{field.name}'")
        for field in dataclasses.fields(ModelCard)
        if field.name != "assign"
    ),
    ("assign", "chance", "its assign is none of centroids, head, pixels"),
    ("more", 1, "its record has an unknown key 'more'"),
    ("\x1b[2J", 1, r"its record has an unknown key '\\x1b\[2J'"),
    ("version", 2, "it is of version 2, this program reads 1"),
    ("format", "ucc-path training state", "it holds no ucc-path model"),
    ("model", "transformer", "its model is none of ucc, unet"),
    ("model", ["ucc"], "its model is none of"),
    ("supervision", "hope", "its supervision is none of ucc, kind, mask, none"),
    ("labels", "12", "its labels are no short names"),
    ("labels", [1, 2], "its labels are no short names"),
    ("labels", ["x"] * 1001, "its labels are no short names"),
    ("classes", {"normal": 1}, "its classes are no short names"),
    ("classes", ["normal", ""], "its classes are no short names"),
    ("classes", ["normal", "\x1b[2J"], "its classes are no short names"),
    ("classes", ["normal", "\ud800"], "its classes are no short names"),
    ("classes", ["normal", "x" * 201], "its classes are no short names"),
    ("alpha", "0.5", "its alpha is not from 0 to 1"),
    ("alpha", True, "its alpha is not from 0 to 1"),
    ("alpha", 1.5, "its alpha is not from 0 to 1"),
    ("alpha", -1e-9, "its alpha is not from 0 to 1"),
    ("mpp", 0, "its mpp is not from 0.01 to 1000"),
    ("mpp", 10**400, "its mpp is not from 0.01 to 1000"),
    ("mpp", [1.0], "its mpp is not from 0.01 to 1000"),
    ("mean", 0.5, "its mean is not one number for each of its 3 channels"),
    ("mean", [0.5, 0.5], "its mean is not one number for each of its 3 channels"),
    ("mean", [0.5, 0.5, 128], "its mean is not from 0 to 3"),
    ("std", [0.5, 0.5, 0], "its std is not from 1e-06 to 3"),
    ("std", [0.5, 0.5, "0.5"], "its std is not from 1e-06 to 3"),
    ("converged", 1, "its converged is neither true nor false"),
    ("versions", [], "its versions are no short names and words"),
    ("versions", {"torch": 2}, "its versions are no short names and words"),
    ("versions", {"torch": "2\n"}, "its versions are no short names and words"),
    ("settings", [], "its settings are no table"),
    ("settings", {"depth": 3}, r"its \[model\] has no setting 'depth'"),
    ("settings", {"\x1b[2J": 3}, r"its \[model\] has no setting '\\x1b\[2J'"),
    ("settings", {"d" * 5000: 3}, "its settings are not possible"),
    ("settings", {"width": "8"}, r"its \[model\] width is '8'"),
    ("settings", {"width": 0}, r"its \[model\] width is 0"),
    ("settings", {"width": 1025}, r"its \[model\] width is 1025"),
    ("settings", {"width": 10**400}, r"its \[model\] width is 10000000"),
    ("settings", {"patch_px": 10**6}, r"its \[model\] patch_px is 1000000"),
    ("settings", {"features": 4097}, r"its \[model\] features is 4097"),
    ("settings", {"bins": 1}, r"its \[model\] bins is 1"),
    ("settings", {"sigma": 0}, r"its \[model\] sigma is 0"),
    ("settings", {"classes": 256}, r"its \[model\] classes is 256"),
    ("settings", {"norm": "layer"}, r"its \[model\] norm is 'layer'"),
    ("settings", {"encoder": "lite9"}, r"its \[model\] encoder is 'lite9'"),
    ("settings", {"hidden": [65537]}, r"its \[model\] hidden is 65537"),
    ("settings", {"hidden": [1] * 17}, "its settings ask for too many layers or labels"),
    ("settings", {"ucc_labels": [1] * 1001}, "its settings ask for too many layers or labels"),
]


@pytest.mark.parametrize(
    ("key", "value", "reason"), BAD_FIELDS, ids=[f"{key[:12]!a}-{i}" for i, (key, *_) in enumerate(BAD_FIELDS)]
)
def test_a_record_that_is_not_right_is_refused(tmp_path: Path, key: str, value: Any, reason: str) -> None:
    path = make_foreign(tmp_path, **{key: value})
    with pytest.raises(
        ModelError, match=rf"model\.safetensors is not a model that can be used \({reason}.*\); give the"
    ) as error:
        model_safetensors.read(path)
    assert str(error.value).removeprefix(str(path)).isprintable()
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: str) -> None:
    path = make_foreign(tmp_path, settings={"sigma": 55.5}, mpp=55.5)
    whole = path.read_bytes()
    for place in (0, 1):
        parts = whole.split(b"55.5")
        parts[place : place + 2] = [number.encode().join(parts[place : place + 2])]
        data = b"55.5".join(parts)
        grown = int.from_bytes(data[:8], "little") + len(data) - len(whole)
        path.write_bytes(grown.to_bytes(8, "little") + data[8:])
        with pytest.raises(ModelError, match=r"not JSON|sigma is not a finite number|mpp is not from"):
            model_safetensors.read(path)


BAD_TENSORS = [
    ({}, "it holds no weights"),
    ({"centroids": torch.ones(2, 3)}, "it holds no weights"),
    ({"extra": torch.ones(1)}, "its tensor 'extra' is no part of a model"),
    ({"networks": torch.ones(1)}, "its tensor 'networks' is no part of a model"),
    ({"network.h": torch.ones(1).half()}, "its tensor 'network.h' is float16 of 1 dimensions"),
    ({"network.d": torch.ones(1).double()}, "its tensor 'network.d' is float64"),
    ({"network.u": torch.ones(1, dtype=torch.uint8)}, "its tensor 'network.u' is uint8"),
    ({"centroids": torch.ones(3)}, "its tensor 'centroids' is float32 of 1 dimensions"),
    ({"centroids": torch.ones(2, 3).long()}, "its tensor 'centroids' is int64 of 2 dimensions"),
    ({"network.n": torch.tensor([1, torch.nan])}, "its tensor 'network.n' has values that are not numbers"),
    ({"network.i": torch.tensor([-torch.inf, 0])}, "its tensor 'network.i' has values that are not numbers"),
    ({"centroids": torch.tensor([[torch.inf]])}, "its tensor 'centroids' has values that are not numbers"),
]


@pytest.mark.parametrize(("tensors", "reason"), BAD_TENSORS, ids=[reason for _, reason in BAD_TENSORS])
def test_tensors_that_are_no_weights_are_neither_read_nor_written(
    tmp_path: Path, tensors: dict[str, Tensor], reason: str
) -> None:
    if "no weights" not in reason:
        tensors = {"network.good": torch.ones(1), **tensors}
    with pytest.raises(ModelError, match=rf"\({reason}"):
        make_model(tmp_path, tensors=tensors)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ModelError, match=rf"\({reason}"):
        model_safetensors.read(make_foreign(tmp_path, tensors))


def test_weights_as_large_as_float32_can_hold_are_no_fault(tmp_path: Path) -> None:
    tensors = {"network.w": torch.tensor([3.4e38, -3.4e38]), "network.none": torch.empty(0)}
    assert same(model_safetensors.read(make_model(tmp_path, tensors=tensors))[1], tensors)


def test_a_card_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its mpp is not from"):
        make_model(tmp_path, dataclasses.replace(CARD, mpp=float("nan")))
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_somebody_else_a_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(
        ModelError, match=r"\(No such file or directory\); give the model\.safetensors of a run, or make"
    ):
        model_safetensors.read(path)
    with pytest.raises(ModelError, match=r"\(it is a folder\); give the model\.safetensors of a run"):
        model_safetensors.read(tmp_path)
    path.write_bytes(save({"network.w": torch.ones(1)}, {"format": "pt"}))
    with pytest.raises(ModelError, match=r"\(it holds no ucc-path model\)"):
        model_safetensors.read(path)
    torch.save({"w": torch.ones(1)}, path)  # a pickle
    with pytest.raises(ModelError, match=r"\(it is no safetensors file"):
        model_safetensors.read(path)


def test_a_model_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = make_model(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"\(it is (cut short|empty)\)"):
            model_safetensors.read(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelError, match="not one after the other"):
        model_safetensors.read(path)


def test_a_model_with_damaged_bytes_is_refused_or_read_as_the_package_reads_it(tmp_path: Path) -> None:
    path = make_model(tmp_path)
    whole = path.read_bytes()
    rng = random.Random(0)
    read = 0
    for case in range(2000):
        damaged = bytearray(whole)
        for _ in range(1 + case % 3):
            at = rng.randrange(len(whole)) if case % 4 else rng.randrange(8)
            damaged[at] = rng.choice((damaged[at] ^ 1 << rng.randrange(8), rng.randrange(256), *b'0919[]{}",:\\e'))
        path.write_bytes(damaged)
        try:
            _, tensors = model_safetensors.read(path)
        except ModelError as error:
            assert str(error).isprintable()
        else:
            read += 1
            assert same(tensors, load(bytes(damaged)))
    assert 50 < read < 1900


def test_a_model_from_before_heads_told_classes_is_read_as_one_of_clusters(tmp_path: Path) -> None:
    card, _ = model_safetensors.read(make_foreign(tmp_path, assign=None))
    assert card.assign == "centroids"
    for assign in ("head", "pixels"):
        card, _ = model_safetensors.read(make_foreign(tmp_path, assign=assign))
        assert card.assign == assign


def test_a_model_from_before_there_were_encoders_is_read_as_one_of_blocks(tmp_path: Path) -> None:
    table = json.loads(json.dumps(dataclasses.asdict(CARD.settings)))
    assert table.pop("encoder") == "lite0"
    card, _ = model_safetensors.read(make_foreign(tmp_path, settings=table))
    assert card.settings == dataclasses.replace(CARD.settings, encoder="blocks")
    for encoder in ENCODERS:
        card, _ = model_safetensors.read(make_foreign(tmp_path, settings=table | {"encoder": encoder}))
        assert card.settings.encoder == encoder


def test_lite0_that_would_see_one_channel_is_refused(tmp_path: Path) -> None:
    settings = dataclasses.replace(CARD.settings, channels=1, colours="light", encoder="lite0")
    card = dataclasses.replace(CARD, settings=settings, mean=(0.5,), std=(0.2,))
    with pytest.raises(ModelError, match=r"do not fit together \(encoder = lite0 sees colours in 3 channels, not 1"):
        assemble(*model_safetensors.read(make_model(tmp_path, card)), torch.device("cpu"))
