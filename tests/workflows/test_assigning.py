"""Centres or the head: the one that is more often right on pure tiles, both by construction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.bags import TileSet
from ucc_path.model import UCC
from ucc_path.model.preparing import Preparation
from ucc_path.settings import ModelSettings
from ucc_path.tiles.labelling import KINDS
from ucc_path.workflows.train import assigning
from ucc_path.workflows.train.assigning import Assignment, compare_assignments

SETTINGS = ModelSettings(patch_px=16, features=1, pooling="average", hidden=())
PATCHES = 6  # along the side of a tile
PALE, DARK = 230, 25
CENTRES = np.array([[PALE], [DARK]], np.float32) / 255  # normal tissue is pale here
NORMAL, METASTASES, NO_CLASS = 0, 1, -1


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Brightness(nn.Module):
    """In place of an extractor: the one feature of a patch is how bright it is."""

    def forward(self, patches: Tensor) -> Tensor:
        return patches.mean(dim=(1, 2, 3))[:, None]


def make_network(*, is_right: bool = True, outputs: int = 3) -> UCC:
    """Its head takes bright bags for normal and dark ones for metastases, or the other way round."""
    network = UCC(SETTINGS, outputs=outputs, with_decoder=False)
    network.extractor = Brightness()  # type: ignore[assignment]
    last = network.head[-1]
    assert isinstance(last, nn.Linear)
    slope = torch.tensor([[20.0], [-20.0], [0.0]])[:outputs] * (1 if is_right else -1)
    with torch.no_grad():
        last.weight.copy_(slope)
        last.bias.copy_(-0.5 * slope[:, 0])
    return network


def make_tile(kind: int, wrong: int = 0) -> NDArray[np.uint8]:
    """A tile all of one class, of which so many patches look like the other one, each of them alone."""
    levels = np.full((PATCHES, PATCHES), (PALE, DARK)[kind], np.uint8)
    places = [(row, col) for row in range(1, PATCHES, 2) for col in range(1, PATCHES, 2)]
    for row, col in places[:wrong]:
        levels[row, col] = (DARK, PALE)[kind]
    return np.repeat(np.kron(levels, np.ones((16, 16), np.uint8))[..., None], 3, axis=2)


def make_tiles(*tiles: NDArray[np.uint8]) -> TileSet:
    tissue = np.ones((len(tiles), 4 * PATCHES, 4 * PATCHES), np.bool_)
    return TileSet(np.stack(tiles), None, tissue, np.full(len(tiles), -1))


def compare(
    tiles: TileSet,
    *kinds: int,
    network: UCC | None = None,
    labels: tuple[str, ...] = KINDS,
    centres: NDArray[np.float32] = CENTRES,
) -> Assignment | None:
    return compare_assignments(
        network or make_network(),
        labels,
        centres,
        tiles,
        np.array(kinds),
        SETTINGS,
        Preparation("light", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        torch.device("cpu"),
        min_tissue=0.5,
    )


def test_the_head_is_better_where_neighbours_correct_patches_that_look_like_the_other_class() -> None:
    found = compare(make_tiles(make_tile(NORMAL, 9), make_tile(METASTASES, 9)), NORMAL, METASTASES)
    assert found is not None and found.chosen == "head"
    assert found.shares == {"centroids": 0.75, "head": 1.0}


def test_centres_are_kept_where_the_head_is_no_better() -> None:
    found = compare(make_tiles(make_tile(NORMAL), make_tile(METASTASES)), NORMAL, METASTASES)
    assert found == Assignment("centroids", {"centroids": 1.0, "head": 1.0})


def test_centres_are_better_than_a_head_that_is_wrong() -> None:
    tiles, network = make_tiles(make_tile(NORMAL), make_tile(METASTASES)), make_network(is_right=False)
    found = compare(tiles, NORMAL, METASTASES, network=network)
    assert found == Assignment("centroids", {"centroids": 1.0, "head": 0.0})


def test_both_classes_count_alike_however_many_tiles_they_have() -> None:
    """Centres that take everything for normal are right on three tiles of four, and on one class of two."""
    tiles = make_tiles(*(make_tile(NORMAL) for _ in range(3)), make_tile(METASTASES))
    found = compare(tiles, NORMAL, NORMAL, NORMAL, METASTASES, centres=np.array([[0.5], [9.0]], np.float32))
    assert found == Assignment("head", {"centroids": 0.5, "head": 1.0})


def test_tiles_of_no_class_are_not_asked() -> None:
    tiles = make_tiles(make_tile(NORMAL), make_tile(METASTASES), make_tile(NORMAL, 9))
    found = compare(tiles, NORMAL, METASTASES, NO_CLASS)
    assert found is not None and found.shares["centroids"] == 1.0


def test_patches_that_are_not_tissue_do_not_count() -> None:
    tiles = make_tiles(make_tile(NORMAL, 9), make_tile(METASTASES), make_tile(NORMAL, 9))
    is_wrong = (tiles.images[0, ::4, ::4, 0] == DARK).reshape(24, 24)  # by cells of a quarter patch
    tiles.tissue[0] &= ~is_wrong
    tiles.tissue[2] = False  # a tile without any tissue
    found = compare(tiles, NORMAL, METASTASES, NORMAL)
    assert found is not None and found.shares == {"centroids": 1.0, "head": 1.0}


def test_of_many_tiles_some_are_asked_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "MOST_TILES", 2)
    tiles = make_tiles(make_tile(NORMAL), *(make_tile(NORMAL, 9) for _ in range(5)), make_tile(METASTASES))
    found = compare(tiles, *[NORMAL] * 6, METASTASES)
    assert found is not None and found.shares["centroids"] == (0.5 * (1.0 + 0.75) + 1.0) / 2  # the first and the last


def test_each_tile_has_the_stain_of_its_own_slide() -> None:
    """One slide is so strongly stained that all its tissue is dark: its standard makes it like the other."""
    pale = make_tiles(make_tile(NORMAL), make_tile(METASTASES))
    plain, strong = np.eye(3, 4, dtype=np.float32), np.eye(3, 4, dtype=np.float32)
    strong[:, 3] = -1.0  # of density
    images = np.concatenate([pale.images, np.maximum(1, pale.images // 10)])
    tiles = TileSet(
        images, None, np.repeat(pale.tissue, 2, axis=0), np.full(4, -1), np.stack([plain] * 2 + [strong] * 2)
    )
    density = -np.log10(np.array([[PALE], [DARK]]) / 255).astype(np.float32)
    shares = []
    for standard in (tiles.standard, np.stack([plain] * 4)):
        found = compare_assignments(
            make_network(),
            KINDS,
            density,
            TileSet(images, None, tiles.tissue, tiles.labels, standard),
            np.array([NORMAL, METASTASES] * 2),
            SETTINGS,
            Preparation("slide", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
            torch.device("cpu"),
            min_tissue=0.5,
        )
        assert found is not None
        shares.append(found.shares["centroids"])
    assert shares == [1.0, 0.75]


@pytest.mark.parametrize("kinds", [(NORMAL, NORMAL), (METASTASES, METASTASES), (NORMAL, NO_CLASS), (NO_CLASS,) * 2])
def test_without_tiles_of_both_classes_nothing_is_compared(kinds: tuple[int, ...]) -> None:
    assert compare(make_tiles(make_tile(NORMAL), make_tile(METASTASES)), *kinds) is None


def test_a_head_that_only_counts_is_not_compared() -> None:
    tiles, network = make_tiles(make_tile(NORMAL), make_tile(METASTASES)), make_network(outputs=2)
    assert compare(tiles, NORMAL, METASTASES, network=network, labels=("ucc 1", "ucc 2")) is None
