"""Bags from tiles in which every pixel tells where it came from: its tile, its row and its column are its colour."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.bags import Bags, BagSampler, TileSet
from ucc_path.errors import DatasetError
from ucc_path.settings import ModelSettings, TrainingSettings

MODEL = ModelSettings(patch_px=8)  # cells of 2 px
TRAINING = TrainingSettings(bag_size=6, stain_jitter=0.0)
SIDE = 64  # 8 x 8 patches
TILES = 10
NAMES = ("ucc 1", "ucc 2")


def make_tiles(labels: Sequence[int] = (0, 1) * (TILES // 2), *, side: int = SIDE) -> TileSet:
    """Tiles whose pixel (row, col) of tile t is coloured (t, row, col); all tissue."""
    images = np.empty((len(labels), side, side, 3), np.uint8)
    images[..., 0] = np.arange(len(labels))[:, None, None]
    images[..., 1] = np.arange(side)[:, None]
    images[..., 2] = np.arange(side)
    tissue = np.ones((len(labels), side // 2, side // 2), bool)
    # A tile's standard is its number, so that it can be told which tile's was taken.
    standard = np.eye(3, 4, dtype=np.float32) * np.arange(1, 1 + len(labels), dtype=np.float32)[:, None, None]
    return TileSet(images, None, tissue, np.array(labels, np.int64), standard)


def make_sampler(
    tiles: TileSet | None = None,
    *,
    names: Sequence[str] = NAMES,
    augmented: bool = True,
    purpose: str = "train",
    model: ModelSettings = MODEL,
    **training: object,
) -> BagSampler:
    return BagSampler(
        make_tiles() if tiles is None else tiles,
        model,
        dataclasses.replace(TRAINING, **training),  # type: ignore[arg-type]
        purpose=purpose,
        label_names=names,
        augmented=augmented,
    )


def corners(bags: Bags) -> NDArray[np.int64]:
    """Where each patch was cut, (bags, bag_size, 2), however it was turned."""
    return np.asarray(bags.patches[..., 1:].min(axis=(2, 3)), np.int64)


def same(one: Bags, other: Bags, rows: slice = slice(None)) -> bool:
    """Whether `one` is these rows of the other."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(Bags)]
    return all(a is b is None or (a.dtype == b.dtype and np.array_equal(a, b[rows])) for a, b in pairs)


def test_a_bag_is_whole_and_different_patches_of_one_tile_with_its_label() -> None:
    tiles = make_tiles()
    bags = make_sampler(tiles).draw(0, 8)
    assert bags.patches.shape == (8, 6, 8, 8, 3)
    for patches, label, tile, places in zip(bags.patches, bags.labels, bags.tiles, corners(bags), strict=True):
        assert np.unique(patches[..., 0]).tolist() == [tile]
        assert tiles.labels[tile] == label
        assert len({tuple(place) for place in places}) == 6
        for patch, (row, col) in zip(patches, places, strict=True):
            pixels = {(int(r), int(c)) for r, c in patch[..., 1:].reshape(-1, 2)}
            assert pixels == {(row + r, col + c) for r in range(8) for c in range(8)}


def test_without_augmentation_patches_lie_on_the_grid_and_are_cut_as_they_are() -> None:
    for sampler in (make_sampler(augmented=False), make_sampler(augment=False)):
        tiles = make_tiles()
        bags = sampler.draw(3, 10)
        assert (corners(bags) % 8 == 0).all()
        for tile, patches, places in zip(bags.tiles, bags.patches, corners(bags), strict=True):
            for patch, (row, col) in zip(patches, places, strict=True):
                assert np.array_equal(patch, tiles.images[tile, row : row + 8, col : col + 8])


def test_every_patch_of_the_grid_is_drawn_in_time() -> None:
    sampler = make_sampler(augmented=False)
    places = np.concatenate([corners(sampler.draw(number, 20)).reshape(-1, 2) for number in range(20)])
    assert len(np.unique(places, axis=0)) == 64


