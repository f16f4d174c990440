"""Tiles unpacked into arrays."""

from __future__ import annotations

import dataclasses
import os
import resource
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from conftest import GLASS, TISSUE

from ucc_path.errors import DatasetError, OutputError
from ucc_path.formats import png, tile_store
from ucc_path.formats.tiles_csv import TileRow, image_path, mask_path
from ucc_path.settings import TissueSettings

SIDE = 128
ROW = TileRow("t", "s", "train", 0, 0, SIDE, 1.0, 0.5, "mixture", 2)


def make_dataset(dataset: Path, count: int = 7) -> list[TileRow]:
    """Tiles of tissue in their left half, of noise in which no two are alike; each mask begins at its own row."""
    rows = [dataclasses.replace(ROW, tile_id=f"t{n}", x_l0=n * SIDE) for n in range(count)]
    for n, row in enumerate(rows):
        pixels = np.full((SIDE, SIDE, 3), GLASS, np.int16)
        pixels[:, : SIDE // 2] = TISSUE
        pixels += np.random.default_rng(n).integers(-6, 7, pixels.shape, np.int16)
        mask = np.zeros((SIDE, SIDE), np.uint8)
        mask[n:] = 255
        for path, picture in ((image_path(dataset, row), pixels.astype(np.uint8)), (mask_path(dataset, row), mask)):
            path.parent.mkdir(parents=True, exist_ok=True)
            png.write(path, picture)
    return rows


def steps_of(
    folder: Path, dataset: Path, rows: Sequence[TileRow], *, split: str = "train", with_masks: bool = True
) -> Iterator[int]:
    return tile_store.write(
        folder, dataset, rows, split=split, patch_px=32, tissue=TissueSettings(), with_masks=with_masks
    )


def write(
    folder: Path, dataset: Path, rows: Sequence[TileRow], *, split: str = "train", with_masks: bool = True
) -> list[int]:
    return list(steps_of(folder, dataset, rows, split=split, with_masks=with_masks))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_unpacked_is_read_back_in_the_order_of_the_rows(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d")[::-1]
    assert write(tmp_path / "store", tmp_path / "d", rows) == [1, 2, 3, 4, 5, 6, 7]
    labels = np.arange(7)
    tiles = tile_store.read(tmp_path / "store", "train", labels)
    for tile, row in enumerate(rows):
        assert np.array_equal(tiles.images[tile], png.read(image_path(tmp_path / "d", row)))
        assert tiles.masks is not None
        assert np.array_equal(tiles.masks[tile], png.read(mask_path(tmp_path / "d", row)) == 255)
    assert tiles.tissue.shape == (7, 16, 16)
    assert tiles.tissue[:, :, :7].all() and not tiles.tissue[:, :, 10:].any()
    assert tiles.labels is labels
    assert names(tmp_path / "store") == ["train_images.npy", "train_levels.npy", "train_masks.npy", "train_tissue.npy"]


def test_the_arrays_are_mapped_cannot_be_changed_and_are_plain_npy(tmp_path: Path) -> None:
    write(tmp_path / "store", tmp_path / "d", make_dataset(tmp_path / "d", 2))
    tiles = tile_store.read(tmp_path / "store", "train")
    assert tiles.labels.tolist() == [-1, -1]
    for array in (tiles.images, tiles.masks, tiles.tissue):
        assert isinstance(array, np.memmap) and not array.flags.writeable
    assert [array.dtype.name for array in (tiles.images, tiles.tissue)] == ["uint8", "bool"]
    plain = np.load(tmp_path / "store" / "train_images.npy", allow_pickle=False)
    assert np.array_equal(plain, tiles.images)


def test_splits_stand_side_by_side(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d", 3)
    write(tmp_path / "store", tmp_path / "d", rows)
    assert not tile_store.is_whole(tmp_path / "store", "val")
    val = [dataclasses.replace(row, split="val") for row in rows[:1]]
    (tmp_path / "d" / "images" / "val").symlink_to(tmp_path / "d" / "images" / "train")
    write(tmp_path / "store", tmp_path / "d", val, split="val", with_masks=False)
    assert len(tile_store.read(tmp_path / "store", "val").images) == 1
    assert len(tile_store.read(tmp_path / "store", "train").images) == 3
    assert tile_store.is_whole(tmp_path / "store", "val")


def test_masks_are_left_out_unless_asked_for_and_old_ones_do_not_stay(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d", 2)
    write(tmp_path / "store", tmp_path / "d", rows)
    write(tmp_path / "store", tmp_path / "d", rows, with_masks=False)
    assert tile_store.read(tmp_path / "store", "train").masks is None
    assert names(tmp_path / "store") == ["train_images.npy", "train_levels.npy", "train_tissue.npy"]


def test_a_store_that_is_left_half_way_leaves_nothing(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d")
    write(tmp_path / "store", tmp_path / "d", rows)
    steps = steps_of(tmp_path / "store", tmp_path / "d", rows)
    assert next(steps) == 1
    assert not tile_store.is_whole(tmp_path / "store", "train")
    steps.close()  # type: ignore[attr-defined]
    assert names(tmp_path / "store") == []


def damage(data: bytes) -> bytes:
    return data[:300] + bytes([data[300] ^ 255]) + data[301:]


def noise(*shape: int, dtype: type = np.uint8) -> bytes:
    return bytes(imagecodecs.png_encode(np.random.default_rng(0).integers(0, 256, shape).astype(dtype)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", r"t3\.png is not a PNG; make the data set anew with ucc-path tile"),
        (lambda data: b"GIF89a" + data, r"t3\.png is not a PNG"),
        (lambda data: data[: len(data) // 2], r"t3\.png is damaged \(.*\); make the data set anew with ucc-path tile"),
        (lambda data: data[:20], r"t3\.png is damaged"),
        (damage, r"t3\.png is damaged"),
        (lambda data: noise(64, 64, 3), r"t3\.png is not an RGB picture of 128 x 128 px, 8 bits a channel; make the"),
        (lambda data: noise(128, 64, 3), r"is not an RGB picture"),
        (lambda data: noise(128, 128), r"is not an RGB picture"),
        (lambda data: noise(128, 128, 4), r"is not an RGB picture"),
        (lambda data: noise(128, 128, 3, dtype=np.uint16), r"is not an RGB picture"),
    ],
    ids=["empty", "gif", "half", "header", "bit", "size", "not-square", "grey", "alpha", "16-bit"],
)
def test_an_image_that_is_not_the_tile_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    rows = make_dataset(tmp_path / "d")
    path = image_path(tmp_path / "d", rows[3])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DatasetError, match=message):
        write(tmp_path / "store", tmp_path / "d", rows)
    assert names(tmp_path / "store") == []


@pytest.mark.parametrize("path_of", [image_path, mask_path])
def test_a_missing_image_or_mask_is_refused(tmp_path: Path, path_of: Callable[[Path, TileRow], Path]) -> None:
    rows = make_dataset(tmp_path / "d", 3)
    path = path_of(tmp_path / "d", rows[1])
    path.unlink()
    with pytest.raises(DatasetError, match=r"/train/t1\.png is missing; make the data set anew with ucc-path tile"):
        write(tmp_path / "store", tmp_path / "d", rows)
    path.mkdir()
    with pytest.raises(DatasetError, match=r"t1\.png cannot be read \(Is a directory\); check the file and the disk"):
        write(tmp_path / "store", tmp_path / "d", rows)


@pytest.mark.parametrize("shape", [(64, 64), (128, 128, 3)])
def test_a_mask_of_another_size_or_in_colour_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    rows = make_dataset(tmp_path / "d", 3)
    mask_path(tmp_path / "d", rows[1]).write_bytes(noise(*shape))
    with pytest.raises(DatasetError, match=r"masks/train/t1\.png is not a grey mask of 128 x 128 px"):
        write(tmp_path / "store", tmp_path / "d", rows)
    assert write(tmp_path / "store", tmp_path / "d", rows, with_masks=False)


def test_a_picture_that_claims_to_be_huge_is_refused_by_its_header_before_it_takes_memory(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d", 1)
    path = image_path(tmp_path / "d", rows[0])
    data = path.read_bytes()
    header = b"IHDR" + struct.pack(">II", 30_000, 30_000) + data[24:29]
    path.write_bytes(data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:])
    with pytest.raises(DatasetError, match=r"is not an RGB picture of 128 x 128 px"):
        write(tmp_path / "store", tmp_path / "d", rows)


@pytest.mark.parametrize("change", [{"tile_px": 256}, {"mpp": 0.5}, {"mpp": 1.02}])
def test_tiles_that_are_not_alike_are_refused(tmp_path: Path, change: dict[str, float]) -> None:
    other = dataclasses.replace(ROW, tile_id="u", **change)  # type: ignore[arg-type]
    message = (
        rf"^the tiles are not alike: t has 128 px at 1 um/px, u has {other.tile_px} px at {other.mpp:g} um/px; "
        r"make the data set anew with ucc-path tile and one --mpp$"
    )
    with pytest.raises(DatasetError, match=message):
        write(tmp_path, tmp_path, [ROW, other])


def test_scales_that_differ_as_slides_of_one_scanner_do_are_alike() -> None:
    assert tile_store.common_scale([ROW, dataclasses.replace(ROW, mpp=1.005)]) == (SIDE, 1.0)


def test_no_tiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"^the data set has no tiles for this; make it anew with ucc-path tile"):
        write(tmp_path, tmp_path, [])


def test_a_store_with_a_file_missing_cut_or_of_other_tiles_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write(store, tmp_path / "d", make_dataset(tmp_path / "d", 3))
    with pytest.raises(DatasetError, match=r"store holds 3 train tiles, not 4 or not all of each; remove it and run"):
        tile_store.read(store, "train", np.zeros(4, np.int64))
    whole = (store / "train_images.npy").read_bytes()
    for cut in (whole[:-1], whole[:50], b""):
        (store / "train_images.npy").write_bytes(cut)
        with pytest.raises(DatasetError, match=r"train_images\.npy cannot be read \(.*\); remove .*store and run the"):
            tile_store.read(store, "train")
    (store / "train_images.npy").write_bytes(whole)
    (store / "train_tissue.npy").unlink()
    with pytest.raises(DatasetError, match=r"train_tissue\.npy cannot be read \(No such file or directory\); remove"):
        tile_store.read(store, "train")


def test_a_store_that_would_have_to_be_unpickled_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "train_images.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DatasetError, match=r"train_images\.npy cannot be read"):
        tile_store.read(tmp_path, "train")


def test_a_file_that_may_not_grow_further_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"train_images\.npy cannot be written \(File too large\); check the"):
            write(tmp_path / "store", tmp_path / "d", rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path / "store") == []


def test_the_folder_is_made_and_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    rows = make_dataset(tmp_path / "d", 1)
    assert list(steps_of(tmp_path / "new" / "store", tmp_path / "d", rows)) == [1]
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file cannot be written \(File exists\)"):
        next(steps_of(tmp_path / "file", tmp_path / "d", rows))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB, where we may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, small_disk: Path) -> None:
    rows = make_dataset(tmp_path / "d")
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\); make room on the disk"):
        write(small_disk, tmp_path / "d", rows)
    assert names(small_disk) == []
