"""What becomes of the weights: clusters with names, whether anything was learnt, the curve of the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.bags import BagSampler
from ucc_path.clusters import Clusters, fit
from ucc_path.features import features_of
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.model.preparing import Preparation
from ucc_path.report.chart import line_chart
from ucc_path.workflows.curves import loss_panels
from ucc_path.workflows.train.request import TrainRequest

BAGS_FOR_CLUSTERS = 1600  # with bags of 32, 51,200 patches: more would hardly move the centres
BAGS_OF_TILE = 4
_BAGS_AT_ONCE = 100
CONVERGED_BELOW = 0.95  # of the loss of a guess


def find_clusters(
    sampler: BagSampler,
    kinds: NDArray[np.int64],
    extractor: torch.nn.Module,
    preparation: Preparation,
    device: torch.device,
    *,
    clusters: int,
    seed: int,
) -> Clusters:
    """Clusters of training features, named by the pure tiles among them; `kinds` is the class of each tile."""
    features, known = [], []
    wanted = min(BAGS_FOR_CLUSTERS, BAGS_OF_TILE * len(sampler.usable))
    for number in range(math.ceil(wanted / _BAGS_AT_ONCE)):
        bags = sampler.draw(number, min(_BAGS_AT_ONCE, wanted))
        size = bags.patches.shape[1]
        patches = bags.patches.reshape(-1, *bags.patches.shape[2:])
        stain = None if bags.stain is None else np.repeat(bags.stain, size, axis=0)
        features.append(features_of(patches, extractor, preparation, device, stain))
        known.append(np.repeat(kinds[bags.tiles], size))
    return fit(np.concatenate(features), np.concatenate(known), clusters=clusters, seed=seed)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run has learnt anything, and if not, what to try."""

    converged: bool
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try, where the loss stays high on the val tiles alone, or altogether."""

    on_val: str
    altogether: str


def advice_for(request: TrainRequest) -> Advice:
    """What this training has not tried yet."""
    training = request.training
    jitter = f", or a larger --stain-jitter than {training.stain_jitter:g}"
    kind = ", or --supervision kind where kinds are known"
    return Advice(
        "use more slides" + (jitter if request.model_settings.colours == "slide" else ""),
        f"try another --learning-rate than {training.learning_rate:g}, more --steps than {training.steps}"
        + (kind if request.supervision == "ucc" else ""),
    )


def judge(rows: Sequence[MetricsRow], best_step: int, guess: float, advice: Advice) -> Verdict:
    """Compares the kept weights with a guess that looks at nothing, whose loss is `guess`."""
    kept = next((row for row in rows if row.step == best_step), rows[-1])
    has_val = kept.val_loss is not None
    reached = _own_loss(kept, "val" if has_val else "train")
    if reached < CONVERGED_BELOW * guess:
        return Verdict(True)
    learnt = min(_own_loss(row, "train") for row in rows)
    if has_val and learnt < CONVERGED_BELOW * guess:
        return Verdict(
            False,
            f"the loss fell to {learnt:.3g} on the train tiles, but stayed at {reached:.3g} on the val tiles, where a "
            f"guess has {guess:.3g}: the slides differ too much; {advice.on_val}",
        )
    return Verdict(
        False,
        f"the loss stayed at {reached:.3g}, where a guess has {guess:.3g}: nothing was learnt; {advice.altogether}",
    )


def _own_loss(row: MetricsRow, split: str) -> float:
    """The cross-entropy, or the squared error of a model that has no labels."""
    entropy, mse = getattr(row, f"{split}_cross_entropy"), getattr(row, f"{split}_mse")
    return math.inf if entropy is None and mse is None else float(mse if entropy is None else entropy)


def entropy_of(shares: NDArray[np.float64]) -> float:
    """The cross-entropy of a guess that knows nothing but how frequent each label is.

    >>> round(entropy_of(np.array([0.5, 0.5])), 3)
    0.693
    """
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())


def loss_picture(rows: Sequence[MetricsRow], best_step: int, guess: float, title: str) -> NDArray[np.uint8]:
    """The losses and the accuracy against steps."""
    return line_chart(loss_panels(rows, best_step, guess), title=title)
