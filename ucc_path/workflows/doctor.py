"""What this machine has and lacks, each with the way to mend it: the work of `ucc-path doctor`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ucc_path.ahead import usable_cores
from ucc_path.errors import ModelError

PASS, WARN, FAIL = "PASS", "WARN", "FAIL"

MIN_PYTHON = (3, 10)
MIN_OPENSLIDE = (4, 0, 1)  # older ones can be made to write memory by a hostile slide (CVE-2026-48977)
MIN_TORCH = (2, 10)  # older ones can be made to run code by a hostile checkpoint (CVE-2026-24747)
MIN_MEMORY_GB = 4
MIN_DISK_GB = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `fix` is empty where nothing is wrong."""

    status: str
    what: str
    text: str
    fix: str = ""


def examine(folder: Path) -> Iterator[Finding]:
    """Looks at everything the tool stands on; `folder` is where the user works."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _openslide,
        _torch,
        _weights,
        _gpu,
        _compiler,
        _openvino,
        _tensorboard,
        _ray,
        _memory,
        _cores,
    )
    for check in checks:
        yield check()
    yield _disk(folder)


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < MIN_PYTHON:
        return Finding(
            FAIL, "Python", f"{found} is too old", f"install Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer"
        )
    return Finding(PASS, "Python", found)


def _openslide() -> Finding:
    """Not only imported: a slide is written, opened and read."""
    fix = "pip install --upgrade openslide-python openslide-bin"
    try:
        from ucc_path.slide.reader import library_version
    except (ImportError, OSError) as err:
        return Finding(FAIL, "OpenSlide", f"cannot be loaded ({err})", fix)
    found = library_version()
    if _numbers(found) < MIN_OPENSLIDE:
        return Finding(WARN, "OpenSlide", f"{found} has known holes that a hostile slide can use", fix)
    problem = _read_back()
    if problem:
        return Finding(FAIL, "OpenSlide", problem, fix)
    return Finding(PASS, "OpenSlide", f"{found}, reads slides")


def _read_back() -> str:
    """What went wrong on the way of a small slide to the disk and back; empty if nothing did."""
    import numpy as np
    import tifffile

    from ucc_path.errors import SlideError
    from ucc_path.slide import Slide

    pixels = np.full((256, 256, 3), (200, 120, 180), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slide.tif"
        tifffile.imwrite(
            path, pixels, tile=(256, 256), photometric="rgb", resolution=(20_000, 20_000), resolutionunit="CENTIMETER"
        )
        try:
            with Slide(path) as slide:
                is_same = bool((slide.read((0, 0), 256, 0.5) == pixels).all())
        except SlideError as err:
            return str(err)
    return "" if is_same else "a slide was not read back as it was written"


def _torch() -> Finding:
    fix = "pip install --upgrade torch"
    try:
        import torch
    except (ImportError, OSError) as err:
        return Finding(FAIL, "PyTorch", f"cannot be loaded ({err})", fix)
    if _numbers(torch.__version__) < MIN_TORCH:
        return Finding(WARN, "PyTorch", f"{torch.__version__} has known holes in loading checkpoints", fix)
    from ucc_path.model.devices import emulates_bfloat16

    is_quick = not emulates_bfloat16(torch.device("cpu"))
    hint = "; this CPU computes in bfloat16, so train --precision bfloat16 is quicker" if is_quick else ""
    return Finding(PASS, "PyTorch", f"{torch.__version__}{hint}")


def _weights() -> Finding:
    """Not only found: read, and compared with what is known."""
    try:
        from ucc_path.formats import lite0_pth
    except (ImportError, OSError):
        return Finding(WARN, "Weights", "not looked at, since PyTorch cannot be loaded", "mend PyTorch first")
    try:
        lite0_pth.read(lite0_pth.require())
    except ModelError as err:
        what, _, fix = str(err).rpartition("; ")
        return Finding(WARN, "Weights", what, fix)
    return Finding(PASS, "Weights", "EfficientNet-Lite0, which networks of pixels begin with in train")


def _gpu() -> Finding:
    try:
        import torch
    except (ImportError, OSError):
        return Finding(WARN, "GPU", "not looked for, since PyTorch cannot be loaded", "mend PyTorch first")
    if not torch.cuda.is_available():
        fix = "for large cohorts use a machine with an NVIDIA GPU and a CUDA build of PyTorch"
        return Finding(WARN, "GPU", "none found: everything works on the CPU, more slowly", fix)
    names = [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]
    return Finding(PASS, "GPU", ", ".join(names))


def _compiler() -> Finding:
    """What torch.compile calls while it runs: it writes C and C++ against Python's headers, and openssl hashes them."""
    wanted = {
        "C compiler": _program("CC", "gcc", "clang"),
        "C++ compiler": _program("CXX", "g++"),
        "openssl": shutil.which("openssl"),
        "Python.h": Path(sysconfig.get_path("include"), "Python.h").is_file(),
    }
    missing = [what for what, found in wanted.items() if not found]
    if missing:
        fix = "on Debian and Ubuntu: apt-get install gcc g++ openssl python3-dev"
        text = f"no {', no '.join(missing)}: segment on a GPU uses PyTorch uncompiled, more slowly"
        return Finding(WARN, "Compiler", text, fix)
    return Finding(PASS, "Compiler", f"{wanted['C compiler']} and {wanted['C++ compiler']}, for segment on a GPU")


