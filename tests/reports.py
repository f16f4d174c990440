"""Workflows run to their end, and what stands in the reports they leave."""

from __future__ import annotations

import csv
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ucc_path.workflows.events import Event, Notice

R = TypeVar("R")


def finished(work: Generator[Event, None, R]) -> tuple[list[Event], R]:
    """All that a workflow says, and its result."""
    events: list[Event] = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as end:
            return events, end.value


def notices(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def evaluated(dataset: Path, *models: Path, output: Path, **how: Any) -> list[Event]:
    """What `evaluate` says while it makes the report `output`, by settings that cost little."""
    import torch

    from ucc_path.settings import EvaluationSettings, SegmentationSettings
    from ucc_path.workflows.evaluate import EvaluateRequest, evaluate

    settings: dict[str, Any] = {
        "segmentation": SegmentationSettings(inference="torch", batch_size=64),
        "evaluation": EvaluationSettings(resamples=100, pictures=0),
    }
    threads = torch.get_num_threads()
    try:
        return finished(evaluate(EvaluateRequest(dataset, models, output, device="cpu", **(settings | how))))[0]
    finally:
        torch.set_num_threads(threads)  # which an engine sets for its process


def table_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figures_in(report: Path, model: str, averaging: str = "image") -> dict[str, float]:
    """A row of a report's `metrics.csv`; what is empty there is nan."""
    rows = [row for row in table_rows(report / "metrics.csv") if (row["model"], row["averaging"]) == (model, averaging)]
    assert len(rows) == 1
    return {name: float(cell or "nan") for name, cell in rows[0].items() if name not in ("model", "averaging")}


def counts_in(report: Path, model: str, image: str, ending: str = "") -> tuple[float, ...]:
    """TP, FP, TN and FN of an image in a report's `images.csv`; with the ending `_tissue` over tissue alone."""
    rows = [row for row in table_rows(report / "images.csv") if (row["model"], row["image"]) == (model, image)]
    assert len(rows) == 1
    return tuple(float(rows[0][name + ending] or "nan") for name in ("TP", "FP", "TN", "FN"))
