"""How a network learns: on bags of dark and bright patches, and on a toy whose losses are written in a script."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ucc_path.errors import DivergedError
from ucc_path.formats import resume_state
from ucc_path.model import training
from ucc_path.model.losses import Batch, Losses
from ucc_path.model.recipes import LOSSES, build
from ucc_path.model.training import Evaluation, Learner, Means, train
from ucc_path.settings import MODELS, ModelSettings, TrainingSettings

CPU = torch.device("cpu")
SMALL = ModelSettings(patch_px=8, width=4, features=4, hidden=(16,), norm="group", encoder="blocks")
TRAINING = TrainingSettings(steps=12, evaluate_every=4, patience=100, learning_rate=0.01, averaging=0.0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_batch(number: int, model: str = "ucc") -> Batch:
    """Bags of eight patches, dark or bright: every other bag is of one sort, the rest are mixed. Always the same."""
    chance = torch.Generator().manual_seed(number)
    counts = torch.arange(8) % 2
    is_bright = (torch.rand(8, 1, generator=chance) < 0.5).expand(8, 8).clone()
    is_bright[counts == 1] = torch.arange(8) < 4
    noise = torch.randn(8, 8, 8, 8, 3, generator=chance)
    images = (noise * 0.3 + torch.where(is_bright, 1.0, -1.0)[..., None, None, None]).movedim(-1, -3)
    if model == "unet":
        return Batch(images[:, 0], images[:, 0, 0] > 0)
    return Batch(images, is_bright.long() if model == "supervised" else counts)


def make_learner(model: str = "ucc", norm: str = "group", **changes: Any) -> Learner:
    torch.manual_seed(0)
    settings = dataclasses.replace(TRAINING, **changes)
    network = build(model, dataclasses.replace(SMALL, norm=norm), outputs=2, alpha=settings.alpha)
    return Learner(network, LOSSES[model], settings, CPU)


def copied(tensors: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in dict(tensors).items()}


def equal(one: Any, other: Any) -> bool:
    return dict(one).keys() == dict(other).keys() and all(torch.equal(one[name], other[name]) for name in one)


class Scripted(nn.Module):
    """One weight. Its loss is whatever the batch says; and with a slope of 1 every step of Adam lowers the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([10.0]))


def scripted_losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
    weight = network.get_parameter("weight")
    total = batch.images.mean() + weight.sum() - weight.sum().detach()
    return Losses(total, total.detach(), torch.tensor(math.nan), torch.tensor(0.25))


def says(loss: float) -> Batch:
    return Batch(torch.tensor([loss]), torch.tensor([0]))


def make_scripted(**changes: Any) -> tuple[Learner, TrainingSettings]:
    settings = dataclasses.replace(TRAINING, evaluate_every=1, steps=1000, **changes)
    return Learner(Scripted(), scripted_losses, settings, CPU), settings


def follow(learner: Learner, settings: TrainingSettings, val_losses: list[float]) -> list[Evaluation | None]:
    """Trains with an evaluation for each of these losses, and no more of them."""
    script = iter(val_losses)
    return list(train(learner, lambda: says(1.0), lambda: [says(next(script))], settings))


def test_learning_lowers_the_loss_until_bags_are_told_apart() -> None:
    learner = make_learner(norm="none", alpha=0.5, steps=40, evaluate_every=5)
    numbers = iter(range(40))
    held_out = [make_batch(1000), make_batch(1001)]
    told = [e for e in train(learner, lambda: make_batch(next(numbers)), lambda: held_out, learner._settings) if e]
    first, last = told[0], told[-1]
    assert first.val and last.val and last.val.accuracy == 1.0
    assert last.train.loss < 0.5 * first.train.loss and last.val.loss < 0.5 * first.val.loss
    assert last.val.cross_entropy is not None and last.val.cross_entropy < 0.3
    assert first.train.mse is not None and last.train.mse is not None and last.train.mse < first.train.mse


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns(model: str) -> None:
    learner = make_learner(model)
    losses = []
    for _ in range(20):
        learner.learn(make_batch(0, model))
        losses.append(learner.evaluate([]).train.loss)
    assert losses[-1] < 0.8 * losses[0]


