"""Memory: what is shared out is no more than there is, and what does not fit is refused in one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import SettingsError, SlideError, TooLargeError
from ucc_path.formats import model_safetensors
from ucc_path.model import UCC, network_of_pixels
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import ASSIGN_PIXELS, CENTROIDS, NETWORK, PIXELS
from ucc_path.settings import PRESETS, ModelSettings
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.segment import memory
from ucc_path.workflows.segment.memory import GB, MB, in_words, parse_size, require_room, share_out

LIMITED = sys.platform == "linux"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 * GB),
        (" 4 gb ", 4 * GB),
        ("4GiB", 4 * GB),
        ("1.5g", 1500 * MB),
        ("800M", 800 * MB),
        ("2000000K", 2 * GB),
        ("0.002T", 2 * GB),
        ("2000000000", 2 * GB),
        ("2000000000B", 2 * GB),
    ],
)
def test_a_size_is_given_in_any_usual_way(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "4X", "-4G", "four", "4G 3M", "4,5G", "1e9", "4Gi", "nan", "4 G B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_size(text)
    assert str(refusal.value) == f"{text!r} is no size of memory; give one such as 4G or 800M"


@given(
    most=st.integers(1200 * MB, 200 * GB),
    workers=st.integers(1, 256),
    slides=st.integers(1, 10_000),
)
def test_all_shares_together_are_no_more_than_may_be_used(most: int, workers: int, slides: int) -> None:
    share = share_out(most, workers=workers, slides=slides)
    assert memory._COMMAND + share.processes * (memory._LIBRARIES + share.bytes_each) <= most
    assert share.bytes_each >= memory._IDLE + share.threads * memory._THREAD
    assert 1 <= share.processes <= slides and share.threads >= 1
    assert share.processes * share.threads <= workers


@pytest.mark.parametrize(("slides", "processes", "threads"), [(100, 8, 1), (3, 3, 2), (2, 2, 4), (1, 1, 8)])
def test_with_plenty_of_memory_every_slide_has_a_process_and_the_other_workers_are_its_threads(
    slides: int, processes: int, threads: int
) -> None:
    share = share_out(100 * GB, workers=8, slides=slides)
    assert (share.processes, share.threads) == (processes, threads)


def test_with_little_memory_there_are_fewer_processes_and_then_fewer_threads() -> None:
    plenty, some, little = (share_out(most, workers=4, slides=4) for most in (8 * GB, 2700 * MB, 1200 * MB))
    assert (plenty.processes, plenty.threads) == (4, 1)
    assert (some.processes, some.threads) == (2, 2)
    assert (little.processes, little.threads) == (1, 1)


@pytest.mark.parametrize("most", [0, 800 * MB, 1199 * MB])
def test_too_little_memory_is_refused_with_what_is_enough(most: int) -> None:
    with pytest.raises(
        SettingsError, match=r"--max-memory .*G is too little to work in; give [\d.]+G or more$"
    ) as refusal:
        share_out(most, workers=2, slides=2)
    enough = re.findall(r"([\d.]+G)", str(refusal.value))[-1]
    assert share_out(parse_size(enough), workers=2, slides=2).processes == 1


def test_a_slide_that_fits_has_room_and_a_larger_one_is_refused_before_any_work() -> None:
    how = {"threads": 2, "thumbnail_px": 10**6, "band_bytes": 10 * MB, "name": "s.tif"}
    room = memory._IDLE + 2 * memory._THREAD + 10 * MB + 16 * MB
    require_room(room + 16 * 10**6, cells=10**6, **how)  # type: ignore[arg-type]
    message = (
        r"^s\.tif needs about 892 MB for its mask of 1,000,001 cells, and may take 892; "
        r"give more --max-memory, fewer --workers, or a larger --stride-px$"
    )
    with pytest.raises(TooLargeError, match=message):
        require_room(room + 16 * 10**6, cells=10**6 + 1, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["threads", "cells", "thumbnail_px", "band_bytes"])
def test_everything_that_takes_memory_counts(what: str) -> None:
    how = {"threads": 1, "cells": 0, "thumbnail_px": 0, "band_bytes": 0}
    require_room(750 * MB, **how, name="s.tif")
    with pytest.raises(TooLargeError):
        require_room(750 * MB, **{**how, what: how[what] + 1}, name="s.tif")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 4 GiB for an array"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("could not create a memory object"),
        RuntimeError("CUDA out of memory"),
        RuntimeError("can't start new thread"),
        ImportError("could not import name 'jpeg8_decode' from 'imagecodecs'"),
    ],
    ids=str,
)
def test_where_the_limit_is_met_that_is_said(error: Exception) -> None:
    message = r"^s\.tif needs more memory than its process may take; give more --max-memory, or fewer --workers$"
    with pytest.raises(TooLargeError, match=message) as refusal, in_words("s.tif"):
        raise error
    assert refusal.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shape mismatch"),
        ValueError("bad_alloc"),
        SlideError("s.tif is damaged"),
        TooLargeError("too large"),
    ],
    ids=repr,
)
def test_any_other_error_passes_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as passed, in_words("s.tif"):
        raise error
    assert passed.value is error


def make_model(folder: Path) -> Path:
    """Of preset fast, with a network of pixels; its first weights take as much memory as others."""
    settings = PRESETS["fast"]["model"]
    assert isinstance(settings, ModelSettings)
    tensors = {NETWORK + name: value for name, value in UCC(settings).state_dict().items()}
    tensors |= {PIXELS + name: value for name, value in network_of_pixels(settings).state_dict().items()}
    tensors[CENTROIDS] = torch.rand(2, settings.features)
    labels, mean = ("ucc 1", "ucc 2"), (0.2, 0.2, 0.2)
    card = ModelCard("ucc", "ucc", labels, settings, 0.5, 1.0, mean, mean, CLASSES, True, {}, ASSIGN_PIXELS)
    model_safetensors.write(folder / model_safetensors.NAME, card, tensors)
    return folder / model_safetensors.NAME


def run(code: str) -> str:
    """What a process of its own prints: a limit cannot be lifted again."""
    prelude = "import numpy as np\nfrom ucc_path.workflows.segment import memory\n"
    done = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not LIMITED, reason="the kernel knows no such limit")
def test_a_process_gets_no_more_than_its_share_and_goes_on_afterwards() -> None:
    said = run(
        "memory.limit_this_process(400 * memory.MB)\n"
        "np.ones(150 * memory.MB, np.uint8)\n"
        "try:\n"
        "    with memory.in_words('s.tif'):\n"
        "        np.ones(600 * memory.MB, np.uint8)\n"
        "except memory.TooLargeError as err:\n"
        "    print(err)\n"
        "print(np.ones(150 * memory.MB, np.uint8).sum())\n"
    )
    first, second = said.splitlines()
    assert first.startswith("s.tif needs more memory than its process may take") and second == "150000000"


@pytest.mark.skipif(not LIMITED, reason="the kernel knows no such limit")
def test_a_limit_can_be_set_for_every_slide_anew_and_never_above_one_that_was_there() -> None:
    said = run(
        "import resource\n"
        "def limit(): return resource.getrlimit(resource.RLIMIT_DATA)\n"
        "for size in (900, 700, 800): memory.limit_this_process(size * memory.MB); print(limit()[0])\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (600_000_000, 750_000_000))\n"
        "memory.limit_this_process(800 * memory.MB); print(limit()[0])\n"
    )
    assert said.split() == ["900000000", "700000000", "800000000", "750000000"]


@pytest.mark.skipif(not LIMITED, reason="the kernel keeps no peak")
def test_the_peak_is_of_this_slide_and_not_of_those_before() -> None:
    said = run(
        "from ucc_path.workflows import peak\nbefore = peak.peak_mb()\n"
        "np.ones(300 * memory.MB, np.uint8)\n"
        "high = peak.peak_mb()\n"
        "peak.forget_peak()\n"
        "print(high - before, high - peak.peak_mb())\n"
    )
    grown, forgotten = map(int, said.split())
    assert 280 < grown < 340
    assert forgotten > 280 or forgotten == 0  # where the system cannot forget


@pytest.mark.skipif(not LIMITED, reason="only glibc keeps what is freed")
def test_what_was_needed_for_a_while_does_not_stay_with_the_process() -> None:
    code = (
        "import re\n"
        "def used(): return int(re.search(r'VmData:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1000\n"
        "before = used()\n"
        "for _ in range(2):\n"  # the second time the library keeps what is as large as what it has seen
        "    large = [np.ones(20 * memory.MB, np.uint8) for _ in range(3)]\n"
        "    behind = [bytes(3000) for _ in range(1000)]\n"
        "    del large\n"
        "print(round(used() - before))\n"
    )
    assert int(run(code)) > 50  # so that it would show
    assert int(run("memory.keep_no_large_buffers()\n" + code)) < 10  # the small ones


@pytest.mark.skipif(not LIMITED, reason="the kernel tells it")
def test_a_model_for_a_fine_mask_takes_no_more_memory_than_for_a_coarse_one(tmp_path: Path) -> None:
    """A fine mask has thousands of patches in a picture."""
    path = make_model(tmp_path)
    used = []
    for stride_px in (32, 4):
        said = run(
            "import re\n"
            "from dataclasses import replace\n"
            "from pathlib import Path\n"
            "from ucc_path.settings import SegmentationSettings\n"
            "from ucc_path.workflows.segment.jobs import ModelSpec\n"
            "from ucc_path.workflows.segment.loading import load\n"
            f"wishes = replace(SegmentationSettings(), stride_px={stride_px})\n"
            f"loaded = load(ModelSpec(Path({str(path)!r}), 'cpu', 1, wishes))\n"
            "side = loaded.pictures.side_px\n"
            "loaded.engine(np.zeros((1, side, side, 3), np.uint8), np.zeros(3 * 256, np.float32))\n"
            "print(re.search(r'VmData:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        )
        used.append(int(said) / 1000)
    coarse_mb, fine_mb = used
    assert fine_mb < coarse_mb + 50 and max(used) * MB < memory._IDLE
