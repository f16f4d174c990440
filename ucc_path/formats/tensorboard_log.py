"""`tensorboard/`: the rows of metrics.csv once more, for those who watch training with TensorBoard.

Event files of TensorBoard, written by torch. The tag is the figure and then the set, such as `loss/train` and
`loss/val`, so that both are in one group; undefined figures are left out.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from ucc_path.errors import SettingsError
from ucc_path.formats.atomic import explaining
from ucc_path.formats.metrics_csv import MetricsRow

FOLDER = "tensorboard"


def require() -> None:
    """SettingsError where TensorBoard is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as err:
        raise SettingsError("--tensorboard needs the package tensorboard; pip install 'ucc-path[tensorboard]'") from err


class TensorBoardLog:
    """Open for as long as a run goes; each row can be seen as soon as it is added."""

    def __init__(self, run: Path, *, resumed_at_step: int | None = None) -> None:
        """`resumed_at_step` hides what was logged after that step before the run was interrupted."""
        require()
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run / FOLDER
        purge_step = (resumed_at_step or 0) + 1
        with explaining(self._folder):
            self._writer: Any = SummaryWriter(str(self._folder), purge_step=purge_step)

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with explaining(self._folder):
            self._writer.close()

    def add(self, row: MetricsRow) -> None:
        figures = asdict(row)
        step = figures.pop("step")
        with explaining(self._folder):
            for name, value in figures.items():
                split, _, figure = name.partition("_")
                if value is not None:
                    self._writer.add_scalar(f"{figure}/{split}", value, step)
            self._writer.flush()
