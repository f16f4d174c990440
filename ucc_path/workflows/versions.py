"""Which versions were at work, for the record of a run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import ucc_path


def versions(*packages: str) -> dict[str, str]:
    """The versions of ucc-path, Python and the packages named."""
    found = {"ucc-path": ucc_path.__version__, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
