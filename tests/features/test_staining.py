"""The standard of a slide's stain: of its tissue, of all of it alike, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import GLASS, write_tiff
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.features import staining
from ucc_path.features.cells import CellPlan, blocks, tissue_cells
from ucc_path.features.reading import PatchReader
from ucc_path.features.staining import EVERY_PX, standard_of_slide
from ucc_path.geometry import Grid, PointL0
from ucc_path.slide import Slide
from ucc_path.stain import count_levels, standard_of

SIDE = 1600  # of the slide; blocks are 512 px wide
BOX = slice(64, 1344)  # where tissue is, along both sides


def make_rgb() -> NDArray[np.uint8]:
    """Tissue that grows darker from left to right, on glass."""
    rng = np.random.default_rng(0)
    rgb = np.broadcast_to(np.array(GLASS, float), (SIDE, SIDE, 3)).copy()
    shade = np.linspace(1.0, 0.4, 1280)[None, :, None]
    rgb[BOX, BOX] = np.array((205, 140, 190)) * shade + rng.normal(0, 10, (1280, 1280, 3))
    return np.clip(np.rint(rgb), 0, 255).astype(np.uint8)


def make_coverage() -> Coverage:
    mask = np.zeros((SIDE // 16, SIDE // 16), np.bool_)
    mask[4:84, 4:84] = True  # the box, in cells of 16 px
    return Coverage(mask, Grid(PointL0(0, 0), 16.0, SIDE // 16, SIDE // 16))


def truth_of(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    return standard_of(count_levels(rgb))


def standard(slide: Slide, *, threads: int = 1, stride_px: int = 32, patch_px: int = 32) -> NDArray[np.float32]:
    plan = CellPlan.of(slide.size_l0, slide.mpp, patch_px=patch_px, stride_px=stride_px, mpp=1.0, name="s")
    every = list(blocks(plan, tissue_cells(plan, make_coverage(), 0.5)))
    return standard_of_slide(PatchReader(slide, plan, is_strict=False), make_coverage(), every, threads)[0]


@pytest.fixture(scope="module")
def slide_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiff(tmp_path_factory.mktemp("slides") / "s.tif", make_rgb(), mpp=1.0, levels=4, tile_px=128)


def test_a_standard_is_of_the_tissue_and_not_of_the_glass(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        found = standard(slide)
    rgb = make_rgb()
    assert found.shape == (3, 4) and found.dtype == np.float32
    np.testing.assert_allclose(found, truth_of(rgb[BOX, BOX][::EVERY_PX, ::EVERY_PX]), rtol=1e-5)
    assert np.abs(found - truth_of(rgb)).max() > 0.5  # with the glass it would be another


def test_where_cells_cannot_be_halved_every_pixel_counts(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        found = standard(slide, patch_px=20, stride_px=20)  # cells of 5 px
    np.testing.assert_allclose(found, truth_of(make_rgb()[BOX, BOX]), rtol=0.01)


def test_overlapping_patches_say_nearly_the_same(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        np.testing.assert_allclose(standard(slide, stride_px=8), standard(slide), rtol=0.1)  # of its edges


def test_the_number_of_threads_changes_nothing(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        alone = standard(slide)
        assert all(np.array_equal(standard(slide, threads=threads), alone) for threads in (2, 5))


def test_of_a_large_slide_blocks_are_looked_at_evenly(slide_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staining, "SAMPLED_BLOCKS", 2)
    with Slide(slide_path) as slide:
        found = standard(slide)
    rgb = make_rgb()
    first, last = rgb[64:512, 64:512], rgb[1024:1344, 1024:1344]
    sampled = np.concatenate([part[::EVERY_PX, ::EVERY_PX].reshape(-1, 3) for part in (first, last)])
    np.testing.assert_allclose(found, truth_of(sampled), rtol=1e-5)


def test_what_was_looked_at_need_not_be_read_again_for_its_patches(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        plan = CellPlan.of(slide.size_l0, slide.mpp, patch_px=32, stride_px=16, mpp=1.0, name="s")
        every = list(blocks(plan, tissue_cells(plan, make_coverage(), 0.5)))
        reader = PatchReader(slide, plan, is_strict=False)
        _, seen = standard_of_slide(reader, make_coverage(), every, 2)
        truth = [reader(block) for block in every]
    assert list(seen) == [block.first for block in every]
    read = PatchReader(slide, plan, False, seen)  # the slide is closed: nothing can be read of it
    for block, wanted in zip(every, truth, strict=True):
        found = read(block)
        assert np.array_equal(found.pictures, wanted.pictures) and np.array_equal(found.cells, wanted.cells)
    assert seen == {}  # nor is anything kept that is not needed any more


def test_what_was_looked_at_is_only_kept_where_it_is_wanted(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        plan = CellPlan.of(slide.size_l0, slide.mpp, patch_px=32, stride_px=32, mpp=1.0, name="s")
        every = list(blocks(plan, tissue_cells(plan, make_coverage(), 0.5)))
        reader = PatchReader(slide, plan, is_strict=False)
        kept, let_go = (standard_of_slide(reader, make_coverage(), every, 2, keep=keep) for keep in (True, False))
    assert np.array_equal(kept[0], let_go[0])
    assert len(kept[1]) == len(every) and let_go[1] == {}


def test_a_slide_without_blocks_keeps_its_densities(slide_path: Path) -> None:
    with Slide(slide_path) as slide:
        plan = CellPlan.of(slide.size_l0, slide.mpp, patch_px=32, stride_px=32, mpp=1.0, name="s")
        found, seen = standard_of_slide(PatchReader(slide, plan, is_strict=False), make_coverage(), [], 2)
    assert np.array_equal(found, np.eye(3, 4)) and seen == {}


def test_what_is_lost_of_a_damaged_slide_does_not_count(slide_path: Path, tmp_path: Path) -> None:
    """White, which lost pixels are drawn with, would make the tissue look paler."""
    with tifffile.TiffFile(slide_path) as tiff:
        page = tiff.pages[0]
        number = 3 * 13 + 2  # x from 256 to 384, y from 384 to 512
        offset, length = page.dataoffsets[number], page.databytecounts[number]
    content = bytearray(slide_path.read_bytes())
    content[offset : offset + length] = bytes(length)
    (tmp_path / "damaged.tif").write_bytes(content)
    with Slide(tmp_path / "damaged.tif") as slide:
        found = standard(slide, threads=3)
    rgb = make_rgb()
    is_counted = np.zeros((SIDE, SIDE), np.bool_)
    is_counted[BOX, BOX] = True
    is_counted[384:512, 256:384] = False
    wanted = truth_of(rgb[::EVERY_PX, ::EVERY_PX][is_counted[::EVERY_PX, ::EVERY_PX]])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.abs(wanted - truth_of(rgb[BOX, BOX][::EVERY_PX, ::EVERY_PX])).max() > 1e-3
