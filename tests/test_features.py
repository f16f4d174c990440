"""Features of patches, whatever company they are in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.features import BATCH, features_of
from ucc_path.features import patches as features
from ucc_path.model.preparing import Preparation
from ucc_path.model.ucc import Extractor
from ucc_path.settings import ModelSettings
from ucc_path.stain import draw_stains

CPU = torch.device("cpu")
PREPARATION = Preparation("slide", (0.2, 0.3, 0.2), (0.2, 0.2, 0.2))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_extractor(norm: str = "group") -> Extractor:
    torch.manual_seed(0)
    return Extractor(ModelSettings(patch_px=16, width=4, features=5, norm=norm))


def make_patches(count: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), np.uint8)


class Recorder(nn.Module):
    """An extractor that remembers what it is given and answers with the mean of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []

    def forward(self, patches: Tensor) -> Tensor:
        self.given.append(patches)
        return patches.mean(dim=(2, 3))


def test_features_are_those_of_the_extractor() -> None:
    extractor, patches = make_extractor(), make_patches(5)
    found = features_of(patches, extractor, PREPARATION, CPU)
    with torch.no_grad():
        wanted = extractor.eval()(PREPARATION(torch.from_numpy(patches)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_a_patch_has_the_same_features_to_the_last_digit_in_any_company(norm: str) -> None:
    extractor, patches = make_extractor(norm), make_patches(2 * BATCH + 1)
    whole = features_of(patches, extractor, PREPARATION, CPU)
    assert whole.shape == (2 * BATCH + 1, 5)
    for count in (1, BATCH - 1, BATCH, BATCH + 1):
        assert np.array_equal(features_of(patches[:count], extractor, PREPARATION, CPU), whole[:count])
    for alone in (0, 100, BATCH, 2 * BATCH):
        assert np.array_equal(features_of(patches[alone : alone + 1], extractor, PREPARATION, CPU)[0], whole[alone])
    assert np.array_equal(features_of(patches[::-1], extractor, PREPARATION, CPU)[::-1], whole)


def test_all_batches_have_one_shape() -> None:
    recorder = Recorder()
    features_of(make_patches(BATCH + 1), recorder, PREPARATION, CPU)
    assert [given.shape for given in recorder.given] == [(BATCH, 3, 16, 16)] * 2


@pytest.mark.parametrize("count", [1, BATCH, BATCH + 3])
def test_each_patch_has_the_stain_of_its_own_slide(count: int) -> None:
    patches, stains = make_patches(count), draw_stains(np.random.default_rng(0), count, 0.8)
    found = features_of(patches, Recorder(), PREPARATION, CPU, stains)
    density = -np.log10(np.maximum(patches, 1) / 255).reshape(count, -1, 3).mean(axis=1)  # (count, channels)
    wanted = np.einsum("nij,nj->ni", stains[:, :, :3], density) + stains[:, :, 3]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_no_patches_have_no_features_but_as_many_columns() -> None:
    assert features_of(make_patches(0), make_extractor(), PREPARATION, CPU).shape == (0, 5)


def test_an_extractor_that_was_learning_is_asked_as_one_that_has_learnt() -> None:
    extractor = make_extractor("batch").train()
    before = {name: value.clone() for name, value in extractor.state_dict().items()}
    found = features_of(make_patches(3), extractor, PREPARATION, CPU)
    assert all(torch.equal(value, before[name]) for name, value in extractor.state_dict().items())
    assert np.array_equal(features_of(make_patches(3), extractor.eval(), PREPARATION, CPU), found)


def test_patches_are_prepared_in_full_precision_as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "mixed_precision", lambda device: torch.autocast(device.type, torch.bfloat16))
    recorder, stains = Recorder(), draw_stains(np.random.default_rng(0), 2, 0.1)
    features_of(make_patches(2), recorder, PREPARATION, CPU, stains)
    alone = PREPARATION(torch.from_numpy(make_patches(2)), torch.from_numpy(stains))
    assert recorder.given[0].dtype == torch.float32
    torch.testing.assert_close(recorder.given[0][:2], alone)
