"""Saved states of trainings, as a step too large leaves them."""

from __future__ import annotations

from pathlib import Path

import torch

from ucc_path.formats import resume_state


def spoil(run: Path, *, keeps_best: bool) -> int:
    """A state whose weights are no numbers, as after a step too large; with or without an evaluation before it.

    Returns the step at which the next evaluation finds it, where there is one every 10 steps.
    """
    saved = resume_state.read(run)
    assert saved
    numbers, tensors = saved
    for name, tensor in tensors.items():
        if name.startswith("network.") and tensor.is_floating_point():
            tensor.fill_(torch.nan)
    if not keeps_best:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("best.")}
        numbers |= {"best_step": 0, "best_loss": None}
    resume_state.write(run, numbers, tensors)
    return int(numbers["step"]) // 10 * 10 + 10
