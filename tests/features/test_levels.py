"""Bytes by a table: what a network takes is what it was trained with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.features.levels import FromLevels, table_of
from ucc_path.model.preparing import Preparation
from ucc_path.stain import standard_of


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_pictures(channels: int = 3, count: int = 3) -> NDArray[np.uint8]:
    """With every level in them, black too, which has no finite density of its own."""
    pictures = np.random.default_rng(0).integers(0, 256, (count, 16, 16, channels), np.uint8)
    pictures[0] = np.arange(256).reshape(16, 16, 1)
    return pictures


def make_preparation(colours: str, channels: int = 3) -> Preparation:
    return Preparation(colours, (0.2, 0.3, 0.4)[:channels], (0.15, 0.2, 0.25)[:channels])


def make_standard() -> NDArray[np.float32]:
    levels = np.random.default_rng(0).integers(0, 1000, (3, 256)) * np.arange(256)
    return standard_of(levels.astype(np.int64))


def seen_by_network(preparation: Preparation, stain: NDArray[np.float32] | None, channels: int = 3) -> Tensor:
    pictures = torch.from_numpy(make_pictures(channels))
    table = torch.from_numpy(table_of(preparation, stain, channels))
    result: Tensor = FromLevels(nn.Identity(), channels)(pictures, table)
    return result


@pytest.mark.parametrize(
    ("colours", "has_stain", "channels"),
    [("light", False, 3), ("light", False, 1), ("slide", False, 3), ("slide", True, 3)],
)
def test_a_network_is_given_what_it_was_trained_with(colours: str, has_stain: bool, channels: int) -> None:
    preparation, stain = make_preparation(colours, channels), make_standard() if has_stain else None
    pictures = make_pictures(channels)
    each = None if stain is None else torch.from_numpy(np.repeat(stain[None], len(pictures), axis=0))
    wanted = preparation(torch.from_numpy(pictures), each)
    found = seen_by_network(preparation, stain, channels)
    assert found.shape == (3, channels, 16, 16)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_the_stain_of_a_slide_changes_what_is_seen() -> None:
    preparation = make_preparation("slide")
    assert (seen_by_network(preparation, make_standard()) - seen_by_network(preparation, None)).abs().max() > 0.1


def test_a_table_has_the_levels_of_one_channel_after_the_other() -> None:
    table = table_of(Preparation("light", (0.0, 0.0, 0.0), (1.0, 0.5, 0.1)), None, 3)
    level = np.arange(256, dtype=np.float32) / 255
    assert table.dtype == np.float32
    np.testing.assert_allclose(table.reshape(3, 256), [level, 2 * level, 10 * level], rtol=1e-6)


def test_a_network_is_given_channels_last_in_memory_without_a_copy() -> None:
    assert seen_by_network(make_preparation("light"), None).is_contiguous(memory_format=torch.channels_last)


def test_what_the_network_says_is_passed_on() -> None:
    class Sums(nn.Module):
        def forward(self, pictures: Tensor) -> Tensor:
            return pictures.sum(dim=(1, 2, 3))

    pictures, table = torch.from_numpy(make_pictures()), torch.arange(768, dtype=torch.float32) % 256
    torch.testing.assert_close(FromLevels(Sums(), 3)(pictures, table), pictures.float().sum(dim=(1, 2, 3)))