def test_a_step_is_one_of_adam_whatever_lies_where_in_memory() -> None:
    learner = make_learner()
    torch.manual_seed(0)
    plain = build("ucc", SMALL, outputs=2, alpha=0.5)
    adam = torch.optim.Adam(plain.parameters(), lr=0.01, foreach=False, fused=False)
    for number in range(3):
        learner.learn(make_batch(number))
        adam.zero_grad()
        LOSSES["ucc"](plain, make_batch(number), 0.5).total.backward()  # type: ignore[no-untyped-call]
        adam.step()
    weight = learner.network.state_dict()["extractor.layers.1.conv1.weight"]
    assert weight.is_contiguous(memory_format=torch.channels_last)
    # Where a gradient is all but zero its sign is chance, and Adam takes it for a whole step.
    apart = torch.cat([(learner.network.state_dict()[n] - v).abs().flatten() for n, v in plain.state_dict().items()])
    assert (apart < 1e-4).float().mean() > 0.98


def test_training_losses_are_means_since_the_last_evaluation_and_none_where_undefined() -> None:
    learner, _ = make_scripted()
    for loss in (1.0, 2.0, 6.0):
        learner.learn(says(loss))
    assert learner.recent() == Means(3.0, 3.0, None, 0.25)
    told = learner.evaluate([says(5.0), says(7.0)])
    assert told == Evaluation(3, Means(3.0, 3.0, None, 0.25), Means(6.0, 6.0, None, 0.25))
    assert learner.recent() == told.train  # until there is something newer
    learner.learn(says(8.0))
    assert learner.recent().loss == 8.0
    assert learner.evaluate([]) == Evaluation(4, Means(8.0, 8.0, None, 0.25), None)


def test_the_weights_of_the_lowest_validation_loss_are_kept_and_not_the_last() -> None:
    learner, settings = make_scripted(patience=3)
    assert not learner.best_weights
    script = iter([5.0, 3.0, 4.0, 3.0, 9.0])
    weights = []
    for _ in train(learner, lambda: says(1.0), lambda: [says(next(script))], settings):
        weights.append(copied(learner.network.state_dict()))
    assert (learner.best_step, learner.best_loss) == (2, 3.0)
    assert equal(learner.best_weights, weights[1])
    assert not equal(weights[1], weights[-1])


def test_averaged_weights_are_judged_and_kept_while_the_network_goes_on_from_its_own() -> None:
    learner, plain = make_learner(averaging=0.9), make_learner()
    for number in range(5):
        learner.learn(make_batch(number))
        plain.learn(make_batch(number))
    learner.evaluate([make_batch(99)])
    assert equal(learner.network.state_dict(), plain.network.state_dict())
    assert not equal(learner.best_weights, learner.network.state_dict())


def test_training_stops_once_the_loss_has_not_fallen_for_as_many_evaluations_as_patience() -> None:
    learner, settings = make_scripted(patience=3)
    told = follow(learner, settings, [5.0, 6.0, 6.0, 4.0, 4.0, 9.0, 5.0, 1.0])
    assert len(told) == learner.step == 7  # the 1.0 is never reached
    assert (learner.best_step, learner.best_loss, learner.stale) == (4, 4.0, 3)


def test_training_ends_with_its_steps_and_an_evaluation() -> None:
    learner = make_learner("autoencoder", steps=7, evaluate_every=3)
    told = list(train(learner, lambda: make_batch(0), lambda: [make_batch(1)], learner._settings))
    assert [evaluation.step if evaluation else None for evaluation in told] == [None, None, 3, None, None, 6, 7]
    assert list(train(learner, lambda: make_batch(0), list, learner._settings)) == []


def test_without_validation_the_last_weights_are_kept_and_all_steps_taken() -> None:
    learner = make_learner(steps=6, evaluate_every=2, patience=1)
    told = list(train(learner, lambda: make_batch(0), list, learner._settings))
    assert len(told) == 6 and all(evaluation.val is None for evaluation in told if evaluation)
    assert (learner.best_step, learner.stale) == (6, 0)
    assert equal(learner.best_weights, learner.network.state_dict())
    learner.learn(make_batch(1))
    assert not equal(learner.best_weights, learner.network.state_dict())  # a copy


def test_training_left_early_goes_on_where_it_stopped() -> None:
    straight, broken = make_learner(), make_learner()
    taken: list[int] = []

    def next_batch() -> Batch:
        taken.append(broken.step)
        return make_batch(broken.step)

    for _ in train(broken, next_batch, lambda: [make_batch(99)], broken._settings):
        if broken.step == 5:
            break
    assert taken == [0, 1, 2, 3, 4] and broken.step == 5
    list(train(broken, next_batch, lambda: [make_batch(99)], broken._settings))
    list(train(straight, lambda: make_batch(straight.step), lambda: [make_batch(99)], straight._settings))
    assert taken == list(range(12))
    assert equal(broken.network.state_dict(), straight.network.state_dict())


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_to_judge_teaches_nothing(norm: str) -> None:
    learner = make_learner(norm=norm)
    learner.learn(make_batch(0))
    before = copied(learner.network.state_dict())
    first, again = (learner.evaluate([make_batch(1), make_batch(2)]) for _ in range(2))
    assert equal(learner.network.state_dict(), before)
    assert first.val == again.val
    learner.learn(make_batch(1))
    assert learner.network.training


