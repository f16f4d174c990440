"""What the package needs, a line each, so that an image can hold it in a layer of its own, below the package.

python requirements.py pyproject.toml openvino,cluster
"""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib  # the image's Python is 3.11 or newer


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """The requirements of the package and of those extras; one that is not there ends it."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    if missing := [extra for extra in extras if extra not in known]:
        raise SystemExit(f"{pyproject} has no extra {', '.join(missing)}; it has {', '.join(sorted(known))}")
    return [*project["dependencies"], *(line for extra in extras for line in known[extra])]


if __name__ == "__main__":
    wanted = [extra for extra in sys.argv[2].split(",") if extra]
    sys.stdout.write("\n".join(requirements(Path(sys.argv[1]), wanted)) + "\n")
