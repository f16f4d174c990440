"""Patches and pictures: exactly the pixels of the slide at their places, and nothing of its damaged parts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import write_tiff
from numpy.typing import NDArray

from ucc_path.errors import SlideError
from ucc_path.features.cells import Block, CellPlan, blocks
from ucc_path.features.reading import Items, PatchReader, PictureReader, PictureShape
from ucc_path.formats import pyramid_tiff
from ucc_path.geometry import Cell
from ucc_path.slide import Slide, jpeg_tiff, reader

SIZE = (2100, 1636)  # (width, height)
PERIOD_L0 = 64.0


def make_noise(size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)


def make_waves(size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """Red is a wave along x, green the same along y; the phase is 0 at the slide's corner."""
    along_x, along_y = (128 + 100 * np.sin(2 * np.pi * (np.arange(side) + 0.5) / PERIOD_L0) for side in size)
    red, green = np.broadcast_arrays(along_x[None, :], along_y[:, None])
    return np.rint(np.stack([red, green, red], axis=2)).astype(np.uint8)


def off_px(wave: NDArray[np.uint8], start_l0: float, pixel_l0: float) -> float:
    """By how many of its own pixels a wave lies off the place where it should be, by least squares."""
    angle = 2 * np.pi * (start_l0 + (np.arange(len(wave)) + 0.5) * pixel_l0) / PERIOD_L0
    basis = np.column_stack([np.sin(angle), np.cos(angle), np.ones_like(angle)])
    sine, cosine, _ = np.linalg.lstsq(basis, wave.astype(float), rcond=None)[0]
    return float(np.arctan2(cosine, sine)) / (2 * np.pi) * PERIOD_L0 / pixel_l0


def write_jpeg(path: Path, rgb: NDArray[np.uint8], *, mpp: float, tile_px: int = 512) -> Path:
    rows, cols = (range(0, side, tile_px) for side in rgb.shape[:2])
    tiles = (rgb[row : row + tile_px, col : col + tile_px] for row in rows for col in cols)
    pyramid_tiff.write(path, tiles, size_px=(rgb.shape[1], rgb.shape[0]), mpp=mpp, tile_px=tile_px)
    return path


def plan_of(slide: Slide, *, mpp: float = 1.0, patch_px: int = 32, stride_px: int = 32) -> CellPlan:
    return CellPlan.of(slide.size_l0, slide.mpp, patch_px=patch_px, stride_px=stride_px, mpp=mpp, name="s")


def all_tissue(plan: CellPlan) -> NDArray[np.bool_]:
    return np.ones((plan.grid.rows, plan.grid.cols), np.bool_)


def patches_of(items: Items) -> Iterator[tuple[Cell, NDArray[np.uint8]]]:
    for (row, col), patch in zip(items.cells.tolist(), items.pictures, strict=True):
        yield Cell(row, col), patch


def damaged_copy(whole: Path, folder: Path, number: int) -> Path:
    """A copy of a slide that has lost one of the stored tiles of its level of 1.0 um/px."""
    path = folder / "damaged.tif"
    content = bytearray(whole.read_bytes())
    with tifffile.TiffFile(whole) as tiff:
        page = tiff.pages[1]
        offset, length = page.dataoffsets[number], page.databytecounts[number]
    content[offset : offset + length] = bytes(length)
    path.write_bytes(content)
    return path