def test_to_judge_remembers_no_way_back() -> None:
    """Which would take as much memory as learning does."""
    seen = []

    def losses_of(network: nn.Module, batch: Batch, alpha: float) -> Losses:
        seen.append(torch.is_grad_enabled())
        return scripted_losses(network, batch, alpha)

    learner = Learner(Scripted(), losses_of, TRAINING, CPU)
    learner.learn(says(1.0))
    learner.evaluate([says(1.0)])
    assert seen == [True, False]


def test_the_parameters_are_counted() -> None:
    learner = make_learner("supervised", norm="batch")
    numbers = [value.numel() for name, value in learner.network.state_dict().items() if "running" not in name]
    assert learner.parameters == sum(numbers) - sum("tracked" in name for name in learner.network.state_dict())


@pytest.mark.parametrize("stop", [0, 3, 5, 8], ids=lambda step: f"stopped at step {step}")
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_a_restored_learner_goes_on_to_the_very_same_weights(norm: str, stop: int, tmp_path: Path) -> None:
    """Through the file, which keeps nothing of how tensors lie in memory."""

    def steps(learner: Learner) -> Iterator[Evaluation | None]:
        return train(learner, lambda: make_batch(learner.step), lambda: [make_batch(99)], learner._settings)

    straight, halted = (make_learner(norm=norm, averaging=0.9) for _ in range(2))
    told = list(steps(straight))
    for _ in range(stop):
        halted.learn(make_batch(halted.step))
        if halted.step % TRAINING.evaluate_every == 0:
            halted.evaluate([make_batch(99)])
    resume_state.write(tmp_path, *halted.state())

    torch.manual_seed(77)
    restored = Learner(
        build("ucc", dataclasses.replace(SMALL, norm=norm), outputs=2, alpha=0.5), LOSSES["ucc"], halted._settings, CPU
    )
    saved = resume_state.read(tmp_path)
    assert saved is not None
    restored.restore(*saved)
    assert restored.step == stop
    assert equal(restored.network.state_dict(), halted.network.state_dict())
    assert equal(restored.best_weights, halted.best_weights)

    assert list(steps(restored)) == told[stop:]  # losses to the last digit
    assert equal(restored.network.state_dict(), straight.network.state_dict())
    assert equal(restored.best_weights, straight.best_weights)
    assert (restored.best_step, restored.best_loss, restored.stale) == (
        straight.best_step,
        straight.best_loss,
        straight.stale,
    )


def test_patience_and_the_best_are_remembered() -> None:
    learner, settings = make_scripted(patience=3)
    script = iter([3.0, 5.0, 5.0])
    for _ in range(3):
        learner.learn(says(1.0))
        learner.evaluate([says(next(script))])
    numbers, tensors = learner.state()
    other, _ = make_scripted(patience=3)
    other.restore(json.loads(json.dumps(numbers)), copied(tensors))
    assert (other.best_step, other.best_loss, other.stale) == (1, 3.0, 2)
    assert len(follow(other, settings, [4.0, 1.0])) == 1  # the third in vain
    assert equal(other.best_weights, learner.best_weights)


def test_the_moments_of_a_state_are_not_those_that_go_on() -> None:
    learner, other = make_learner(), make_learner()
    learner.learn(make_batch(0))
    numbers, tensors = learner.state()
    tensors = copied(tensors)
    before = copied(tensors)
    other.restore(numbers, tensors)
    other.learn(make_batch(1))
    assert equal(tensors, before)


def test_a_state_is_numbers_that_json_knows() -> None:
    for learner in (make_learner(), make_scripted()[0]):
        assert json.loads(json.dumps(learner.state()[0], allow_nan=False))["best_loss"] is None
    learner, _ = make_scripted()
    learner.learn(says(1.0))
    learner.evaluate([])
    assert learner.state()[0]["best_loss"] is None  # the last are the best, by no number
    other, _ = make_scripted()
    other.restore(*learner.state())
    assert other.best_loss == math.inf


