"""The rows of a training run as the panels of a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.report.chart import Guide, Mark, Panel, Series


def loss_panels(rows: Sequence[MetricsRow], best_step: int | None, guess: float | None = None) -> list[Panel]:
    """The losses and the accuracy against steps; `guess` is the loss of one, where it is known."""
    has_labels = any(row.train_cross_entropy is not None for row in rows)
    mark = None if best_step is None else Mark(float(best_step), f"kept, step {best_step}")
    guides = () if guess is None else (Guide(guess, "a guess"),)

    def panel(title: str, name: str, guides: tuple[Guide, ...] = ()) -> Panel:
        return Panel(title, "step", _series(rows, name), mark, guides)

    squared = "squared error of the patches"
    if not has_labels:
        return [panel(squared, "mse", guides)]
    panels = [panel("cross-entropy of the labels", "cross_entropy", guides), panel("accuracy", "accuracy")]
    return panels + ([panel(squared, "mse")] if any(row.train_mse is not None for row in rows) else [])


def _series(rows: Sequence[MetricsRow], name: str) -> tuple[Series, ...]:
    """The curves of the train and the val tiles, as far as there are any."""
    steps = tuple(float(row.step) for row in rows)
    curves = {split: [getattr(row, f"{split}_{name}") for row in rows] for split in ("train", "val")}
    return tuple(
        Series(split, steps, tuple(math.nan if value is None else value for value in values))
        for split, values in curves.items()
        if any(value is not None for value in values)
    )