# A stored tile, and where it lies at 1.0 um/px: left, top, right, bottom.
DAMAGE = {"jpeg_slide": (1, (512, 0, 1024, 512)), "zlib_slide": (9 + 4, (512, 128, 640, 256))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slides")


@pytest.fixture(scope="module")
def jpeg_slide(folder: Path) -> Path:
    """At 0.5 um/px; at 1.0 it is 1050 x 818 px, in 3 x 2 stored tiles, of which the last are narrow."""
    return write_jpeg(folder / "jpeg.tif", make_noise(), mpp=0.5)


@pytest.fixture(scope="module")
def zlib_slide(folder: Path) -> Path:
    """The same, lossless, in stored tiles of 128 px, and read by OpenSlide."""
    return write_tiff(folder / "zlib.tif", make_noise(), mpp=0.5, levels=4, tile_px=128)


@pytest.fixture(scope="module")
def wave_slide(folder: Path) -> Path:
    return write_tiff(folder / "waves.tif", make_waves(), mpp=0.243)


@pytest.mark.parametrize("kind", ["jpeg_slide", "zlib_slide"])
@pytest.mark.parametrize(("patch_px", "stride_px"), [(32, 32), (32, 16), (32, 12), (31, 8), (48, 48)])
def test_a_patch_is_the_pixels_of_the_slide_at_its_place(
    kind: str, patch_px: int, stride_px: int, request: pytest.FixtureRequest
) -> None:
    with Slide(request.getfixturevalue(kind)) as slide:
        plan = plan_of(slide, patch_px=patch_px, stride_px=stride_px)
        wanted = np.random.default_rng(1).random((plan.grid.rows, plan.grid.cols)) < 0.03
        wanted[0, 0] = wanted[-1, -1] = wanted[0, -1] = True
        found = 0
        for block in blocks(plan, wanted):
            items = PatchReader(slide, plan, is_strict=True)(block)
            assert np.array_equal(items.cells, block.cells) and items.wanted.all() and items.lost == 0
            for cell, patch in patches_of(items):
                assert np.array_equal(patch, slide.read(plan.corner(cell), patch_px, 1.0))
                found += 1
    assert found == np.count_nonzero(wanted)


def test_where_scales_do_not_divide_no_patch_is_off_by_more_than_half_a_pixel(wave_slide: Path) -> None:
    with Slide(wave_slide) as slide:
        plan = plan_of(slide)  # a cell is 132 px wide, and 131.7 would be 32 px of the model's
        read = PatchReader(slide, plan, is_strict=True)
        found = [item for block in blocks(plan, all_tissue(plan)) for item in patches_of(read(block))]
    off = np.array(
        [
            (
                off_px(patch[16, :, 0], plan.corner(cell).x, plan.pixel_l0),
                off_px(patch[:, 16, 1], plan.corner(cell).y, plan.pixel_l0),
            )
            for cell, patch in found
        ]
    )
    assert len(off) == plan.grid.rows * plan.grid.cols > 150
    assert np.abs(off).max() < 0.56
    assert np.ptp(off) > 0.5  # so they would drift apart if each did not begin where it should


def test_where_scales_do_not_divide_a_patch_is_what_the_slide_reads_at_the_place_nearest_to_its_own(
    wave_slide: Path,
) -> None:
    with Slide(wave_slide) as slide:
        plan = plan_of(slide)
        (block, *_) = blocks(plan, all_tissue(plan))
        x, y = plan.corner(block.first)
        tops, lefts = (plan.offsets_px(count) for count in block.wanted.shape)
        for cell, patch in patches_of(PatchReader(slide, plan, is_strict=True)(block)):
            place = (x + lefts[cell.col] * plan.pixel_l0, y + tops[cell.row] * plan.pixel_l0)
            alone = slide.read(place, 32, 1.0)
            assert np.abs(patch.astype(int) - alone).max() <= 1  # of rounding


def read_and_count(path: Path, wanted: slice, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, str]]:
    """How often each stored tile is decoded when the cells of some columns are read: (width of its level, its data)."""
    decoded: Counter[tuple[int, str]] = Counter()
    decode_into = jpeg_tiff._decode_into

    def decode_and_count(tile: NDArray[np.uint8], data: bytes, level: jpeg_tiff._Level) -> None:
        decoded[level.width_px, hashlib.sha256(data).hexdigest()] += 1
        decode_into(tile, data, level)

    monkeypatch.setattr(jpeg_tiff, "_decode_into", decode_and_count)
    monkeypatch.setattr(reader, "CACHE_BYTES", 1)  # one tile: what is asked for again is decoded again
    with Slide(path) as slide:
        plan = plan_of(slide)
        is_tissue = np.zeros((plan.grid.rows, plan.grid.cols), np.bool_)
        is_tissue[:, wanted] = True
        for block in blocks(plan, is_tissue):
            PatchReader(slide, plan, is_strict=False)(block)
    return decoded


