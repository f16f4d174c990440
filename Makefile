# Every target that needs it first makes a virtual environment with the pinned packages; a fresh clone is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: help demo test lint soak bench docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    the whole workflow on slides made here; its report is in ./demo"
	@echo "make test    linting, types and all tests"
	@echo "make lint    linting and types alone"
	@echo "make soak    the long tests: kill sweeps and large slides"
	@echo "make bench   speed beside bare OpenSlide and bare PyTorch, and how hard the synthetic slides are"
	@echo "make docs    the pages that are made from the code: commands and file formats"
	@echo "make clean   remove what make has made"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/ucc-path demo -o demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n auto --dist loadgroup

soak: $(READY)
	$(BIN)/python -m pytest -m soak

bench: $(READY)
	$(BIN)/python benchmarks/tile.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/segment.py
	$(BIN)/python benchmarks/synthetic_difficulty.py

docs: $(READY)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
