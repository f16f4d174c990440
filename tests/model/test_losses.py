"""What the models are taught by, on networks whose answers are given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model.losses import Batch, Losses, count_losses, mask_losses, patch_losses, reconstruction_losses
from ucc_path.model.recipes import LOSSES, build
from ucc_path.settings import MODELS, ModelSettings

SMALL = ModelSettings(patch_px=16, width=4, features=4, hidden=(8,))
LOG_3 = math.log(3)


class Says(nn.Module):
    """A network that answers the same, whatever it is shown."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, images: Tensor, shares: Tensor | None = None) -> Any:
        return self.answer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Some virtual machines promise its instructions for bfloat16 and then cannot do them."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def batch_for(model: str) -> Batch:
    chance = torch.Generator().manual_seed(0)
    if model == "unet":
        images = torch.randn(4, 3, 16, 16, generator=chance)
        return Batch(images, images[:, 0] > 0)
    images = torch.randn(4, 5, 3, 16, 16, generator=chance)
    return Batch(images, (images.mean(dim=(2, 3, 4)) > 0).long() if model == "supervised" else torch.tensor([0, 1] * 2))


def values(losses: Losses) -> list[float | None]:
    """As numbers, None where there is none."""
    return [None if math.isnan(loss.item()) else round(loss.item(), 6) for loss in losses]


def test_the_ucc_model_weighs_cross_entropy_and_squared_error_by_alpha() -> None:
    logits = torch.tensor([[0.0, LOG_3], [LOG_3, 0.0]])  # a quarter and three quarters
    images = torch.zeros(2, 3, 1, 2, 2)
    drawn = torch.full_like(images, 2.0)
    entropy = (math.log(4 / 3) + math.log(4)) / 2  # the first is right, the second wrong
    found = count_losses(Says((logits, drawn)), Batch(images, torch.tensor([1, 1])), 0.3)
    assert values(found) == [round(0.3 * entropy + 0.7 * 4.0, 6), round(entropy, 6), 4.0, 0.5]


def test_what_is_drawn_is_compared_with_the_first_patches_of_a_bag() -> None:
    images = torch.arange(4.0).reshape(1, 4, 1, 1, 1)
    drawn = torch.tensor([0.0, 5.0]).reshape(1, 2, 1, 1, 1)
    found = count_losses(Says((torch.zeros(1, 2), drawn)), Batch(images, torch.tensor([0])), 0.5)
    assert found.mse.item() == (0**2 + 4**2) / 2


def test_without_a_decoder_cross_entropy_is_all() -> None:
    logits = torch.tensor([[0.0, LOG_3]])
    found = count_losses(Says((logits, None)), Batch(torch.zeros(1, 3, 1, 2, 2), torch.tensor([1])), 0.3)
    assert values(found) == [round(math.log(4 / 3), 6), round(math.log(4 / 3), 6), None, 1.0]


def test_the_autoencoder_knows_squared_error_only() -> None:
    images = torch.zeros(1, 2, 1, 2, 2)
    drawn = torch.stack([torch.full((1, 2, 2), 1.0), torch.full((1, 2, 2), 3.0)])[None]
    found = reconstruction_losses(Says(drawn), Batch(images, torch.tensor([-1])), 0.3)
    assert values(found) == [5.0, None, 5.0, None]


def test_the_supervised_model_is_asked_for_the_class_of_each_patch() -> None:
    logits = torch.tensor([[[0.0, LOG_3], [LOG_3, 0.0], [0.0, LOG_3]]])
    found = patch_losses(Says(logits), Batch(torch.zeros(1, 3, 1, 2, 2), torch.tensor([[1, 0, 0]])), 0.3)
    entropy = round((2 * math.log(4 / 3) + math.log(4)) / 3, 6)
    assert values(found) == [entropy, entropy, None, round(2 / 3, 6)]


def test_the_unet_is_asked_for_each_pixel() -> None:
    logits = torch.tensor([[[LOG_3, -LOG_3], [LOG_3, LOG_3]]])
    truth = torch.tensor([[[True, False], [True, False]]])
    found = mask_losses(Says(logits), Batch(torch.zeros(1, 3, 2, 2), truth), 0.3)
    entropy = round((3 * math.log(4 / 3) + math.log(4)) / 4, 6)
    assert values(found) == [entropy, entropy, None, 0.75]


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_float32_where_the_network_is_in_half_precision(model: str) -> None:
    torch.manual_seed(0)
    network, batch = build(model, SMALL, outputs=2, alpha=0.5), batch_for(model)
    whole = LOSSES[model](network, batch, 0.5)
    with torch.autocast("cpu", torch.bfloat16):
        answer = network(batch.images)
        half = LOSSES[model](network, batch, 0.5)
    assert (answer[1] if isinstance(answer, tuple) else answer).dtype == torch.bfloat16
    assert {loss.dtype for loss in half} == {torch.float32}
    torch.testing.assert_close(half.total, whole.total, rtol=0.05, atol=0.05)
    half.total.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("ucc", (torch.zeros(4, 2), torch.zeros(4, 5, 3, 16, 16))),
        ("supervised", torch.zeros(4, 5, 2)),
        ("unet", torch.zeros(4, 16, 16)),
        ("autoencoder", torch.zeros(4, 5, 3, 16, 16)),
    ],
)
def test_answers_in_half_precision_are_judged_in_full(model: str, answer: Any) -> None:
    half = tuple(part.bfloat16() for part in answer) if isinstance(answer, tuple) else answer.bfloat16()
    whole, found = (LOSSES[model](Says(said), batch_for(model), 0.5) for said in (answer, half))
    assert {loss.dtype for loss in found} == {torch.float32}
    assert values(found) == values(whole)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
@pytest.mark.parametrize("model", MODELS)
def test_only_the_total_is_learnt_from(model: str, alpha: float) -> None:
    losses = LOSSES[model](build(model, SMALL, outputs=2, alpha=alpha), batch_for(model), alpha)
    assert [loss.requires_grad for loss in losses] == [True, False, False, False]


def test_many_bags_learn_from_the_shares_of_one_pool() -> None:
    """A target a bag, and the pool drawn again once."""
    torch.manual_seed(0)
    network = build("ucc", SMALL, outputs=2, alpha=0.5)
    images = torch.randn(1, 6, 3, 16, 16)
    shares = torch.tensor([[1 / 3] * 3 + [0] * 3, [0] * 3 + [1 / 3] * 3, [1 / 6] * 6])
    targets = torch.tensor([0, 0, 1])
    found = count_losses(network, Batch(images, targets, 1.0, shares), 0.5)
    logits, drawn = network(images, shares)
    assert logits.shape == (3, 2)
    torch.testing.assert_close(found.cross_entropy, nn.functional.cross_entropy(logits, targets))
    torch.testing.assert_close(found.mse, nn.functional.mse_loss(drawn, images))
