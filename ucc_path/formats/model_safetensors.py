"""`model.safetensors`: a trained model, safe to load from a stranger.

A safetensors file as `safetensors_file` describes it. Its tensors are the weights, `network.*`, where the classes are
clusters of features also `centroids` (clusters, features), and after a second round `pixels.*`, the weights of the
network of pixels; float32, or int64 where a weight is a count; all finite.
Its record has the format "ucc-path model", version 1, and these keys, all of them and no others:

    model        ucc, unet, supervised or autoencoder
    supervision  what it was taught by: ucc, kind, mask or none
    labels       what the outputs of its head mean, in order
    settings     the shape of the network: the table [model] of a settings file; in a file without it, encoder is blocks
    alpha        weight of the label's loss, 0 to 1; with 1 there is no decoder
    mpp          scale of the patches in um/px
    mean, std    of each channel in the training patches: of x / 255, or of -log10(x / 255) if colours are by slide
    classes      names; the label value of a class is its place + 1
    converged    whether it does better than guessing
    versions     {package: version} of what it was trained with
    assign       what says the class of a patch: centroids, the head, or pixels; in a file without it, centroids

The same model gives the same bytes. A model that could not be read back is not written either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ucc_path.errors import ModelError, SettingsError
from ucc_path.formats import safetensors_file
from ucc_path.formats.safetensors_file import Refusal
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import CENTROIDS, MOST_LAYERS, NETWORK, PIXELS
from ucc_path.settings import ASSIGNMENTS, MODELS, SUPERVISIONS, ModelSettings, from_table

NAME = "model.safetensors"
FORMAT = "ucc-path model"
VERSION = 1

_KEYS = {field.name for field in fields(ModelCard)}
_ASSIGN = "assign"
_FIRST_ENCODER = "blocks"  # of networks of pixels, before there was another
_SUPERVISIONS = (*SUPERVISIONS, "mask", "none")
_DTYPES = (torch.float32, torch.int64)
_MOST_NAMES = 1000
_MOST_LETTERS = 200
_MPP = (0.01, 1000.0)
_MEAN = (0.0, 3.0)
_STD = (1e-6, 3.0)  # no smaller, or the input overflows


def write(path: Path, card: ModelCard, tensors: Mapping[str, Tensor]) -> None:
    refusal = _refusal(path)
    checked = _card(_record(card), refusal)
    _check_tensors(tensors, refusal)
    safetensors_file.write(path, format=FORMAT, version=VERSION, record=_record(checked), tensors=tensors)


def read(path: Path) -> tuple[ModelCard, dict[str, Tensor]]:
    """The card and the tensors on the CPU; whether they fit each other is for whoever builds the network."""
    refusal = _refusal(path)
    record, tensors = safetensors_file.read(path, format=FORMAT, version=VERSION, refusal=refusal)
    card = _card(record, refusal)
    _check_tensors(tensors, refusal)
    return card, tensors


def _refusal(path: Path) -> Refusal:
    def refusal(reason: str) -> ModelError:
        what_now = f"give the {NAME} of a run, or make one with ucc-path train"
        return ModelError(f"{path} is not a model that can be used ({reason}); {what_now}")

    return refusal


def _record(card: ModelCard) -> dict[str, Any]:
    values = {key: getattr(card, key) for key in _KEYS}
    return values | {"settings": asdict(card.settings), "versions": dict(card.versions)}


def _card(record: Mapping[str, Any], refusal: Refusal) -> ModelCard:
    """The card that a record describes, nothing of which is believed."""
    record = {_ASSIGN: ASSIGNMENTS[0], **record}
    if record.keys() != _KEYS:
        odd = min(record.keys() ^ _KEYS)
        raise refusal(f"its record {'lacks' if odd in _KEYS else 'has an unknown key'} {odd[:60]!r}")
    settings = _settings(record["settings"], refusal)
    card = ModelCard(
        model=_choice(record, "model", MODELS, refusal),
        supervision=_choice(record, "supervision", _SUPERVISIONS, refusal),
        labels=_names(record, "labels", refusal),
        settings=settings,
        alpha=_number(record["alpha"], "alpha", (0.0, 1.0), refusal),
        mpp=_number(record["mpp"], "mpp", _MPP, refusal),
        mean=_numbers(record, "mean", settings.channels, _MEAN, refusal),
        std=_numbers(record, "std", settings.channels, _STD, refusal),
        classes=_names(record, "classes", refusal),
        converged=record["converged"],
        versions=record["versions"],
        assign=_choice(record, _ASSIGN, ASSIGNMENTS, refusal),
    )
    if type(card.converged) is not bool:
        raise refusal("its converged is neither true nor false")
    if not isinstance(card.versions, Mapping) or not _are_names([*card.versions.keys(), *card.versions.values()]):
        raise refusal("its versions are no short names and words")
    return card


def _settings(table: Any, refusal: Refusal) -> ModelSettings:
    if not isinstance(table, Mapping):
        raise refusal("its settings are no table")
    try:
        settings = from_table(ModelSettings(encoder=_FIRST_ENCODER), table, "its [model]")
    except (SettingsError, OverflowError) as err:  # the latter of a number too large to be shown
        reason = str(err).partition(";")[0]  # what to give instead is no help with a file
        is_shown = isinstance(err, SettingsError) and len(reason) < _MOST_LETTERS and reason.isprintable()
        raise refusal(reason if is_shown else "its settings are not possible") from err
    if len(settings.hidden) > MOST_LAYERS or len(settings.ucc_labels) > _MOST_NAMES:
        raise refusal("its settings ask for too many layers or labels")
    return settings


def _choice(record: Mapping[str, Any], key: str, choices: tuple[str, ...], refusal: Refusal) -> str:
    if record[key] not in choices:
        raise refusal(f"its {key} is none of {', '.join(choices)}")
    return str(record[key])


def _number(value: Any, key: str, bounds: tuple[float, float], refusal: Refusal) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not bounds[0] <= value <= bounds[1]:
        raise refusal(f"its {key} is not from {bounds[0]:g} to {bounds[1]:g}")
    return float(value)


def _numbers(
    record: Mapping[str, Any], key: str, count: int, bounds: tuple[float, float], refusal: Refusal
) -> tuple[float, ...]:
    values = record[key]
    if not isinstance(values, (list, tuple)) or len(values) != count:
        raise refusal(f"its {key} is not one number for each of its {count} channels")
    return tuple(_number(value, key, bounds, refusal) for value in values)


def _names(record: Mapping[str, Any], key: str, refusal: Refusal) -> tuple[str, ...]:
    values = record[key]
    if not isinstance(values, (list, tuple)) or not _are_names(list(values)):
        raise refusal(f"its {key} are no short names")
    return tuple(values)


def _are_names(values: list[Any]) -> bool:
    """Few and short, and without the control characters that would rule a terminal."""
    return len(values) <= _MOST_NAMES and all(
        isinstance(value, str) and 0 < len(value) <= _MOST_LETTERS and value.isprintable() for value in values
    )


def _check_tensors(tensors: Mapping[str, Tensor], refusal: Refusal) -> None:
    if not any(name.startswith(NETWORK) for name in tensors):
        raise refusal("it holds no weights")
    for name, tensor in tensors.items():
        shown = repr(name[:60])
        if name != CENTROIDS and not name.startswith((NETWORK, PIXELS)):
            raise refusal(f"its tensor {shown} is no part of a model")
        if tensor.dtype not in _DTYPES or (name == CENTROIDS and (tensor.dtype != torch.float32 or tensor.ndim != 2)):
            raise refusal(
                f"its tensor {shown} is {str(tensor.dtype).removeprefix('torch.')} of {tensor.ndim} dimensions"
            )
        # The extremes are finite only where all values are; to ask each value would take as much memory again.
        if tensor.is_floating_point() and tensor.numel():
            low, high = torch.aminmax(tensor.detach())
            if not (math.isfinite(low.item()) and math.isfinite(high.item())):
                raise refusal(f"its tensor {shown} has values that are not numbers")
