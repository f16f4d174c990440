"""What is trained, and how long the Unet is allowed to: never less than the models it is compared with.

The Unet has at least the time of the longest of the models taught by tile labels, on the same fold and seed, and its
patience is such that it does not stop early before; its weights are those of the lowest loss on val tiles. Steps of the
two cost differently, so its number of steps is found from a short run first, and checked after: if it did not have the
time, it is run anew with more steps.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from comparison.jobs import Run

ROWS: dict[str, tuple[str, ...]] = {
    "ucc-kinds": ("--supervision", "kind"),
    "ucc": ("--supervision", "ucc"),
    "unet": ("--model", "unet"),
    "unet-twice": ("--model", "unet"),
    "supervised": ("--model", "supervised"),
}
TAUGHT_BY = {row: {"ucc-kinds": "kinds", "ucc": "counts"}.get(row, "masks") for row in ROWS}
TWICE = "unet-twice"
LABELLED = ("ucc-kinds", "ucc")  # whose time the Unet has at least
UNET_STEPS = 400  # at least, unless fewer are asked for; the time that it is due asks for more
_PROBE_STEPS = 50  # with one evaluation, as often as in a whole run
_SLACK = 1.1  # more steps than the rate asks for: it is not quite steady
_MOST_ATTEMPTS = 3


def read_run(run: Path) -> dict[str, Any]:
    """The record of a run; empty if there is none yet."""
    return read_json(run / "run.json")


def is_trained(run: Path) -> bool:
    return bool(read_run(run).get("finished"))


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write_json(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def train_words(dataset: Path, run: Path, row: str, seed: int, **options: int | None) -> list[object]:
    """The command, which also goes on with a run that was stopped."""
    words: list[object] = ["train", dataset, "-o", run, *ROWS[row], "--seed", seed, "--device", "cpu", "--resume"]
    for name, value in options.items():
        words += [f"--{name}", value] if value is not None else []
    return words


def time_file(run: Path) -> Path:
    return run.with_name(f"{run.name}-time.json")


def has_had_its_time(run: Path) -> bool:
    return is_trained(run) and "enough" in read_json(time_file(run))


def train_unet(run: Run, dataset: Path, folder: Path, seed: int, least_steps: int) -> None:
    """Trains the Unet into `folder`; its account, beside it, has what it was due and what it got."""
    due = {row: float(read_run(folder.with_name(row))["seconds"]) for row in LABELLED}
    account = read_json(time_file(folder)) or {"due_s": max(due.values()), "of": due, "probe": {}, "attempts": []}
    attempts: list[dict[str, Any]] = account["attempts"]
    if not attempts:
        account["probe"] = _probe(run, dataset, folder, seed, min(_PROBE_STEPS, least_steps))
        attempts.append(_allowance(account["due_s"], account["probe"], least_steps))
        write_json(time_file(folder), account)
    while True:
        last = attempts[-1]
        if "seconds" not in last:
            run(*train_words(dataset, folder, "unet", seed, steps=last["allowed"], patience=last["patience"]))
            last.update(_outcome(folder))
        is_enough = is_fair(last, account["due_s"])
        if is_enough or len(attempts) == _MOST_ATTEMPTS:
            write_json(time_file(folder), {**account, "enough": is_enough})
            return
        write_json(time_file(folder), account)
        shutil.rmtree(folder)
        attempts.append(_allowance(account["due_s"], last, last["allowed"] + 1))
        write_json(time_file(folder), account)


def train_unet_twice(run: Run, dataset: Path, folder: Path, seed: int) -> None:
    """Twice the steps of the Unet, and twice its patience."""
    allowed = allowance_of(folder.with_name("unet"))
    twice = {name: 2 * number for name, number in allowed.items()}
    run(*train_words(dataset, folder, TWICE, seed, **twice))


def allowance_of(folder: Path) -> dict[str, int]:
    """The steps and the patience that a run had."""
    training = read_run(folder)["settings"]["training"]
    return {name: int(training[name]) for name in ("steps", "patience")}


def steps_for(seconds: float, measured: dict[str, Any]) -> int:
    """Steps that take at least so long, at a rate that was measured."""
    rate = float(measured["steps"]) / max(float(measured["seconds"]), 0.1)
    return math.ceil(_SLACK * seconds * rate)


def is_fair(outcome: dict[str, Any], due_s: float) -> bool:
    """Whether it had the time it was due, or could not go on."""
    return bool(outcome["stopped"] not in ("steps", "early") or outcome["seconds"] >= due_s)


def _allowance(due_s: float, measured: dict[str, Any], least_steps: int) -> dict[str, int]:
    """Steps that take the time that is due, and evaluations without a better loss until then at least."""
    due = steps_for(due_s, measured)
    patience = max(measured["patience"], math.ceil(due / measured["evaluate_every"]))
    return {"allowed": max(least_steps, due), "patience": patience}


def _probe(run: Run, dataset: Path, folder: Path, seed: int, steps: int) -> dict[str, Any]:
    probe = folder.with_name(f"{folder.name}-probe")
    run(*train_words(dataset, probe, "unet", seed, steps=steps))
    outcome = _outcome(probe)
    shutil.rmtree(probe)
    return outcome


def _outcome(folder: Path) -> dict[str, Any]:
    record = read_run(folder)
    training = record["settings"]["training"]
    how = {name: training[name] for name in ("patience", "evaluate_every")}
    return {"steps": record["steps"], "seconds": record["seconds"], "stopped": record["stopped"], **how}
