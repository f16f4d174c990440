"""The folder of a run: begun, gone on with, or left alone; and what tells that a run is the same one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucc_path.errors import OutputError, RunError
from ucc_path.formats import metrics_csv, model_safetensors, resume_state, run_json, tensorboard_log, tile_store
from ucc_path.formats.atomic import LOCK, PARTIAL, locked_folder
from ucc_path.workflows.train.request import TrainRequest

LOSS_PICTURE = "loss.png"
RESUME = resume_state.FOLDER
SECOND_ROUND = "second-round"
TILES = "tiles"

# The record goes last: by it a folder is known as ours, so that clearing one that was cut short can be done again.
_RESULTS = (
    model_safetensors.NAME,
    LOSS_PICTURE,
    SECOND_ROUND,
    metrics_csv.NAME,
    tensorboard_log.FOLDER,
    run_json.NAME,
)

# What may differ when a run goes on: how long it may take, and how often it is saved.
_FREE = ("steps", "patience", "save_every_s")


@dataclass(frozen=True, slots=True)
class Run:
    """A run's folder, held by this process, and what an earlier process left in it."""

    folder: Path
    record: Mapping[str, Any]  # of the run that goes on; empty where one begins
    is_finished: bool = False

    @property
    def tiles(self) -> Path:
        """Where the tiles lie while the run goes on."""
        return self.folder / RESUME / TILES

    def begin(self, record: Mapping[str, Any]) -> None:
        """Makes the folder this run's: what an earlier run has left, if it was to be overwritten, goes only now."""
        if not self.record:
            clear(self.folder, _RESULTS)
        run_json.write(self.folder, record)

    def leave(self) -> None:
        """Takes back what was written before the run began, which could not begin."""
        if not self.record:
            clear(self.folder, (RESUME,))
            with suppress(OSError):  # there is something of the user's, or of an earlier run
                self.folder.rmdir()


@contextmanager
def opened(request: TrainRequest, identity: Mapping[str, Any]) -> Iterator[Run]:
    """The run's folder, for this process alone; refuses one that is not ours, finished, or of another training."""
    with locked_folder(request.output) as folder:
        if not folder.exists() or _is_empty(folder) or (request.overwrite and run_json.is_ours(folder)):
            folder.mkdir(exist_ok=True)
            clear(folder, (RESUME,))
            yield Run(folder, {})
            return
        if not run_json.is_ours(folder):
            raise OutputError(
                f"{folder} exists and holds no {run_json.NAME} of a run, so it is not ours; choose another with -o"
            )
        record = run_json.read(folder)
        is_finished = bool(record.get("finished")) and (folder / model_safetensors.NAME).is_file()
        if not request.resume:
            what = "is a finished run" if is_finished else "is a run that was not finished; go on with --resume"
            raise OutputError(f"{folder} {what}; start anew with --overwrite, or choose another folder with -o")
        _require_same(folder, record, identity)
        yield Run(folder, record, is_finished)


def _is_empty(folder: Path) -> bool:
    """Whether nothing is in it but what a run killed before it began left, and the lock on a disk of its own.

    Such a run left tiles and no more: a folder that happens to be called `resume` may hold what is dear to somebody.
    """
    if not folder.is_dir():
        return False
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    passing = (folder / (run_json.NAME + PARTIAL), folder / LOCK)
    tiles = folder / RESUME / TILES
    return all(path in passing or (path.parent == tiles and tile_store.is_part(path)) for path in files)


def clear(folder: Path, names: tuple[str, ...]) -> None:
    """Removes what a training has written under these names, and nothing else."""
    for name in names:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _require_same(folder: Path, record: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """RunError where going on would mix two trainings, naming what differs."""
    before, now = _flat(record), _flat(identity)
    for name in now:
        if name.rpartition(".")[2] not in _FREE and before.get(name) != now[name]:
            what = (
                "on another data set"
                if name == "data.fingerprint"
                else f"with {name} {before.get(name)}, not {now[name]}"
            )
            raise RunError(f"{folder} was begun {what}; give the same again, or start anew with --overwrite")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as `settings.training.alpha`; lists as JSON would give them back."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = list(value) if isinstance(value, tuple) else value
    return flat
