"""Probabilities seen together with what lies around and looks alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.features.levels import Table
from ucc_path.features.reading import PictureShape
from ucc_path.features.smoothing import ALIKE, CELL_PX, SmoothedEngine, engine_of_shares, smoothed
from ucc_path.model.unet import CellLooks

Floats = NDArray[np.float32]
SIDE = 17
ALL = slice(0, SIDE)
TABLE = np.zeros(3 * 256, np.float32)


def make_cells(seed: int = 0) -> tuple[Floats, Floats]:
    """Logits, and looks of two channels that differ by about as much as counts."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (SIDE, SIDE)).astype(np.float32)
    return logits, rng.normal(0, ALIKE, (SIDE, SIDE, 2)).astype(np.float32)


def by_hand(logits: Floats, looks: Floats, reach: float) -> NDArray[np.float64]:
    """Cell by cell."""
    found = np.zeros(logits.shape)
    places = np.argwhere(np.ones_like(logits, np.bool_))
    for row, col in places:
        away = np.abs(places - (row, col))
        near = places[(away <= reach).all(axis=1)]
        unlike = ((looks[tuple(near.T)].astype(np.float64) - looks[row, col]) ** 2).mean(axis=1) / ALIKE**2
        weights = np.exp(-(((near - (row, col)) ** 2).sum(axis=1) / reach**2 + unlike) / 2)
        found[row, col] = (weights * logits[tuple(near.T)]).sum() / weights.sum()
    return found


@pytest.mark.parametrize("reach", [1.0, 2.5, 8.0, 30.0])
def test_a_cell_is_the_mean_of_those_around_it_by_how_near_and_how_alike_they_are(reach: float) -> None:
    logits, looks = make_cells()
    np.testing.assert_allclose(smoothed(logits, looks, reach, ALL), by_hand(logits, looks, reach), atol=1e-4)


@pytest.mark.parametrize("inner", [slice(0, 3), slice(5, 12), slice(16, 17)], ids=str)
def test_of_the_inner_cells_it_is_the_same_as_of_all(inner: slice) -> None:
    logits, looks = make_cells()
    whole = smoothed(logits, looks, 3.0, ALL)
    np.testing.assert_allclose(smoothed(logits, looks, 3.0, inner), whole[inner, inner], atol=1e-5)


def test_what_looks_otherwise_has_no_say_however_near_it_is() -> None:
    logits, looks = make_cells()
    looks[:] = 0
    looks[:, 8:] = 1.5
    logits[:, :8], logits[:, 8:] = -2, 2
    logits[3, 3] = 9  # a speck
    found = smoothed(logits, looks, 4.0, ALL)
    np.testing.assert_allclose(found[:, 8:], 2, atol=1e-5)
    assert found[:, :8].max() < -1.5


def test_what_one_is_not_sure_of_goes_along_with_what_one_is_sure_of() -> None:
    logits, looks = make_cells()
    looks[:], logits[:] = 0, -0.2
    logits[8, 8] = 8
    assert smoothed(logits, looks, 2.0, ALL)[8, 9] > 0 > smoothed(logits, looks, 2.0, ALL)[8, 12]


class Given:
    """An engine that always says the same."""

    name = "given"

    def __init__(self, found: Floats) -> None:
        self.found = found

    def __call__(self, pictures: NDArray[np.uint8], table: Table) -> Floats:
        return self.found


