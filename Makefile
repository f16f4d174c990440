# Every target that needs it first makes a virtual environment with the pinned packages; a fresh clone is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: help demo test lint soak bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    the workflow on slides made here; its pictures are in ./demo"
	@echo "make test    linting, types and all tests"
	@echo "make lint    linting and types alone"
	@echo "make soak    the long tests: kill sweeps and large slides"
	@echo "make bench   speed beside bare OpenSlide and bare PyTorch, and how hard the synthetic slides are"
	@echo "make clean   remove what make has made"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/ucc-path demo -o demo --overwrite

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n auto

soak: $(READY)
	$(BIN)/python -m pytest -m soak

bench: $(READY)
	$(BIN)/python benchmarks/tile.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/segment.py
	$(BIN)/python benchmarks/synthetic_difficulty.py

clean:
	rm -rf $(VENV) build demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
