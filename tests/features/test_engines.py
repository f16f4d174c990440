"""Engines: whichever computes, the same features; and what happens where one cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.errors import DeviceError
from ucc_path.features import engines
from ucc_path.features.engines import Engine, OpenVinoEngine, TorchEngine, has_openvino, make_engine
from ucc_path.features.levels import FromLevels, table_of
from ucc_path.formats import lite0_pth
from ucc_path.model import Unet
from ucc_path.model.lite import LiteUnet
from ucc_path.model.preparing import Preparation
from ucc_path.model.ucc import Extractor
from ucc_path.model.unet import CellLooks, CellShares
from ucc_path.settings import ModelSettings

CPU = torch.device("cpu")
SHAPE = (6, 16, 16, 3)
TABLE = table_of(Preparation("slide", (0.2, 0.3, 0.2), (0.2, 0.2, 0.2)), None, 3)
FEW = ModelSettings(patch_px=16, width=4, features=5)

needs_openvino = pytest.mark.skipif(not has_openvino(), reason="OpenVINO is not installed")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As engines want it; and what they set is not left to other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_network(norm: str = "group") -> FromLevels:
    torch.manual_seed(0)
    return FromLevels(Extractor(ModelSettings(patch_px=16, width=4, features=5, norm=norm)), 3)


def make_unet() -> FromLevels:
    torch.manual_seed(0)
    return FromLevels(CellShares(Unet(FEW), margin_px=8, core_px=32, cell_px=16), 3)


def make_lite() -> FromLevels:
    torch.manual_seed(0)
    unet = LiteUnet(is_density=True)
    unet.encoder.load_state_dict(lite0_pth.read(lite0_pth.require()))
    return FromLevels(CellShares(unet, margin_px=8, core_px=32, cell_px=16), 3)


def make_looks() -> FromLevels:
    torch.manual_seed(0)
    return FromLevels(CellLooks(Unet(FEW), 24), 3)


def make_pictures(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def by_network(network: FromLevels, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    with torch.no_grad():
        found: NDArray[np.float32] = network.eval()(torch.from_numpy(pictures), torch.from_numpy(TABLE)).numpy()
    return found


def make(wish: str, network: FromLevels | None = None, **how: object) -> tuple[Engine, str]:
    return make_engine(wish, network or make_network(), CPU, **{"shape": SHAPE, "threads": 2, **how})  # type: ignore[arg-type]


def test_pytorch_says_what_the_network_says_also_of_one_that_was_learning() -> None:
    network = make_network("batch").train()
    engine, remark = make("torch", network)
    assert (engine.name, remark) == ("torch", "")
    found = engine(make_pictures(), TABLE)
    assert found.dtype == np.float32 and np.array_equal(found, by_network(network, make_pictures()))


def test_on_a_cpu_a_batch_is_computed_by_one_thread() -> None:
    torch.set_num_threads(2)
    make("torch")
    assert torch.get_num_threads() == 1


@needs_openvino
@pytest.mark.parametrize("norm", ["group", "batch", "none"])
def test_openvino_agrees_with_pytorch(norm: str) -> None:
    network = make_network(norm)
    engine = OpenVinoEngine(network, SHAPE, threads=1)
    found, wanted = engine(make_pictures(), TABLE), by_network(network, make_pictures())
    assert found.dtype == np.float32 and found.shape == (6, 5)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.ptp(wanted, axis=0).min() > 1e-3  # so it would show if they did not


@needs_openvino
@pytest.mark.parametrize("make_network_of_pixels", [make_unet, make_lite])
def test_openvino_agrees_with_pytorch_on_whole_pictures(make_network_of_pixels: Callable[[], FromLevels]) -> None:
    pictures, network = make_pictures(shape=(1, 48, 48, 3)), make_network_of_pixels()
    found = OpenVinoEngine(network, pictures.shape, threads=1)(pictures, TABLE)
    assert found.shape == (1, 2, 2, 1)
    np.testing.assert_allclose(found, by_network(network, pictures), atol=1e-5)


@needs_openvino
def test_openvino_agrees_with_pytorch_on_how_cells_look() -> None:
    pictures, network = make_pictures(shape=(1, 48, 48, 3)), make_looks()
    found = OpenVinoEngine(network, pictures.shape, threads=1)(pictures, TABLE)
    assert found.shape == (1, 2, 2, 4)
    np.testing.assert_allclose(found, by_network(network, pictures), atol=1e-5)


@needs_openvino
def test_openvino_obeys_the_table_of_each_slide() -> None:
    engine, pictures = OpenVinoEngine(make_network(), SHAPE, threads=1), make_pictures()
    other = (TABLE * 0.5 + 0.3).astype(np.float32)
    assert np.abs(engine(pictures, TABLE) - engine(pictures, other)).max() > 1e-3


@pytest.mark.parametrize("wish", ["torch", pytest.param("openvino", marks=needs_openvino)])
def test_the_number_of_threads_changes_no_digit(wish: str) -> None:
    batches = [make_pictures(seed) for seed in range(12)]
    found = []
    for threads in (1, 2, 5):
        engine, _ = make(wish, threads=threads)
        with ThreadPoolExecutor(threads) as pool:
            found.append(list(pool.map(lambda batch, run=engine: run(batch, TABLE), batches)))  # type: ignore[misc]
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("wish", ["torch", pytest.param("openvino", marks=needs_openvino)])
def test_a_patch_has_the_same_features_to_the_last_digit_in_any_company(wish: str) -> None:
    engine, _ = make(wish)
    pictures, others = make_pictures(), make_pictures(1)
    mixed = np.concatenate([pictures[3:], others[:3]])
    assert np.array_equal(engine(mixed, TABLE)[:3], engine(pictures, TABLE)[3:])


@pytest.mark.parametrize("wish", ["torch", pytest.param("openvino", marks=needs_openvino)])
def test_what_was_found_stays_when_the_next_batch_is_computed(wish: str) -> None:
    engine, _ = make(wish)
    first = engine(make_pictures(), TABLE)
    before = first.copy()
    engine(make_pictures(1), TABLE)
    assert np.array_equal(first, before)


@needs_openvino
def test_openvino_is_taken_where_it_is_installed() -> None:
    engine, remark = make("auto")
    assert (engine.name, remark) == ("openvino", "")
    assert make("openvino")[0].name == "openvino"


def test_pytorch_is_taken_where_openvino_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert not has_openvino()
    engine, remark = make("auto")
    assert (engine.name, remark) == ("torch", "")
    with pytest.raises(DeviceError, match=r"^OpenVINO is not installed; pip install 'ucc-path\[openvino\]', or give"):
        make("openvino")


class Broken:
    """An engine that cannot be made here."""

    def __init__(self, *_: object) -> None:
        raise RuntimeError("no such instruction\nand many lines more")


class Wrong:
    """An engine that computes something else."""

    name = "openvino"

    def __init__(self, network: FromLevels, *_: object) -> None:
        self._plain = TorchEngine(network, CPU)

    def __call__(self, pictures: NDArray[np.uint8], table: NDArray[np.float32]) -> NDArray[np.float32]:
        found = self._plain(pictures, table)
        found[-1, -1] += 0.01
        return found


class NotANumber(Wrong):
    def __call__(self, pictures: NDArray[np.uint8], table: NDArray[np.float32]) -> NDArray[np.float32]:
        return super().__call__(pictures, table) * np.float32(np.nan)


@pytest.mark.parametrize(
    ("engine_class", "reason"),
    [
        (Broken, "fails (no such instruction)"),
        (Wrong, "differs from PyTorch by 0.01"),
        (NotANumber, "differs from PyTorch by nan"),
    ],
)
def test_an_engine_that_does_not_work_here_is_passed_over_with_a_remark_or_refused_if_it_was_asked_for(
    engine_class: type, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "has_openvino", lambda: True)
    monkeypatch.setattr(engines, "OpenVinoEngine", engine_class)
    engine, remark = make("auto")
    assert (engine.name, remark) == ("torch", f"openvino {reason} here, so that plain PyTorch is used")
    assert np.array_equal(engine(make_pictures(), TABLE), by_network(make_network(), make_pictures()))
    with pytest.raises(DeviceError) as refusal:
        make("openvino")
    assert str(refusal.value) == f"--inference openvino {reason} here; give --inference torch"


class Singular(nn.Module):
    """Something that OpenVINO cannot convert."""

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.linalg.svdvals(pictures.mean(dim=1)).clamp(0, 1)


@needs_openvino
def test_a_network_that_openvino_cannot_convert_is_computed_by_pytorch() -> None:
    network = FromLevels(Singular(), 3)
    engine, remark = make("auto", network)
    assert engine.name == "torch"
    assert remark.startswith("openvino fails (it cannot convert this network: ")
    assert np.array_equal(engine(make_pictures(), TABLE), by_network(network, make_pictures()))


def test_where_pytorch_cannot_compile_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", fail)
    with pytest.raises(DeviceError, match=r"^--inference compiled fails \(no compiler\) here; give --inference torch$"):
        make("compiled")


def test_openvino_is_not_for_a_gpu_and_pytorch_is_compiled_there() -> None:
    with pytest.raises(DeviceError, match=r"^--inference openvino is for a CPU; give --device cpu, or another"):
        engines._choice("openvino", torch.device("cuda"))
    assert engines._choice("auto", torch.device("cuda")) == "compiled"


@needs_openvino
def test_openvino_is_kept_from_reporting_its_use(tmp_path: Path) -> None:
    """A package of that name would be found first here, and would tell."""
    spy = tmp_path / "openvino_telemetry"
    spy.mkdir()
    (spy / "__init__.py").write_text(f"open({str(tmp_path / 'told')!r}, 'w').close()\n")
    code = (
        "import socket, torch\n"
        "def refuse(*_): raise AssertionError('asked for the network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from torch import nn\n"
        "from ucc_path.features.engines import make_engine\n"
        "from ucc_path.features.levels import FromLevels\n"
        "network = FromLevels(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Sigmoid()), 3)\n"
        "engine, remark = make_engine('openvino', network, torch.device('cpu'), shape=(2, 8, 8, 3), threads=1)\n"
        "print(engine.name, end='')\n"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "openvino", done.stderr
    assert not (tmp_path / "told").exists()
    subprocess.run([sys.executable, "-c", "import openvino_telemetry"], check=True, env=environment)
    assert (tmp_path / "told").exists()  # so it would have told


@pytest.mark.soak
def test_compiled_pytorch_says_the_same_from_several_threads() -> None:
    network = make_network()
    engine, remark = make("compiled", network)
    assert (engine.name, remark) == ("compiled", "")
    batches = [make_pictures(seed) for seed in range(12)]
    alone = [engine(batch, TABLE) for batch in batches]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda batch: engine(batch, TABLE), batches))
    for batch, first, again in zip(batches, alone, together, strict=True):
        np.testing.assert_allclose(first, by_network(network, batch), atol=1e-5)
        assert np.array_equal(first, again)


@pytest.mark.soak
@pytest.mark.parametrize("make_network_of_pixels", [make_unet, make_lite])
def test_compiled_pytorch_agrees_with_pytorch_on_whole_pictures(
    make_network_of_pixels: Callable[[], FromLevels],
) -> None:
    pictures, network = make_pictures(shape=(1, 48, 48, 3)), make_network_of_pixels()
    engine, remark = make("compiled", network, shape=pictures.shape)
    assert (engine.name, remark) == ("compiled", "")
    np.testing.assert_allclose(engine(pictures, TABLE), by_network(network, pictures), atol=1e-5)