@pytest.mark.parametrize("cell_px", [1, 3, 8, 24, 48])
@pytest.mark.parametrize("margin_px", [16, 20, 21])
def test_between_cells_logits_rise_evenly(cell_px: int, margin_px: int) -> None:
    """Of a slope there is nothing to be smoothed but at the edges, where less lies around."""
    cells, core_px = 20, 48
    middles = (np.arange(cells) + 0.5) * CELL_PX
    logits = (0.04 * (middles[None, :] - 60)).repeat(cells, axis=0)
    found = np.zeros((1, cells, cells, 4), np.float32)
    found[0, :, :, 0] = 1 / (1 + np.exp(-logits))
    engine = SmoothedEngine(Given(found), PictureShape(core_px, margin_px, cells * CELL_PX), cell_px, 1.9 * CELL_PX)
    pixels = 0.04 * (margin_px + np.arange(core_px) + 0.5 - 60)
    truth = (1 / (1 + np.exp(-pixels))).reshape(-1, cell_px).mean(axis=1)
    shares = engine(np.zeros((1, 160, 160, 3), np.uint8), TABLE)
    assert shares.shape == (1, core_px // cell_px, core_px // cell_px, 1) and shares.dtype == np.float32
    np.testing.assert_allclose(shares[0, :, :, 0], truth[None, :].repeat(len(truth), axis=0), atol=2e-5)
    assert engine.name == "given"


def by_engine(shares: Floats, looks: Floats) -> Floats:
    """Of each cell, of pictures that are all inner part."""
    cells = len(shares)
    found = np.concatenate([shares[..., None], looks[..., None]], axis=2)[None]
    engine = SmoothedEngine(Given(found), PictureShape(cells * CELL_PX, 0, cells * CELL_PX), CELL_PX, 4.0 * CELL_PX)
    return engine(np.zeros((1, 8, 8, 1), np.uint8), TABLE)[0, :, :, 0]


def test_a_nucleus_more_or_less_makes_no_other_tissue() -> None:
    """The looks of cells are blurred a little before they are compared."""
    shares, looks = np.full((12, 12), 0.2, np.float32), np.zeros((12, 12), np.float32)
    shares[6, 6], looks[6, 6] = 0.9, 1.0
    assert by_engine(shares, looks)[6, 6] < 0.5
    looks[4:9, 4:9] = 1.0  # as large as tissue is
    shares[4:9, 4:9] = 0.9
    assert by_engine(shares, looks)[6, 6] > 0.85


def test_nothing_is_surer_than_one_in_ten_thousand() -> None:
    looks = np.zeros((12, 12), np.float32)
    for share, most in ((0.0, 1e-4), (1.0, 1 - 1e-4)):
        np.testing.assert_allclose(by_engine(np.full((12, 12), share, np.float32), looks), most, rtol=1e-3)


def test_a_picture_may_end_where_its_inner_part_does() -> None:
    found = np.full((1, 4, 4, 4), 0.25, np.float32)
    engine = SmoothedEngine(Given(found), PictureShape(32, 0, 32), 16, 20.0)
    np.testing.assert_allclose(engine(np.zeros((1, 32, 32, 3), np.uint8), TABLE), 0.25, atol=1e-6)


class FirstChannel(nn.Module):
    """In place of a Unet: the logit of a pixel is its first channel."""

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures[:, 0]


def test_cells_have_their_mean_probability_and_the_mean_of_each_channel() -> None:
    pictures = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    found = CellLooks(FirstChannel(), 8)(pictures)
    parts = torch.cat([torch.sigmoid(pictures[:, :1]), pictures], dim=1).reshape(2, 4, 4, 8, 4, 8).mean(dim=(3, 5))
    torch.testing.assert_close(found, parts.permute(0, 2, 3, 1))


@pytest.mark.parametrize(("reach_px", "kind"), [(0.0, "CellShares"), (64.0, "CellLooks")])
def test_what_is_not_to_be_smoothed_is_as_the_network_says_it(reach_px: float, kind: str) -> None:
    made: list[tuple[str, int]] = []

    def make(network: nn.Module, side_px: int) -> tuple[Given, str]:
        made.append((type(network).__name__, side_px))
        return Given(np.zeros((1, 1, 1, 4), np.float32)), "a remark"

    shape = PictureShape(32, 8, 48)
    engine, remark = engine_of_shares(FirstChannel(), shape, cell_px=8, reach_px=reach_px, make=make)
    assert made == [(kind, 48)] and remark == "a remark"
    assert isinstance(engine, SmoothedEngine) == (reach_px > 0)
