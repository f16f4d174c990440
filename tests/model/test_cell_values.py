"""A network of pixels and one of patches side by side: each cell has its share of tumour and its patch's features."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model import Unet, unet
from ucc_path.model.ucc import Extractor
from ucc_path.model.unet import CellShares, CellValues
from ucc_path.settings import ModelSettings

SMALL = ModelSettings(patch_px=16, width=4, features=5)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class FirstChannel(nn.Module):
    """In place of a Unet: the logit of a pixel is its first channel."""

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures[:, 0]


class Corners(nn.Module):
    """In place of an extractor: a patch becomes its first pixel and its last one, and it is told how many come."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def forward(self, patches: Tensor) -> Tensor:
        self.most = max(self.most, len(patches))
        return torch.stack([patches[:, 0, 0, 0], patches[:, 0, -1, -1]], dim=1)


@pytest.mark.parametrize(
    ("margin_px", "core_px", "cell_px", "patch_px"), [(8, 24, 8, 8), (8, 24, 4, 8), (8, 24, 3, 8), (7, 12, 1, 8)]
)
def test_the_patch_of_a_cell_lies_around_it(margin_px: int, core_px: int, cell_px: int, patch_px: int) -> None:
    side = 2 * margin_px + core_px + 3  # a picture may be larger still, so that it can be halved
    pictures = torch.randn(2, 1, side, side, generator=torch.Generator().manual_seed(0))
    shares = CellShares(FirstChannel(), margin_px=margin_px, core_px=core_px, cell_px=cell_px)
    found = CellValues(shares, Corners(), patch_px)(pictures)
    cells = core_px // cell_px
    assert found.shape == (2, cells, cells, 3)
    torch.testing.assert_close(found[..., :1], shares(pictures))
    before = (patch_px - cell_px) // 2
    for row in range(cells):
        for col in range(cells):
            top, left = (margin_px + cell_px * place - before for place in (row, col))
            corners = pictures[:, 0, top, left], pictures[:, 0, top + patch_px - 1, left + patch_px - 1]
            assert torch.equal(found[:, row, col, 1:], torch.stack(corners, dim=1))


def test_of_a_fine_mask_a_few_patches_are_looked_at_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unet, "_PATCHES_AT_ONCE", 100)
    corners, pictures = Corners(), torch.randn(1, 1, 48, 48)
    shares = CellShares(FirstChannel(), margin_px=8, core_px=32, cell_px=1)
    found = CellValues(shares, corners, 8)(pictures)
    assert corners.most == 96  # of 1,024: three rows of 32
    assert torch.equal(found[0, ..., 1], pictures[0, 0, 5:37, 5:37])


def test_it_says_what_both_networks_say_by_themselves() -> None:
    torch.manual_seed(0)
    pixels, extractor = Unet(SMALL).eval(), Extractor(SMALL).eval()
    shares = CellShares(pixels, margin_px=8, core_px=32, cell_px=16)
    pictures = torch.randn(2, 3, 48, 48)
    with torch.no_grad():
        found = CellValues(shares, extractor, 16)(pictures)
        patches = pictures[:, :, 8:40, 8:40].reshape(2, 3, 2, 16, 2, 16).permute(0, 2, 4, 1, 3, 5)
        features = extractor(patches.reshape(8, 3, 16, 16)).view(2, 2, 2, 5)
        torch.testing.assert_close(found[..., 1:], features)
        torch.testing.assert_close(found[..., :1], shares(pictures))
    assert found.dtype == torch.float32
