"""What computes a network: PyTorch as it is, PyTorch compiled, or OpenVINO, which is twice as quick on a CPU.

An engine takes full batches of one shape only: the last digits of a sum depend on the shape, and so a patch would
otherwise have other features in other company. It may be called from several threads, each of which computes alone.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.errors import DeviceError
from ucc_path.features.levels import LEVELS, FromLevels, Table
from ucc_path.model.devices import mixed_precision

Pictures = NDArray[np.uint8]
Values = NDArray[np.float32]
AnyNumber = TypeVar("AnyNumber", bound=np.generic)

# From PyTorch, of features or probabilities between 0 and 1. Rounding makes 1e-6, and 1e-2 in half precision.
_LARGEST_DIFFERENCE = {"cpu": 1e-4, "cuda": 3e-2}


class Engine(Protocol):
    """A network ready to compute."""

    @property
    def name(self) -> str: ...

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        """A full batch (batch, side, side, channels) -> (batch, ...)."""


def full_batch(part: NDArray[AnyNumber], size: int) -> NDArray[AnyNumber]:
    """(n, ...) -> (size, ...), an array of its own: filled up with zeros, or cut."""
    whole = np.zeros((size, *part.shape[1:]), part.dtype)
    whole[: len(part)] = part[:size]
    return whole


class TorchEngine:
    """PyTorch; on a GPU in half precision where that has enough digits."""

    def __init__(self, network: FromLevels, device: torch.device, *, is_compiled: bool = False) -> None:
        self.name = "compiled" if is_compiled else "torch"
        self._device = device
        self._network: Callable[..., Any] = network.eval().to(device)
        if is_compiled:
            self._network = torch.compile(network)
        self._lock = threading.Lock() if device.type == "cuda" else None

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        if self._lock is None:
            return self._run(pictures, table)
        with self._lock:  # a GPU does one batch at a time; threads wait here and not in its memory
            return self._run(pictures, table)

    def _run(self, pictures: Pictures, table: Table) -> Values:
        with torch.no_grad(), mixed_precision(self._device):
            # A picture may lie in memory that is for reading alone, of which PyTorch would warn.
            pictures = np.require(pictures, requirements="W")
            given = torch.from_numpy(pictures).to(self._device), torch.from_numpy(table).to(self._device)
            found: Values = self._network(*given).float().cpu().numpy()
        return found


class OpenVinoEngine:
    """OpenVINO on a CPU, in full precision; one stream a thread."""

    name = "openvino"

    def __init__(self, network: FromLevels, shape: tuple[int, ...], threads: int) -> None:
        openvino = _openvino()
        from openvino.frontend import (
            FrontEndManager,
            GeneralFailure,
            NotImplementedFailure,
            OpConversionFailure,
            OpValidationFailure,
        )
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        # By hand, and not with convert_model, which counts its users.
        table = torch.from_numpy(_any_table(shape[-1]))
        example = (torch.zeros(shape, dtype=torch.uint8), table)
        plain = network.eval().to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that shapes become constants, which is what is wanted
            decoder = TorchScriptPythonDecoder(plain, example_input=example, trace_kwargs={"check_trace": False})
        frontend = FrontEndManager().load_by_framework("pytorch")
        try:
            graph = frontend.convert(frontend.load(decoder))
        except (GeneralFailure, NotImplementedFailure, OpConversionFailure, OpValidationFailure) as err:
            raise RuntimeError(f"it cannot convert this network: {err}") from err  # theirs are plain Exceptions
        graph.reshape({graph.inputs[0]: list(shape), graph.inputs[1]: [len(table)]})
        how: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": threads}
        how["INFERENCE_PRECISION_HINT"] = "f32"
        how["ENABLE_CPU_PINNING"] = False  # or several processes would all take the first cores
        self._compiled = openvino.Core().compile_model(graph, "CPU", how)
        self._of_thread = threading.local()

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        if not hasattr(self._of_thread, "request"):
            self._of_thread.request = self._compiled.create_infer_request()
        # Copied, since the next batch of this thread is written over it.
        return np.array(self._of_thread.request.infer([pictures, table])[0], np.float32)


def _openvino() -> Any:
    """The package, kept from reporting its use over the network, as it otherwise does whenever it is imported."""
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def has_openvino() -> bool:
    return importlib.util.find_spec("openvino") is not None


def make_engine(
    wish: str, network: FromLevels, device: torch.device, *, shape: tuple[int, ...], threads: int
) -> tuple[Engine, str]:
    """The engine wished for, or with `auto` the quickest that works here, and a remark where that is not the usual one.

    `shape` is that of a batch. What is not plain PyTorch is compared with it on one batch first.
    """
    if device.type == "cpu":
        torch.set_num_threads(1)  # batches side by side in threads are quicker than threads within a batch
    name = _choice(wish, device)
    plain = TorchEngine(network, device)
    if name == "torch":
        return plain, ""
    try:
        engine: Engine = (
            OpenVinoEngine(network, shape, threads)
            if name == "openvino"
            else TorchEngine(network, device, is_compiled=True)
        )
        difference = _difference(engine, plain, shape)
        reason = "" if difference <= _LARGEST_DIFFERENCE[device.type] else f"differs from PyTorch by {difference:.2g}"
    except (RuntimeError, ImportError, OSError) as err:  # no compiler, or a CPU that it does not know
        reason = f"fails ({(str(err) or type(err).__name__).splitlines()[0][:160]})"
    if reason and wish != "auto":
        raise DeviceError(f"--inference {wish} {reason} here; give --inference torch")
    return (plain, f"{name} {reason} here, so that plain PyTorch is used") if reason else (engine, "")


def _choice(wish: str, device: torch.device) -> str:
    is_cpu = device.type == "cpu"
    if wish == "auto":
        return "compiled" if not is_cpu else "openvino" if has_openvino() else "torch"
    if wish == "openvino" and not is_cpu:
        raise DeviceError("--inference openvino is for a CPU; give --device cpu, or another --inference")
    if wish == "openvino" and not has_openvino():
        raise DeviceError("OpenVINO is not installed; pip install 'ucc-path[openvino]', or give --inference torch")
    return wish


def _difference(engine: Engine, truth: Engine, shape: tuple[int, ...]) -> float:
    pictures, table = np.random.default_rng(0).integers(0, LEVELS, shape, np.uint8), _any_table(shape[-1])
    return float(np.abs(engine(pictures, table) - truth(pictures, table)).max())


def _any_table(channels: int) -> Table:
    return np.linspace(-2, 2, channels * LEVELS, dtype=np.float32)
