"""Which versions were at work, for the record of a run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import ucc_path

# What decodes, draws and computes: another version may give other bytes.
PACKAGES = (
    "imagecodecs",
    "isal",
    "numpy",
    "openslide-bin",
    "openslide-python",
    "openvino",
    "pillow",
    "safetensors",
    "scikit-learn",
    "scipy",
    "shapely",
    "tifffile",
    "torch",
)


def versions() -> dict[str, str]:
    """The versions of ucc-path, of Python and of the packages that results depend on."""
    found = {"ucc-path": ucc_path.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
