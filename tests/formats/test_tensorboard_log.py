"""What TensorBoard shows of a run, read back as TensorBoard reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ucc_path.errors import OutputError, SettingsError
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.formats.tensorboard_log import TensorBoardLog


def logged(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a run by tag."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulators.EventAccumulator(str(run / "tensorboard")).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_each_figure_is_a_curve_and_undefined_ones_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with TensorBoardLog(tmp_path) as log:
        log.add(MetricsRow(50, train_loss=0.5, train_cross_entropy=0.25, val_loss=0.75))
        log.add(MetricsRow(100, train_loss=0.25, val_loss=0.5, val_accuracy=1.0))
    assert logged(tmp_path) == {
        "loss/train": [(50, 0.5), (100, 0.25)],
        "cross_entropy/train": [(50, 0.25)],
        "loss/val": [(50, 0.75), (100, 0.5)],
        "accuracy/val": [(100, 1.0)],
    }


def test_a_row_can_be_seen_while_the_run_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with TensorBoardLog(tmp_path) as log:
        log.add(MetricsRow(50, train_loss=0.5))
        assert logged(tmp_path) == {"loss/train": [(50, 0.5)]}


def test_a_resumed_run_takes_the_place_of_what_was_logged_after_that_step(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with TensorBoardLog(tmp_path) as log:
        for step in (50, 100, 150):
            log.add(MetricsRow(step, train_loss=1.0))
    with TensorBoardLog(tmp_path, resumed_at_step=100) as log:
        log.add(MetricsRow(150, train_loss=0.5))
    assert logged(tmp_path) == {"loss/train": [(50, 1.0), (100, 1.0), (150, 0.5)]}


def test_without_tensorboard_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SettingsError, match=r"^--tensorboard needs .* pip install 'ucc-path\[tensorboard\]'$"):
        TensorBoardLog(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("a file in its place")
    with pytest.raises(OutputError, match="tensorboard cannot be written"):
        TensorBoardLog(tmp_path)
