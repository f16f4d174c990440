"""`python -m ucc_path_cli` is `ucc-path`."""

from .main import main

main()