def test_every_stored_tile_of_an_aligned_slide_is_decoded_once(
    jpeg_slide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = read_and_count(jpeg_slide, slice(None), monkeypatch)
    assert len(decoded) == 4 and set(decoded.values()) == {1}  # a fifth and sixth hold no whole cell
    assert {width for width, _ in decoded} == {1050}


def test_stored_tiles_without_tissue_are_not_decoded(jpeg_slide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read_and_count(jpeg_slide, slice(0, 3), monkeypatch)) == 2
    assert len(read_and_count(jpeg_slide, slice(20, 24), monkeypatch)) == 2


@pytest.mark.parametrize("kind", list(DAMAGE))
@pytest.mark.parametrize("threads", [1, 6])
def test_a_damaged_tile_costs_the_patches_on_it_and_no_others_however_many_threads_meet_it(
    kind: str, threads: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, (number, (left, top, right, bottom)) = request.getfixturevalue(kind), DAMAGE[kind]
    damaged = damaged_copy(whole, tmp_path, number)
    with Slide(whole) as slide, Slide(damaged) as broken, ThreadPoolExecutor(threads) as pool:
        plan = plan_of(slide)
        # A block more than once: threads meet the damage again while others still read around it.
        every = [block for block in blocks(plan, all_tissue(plan)) for _ in range(3)]
        truth = [PatchReader(slide, plan, is_strict=True)(block) for block in every]
        found = list(pool.map(PatchReader(broken, plan, is_strict=False), every))
    for items, wanted in zip(found, truth, strict=True):
        row, col = wanted.cells.T
        survives = ~((row >= top // 32) & (row < bottom // 32) & (col >= left // 32) & (col < right // 32))
        assert items.lost == np.count_nonzero(~survives)
        assert np.array_equal(items.cells, wanted.cells[survives])
        assert np.array_equal(items.pictures, wanted.pictures[survives])
        assert items.wanted.shape == (len(items.cells),) and items.wanted.all()
    assert {items.lost for items in found} == {0, (right - left) * (bottom - top) // 32**2}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_of_overlapping_patches_all_that_reach_into_a_damaged_tile_are_lost(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, (number, (left, top, right, bottom)) = request.getfixturevalue(kind), DAMAGE[kind]
    with Slide(whole) as slide, Slide(damaged_copy(whole, tmp_path, number)) as broken:
        plan = plan_of(slide, stride_px=16)
        for block in blocks(plan, all_tissue(plan)):
            found, truth = (PatchReader(some, plan, is_strict=False)(block) for some in (broken, slide))
            y, x = (16 * truth.cells - 8).T
            touches = (y + 32 > top) & (y < bottom) & (x + 32 > left) & (x < right)
            # Damage is found to squares of 32 px: a patch beside it may go with it.
            is_near = (y + 64 > top) & (y < bottom + 32) & (x + 64 > left) & (x < right + 32)
            survives = (truth.cells[:, None] == found.cells[None]).all(axis=2).any(axis=1)
            assert not survives[touches].any() and survives[~is_near].all()
            assert found.lost == np.count_nonzero(~survives)
            assert np.array_equal(found.pictures, truth.pictures[survives])


def test_a_block_of_nothing_but_damage_has_no_pictures(jpeg_slide: Path, tmp_path: Path) -> None:
    with Slide(damaged_copy(jpeg_slide, tmp_path, 0)) as broken:
        items = PatchReader(broken, plan_of(broken), is_strict=False)(Block(Cell(2, 3), np.eye(4, dtype=bool)))
    assert items.pictures.shape == (0, 32, 32, 3) and items.cells.shape == (0, 2) and items.lost == 4


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_damage_is_an_error_to_who_is_strict(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with Slide(damaged_copy(request.getfixturevalue(kind), tmp_path, 0)) as broken:
        plan = plan_of(broken)
        block = Block(Cell(2, 3), np.eye(4, dtype=bool))
        shape = PictureShape.of(32, 32, margin_px=16, multiple_px=8)
        for read in (PatchReader(broken, plan, True), PictureReader(broken, plan, shape, True)):
            with pytest.raises(SlideError, match=r"damaged\.tif cannot be read"):
                read(block)


@pytest.mark.parametrize(
    ("patch_px", "stride_px", "margin_px", "multiple_px", "core_px", "side_px"),
    [(32, 32, 64, 8, 512, 640), (32, 32, 60, 16, 512, 640), (32, 12, 10, 8, 504, 528), (48, 48, 0, 64, 480, 512)],
)
def test_a_picture_is_a_block_its_margin_and_what_is_missing_to_a_multiple(
    patch_px: int, stride_px: int, margin_px: int, multiple_px: int, core_px: int, side_px: int
) -> None:
    shape = PictureShape.of(patch_px, stride_px, margin_px=margin_px, multiple_px=multiple_px)
    assert shape == PictureShape(core_px, margin_px, side_px)


@pytest.mark.parametrize("stride_px", [32, 8])
def test_a_picture_is_the_slide_around_its_block(zlib_slide: Path, stride_px: int) -> None:
    with Slide(zlib_slide) as slide:
        plan = plan_of(slide, stride_px=stride_px)
        shape = PictureShape.of(32, stride_px, margin_px=40, multiple_px=16)
        is_tissue = np.random.default_rng(1).random((plan.grid.rows, plan.grid.cols)) < 0.5
        for block in blocks(plan, is_tissue):
            items = PictureReader(slide, plan, shape, is_strict=True)(block)
            x, y = plan.grid.origin(block.first)
            assert np.array_equal(items.pictures[0], slide.read((x - 80, y - 80), shape.side_px, 1.0))
            assert items.cells.tolist() == [[block.first.row, block.first.col]] and items.lost == 0
            rows, cols = block.wanted.shape
            assert items.wanted.shape == (1, plan.band_rows, plan.band_rows)
            assert np.array_equal(items.wanted[0, :rows, :cols], block.wanted)
            assert items.wanted.sum() == block.wanted.sum()


@pytest.mark.parametrize("stride_px", [32, 8])
def test_the_last_cell_of_a_picture_lies_where_it_should_also_where_scales_do_not_divide(
    wave_slide: Path, stride_px: int
) -> None:
    with Slide(wave_slide) as slide:
        plan = plan_of(slide, stride_px=stride_px)
        shape = PictureShape.of(32, stride_px, margin_px=64, multiple_px=8)
        (block, *_) = blocks(plan, all_tissue(plan))
        picture = PictureReader(slide, plan, shape, is_strict=True)(block).pictures[0]
    last = Cell(min(plan.grid.rows, plan.band_rows) - 1, min(plan.grid.cols, plan.band_rows) - 1)
    place, pixel_l0 = plan.grid.origin(last), plan.grid.cell_l0 / stride_px
    top, left = 64 + last.row * stride_px, 64 + last.col * stride_px
    red, green = picture[top, left - 16 : left + stride_px, 0], picture[top - 16 : top + stride_px, left, 1]
    assert abs(off_px(red, place.x - 16 * pixel_l0, pixel_l0)) < 0.06
    assert abs(off_px(green, place.y - 16 * pixel_l0, pixel_l0)) < 0.06


@pytest.mark.parametrize("slide_mpp", [1.0, 1.011, 1.018, 1.0199])
def test_a_slide_a_little_coarser_than_the_model_is_read_all_the_same(tmp_path: Path, slide_mpp: float) -> None:
    path = write_tiff(tmp_path / "s.tif", make_noise((300, 300)), mpp=None, levels=1)
    with Slide(path, slide_mpp) as slide:
        plan = plan_of(slide)
        (block,) = blocks(plan, all_tissue(plan))
        shape = PictureShape.of(32, 32, margin_px=16, multiple_px=8)
        assert PictureReader(slide, plan, shape, is_strict=True)(block).wanted.sum() == 81
        assert len(PatchReader(slide, plan, is_strict=True)(block).pictures) == 81


def test_cells_of_a_picture_on_a_damaged_tile_have_no_say(jpeg_slide: Path, tmp_path: Path) -> None:
    with Slide(jpeg_slide) as slide, Slide(damaged_copy(jpeg_slide, tmp_path, 1)) as broken:
        plan = plan_of(slide)
        shape = PictureShape.of(32, 32, margin_px=32, multiple_px=8)
        block = Block(Cell(12, 10), np.ones((8, 9), np.bool_))
        found, truth = (PictureReader(some, plan, shape, is_strict=False)(block) for some in (broken, slide))
    lost = np.zeros((16, 16), np.bool_)
    lost[:4, 6:9] = True  # rows 12 to 15, columns 16 to 18: x from 512, y below 512
    assert np.array_equal(found.wanted[0], truth.wanted[0] & ~lost)
    assert found.lost == 12
    same = (found.pictures[0] == truth.pictures[0]).all(axis=2)
    assert same[32:544, 32:224].all() and same[160:, :].all()
    assert (found.pictures[0][32:160, 224:] == 255).all()
