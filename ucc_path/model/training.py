"""How a network learns: a step, an evaluation, the best weights so far, and all that is needed to go on later.

Every batch depends on the seed and the number of its step alone, so nothing of chance has to be remembered: a run that
goes on from a saved state takes the very steps that it would have taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ucc_path.errors import DivergedError
from ucc_path.model.averaging import Average
from ucc_path.model.devices import ALONE, Ranks, mixed_precision
from ucc_path.model.losses import Batch, Losses
from ucc_path.settings import TrainingSettings

LossesOf = Callable[[nn.Module, Batch, float], Losses]

_NETWORK, _BEST, _AVERAGE, _ADAM, _SUMS = "network.", "best.", "average.", "adam.", "sums"
_MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam
_CHECK_EVERY = 20  # steps: looking at a number makes a GPU wait


@dataclass(frozen=True, slots=True)
class Means:
    """Losses and accuracy over many batches; None where a model has no such number."""

    loss: float
    cross_entropy: float | None
    mse: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a network does: on the batches learnt since the last evaluation, and on the validation batches."""

    step: int
    train: Means
    val: Means | None


class Learner:
    """A network on its way."""

    def __init__(
        self,
        network: nn.Module,
        losses_of: LossesOf,
        settings: TrainingSettings,
        device: torch.device,
        ranks: Ranks = ALONE,
        *,
        keeps_last: bool = False,
    ) -> None:
        self.network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.step = 0
        self.best_step = 0
        self.best_loss = math.inf
        self.stale = 0  # evaluations since the best one
        self._best: dict[str, Tensor] = {}
        self._losses_of, self._settings, self._device, self._ranks = losses_of, settings, device, ranks
        self._keeps_last = keeps_last  # whatever the validation loss
        self._parallel = DistributedDataParallel(network) if ranks.world > 1 else network
        self._adam = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, fused=True)
        self._average = Average(network, settings.averaging)
        self._sums = torch.zeros(len(Losses._fields), dtype=torch.float64, device=device)
        self._summed = 0
        self._evaluated: Means | None = None

    def learn(self, batch: Batch) -> None:
        """One step."""
        self.network.train()
        for group in self._adam.param_groups:
            group["lr"] = learning_rate(self.step, self._settings)
        with mixed_precision(self._device, self._settings.precision):
            losses = self._losses_of(self._parallel, batch, self._settings.alpha)
        self._adam.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
        self._sums += torch.stack([loss.detach() for loss in losses])
        self._summed += 1
        self.step += 1
        self._average.update(self.step)
        if self.step % _CHECK_EVERY == 0:
            self.require_finite()

    def recent(self) -> Means | None:
        """Means over the steps since the last evaluation, or right after one its own; of this process alone."""
        return _means(self._sums, self._summed) if self._summed else self._evaluated

    def evaluate(self, batches: Iterable[Batch]) -> Evaluation:
        """Judges the averaged network, and keeps its weights if they are the best; without batches the last are kept.

        DivergedError where either loss is no number.
        """
        self.require_finite()
        train = _means(self._ranks.summed(self._sums), self._summed * self._ranks.world)
        self._sums.zero_()
        self._summed, self._evaluated = 0, train
        with self._average.in_place():
            val = self._judge(batches)
            if val and not math.isfinite(val.loss):
                raise self._diverged()
            if val is None or self._keeps_last or val.loss < self.best_loss:
                self._keep(val)
            else:
                self.stale += 1
        return Evaluation(self.step, train, val)

    def averaged(self) -> AbstractContextManager[None]:
        """The network with the weights that are judged, for as long as the block lasts."""
        return self._average.in_place()

    def require_finite(self) -> None:
        """DivergedError once the loss is no number any more: nothing can be learnt from there on."""
        if self._summed and not math.isfinite(self._ranks.summed(self._sums)[0].item()):
            raise self._diverged()

    def _diverged(self) -> DivergedError:
        return DivergedError(
            f"the loss is no longer a number at step {self.step}; "
            f"start anew with a --learning-rate below {self._settings.learning_rate:g}, and look at the tiles"
        )

    @property
    def best_weights(self) -> Mapping[str, Tensor]:
        """Of the evaluation with the lowest loss, on the CPU."""
        return self._best

    @property
    def parameters(self) -> int:
        """How many numbers are learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Numbers and tensors from which `restore` goes on exactly; all processes have to ask for it together."""
        tensors = {_NETWORK + name: value for name, value in self.network.state_dict().items()}
        tensors |= {_BEST + name: value for name, value in self._best.items()}
        tensors |= {_AVERAGE + name: value for name, value in self._average.state().items()}
        for name, parameter in self.network.named_parameters():
            for what, value in self._adam.state.get(parameter, {}).items():
                tensors[f"{_ADAM}{what}.{name}"] = value
        numbers: dict[str, Any] = {
            "step": self.step,
            "best_step": self.best_step,
            "stale": self.stale,
            "summed": self._summed,
        }
        # JSON knows no infinity.
        numbers["best_loss"] = self.best_loss if self._best and math.isfinite(self.best_loss) else None
        return numbers, tensors | {_SUMS: self._ranks.summed(self._sums) / self._ranks.world}

    def restore(self, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a state; KeyError, TypeError or RuntimeError if it is not one of this network."""
        self.network.load_state_dict(_under(_NETWORK, tensors))
        self._best = _under(_BEST, tensors)
        self._average.restore(_under(_AVERAGE, tensors))
        self.step, self.best_step = int(numbers["step"]), int(numbers["best_step"])
        self.stale, self._summed = int(numbers["stale"]), int(numbers["summed"])
        self.best_loss = math.inf if numbers["best_loss"] is None else float(numbers["best_loss"])
        self._sums.copy_(tensors[_SUMS])
        adam = _under(_ADAM, tensors)
        for name, parameter in self.network.named_parameters() if adam else ():
            # Laid out in memory as the parameter is: the fused step goes through both side by side, whatever the axes.
            moments = {what: torch.empty_like(parameter).copy_(adam[f"{what}.{name}"]) for what in _MOMENTS}
            self._adam.state[parameter] = {"step": adam[f"step.{name}"].to(self._device, copy=True), **moments}

    def _judge(self, batches: Iterable[Batch]) -> Means | None:
        sums, count = torch.zeros_like(self._sums), 0
        self.network.eval()
        with torch.no_grad(), mixed_precision(self._device, self._settings.precision):
            for batch in batches:
                sums += torch.stack(self._losses_of(self.network, batch, self._settings.alpha))
                count += 1
        return _means(self._ranks.summed(sums), count * self._ranks.world) if count else None

    def _keep(self, val: Means | None) -> None:
        weights = self.network.state_dict()
        if val is None and not all(bool(value.isfinite().all()) for value in weights.values()):
            raise self._diverged()  # which a validation loss would have shown
        self._best = {name: value.detach().to("cpu", copy=True) for name, value in weights.items()}
        self.best_step, self.stale = self.step, 0
        self.best_loss = val.loss if val else math.inf


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """The step size of a step: it rises to its height, stays, and over the last part of the steps falls to nothing.

    >>> [learning_rate(step, TrainingSettings(learning_rate=1.0, warm_up=2, steps=5, decay=0.4)) for step in range(5)]
    [0.5, 1.0, 1.0, 1.0, 0.5]
    """
    rising = (step + 1) / settings.warm_up if settings.warm_up else 1.0
    left = (settings.steps - step) / settings.steps
    falling = left / settings.decay if settings.decay else 1.0
    return settings.learning_rate * min(1.0, rising, falling)


def train(
    learner: Learner,
    next_batch: Callable[[], Batch],
    validation: Callable[[], Iterable[Batch]],
    settings: TrainingSettings,
) -> Iterator[Evaluation | None]:
    """Learns until the steps are done or the validation loss falls no more; after each step an evaluation, or None."""
    while learner.step < settings.steps and learner.stale < settings.patience:
        learner.learn(next_batch())
        is_due = learner.step % settings.evaluate_every == 0 or learner.step == settings.steps
        yield learner.evaluate(validation()) if is_due else None


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _means(sums: Tensor, count: int) -> Means:
    total, *others = (sums / max(count, 1)).tolist()
    return Means(total, *(value if math.isfinite(value) else None for value in others))
