"""What the reader of a report must know about a run, before its figures are believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ucc_path.errors import ModelError, few
from ucc_path.evaluation.matching import by_names
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.workflows.evaluate.request import EvaluateRequest
from ucc_path.workflows.evaluate.runs import Contestant, Run
from ucc_path.workflows.train.data import fingerprint


def remarks_on(run: Run, rows: Sequence[TileRow], dataset: Path, split: str) -> list[str]:
    """Whether it learnt anything, and whether it has seen these tiles before."""
    remarks = []
    if not run.card.converged:
        remarks.append(f"{run.name} did no better than guessing when it was trained: its mask means nothing")
    data = (run.record or {}).get("data", {})
    seen = {slide for name, slides in data.get("slides", {}).items() if name != split for slide in slides}
    shared = sorted(seen & {row.slide for row in rows})
    if shared:
        remarks.append(f"{run.name} was trained on slides of these tiles ({few(shared)}): its figures promise too much")
    elif data.get("fingerprint") != fingerprint(dataset) and not seen:
        remarks.append(f"it is not known on which slides {run.name} was trained; if on these, its figures mean nothing")
    return remarks


def check_names(contestant: Contestant, request: EvaluateRequest) -> None:
    """ModelError where no cluster is called tumour, so that every tile would seem empty."""
    if request.match == "names" and not by_names(contestant.judge.classes):
        raise ModelError(
            f"no cluster of {contestant.name} has the name of tumour ({', '.join(contestant.judge.classes)}), "
            "since no kinds of tiles were known in training; give --match oracle, or train it on tiles with kinds"
        )