def _program(variable: str, *names: str) -> str:
    """The program that a variable of the environment names, or else the first of those, if it is there."""
    wished = os.environ.get(variable)
    return next((name for name in ([wished] if wished else names) if shutil.which(name)), "")


def _openvino() -> Finding:
    """Optional: looked for, not loaded."""
    if importlib.util.find_spec("openvino") is None:
        fix = "pip install 'ucc-path[openvino]' for twice the speed of segment on a CPU"
        return Finding(WARN, "OpenVINO", "not installed; segment uses PyTorch instead", fix)
    return Finding(PASS, "OpenVINO", f"{version('openvino')}, for segment on a CPU")


def _tensorboard() -> Finding:
    """Optional: looked for, not loaded."""
    if importlib.util.find_spec("tensorboard") is None:
        fix = "pip install 'ucc-path[tensorboard]' if you want to watch training with it"
        return Finding(WARN, "TensorBoard", "not installed; only train --tensorboard needs it", fix)
    return Finding(PASS, "TensorBoard", f"{version('tensorboard')}, for train --tensorboard")


def _ray() -> Finding:
    """Optional: looked for, not loaded."""
    if importlib.util.find_spec("ray") is None:
        fix = "pip install 'ucc-path[cluster]' for several GPUs or machines"
        return Finding(WARN, "Ray", "not installed; only --engine ray needs it", fix)
    return Finding(PASS, "Ray", f"{version('ray')}, for --engine ray")


def _memory() -> Finding:
    total_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    text = f"{total_gb:.1f} GB"
    if total_gb < MIN_MEMORY_GB:
        return Finding(WARN, "Memory", text, f"give --workers 1; {MIN_MEMORY_GB} GB are comfortable")
    return Finding(PASS, "Memory", text)


def _cores() -> Finding:
    return Finding(PASS, "Cores", f"{usable_cores()} may be used")


def _disk(folder: Path) -> Finding:
    free_gb = shutil.disk_usage(folder).free / 1e9
    text = f"{free_gb:.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding(WARN, "Disk", f"{folder} cannot be written to", "work in a folder of your own")
    if free_gb < MIN_DISK_GB:
        return Finding(WARN, "Disk", text, "make room: a tile of 512 px takes about 0.5 MB")
    return Finding(PASS, "Disk", text)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing.

    >>> _numbers("2.13.0+cpu")
    (2, 13, 0)
    """
    parts = version.split("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())
