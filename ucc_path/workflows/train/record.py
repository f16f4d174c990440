"""What `run.json` says of a run, at its start and at its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ucc_path.model.training import Learner
from ucc_path.workflows.train.data import Rows, fingerprint
from ucc_path.workflows.train.learning import INTERRUPTED, Pace
from ucc_path.workflows.train.refining import Refined
from ucc_path.workflows.train.request import TrainRequest
from ucc_path.workflows.train.run_folder import Run
from ucc_path.workflows.versions import versions


def identity_of(request: TrainRequest) -> dict[str, Any]:
    """What makes a run the same one: all that its weights depend on."""
    return {
        "model": request.model,
        "settings": request.settings(),
        "data": {"fingerprint": fingerprint(request.dataset)},
    }


def first_record(
    request: TrainRequest,
    rows: Mapping[str, Rows],
    run: Run,
    identity: Mapping[str, Any],
    *,
    device: str,
    processes: int,
) -> dict[str, Any]:
    """What is known before the first step."""
    tiles = {split: chosen.counts() for split, chosen in rows.items() if chosen.rows}
    slides = {split: sorted({row.slide for row in chosen.rows}) for split, chosen in rows.items() if chosen.rows}
    return {
        **identity,
        "data": {"path": str(request.dataset), "tiles": tiles, "slides": slides, **identity["data"]},
        "device": device,
        "processes": processes,
        "versions": versions(),
        "begun": run.record.get("begun") or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "finished": False,
        "resumed_at_step": run.record.get("resumed_at_step"),
    }


def last_record(learner: Learner, pace: Pace) -> dict[str, Any]:
    """What is known after the last step."""
    return {
        "steps": learner.step,
        "best_step": learner.best_step,
        "parameters": learner.parameters,
        "stopped": None if pace.stopped == INTERRUPTED else pace.stopped,
        "resumed_at_step": pace.resumed_at_step,
        "seconds": round(pace.seconds, 1),
        "bags_per_s": round(pace.bags_per_s, 2),
        "waiting_share": round(pace.waiting_share, 4),
        "second_round": None,
    }


def second_record(refined: Refined, first: Pace) -> dict[str, Any]:
    """What is known after the second round; the time of both is that of the run."""
    return {
        "seconds": round(first.seconds + refined.pace.seconds, 1),
        "second_round": {
            "steps": refined.steps,
            "best_step": refined.best_step,
            "stopped": None if refined.is_interrupted else refined.pace.stopped,
            "resumed_at_step": refined.pace.resumed_at_step,
            "seconds": round(refined.pace.seconds, 1),
            "parameters": refined.parameters,
        },
    }