@pytest.mark.parametrize("damage", ["network of another model", "no moments of a weight", "no sums", "no step"])
def test_a_state_of_something_else_is_refused(damage: str) -> None:
    learner = make_learner("unet" if damage == "network of another model" else "ucc")
    learner.learn(make_batch(0, "unet" if damage == "network of another model" else "ucc"))
    numbers, tensors = learner.state()
    if damage == "no moments of a weight":
        del tensors["adam.exp_avg.head.0.weight"]
    elif damage == "no sums":
        del tensors["sums"]
    elif damage == "no step":
        del numbers["step"]
    with pytest.raises((KeyError, TypeError, RuntimeError)):
        make_learner().restore(numbers, tensors)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_noticed_within_twenty_steps_and_names_the_step(loss: float) -> None:
    learner, _ = make_scripted(learning_rate=0.125)
    with pytest.raises(DivergedError, match=r"no longer a number at step 20; .*--learning-rate below 0.125"):
        for number in range(25):
            learner.learn(says(1.0 if number < 15 else loss))


def test_a_loss_that_is_no_number_is_noticed_before_its_weights_are_kept() -> None:
    learner, _ = make_scripted()
    learner.learn(says(1.0))
    learner.evaluate([])
    best = copied(learner.best_weights)
    learner.learn(says(math.nan))
    with pytest.raises(DivergedError, match="at step 2;"):
        learner.evaluate([])
    assert learner.best_step == 1 and equal(learner.best_weights, best)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_validation_loss_that_is_no_number_is_noticed_too(loss: float) -> None:
    """The step that broke the weights was taken on a loss that was still one."""
    learner, _ = make_scripted()
    learner.learn(says(1.0))
    with pytest.raises(DivergedError, match="at step 1;"):
        learner.evaluate([says(loss)])
    assert not learner.best_weights


def test_a_learning_rate_beyond_reason_ends_in_the_same_words() -> None:
    learner = make_learner("unet", norm="none", learning_rate=1e15)
    with pytest.raises(DivergedError, match=r"at step \d+; start anew with a --learning-rate below 1e\+15"):
        for number in range(40):
            learner.learn(make_batch(number, "unet"))


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("model", MODELS)
def test_learning_in_half_precision_works(model: str) -> None:
    learner = make_learner(model, precision="bfloat16")
    before = copied(learner.network.state_dict())
    # Some virtual machines promise oneDNN's instructions for bfloat16 and then cannot do them.
    with torch.backends.mkldnn.flags(enabled=False):
        for _ in range(10):
            learner.learn(make_batch(0, model))
        told = learner.evaluate([make_batch(0, model)])
    assert told.val is not None and told.val.loss < 0.9 * told.train.loss  # it has learnt this one batch
    after = learner.network.state_dict()
    assert {value.dtype for value in after.values()} == {torch.float32}
    assert all(value.isfinite().all() and not torch.equal(value, before[name]) for name, value in after.items())


def test_the_step_size_rises_stays_and_falls_to_nothing() -> None:
    settings = dataclasses.replace(TRAINING, learning_rate=0.5, warm_up=10, decay=0.25, steps=100)
    sizes = [training.learning_rate(step, settings) for step in range(100)]
    assert sizes[0] == pytest.approx(0.05) and sizes[4] == pytest.approx(0.25)
    assert set(sizes[9:76]) == {0.5}
    assert sizes[76] < 0.5 and sizes[99] == pytest.approx(0.5 / 25)
    assert all(one > other for one, other in pairwise(sizes[75:]))


@pytest.mark.parametrize("step", [0, 50, 99])
def test_the_step_size_is_the_same_throughout_unless_told_otherwise(step: int) -> None:
    assert training.learning_rate(step, dataclasses.replace(TRAINING, steps=100)) == TRAINING.learning_rate


def test_a_learner_takes_steps_of_the_size_of_the_moment() -> None:
    """With a slope of 1 a step of Adam is as long as the step size."""
    learner, _ = make_scripted(learning_rate=0.5, warm_up=2, decay=0.0)
    weights = [learner.network.get_parameter("weight").item()]
    for _ in range(3):
        learner.learn(says(1.0))
        weights.append(learner.network.get_parameter("weight").item())
    assert [round(one - other, 3) for one, other in pairwise(weights)] == [0.25, 0.5, 0.5]


def test_the_averaged_network_can_be_looked_at_and_is_put_back() -> None:
    learner, _ = make_scripted(learning_rate=0.5, averaging=0.9)
    for _ in range(5):
        learner.learn(says(1.0))
    own = learner.network.get_parameter("weight").item()
    with learner.averaged():
        assert own < learner.network.get_parameter("weight").item() < 10
    assert learner.network.get_parameter("weight").item() == own
