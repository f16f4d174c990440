"""A slide as a stream of bands: the same for any number of threads and any size of batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.features.cells import Block, CellPlan, blocks
from ucc_path.features.reading import Items
from ucc_path.features.streaming import Band, bands
from ucc_path.geometry import SizeL0

Mask = NDArray[np.bool_]
SIDE = 4  # of a picture that stands for a patch


def make_plan(rows: int = 75, cols: int = 41) -> CellPlan:
    """Bands of 16 rows; the last one is shorter."""
    return CellPlan.of(SizeL0(32 * cols, 32 * rows), 1.0, patch_px=32, stride_px=32, mpp=1.0, name="s")


def make_tissue(plan: CellPlan, share: float = 0.4) -> Mask:
    """Scattered, and none in the second and the last band."""
    is_tissue = np.random.default_rng(0).random((plan.grid.rows, plan.grid.cols)) < share
    is_tissue[16:32] = is_tissue[64:] = False
    return is_tissue


def picture_of(row: int, col: int) -> NDArray[np.uint8]:
    return np.random.default_rng([row, col]).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


def read_patches(block: Block) -> Items:
    pictures = [picture_of(row, col) for row, col in block.cells.tolist()]
    return Items(np.stack(pictures), block.cells, np.ones(len(pictures), np.bool_), 0)


def compute(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Three numbers of each picture, whatever the others are."""
    flat = pictures.reshape(len(pictures), -1).astype(np.float32)
    return np.stack([flat.sum(axis=1), flat[:, 0], flat[:, -1]], axis=1)


def stream(
    plan: CellPlan,
    is_tissue: Mask,
    read: Callable[[Block], Items] = read_patches,
    work: Callable[[NDArray[np.uint8]], NDArray[np.float32]] = compute,
    **how: object,
) -> Iterator[Band]:
    settings = {"batch_size": 7, "readers": 2, "threads": 2, **how}
    return bands(plan, blocks(plan, is_tissue), read, work, **settings)  # type: ignore[arg-type]


def check_are_all(found: list[Band], plan: CellPlan, is_there: Mask) -> None:
    """Bands in order, to the last row of the slide, with the values of the pictures and of no others."""
    rows = plan.grid.rows
    assert [band.first_row for band in found] == list(range(0, rows, 16))
    assert [len(band.values) for band in found] == [min(16, rows - first) for first in range(0, rows, 16)]
    assert np.array_equal(np.concatenate([band.is_there for band in found]), is_there)
    values = np.concatenate([band.values for band in found])
    truth = np.zeros((*is_there.shape, 3), np.float32)
    for row, col in np.argwhere(is_there):
        truth[row, col] = compute(picture_of(row, col)[None])[0]
    assert values.dtype == np.float32 and np.array_equal(values, truth)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_bands_are_the_same_for_any_number_of_threads_and_any_size_of_batch(threads: int, batch_size: int) -> None:
    plan = make_plan()
    is_tissue = make_tissue(plan)
    found = list(stream(plan, is_tissue, batch_size=batch_size, readers=threads, threads=threads))
    check_are_all(found, plan, is_tissue)


def test_a_block_full_of_tissue_may_be_a_batch_of_its_own() -> None:
    plan = make_plan(rows=48, cols=48)
    is_tissue = np.ones((48, 48), np.bool_)
    is_tissue[16:32, :5] = False  # then batches and blocks no longer begin together
    check_are_all(list(stream(plan, is_tissue, batch_size=256)), plan, is_tissue)