def test_augmented_grids_are_shifted_by_cells_and_stay_inside_the_tile() -> None:
    sampler = make_sampler()
    bags = [sampler.draw(number, 20) for number in range(20)]
    places = np.concatenate([corners(drawn) for drawn in bags])  # (bags, bag_size, 2)
    shifts = places % 8
    assert (shifts == shifts[:, :1]).all()  # one for the whole bag
    assert {tuple(shift) for shift in shifts[:, 0]} == {(row, col) for row in (0, 2, 4, 6) for col in (0, 2, 4, 6)}
    assert places.min() == 0 and places.max() == SIDE - 8


def test_augmented_patches_are_turned_in_all_eight_ways_alike() -> None:
    sampler = make_sampler()
    ways = []
    for number in range(20):
        patches = sampler.draw(number, 20).patches.reshape(-1, 8, 8, 3)[..., 1:].astype(int)
        # The steps from the first pixel to the right and down tell how a patch was laid.
        ways += [tuple(np.concatenate([p[0, 1] - p[0, 0], p[1, 0] - p[0, 0]])) for p in patches]
    found, counts = np.unique(ways, axis=0, return_counts=True)
    assert len(found) == 8
    assert counts.min() > 0.8 * len(ways) / 8


def test_a_shifted_grid_with_too_little_tissue_gives_way_to_the_unshifted_one() -> None:
    tiles = make_tiles(side=24)  # 9 patches; 6 or 4 where shifted
    places = corners(make_sampler(tiles, bag_size=9).draw(0, 40))
    assert (places % 8 == 0).all()
    shifted = corners(make_sampler(tiles, bag_size=6).draw(0, 40)) % 8
    assert {tuple(shift) for shift in shifted[:, 0]} == {
        (0, 0),
        *((0, n) for n in (2, 4, 6)),
        *((n, 0) for n in (2, 4, 6)),
    }


def test_only_patches_of_tissue_are_drawn() -> None:
    tiles = make_tiles()
    tiles.tissue[:, :, 14:] = False  # from column 28 on: the patch at 24 is half tissue, at 26 a quarter
    for augmented in (False, True):
        sampler = make_sampler(tiles, augmented=augmented)
        places = np.concatenate([corners(sampler.draw(number, 20)).reshape(-1, 2) for number in range(10)])
        assert places[:, 1].max() == 24
    strict = np.concatenate(
        [
            corners(make_sampler(tiles, augmented=False, min_tissue=0.75).draw(number, 20)).reshape(-1, 2)
            for number in range(10)
        ]
    )
    assert strict[:, 1].max() == 16


def test_a_tile_without_tissue_for_a_bag_is_never_drawn() -> None:
    tiles = make_tiles()
    tiles.tissue[3] = False
    tiles.tissue[3, :4, :20] = True  # 5 patches
    tiles.tissue[4] = False
    tiles.tissue[4, :4, :24] = True  # 6 patches
    sampler = make_sampler(tiles)
    assert sampler.usable.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert set(sampler.draw(0, 40).tiles.tolist()) == set(sampler.usable.tolist())


def test_a_tile_without_a_label_is_drawn_only_where_labels_do_not_matter() -> None:
    tiles = make_tiles([0, -1, 1, 0, -1, 1])
    assert make_sampler(tiles).usable.tolist() == [0, 2, 3, 5]
    unlabelled = make_sampler(tiles, names=())
    assert unlabelled.usable.tolist() == [0, 1, 2, 3, 4, 5]
    bags = unlabelled.draw(0, 6)
    assert sorted(bags.tiles.tolist()) == [0, 1, 2, 3, 4, 5]
    assert bags.labels.tolist() == [-1] * 6


def test_the_same_step_has_the_same_bags_however_often_and_in_which_order_it_is_drawn() -> None:
    sampler = make_sampler(stain_jitter=0.1)
    first = sampler.draw(7, 6)
    sampler.draw(8, 6)
    assert same(sampler.draw(7, 6), first)
    assert same(make_sampler(stain_jitter=0.1).draw(7, 6), first)


