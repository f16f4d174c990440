"""`python -m ucc_path_cli`: the same as `ucc-path`, for launchers such as torchrun that start modules."""

from __future__ import annotations

from .main import main

main()
