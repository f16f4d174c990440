"""Where a network runs: the device, the precision, and the processes that train it together."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

from ucc_path.errors import DeviceError, RunError, SettingsError, UccPathError

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h

# Reading the tiles of a large data set is waited for by all processes.
_LONGEST_WAIT = timedelta(hours=4)


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """The device called `auto`, `cpu`, `cuda` or `cuda:N`; refuses one that is not there."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise SettingsError(f"--device {name} is no device; it can be auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"--device {name} is not supported; it can be auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        there = torch.cuda.device_count()
        index = local_rank if device.index is None else device.index
        if index >= there:
            raise DeviceError(f"--device {name}: there are {there} GPUs that torch can use; see ucc-path doctor")
        return torch.device("cuda", index)
    return device


def mixed_precision(device: torch.device, precision: str = "auto") -> AbstractContextManager[None]:
    """Numbers of `precision`; `auto` is bfloat16 where a GPU computes in it, otherwise float32.

    On a CPU bfloat16 has to be asked for: some only emulate it, at an eighth of the speed.
    """
    is_wanted = precision == "bfloat16" or (
        precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return torch.autocast(device.type, torch.bfloat16, enabled=is_wanted)


def emulates_bfloat16(device: torch.device) -> bool:
    """Whether numbers of bfloat16 would make a device slower instead of quicker."""
    if device.type == "cuda":
        return not torch.cuda.is_bf16_supported(including_emulation=False)
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return not (has_onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train together; alone unless torchrun started several."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """This process's share of `count` bags; all shares are equal."""
        share = count // self.world
        return slice(self.rank * share, (self.rank + 1) * share)

    def summed(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            values = values.clone()
            distributed.all_reduce(values)
        return values

    def highest(self, wish: int, device: torch.device) -> int:
        """The highest number that any process gives, so that all of them do the same at the same step."""
        if self.world == 1:
            return wish
        wishes = torch.tensor(wish, device=device)
        distributed.all_reduce(wishes, distributed.ReduceOp.MAX)
        return int(wishes)

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is up in any process."""
        return bool(self.highest(int(flag), device))


ALONE = Ranks()


@contextmanager
def joined(device_name: str) -> Iterator[tuple[Ranks, torch.device]]:
    """This process, joined with the others that torchrun started, and its device."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ALONE, choose_device(device_name)
        return
    ranks = Ranks(int(os.environ["RANK"]), world, int(os.environ["LOCAL_RANK"]))
    if ":" in device_name:
        raise SettingsError(
            f"--device {device_name} is one GPU for {world} processes; give --device cuda, and each takes its own"
        )
    device = choose_device(device_name, ranks.local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_LONGEST_WAIT)
    try:
        yield ranks, device
    finally:
        distributed.destroy_process_group()


@contextmanager
def in_words() -> Iterator[None]:
    """What can happen to a device, or to processes that work together, as one sentence that says what to do."""
    try:
        yield
    except UccPathError:
        raise
    except torch.OutOfMemoryError as err:
        raise DeviceError("the GPU's memory is full; give fewer --bags-per-step, or a larger GPU") from err
    except RuntimeError as err:
        if isinstance(err, distributed.DistError) or "by peer" in str(err):  # gloo has no class for it
            raise RunError(
                "another process of this training has ended; see what it says, then go on with --resume"
            ) from err
        raise


def keep_memory() -> None:
    """Tells the C library to keep memory that was freed instead of giving it back to the system.

    The tensors of a step are freed and made again at the next; to get them anew from the system, page by page, is a
    third of a step's time on a CPU. What is kept is no more than a step needs. Only glibc has such a setting.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_MAX, 0)
        library.mallopt(_M_TRIM_THRESHOLD, -1)