def test_another_step_seed_or_purpose_has_other_bags() -> None:
    bags = make_sampler().draw(7, 6)
    others = [make_sampler().draw(8, 6), make_sampler(seed=1).draw(7, 6), make_sampler(purpose="val").draw(7, 6)]
    assert not any(np.array_equal(other.patches, bags.patches) for other in others)


@pytest.mark.parametrize("part", [slice(0, 4), slice(4, 11), slice(1, None, 3), slice(5, 5)])
@pytest.mark.parametrize("augmented", [False, True])
def test_a_part_is_those_rows_of_the_whole(part: slice, augmented: bool) -> None:
    tiles = make_tiles()
    masked = dataclasses.replace(tiles, masks=np.random.default_rng(0).random(tiles.images.shape[:3]) < 0.5)
    sampler = make_sampler(masked, augmented=augmented, stain_jitter=0.1)
    assert same(sampler.draw(2, 11, part), sampler.draw(2, 11), part)


def test_labels_take_turns_and_a_remainder_favours_each_in_its_turn() -> None:
    even = make_sampler()
    assert even.draw(1, 6).labels.tolist() == even.draw(2, 6).labels.tolist() == [0, 1, 0, 1, 0, 1]
    three = make_sampler(make_tiles([0, 1, 2] * 3), names=("a", "b", "c"))
    assert [three.draw(number, 4).labels.tolist() for number in range(4)] == [
        [0, 1, 2, 0],
        [1, 2, 0, 1],
        [2, 0, 1, 2],
        [0, 1, 2, 0],
    ]
    drawn = np.concatenate([three.draw(number, 5).labels for number in range(30)])
    assert np.bincount(drawn).tolist() == [50, 50, 50]


def test_labels_are_balanced_however_rare_one_is() -> None:
    bags = make_sampler(make_tiles([0] * 9 + [1])).draw(0, 20)
    assert np.bincount(bags.labels).tolist() == [10, 10]
    assert (bags.tiles[bags.labels == 1] == 9).all()


def test_no_tile_is_drawn_twice_while_there_are_others() -> None:
    assert sorted(make_sampler().draw(0, TILES).tiles.tolist()) == list(range(TILES))
    for number in range(20):
        assert len(np.unique(make_sampler().draw(number, 8).tiles)) == 8
        counts = np.bincount(make_sampler().draw(number, 2 * TILES + 4).tiles, minlength=TILES)
        assert set(counts.tolist()) == {2, 3}


def test_a_patch_is_tumour_where_at_least_half_of_it_is() -> None:
    tiles = make_tiles()
    masks = np.zeros((TILES, SIDE, SIDE), np.uint8)
    masks[:, :12] = 255  # the first row of patches is tumour, of the second just half
    masks[:, 8:12, 0] = 0  # and of its first patch, a little less
    bags = make_sampler(dataclasses.replace(tiles, masks=masks), augmented=False).draw(0, 40)
    assert bags.tumour is not None
    row, col = corners(bags).transpose(2, 0, 1)
    assert np.array_equal(bags.tumour, (row == 0) | ((row == 8) & (col > 0)))
    assert 0 < bags.tumour.mean() < 1
    shifted = make_sampler(dataclasses.replace(tiles, masks=masks)).draw(0, 40)
    row, col = corners(shifted).transpose(2, 0, 1)
    assert shifted.tumour is not None and np.array_equal(shifted.tumour, (row < 8) | ((row == 8) & (col > 0)))


def test_without_masks_tumour_is_not_known() -> None:
    assert make_sampler().draw(0, 2).tumour is None


def test_every_bag_has_its_own_stain_only_when_augmented_with_jitter() -> None:
    stain = make_sampler(stain_jitter=0.1).draw(0, 6).stain
    assert stain is not None and stain.shape == (6, 3, 4)
    assert len(np.unique(stain, axis=0)) == 6
    unturned = make_sampler(stain_jitter=0.1, augment=False).draw(0, 6).stain
    assert unturned is not None and len(np.unique(unturned, axis=0)) == 6