@pytest.mark.parametrize("batch_size", [1, 7, 256, 100_000])
def test_every_batch_is_full_and_what_is_missing_in_the_last_is_zeros(batch_size: int) -> None:
    plan, given = make_plan(), []
    is_tissue = make_tissue(plan)

    def work(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        given.append(pictures)
        return compute(pictures)

    found = list(stream(plan, is_tissue, work=work, batch_size=batch_size, threads=1))
    patches = np.count_nonzero(is_tissue)
    assert [batch.shape for batch in given] == [(batch_size, SIDE, SIDE, 3)] * -(-patches // batch_size)
    filled = patches - batch_size * (len(given) - 1)
    assert given[-1][:filled].any(axis=(1, 2, 3)).all() and not given[-1][filled:].any()
    check_are_all(found, plan, is_tissue)


def test_a_slide_without_any_tissue_has_all_its_bands_and_they_are_empty() -> None:
    plan = make_plan()
    nothing = np.zeros((plan.grid.rows, plan.grid.cols), np.bool_)
    found = list(stream(plan, nothing))
    assert [(band.first_row, band.is_there.shape) for band in found] == [
        (0, (16, 41)),
        (16, (16, 41)),
        (32, (16, 41)),
        (48, (16, 41)),
        (64, (11, 41)),
    ]
    assert not any(band.is_there.any() or band.values.any() for band in found)


@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_cells_that_could_not_be_read_have_no_values_and_the_others_have_theirs(batch_size: int) -> None:
    plan = make_plan()
    is_tissue = make_tissue(plan)
    is_lost = np.random.default_rng(1).random(is_tissue.shape) < 0.2
    is_lost[:16, :16] = True  # a whole block
    is_lost[48:64, 32:] = True  # and the last one

    def read(block: Block) -> Items:
        items = read_patches(block)
        whole = ~is_lost[tuple(items.cells.T)]
        return Items(items.pictures[whole], items.cells[whole], items.wanted[whole], int((~whole).sum()))

    told: list[Items] = []
    found = list(stream(plan, is_tissue, read, batch_size=batch_size, on_read=told.append))
    check_are_all(found, plan, is_tissue & ~is_lost)
    assert sum(items.lost for items in told) == np.count_nonzero(is_tissue & is_lost)


def test_where_nothing_could_be_read_all_bands_are_empty() -> None:
    plan = make_plan()

    def read(block: Block) -> Items:
        count = len(block.cells)
        return Items(np.zeros((0, SIDE, SIDE, 3), np.uint8), block.cells[:0], np.zeros(0, np.bool_), count)

    found = list(stream(plan, make_tissue(plan), read))
    assert len(found) == 5 and not any(band.is_there.any() for band in found)


def test_who_asks_is_told_of_every_block_in_order_and_in_his_own_thread() -> None:
    plan, told, threads = make_plan(), [], set()
    is_tissue = make_tissue(plan)

    def on_read(items: Items) -> None:
        told.append(items.cells)
        threads.add(threading.get_ident())

    list(stream(plan, is_tissue, readers=5, on_read=on_read))
    assert np.array_equal(np.concatenate(told), np.concatenate([block.cells for block in blocks(plan, is_tissue)]))
    assert threads == {threading.get_ident()}


def test_a_band_is_there_before_the_slide_is_read_to_its_end() -> None:
    plan, told = make_plan(rows=1600), []
    found = stream(plan, np.ones((1600, 41), np.bool_), batch_size=16, on_read=told.append)
    assert next(found).first_row == 0
    assert len(told) < 30  # blocks, of 300
    found.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["read", "compute", "on_read"])
def test_an_error_comes_to_who_asks_and_ends_the_threads(where: str) -> None:
    plan, before = make_plan(), threading.active_count()

    def fail(_: object) -> None:
        raise OSError(where)

    how = {"read": {"read": fail}, "compute": {"work": fail}, "on_read": {"on_read": fail}}[where]
    with pytest.raises(OSError, match=f"^{where}$"):
        list(stream(plan, make_tissue(plan), **how))  # type: ignore[arg-type]
    assert threading.active_count() == before


def test_who_stops_asking_ends_the_threads() -> None:
    plan, before = make_plan(), threading.active_count()
    found = stream(plan, make_tissue(plan))
    next(found)
    assert threading.active_count() > before
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_pictures_give_a_value_to_each_of_their_wanted_cells(threads: int, batch_size: int) -> None:
    """A picture begins at the first cell of a trimmed block; what it says beyond its block is not taken."""
    plan = make_plan()
    is_tissue = make_tissue(plan, share=0.02)
    number = np.arange(plan.grid.rows * plan.grid.cols).reshape(plan.grid.rows, plan.grid.cols)

    def read(block: Block) -> Items:
        wanted = np.zeros((1, 16, 16), np.bool_)
        wanted[0, : block.wanted.shape[0], : block.wanted.shape[1]] = block.wanted
        first = np.array([[block.first.row, block.first.col]], np.int64)
        pixels = np.array([number[block.first.row, block.first.col]], "<u4").view(np.uint8)
        return Items(pixels.reshape(1, 2, 2, 1), first, wanted, 0)

    def work(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        first = pictures.reshape(-1, 4).copy().view("<u4").astype(np.float32)  # (n, 1)
        cells = plan.grid.cols * np.arange(16)[:, None] + np.arange(16)
        return np.asarray(first[:, :, None, None] + cells[..., None], np.float32)

    found = list(stream(plan, is_tissue, read, work, batch_size=batch_size, readers=threads, threads=threads))
    assert np.array_equal(np.concatenate([band.is_there for band in found]), is_tissue)
    values = np.concatenate([band.values for band in found])
    assert values.shape == (*is_tissue.shape, 1)
    assert np.array_equal(values[..., 0], np.where(is_tissue, number, 0))
