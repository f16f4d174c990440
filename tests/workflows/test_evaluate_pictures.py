"""Which tiles a report shows: the best, the typical and the worst, each of them once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import add_tile
from numpy.typing import NDArray
from PIL import Image
from reports import evaluated

from ucc_path.formats import png
from ucc_path.settings import EvaluationSettings
from ucc_path.workflows.evaluate.pictures import choose

BEST, TYPICAL, WORST, WORST_PURE = "best", "typical", "worst", "worst of one kind"
SIDE = 64


def counts(*tiles: tuple[float, float]) -> NDArray[np.float64]:
    """Tiles of 100 pixels, each with a share of tumour and a share that is right, of tumour and of the rest alike."""
    return np.array([[100 * t * r, 100 * (1 - t) * (1 - r), 100 * (1 - t) * r, 100 * t * (1 - r)] for t, r in tiles])


def test_of_tiles_that_hold_both_kinds_the_best_the_middle_and_the_worst_are_shown() -> None:
    found = choose(counts((0.5, 0.4), (0.5, 0.9), (0.3, 0.6), (0.5, 0.7), (0.6, 0.5), (0.5, 0.8), (0.4, 0.1)), 1)
    assert found == {BEST: [1], TYPICAL: [2], WORST: [6], WORST_PURE: []}


def test_several_of_each_sort_run_from_its_extreme_inwards() -> None:
    right = (0.5, 0.9, 0.1, 0.7, 0.3, 0.8, 0.2, 0.6, 0.4)
    found = choose(counts(*((0.5, share) for share in right)), 2)
    assert found[BEST] == [1, 5] and found[WORST] == [2, 6]
    assert sorted(right[place] for place in found[TYPICAL]) in ([0.4, 0.5], [0.5, 0.6])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_of_tiles_of_one_kind_only_the_worst_are_shown(share: float) -> None:
    found = choose(counts((share, 1.0), (share, 0.2), (share, 0.9), (share, 0.3), (0.5, 0.1)), 2)
    assert found == {BEST: [], TYPICAL: [], WORST: [4], WORST_PURE: [1, 3]}


@pytest.mark.parametrize("tiles", range(1, 10))
def test_few_tiles_are_not_shown_twice(tiles: int) -> None:
    found = choose(counts(*((0.5, 0.1 * (1 + place)) for place in range(tiles))), 3)
    shown = [place for places in found.values() for place in places]
    assert sorted(shown) == list(range(tiles)) and len(shown) == len(set(shown))
    assert found[WORST] == list(range(min(3, tiles)))


def test_a_tile_without_tissue_has_no_accuracy_and_is_not_shown() -> None:
    found = choose(np.concatenate([counts((0.0, 1.0), (0.5, 0.5)), np.zeros((1, 4))]), 2)
    assert found == {BEST: [], TYPICAL: [], WORST: [1], WORST_PURE: [0]}


def test_no_pictures_may_be_asked_for() -> None:
    assert choose(counts((0.5, 0.5), (0.0, 0.1)), 0) == {BEST: [], TYPICAL: [], WORST: [], WORST_PURE: []}


def test_a_picture_shows_the_tile_its_truth_and_the_tumour_that_is_seen(clustered_run: Path, tmp_path: Path) -> None:
    """Tumour is as it is on the slide, all else faded; the truth of this tile is left, the dark tissue is right."""
    dataset = Path(shutil.copytree(clustered_run.parent / "dataset", tmp_path / "dataset"))
    x = np.indices((SIDE, SIDE))[1]
    add_tile(dataset, "wrong", x < 32, dark=x >= 32)
    evaluated(
        dataset, clustered_run, output=tmp_path / "report", evaluation=EvaluationSettings(resamples=100, pictures=1)
    )
    (path,) = (tmp_path / "report" / "figures").glob("*.png")
    assert path.name == "01_worst_wrong.png"
    sheet = png.read(path)
    side = 256
    pictures = [sheet[-side:, left : left + side] for left in range(0, sheet.shape[1], side + 8)]
    assert len(pictures) == 4  # the image, the truth, the model, kmeans
    with Image.open(dataset / "images" / "test" / "wrong.png") as opened:
        image = np.asarray(opened.resize((side, side), Image.Resampling.LANCZOS))
    left, right = (slice(20, 100), slice(20, 100)), (slice(20, 100), slice(156, 236))
    assert np.array_equal(pictures[0], image)
    for shown, faded in (((1, left), (1, right)), ((2, right), (2, left)), ((3, right), (3, left))):
        assert np.array_equal(pictures[shown[0]][shown[1]], image[shown[1]])
        lighter = pictures[faded[0]][faded[1]].astype(int) - image[faded[1]]
        assert lighter.mean() > 20
