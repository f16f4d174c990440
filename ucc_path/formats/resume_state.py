"""`resume/state.safetensors`: where training stands, for `--resume`; never needed to use the model.

A safetensors file as `safetensors_file` describes it, its record of format "ucc-path training state" and version 1. The
other keys of the record are plain numbers, words and lists; the tensors (weights, their means,
moments of the optimiser) may be of any float or integer type. Both are the trainer's to name. A power cut leaves the
state before or the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ucc_path.errors import RunError
from ucc_path.formats import safetensors_file
from ucc_path.formats.atomic import explaining

FOLDER = "resume"
NAME = "state.safetensors"
FORMAT = "ucc-path training state"
VERSION = 1


def write(run: Path, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    path = run / FOLDER / NAME
    with explaining(path):
        path.parent.mkdir(exist_ok=True)
    safetensors_file.write(path, format=FORMAT, version=VERSION, record=numbers, tensors=tensors)


def read(run: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The numbers and the tensors, as they were written but for tuples, which come back as lists; None if none are."""
    path = run / FOLDER / NAME
    if not path.exists():
        return None

    def refusal(reason: str) -> RunError:
        return RunError(f"{path} is damaged ({reason}); start anew with --overwrite")

    return safetensors_file.read(path, format=FORMAT, version=VERSION, refusal=refusal)
