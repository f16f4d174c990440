"""`run.json`: how a run of training came about.

    format            "ucc-path run"
    version           1
    model             ucc, unet, supervised or autoencoder
    settings          {model, training, tissue}: everything in force that the weights depend on
    data              {path, tiles, slides, fingerprint}: the data set, its tiles by split and label, its slides by
                      split, and a hash of its tables
    device            where it was trained, such as cpu or cuda:0
    processes         how many worked together
    parameters        how many numbers the network has
    versions          of ucc-path, of Python and of the packages that decode and compute
    begun             when, in UTC, as ISO 8601
    resumed_at_step   the step from which the run was last continued; null if it never was
    finished          whether training came to its end
    steps             how many were done
    best_step         the step whose weights were kept
    stopped           "early", "steps" or "diverged": what ended training; null while it runs
    converged         whether the model does better than guessing
    classes           their names; the label value of a class is its place + 1
    assign            {chosen, shares}: what says the class of a patch better, and the share of patches of pure tiles
                      that each gives the tile's class; null where the head was not taught classes
    second_round      {steps, best_step, stopped, resumed_at_step, seconds, parameters}: the same of the round in which
                      a network of pixels was taught; null where there was none
    seconds           how long training took, both rounds together
    bags_per_s        bags learnt from in a second
    waiting_share     share of the time in which the device waited for data

Written at the start, and again when it is interrupted and at the end, with what is known only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import RunError
from ucc_path.formats import record_json
from ucc_path.formats.record_json import RecordFormat

NAME = "run.json"
FORMAT = RecordFormat("ucc-path run", 1, RunError, "a run", "start the run anew with --overwrite")


def write(run: Path, record: Mapping[str, Any]) -> None:
    record_json.write(run / NAME, FORMAT, record)


def read(run: Path) -> dict[str, Any]:
    return record_json.read(run / NAME, FORMAT)


def is_ours(run: Path) -> bool:
    """Whether a folder is a run's, of any version and however damaged its record."""
    try:
        return FORMAT.format in (run / NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