@pytest.mark.parametrize("changes", [{"stain_jitter": 0.0}, {"stain_jitter": 0.1, "augmented": False}])
def test_without_jitter_a_bag_has_the_standard_of_its_tile(changes: dict[str, Any]) -> None:
    bags = make_sampler(**changes).draw(0, 6)
    assert bags.stain is not None
    assert np.array_equal(bags.stain, np.eye(3, 4) * (1 + bags.tiles)[:, None, None])


def test_pictures_without_colours_are_drawn_and_have_no_stain() -> None:
    tiles = make_tiles()
    grey = dataclasses.replace(tiles, images=tiles.images[..., 1:2])
    bags = make_sampler(
        dataclasses.replace(grey, standard=None), model=dataclasses.replace(MODEL, channels=1), stain_jitter=0.1
    ).draw(0, 4)
    assert bags.patches.shape == (4, 6, 8, 8, 1)
    assert bags.stain is None


def test_bags_are_the_same_from_a_memory_map_and_leave_it_alone(tmp_path: Path) -> None:
    tiles = make_tiles()
    np.save(tmp_path / "images.npy", tiles.images)
    mapped = dataclasses.replace(tiles, images=np.load(tmp_path / "images.npy", mmap_mode="r"))
    assert same(make_sampler(mapped).draw(0, 6), make_sampler(tiles).draw(0, 6))
    assert np.array_equal(mapped.images, make_tiles().images)


def test_tiles_whose_side_is_no_multiple_of_a_patch_are_drawn_to_their_last_cell() -> None:
    tiles = make_tiles(side=29)  # 14 cells: 3 patches on the grid, and up to 2 cells of shift keep 3
    places = np.concatenate([corners(make_sampler(tiles).draw(number, 20)).reshape(-1, 2) for number in range(10)])
    assert places.max() == 20


def test_tiles_too_small_for_a_bag_are_refused() -> None:
    message = (
        r"^tiles of 16 px hold 4 patches of 8 px, fewer than a bag of 6; "
        r"use larger tiles \(--tile-px\) or a smaller bag \(--bag-size\)$"
    )
    with pytest.raises(DatasetError, match=message):
        make_sampler(make_tiles(side=16))


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (
            [0, 0],
            NAMES,
            r"^there are no train tiles labelled ucc 2; training needs tiles of ucc 1 and ucc 2: add slides",
        ),
        ([1, -1], NAMES, r"^there are no train tiles labelled ucc 1; .* or labels in labels.csv$"),
        ([], (), r"^there are no train tiles; make the data set anew from more slides with ucc-path tile$"),
    ],
)
def test_a_label_without_tiles_is_refused(labels: list[int], names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        make_sampler(make_tiles(labels), names=names)


def test_tiles_of_a_label_that_all_have_too_little_tissue_are_refused() -> None:
    tiles = make_tiles()
    tiles.tissue[1::2] = False
    message = (
        r"^none of the 5 train tiles labelled ucc 2 has the 6 patches of a bag that are at least 0\.5 tissue; "
        r"use a smaller bag \(--bag-size\), or lower min_tissue under \[training\] in the settings file$"
    )
    with pytest.raises(DatasetError, match=message):
        make_sampler(tiles)
    tiles.tissue[:] = False
    with pytest.raises(DatasetError, match=r"^none of the 10 train tiles has the 6 patches"):
        make_sampler(tiles, names=())


def test_tiles_of_other_channels_than_the_model_takes_are_refused() -> None:
    message = r"^the train tiles have 3 channels and the model takes 1; set channels = 3 under \[model\]"
    with pytest.raises(DatasetError, match=message):
        make_sampler(model=dataclasses.replace(MODEL, channels=1))


def test_tissue_made_for_another_patch_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match=r"cells is not of tiles of 64 px for 16 px"):
        make_sampler(model=dataclasses.replace(MODEL, patch_px=16))
