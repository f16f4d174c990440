"""What is drawn of a training run: which panels, which curves in them, and what is marked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.report.chart import Guide, Mark, Panel
from ucc_path.workflows.curves import loss_panels

ENTROPY, ACCURACY, SQUARED = "cross-entropy of the labels", "accuracy", "squared error of the patches"

# No two figures are alike: tenths tell the row, hundredths the kind, thousandths the split.
COUNTING = [
    MetricsRow(10, 9.0, 0.110, 0.120, 0.130, 9.0, 0.111, 0.121, 0.131),
    MetricsRow(25, 9.0, 0.210, 0.220, 0.230, 9.0, 0.211, 0.221, 0.231),
]
WITHOUT_DECODER = [
    MetricsRow(10, 9.0, 0.110, None, 0.130, 9.0, 0.111, None, 0.131),
    MetricsRow(25, 9.0, 0.210, None, 0.230, 9.0, 0.211, None, 0.231),
]
AUTOENCODER = [
    MetricsRow(10, 9.0, None, 0.120, None, 9.0, None, 0.121, None),
    MetricsRow(25, 9.0, None, 0.220, None, 9.0, None, 0.221, None),
]
RUNS = [COUNTING, WITHOUT_DECODER, AUTOENCODER]


def titles(panels: Sequence[Panel]) -> list[str]:
    return [panel.title for panel in panels]


def curves(panel: Panel) -> dict[str, list[float]]:
    return {series.name: list(series.y) for series in panel.series}


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [(COUNTING, [ENTROPY, ACCURACY, SQUARED]), (WITHOUT_DECODER, [ENTROPY, ACCURACY]), (AUTOENCODER, [SQUARED])],
    ids=["labels and decoder", "no decoder", "no labels"],
)
def test_there_is_a_panel_for_what_a_model_learns_by(rows: list[MetricsRow], wanted: list[str]) -> None:
    assert titles(loss_panels(rows, 10)) == wanted


def test_every_figure_is_in_its_curve_over_the_steps() -> None:
    panels = loss_panels(COUNTING, 10)
    assert [curves(panel) for panel in panels] == [
        {"train": [0.110, 0.210], "val": [0.111, 0.211]},
        {"train": [0.130, 0.230], "val": [0.131, 0.231]},
        {"train": [0.120, 0.220], "val": [0.121, 0.221]},
    ]
    assert all(list(series.x) == [10, 25] for panel in panels for series in panel.series)
    assert {panel.x_label for panel in panels} == {"step"}
    assert curves(loss_panels(AUTOENCODER, 10)[0]) == {"train": [0.120, 0.220], "val": [0.121, 0.221]}


def test_without_val_tiles_there_is_no_val_curve() -> None:
    rows = [MetricsRow(row.step, row.train_loss, row.train_cross_entropy, 0.5, row.train_accuracy) for row in COUNTING]
    assert [list(curves(panel)) for panel in loss_panels(rows, 10)] == [["train"]] * 3


def test_a_val_figure_that_is_missing_in_one_row_is_a_gap_in_the_curve() -> None:
    rows = [MetricsRow(5, 9.0, 0.3, None, 0.4), *WITHOUT_DECODER]
    found = curves(loss_panels(rows, 10)[0])
    np.testing.assert_array_equal(found["val"], [math.nan, 0.111, 0.211])
    assert found["train"] == [0.3, 0.110, 0.210]


def test_labels_or_a_decoder_that_only_some_rows_tell_of_are_drawn() -> None:
    assert titles(loss_panels([MetricsRow(5), *COUNTING], 10)) == [ENTROPY, ACCURACY, SQUARED]
    np.testing.assert_array_equal(
        curves(loss_panels([MetricsRow(5), *COUNTING], 10)[2])["train"], [math.nan, 0.12, 0.22]
    )


@pytest.mark.parametrize("rows", RUNS)
def test_the_step_that_is_kept_is_marked_in_every_panel(rows: list[MetricsRow]) -> None:
    assert {panel.mark for panel in loss_panels(rows, 25)} == {Mark(25.0, "kept, step 25")}


@pytest.mark.parametrize("rows", RUNS)
def test_a_guess_is_shown_beside_the_loss_it_is_a_guess_of_and_only_there(rows: list[MetricsRow]) -> None:
    first, *others = loss_panels(rows, 10, 0.693)
    assert first.title == (SQUARED if rows is AUTOENCODER else ENTROPY)
    assert first.guides == (Guide(0.693, "a guess"),)
    assert [panel.guides for panel in others] == [()] * len(others)


@pytest.mark.parametrize("rows", RUNS)
def test_without_a_known_guess_nothing_is_shown_beside_the_curves(rows: list[MetricsRow]) -> None:
    assert {panel.guides for panel in loss_panels(rows, 10)} == {()}


def test_a_guess_without_any_loss_is_shown_too() -> None:
    assert loss_panels(AUTOENCODER, 10, 0.0)[0].guides == (Guide(0.0, "a guess"),)
