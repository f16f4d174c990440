"""Whole tiles in which every pixel tells where it came from, and whose tissue follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.bags import TileSet, WholeSampler
from ucc_path.errors import DatasetError
from ucc_path.settings import ModelSettings, TrainingSettings

SIDE, CELL = 48, 4
MODEL = ModelSettings(patch_px=16, encoder="blocks")
NAMES = ("normal", "metastases", "mixture")


def is_tissue(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """What the tissue is made by, from the first pixel of each cell: a slope that no turn maps onto itself."""
    return images[..., 1].astype(int) + 2 * images[..., 2] > 60


def make_tiles(labels: Sequence[int] = (0, 1, 2, 0, 1, 2), *, side: int = SIDE, cell: int = CELL) -> TileSet:
    """Tiles whose cell (row, col) of tile t is coloured (t, its first row, its first column)."""
    cells = side // cell
    first = np.arange(side) // cell * cell
    images = np.empty((len(labels), side, side, 3), np.uint8)
    images[..., 0] = np.arange(len(labels))[:, None, None]
    images[..., 1] = first[:, None]
    images[..., 2] = first
    tissue = is_tissue(images[:, : cells * cell : cell, : cells * cell : cell])
    standard = np.stack([np.eye(3, 4, dtype=np.float32)] * len(labels))
    return TileSet(images, None, tissue, np.array(labels, np.int64), standard)


def make_sampler(
    tiles: TileSet | None = None,
    *,
    augmented: bool = True,
    purpose: str = "train",
    model: ModelSettings = MODEL,
    **training: object,
) -> WholeSampler:
    return WholeSampler(
        make_tiles() if tiles is None else tiles,
        model,
        dataclasses.replace(TrainingSettings(stain_jitter=0.0), **training),  # type: ignore[arg-type]
        purpose=purpose,
        label_names=NAMES,
        augmented=augmented,
    )


def test_the_tissue_of_a_tile_is_turned_with_it() -> None:
    wholes = make_sampler(graft=0.0).draw(0, 60)
    assert wholes.images.shape == (60, SIDE, SIDE, 3)
    assert wholes.tissue.shape == (60, SIDE // CELL, SIDE // CELL) and wholes.tissue.dtype == np.bool_
    assert np.array_equal(wholes.tissue, is_tissue(wholes.images[:, ::CELL, ::CELL]))
    assert 0 < wholes.tissue.mean() < 1
    steps = wholes.images[:, CELL, 0, 1:].astype(int) - wholes.images[:, 0, 0, 1:]
    assert {tuple(step) for step in steps.tolist()} == {(0, CELL), (0, -CELL), (CELL, 0), (-CELL, 0)}


def test_without_augmentation_a_tile_is_as_it_is() -> None:
    tiles = make_tiles()
    for sampler in (make_sampler(tiles, augmented=False), make_sampler(tiles, augment=False)):
        wholes = sampler.draw(4, 6)
        chosen = wholes.images[:, 0, 0, 0]
        assert sorted(chosen.tolist()) == [0, 1, 2, 3, 4, 5]
        assert np.array_equal(wholes.images, tiles.images[chosen])
        assert np.array_equal(wholes.tissue, tiles.tissue[chosen])


def test_to_draw_tiles_does_not_change_them() -> None:
    tiles, untouched = make_tiles(), make_tiles()
    make_sampler(tiles).draw(0, 60)
    assert np.array_equal(tiles.images, untouched.images) and np.array_equal(tiles.tissue, untouched.tissue)


def test_there_are_as_many_tiles_of_each_label_and_each_has_its_own() -> None:
    tiles = make_tiles([0, 0, 0, 0, 1, 2, -1])
    sampler = make_sampler(tiles)
    assert sampler.usable.tolist() == [0, 1, 2, 3, 4, 5]
    wholes = sampler.draw(0, 12)
    assert np.bincount(wholes.labels).tolist() == [4, 4, 4]
    assert np.array_equal(wholes.labels, tiles.labels[wholes.images[:, 0, 0, 0]])


def test_some_pure_tiles_exchange_a_part_with_one_of_the_other_class() -> None:
    wholes = make_sampler(graft=0.5).draw(0, 60)
    has_graft = wholes.is_grafted.any(axis=(1, 2))
    assert 0 < has_graft[wholes.labels < 2].mean() < 1 and not has_graft[wholes.labels == 2].any()
    assert np.array_equal(wholes.partners != np.arange(60), has_graft)
    assert np.array_equal(wholes.partners[wholes.partners], np.arange(60))
    given = wholes.partners[has_graft]
    assert (wholes.labels[given] == 1 - wholes.labels[has_graft]).all()
    assert np.array_equal(wholes.is_grafted[given], wholes.is_grafted[has_graft])
    sizes = wholes.is_grafted[has_graft].mean(axis=(1, 2))
    assert sizes.min() > 0.2 and sizes.max() < 0.8 and len(np.unique(sizes)) > 3


def test_the_tissue_of_a_part_comes_with_it() -> None:
    wholes = make_sampler(graft=1.0).draw(0, 60)
    own = is_tissue(wholes.images[:, ::CELL, ::CELL])
    middles = wholes.is_grafted[:, CELL // 2 :: CELL, CELL // 2 :: CELL]
    assert np.array_equal(wholes.tissue, np.where(middles, own[wholes.partners], own))


def test_no_parts_are_exchanged_where_tiles_are_judged_or_it_is_not_asked_for() -> None:
    for sampler in (make_sampler(augmented=False), make_sampler(graft=0.0)):
        assert not sampler.draw(0, 60).is_grafted.any()


def test_the_same_step_has_the_same_tiles_and_another_step_seed_or_purpose_others() -> None:
    wholes = make_sampler().draw(1, 6)
    assert np.array_equal(make_sampler().draw(1, 6).images, wholes.images)
    others = [make_sampler().draw(2, 6), make_sampler(seed=1).draw(1, 6), make_sampler(purpose="val").draw(1, 6)]
    assert not any(np.array_equal(other.images, wholes.images) for other in others)


@pytest.mark.parametrize(
    ("encoder", "side", "patch_px", "expected"),
    [
        ("blocks", 48, 16, 48),
        ("blocks", 54, 16, 48),
        ("blocks", 60, 16, 56),
        ("blocks", 60, 24, 48),
        ("blocks", 100, 40, 80),
        ("lite0", 60, 16, 48),
        ("lite0", 64, 16, 64),
        ("lite0", 100, 24, 96),
        ("lite0", 100, 40, 80),
    ],
)
def test_a_tile_is_cut_to_whole_cells_that_can_be_halved_as_often_as_the_network_does(
    encoder: str, side: int, patch_px: int, expected: int
) -> None:
    model, cell = ModelSettings(patch_px=patch_px, encoder=encoder), patch_px // 4
    tiles = make_tiles(side=side, cell=cell)
    sampler = make_sampler(tiles, model=model, augmented=False)
    assert sampler.side_px == expected and expected % model.picture_multiple == 0
    wholes = sampler.draw(0, 6)
    chosen, cells = wholes.images[:, 0, 0, 0], expected // cell
    assert np.array_equal(wholes.images, tiles.images[chosen, :expected, :expected])
    assert np.array_equal(wholes.tissue, tiles.tissue[chosen, :cells, :cells])


def test_stain_is_changed_only_when_augmented_with_jitter_and_not_where_light_is_used() -> None:
    stain = make_sampler(stain_jitter=0.1).draw(0, 5).stain
    assert stain is not None and stain.shape == (5, 3, 4)
    assert not np.allclose(stain, np.eye(3, 4))
    for sampler in (make_sampler(), make_sampler(stain_jitter=0.1, augmented=False)):
        plain = sampler.draw(0, 5).stain
        assert plain is not None and np.array_equal(plain, np.stack([np.eye(3, 4)] * 5))
    assert make_sampler(dataclasses.replace(make_tiles(), standard=None), stain_jitter=0.1).draw(0, 5).stain is None


def test_a_tile_without_tissue_is_not_drawn() -> None:
    tiles = make_tiles()
    tiles.tissue[3] = False
    sampler = make_sampler(tiles)
    assert sampler.usable.tolist() == [0, 1, 2, 4, 5]
    assert 3 not in sampler.draw(0, 60).images[:, 0, 0, 0]


def test_tiles_that_cannot_be_learnt_from_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"^there are no train tiles labelled mixture; training needs tiles of"):
        make_sampler(make_tiles([0, 1]))
    tiles = make_tiles()
    tiles.tissue[[1, 4]] = False
    with pytest.raises(DatasetError, match=r"^none of the 2 val tiles labelled metastases shows tissue; look at the"):
        make_sampler(tiles, purpose="val")
    with pytest.raises(DatasetError, match=r"^the train tiles have 3 channels and the model takes 1"):
        make_sampler(model=ModelSettings(channels=1))
    with pytest.raises(DatasetError, match=r"^tiles of 36 px are smaller than 40 px; use larger tiles \(--tile-px\)$"):
        make_sampler(make_tiles(side=36, cell=10), model=ModelSettings(patch_px=40, encoder="blocks"))
    with pytest.raises(DatasetError, match=r"^tiles of 70 px are smaller than 80 px; use larger tiles \(--tile-px\)$"):
        make_sampler(make_tiles(side=70, cell=10), model=ModelSettings(patch_px=40, encoder="lite0"))


def test_tiles_to_learn_from_are_put_out_of_focus_and_those_to_judge_by_are_not() -> None:
    assert (make_sampler(blur=1.0).draw(0, 12).blur_px > 0).all()
    assert not make_sampler(augmented=False, blur=1.0).draw(0, 12).blur_px.any()
