"""Which device a name means, and how processes share the work."""

from __future__ import annotations

import pytest
import torch

from ucc_path.errors import DeviceError, RunError, SettingsError
from ucc_path.model.devices import (
    ALONE,
    Ranks,
    choose_device,
    emulates_bfloat16,
    in_words,
    joined,
    keep_memory,
    mixed_precision,
)

CPU = torch.device("cpu")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("no_gpu")
def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    assert choose_device("auto") == choose_device("cpu") == CPU


@pytest.mark.usefixtures("two_gpus")
def test_auto_is_the_gpu_of_the_process() -> None:
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("auto", local_rank=1) == choose_device("cuda", local_rank=1) == torch.device("cuda", 1)
    assert choose_device("cpu") == CPU


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_is_chosen_by_its_number_and_must_be_there() -> None:
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"--device cuda:2: there are 2 GPUs .*see ucc-path doctor"):
        choose_device("cuda:2")
    with pytest.raises(DeviceError, match="there are 2 GPUs"):
        choose_device("auto", local_rank=2)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_a_gpu_is_refused_where_there_is_none(name: str) -> None:
    with pytest.raises(DeviceError, match=f"--device {name}: there are 0 GPUs that torch can use"):
        choose_device(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gpu", "is no device"),
        ("", "is no device"),
        ("cuda:x", "is no device"),
        ("cuda:-1", "is no device"),
        ("cuda:99999999999999999999", "is no device"),
        ("CPU", "is no device"),
        ("mps", "is not supported"),
        ("meta", "is not supported"),
    ],
)
def test_other_names_are_refused_with_what_there_is(name: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"--device {name} {reason}; it can be auto, cpu, cuda or cuda:N"):
        choose_device(name)


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)],
)
def test_a_cpu_computes_in_half_precision_only_where_that_is_asked(precision: str, dtype: torch.dtype) -> None:
    with mixed_precision(CPU, precision), torch.backends.mkldnn.flags(enabled=False):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_a_cpu_without_the_instructions_emulates_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert emulates_bfloat16(CPU)


@pytest.mark.parametrize(("count", "world"), [(20, 1), (20, 4), (6, 3)])
def test_the_shares_of_all_processes_are_equal_and_make_up_the_whole(count: int, world: int) -> None:
    parts = [list(range(count))[Ranks(rank, world).part(count)] for rank in range(world)]
    assert {len(part) for part in parts} == {count // world}
    assert [number for part in parts for number in part] == list(range(count))


def test_equal_shares_leave_a_remainder_to_nobody() -> None:
    assert [Ranks(rank, 3).part(11) for rank in range(3)] == [slice(0, 3), slice(3, 6), slice(6, 9)]


def test_the_first_process_is_the_one_that_speaks() -> None:
    assert [Ranks(rank, 2).is_first for rank in range(2)] == [True, False]


def test_a_process_alone_waits_for_nobody() -> None:
    values = torch.tensor([1.0, 2.0])
    assert ALONE.summed(values).tolist() == [1, 2]
    assert [ALONE.any(flag, CPU) for flag in (False, True)] == [False, True]


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined("cpu") as (ranks, device):
        assert (ranks, device) == (ALONE, CPU)
        assert not torch.distributed.is_initialized()


def test_a_numbered_gpu_for_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    with (
        pytest.raises(SettingsError, match="--device cuda:0 is one GPU for 2 processes; give --device cuda"),
        joined("cuda:0"),
    ):
        pass


@pytest.mark.parametrize(
    ("error", "said", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), DeviceError, "fewer --bags-per-step"),
        (RuntimeError("[gloo/pair.cc:553] Connection closed by peer"), RunError, "another process of this training"),
        (torch.distributed.DistNetworkError("reset"), RunError, "another process of this training"),
        (RunError("as it is"), RunError, "^as it is$"),
        (RuntimeError("a mistake of ours"), RuntimeError, "a mistake of ours"),
    ],
)
def test_what_happens_to_devices_and_processes_is_put_into_words(
    error: Exception, said: type[Exception], words: str
) -> None:
    with pytest.raises(said, match=words), in_words():
        raise error


def test_memory_is_kept_without_harm() -> None:
    keep_memory()
    assert torch.ones(10_000_000).sum() == 10_000_000
