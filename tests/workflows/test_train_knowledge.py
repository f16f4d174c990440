"""What one who knows photographs sees in the patches of tiles, and the classes of tiles that counts make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import add_tile
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.clusters import Clusters, nearest
from ucc_path.formats import tile_png, tiles_csv
from ucc_path.model.preparing import Preparation
from ucc_path.settings import ModelSettings, TissueSettings
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.train import TrainRequest, features, sorting
from ucc_path.workflows.train.data import choose_rows, read_tiles, tile_set
from ucc_path.workflows.train.features import PatchFeatures, knowledge_of_tiles
from ucc_path.workflows.train.sorting import MIXED, UNCLEAR, UNKNOWN, classes_of_tiles

MakeDataset = Callable[..., Path]

VALUES = 40 + 80 + 112  # of the three stages that tell tissues apart
LEVELS = {"slide": ((0.22, 0.38, 0.24), (0.13, 0.17, 0.12)), "light": ((0.7,) * 3, (0.2,) * 3)}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def job_of(dataset: Path, patch_px: int = 16, **model: Any) -> Any:
    """A training by counts whose tiles are read, as far as what is known of them goes."""
    settings = ModelSettings(patch_px=patch_px, **model)
    request = TrainRequest(dataset, Path("run"), model_settings=settings, tissue=TissueSettings(min_area_um2=1))
    rows, _ = choose_rows(request)
    store = dataset.with_name("store")
    for _ in read_tiles(request, store, rows):
        pass
    return SimpleNamespace(request=request, rows=rows, device=torch.device("cpu"), run=SimpleNamespace(tiles=store))


def known(job: Any) -> PatchFeatures:
    colours = job.request.model_settings.colours
    lesson: Any = SimpleNamespace(preparation=Preparation(colours, *LEVELS[colours]))
    return knowledge_of_tiles(job, lesson, "train")


def class_means(found: PatchFeatures, job: Any) -> NDArray[np.float32]:
    """The means of the patches of pure tiles of each class, (classes, values)."""
    kinds = job.rows["train"].kinds()[found.tiles]
    return np.stack([found.features[kinds == place].mean(axis=0) for place in range(len(CLASSES))])


@pytest.mark.parametrize(("tile_px", "patch_px", "a_tile"), [(64, 16, 16), (72, 24, 9), (100, 32, 9), (40, 16, 4)])
def test_each_patch_of_a_tile_has_its_values_whatever_their_sizes(
    tile_px: int, patch_px: int, a_tile: int, make_dataset: MakeDataset
) -> None:
    few = {"normal": 2, "metastases": 1, "mixture": 1}
    found = known(job_of(make_dataset(train=few, val={}, tile_px=tile_px), patch_px))
    assert found.features.shape == (4 * a_tile, VALUES) and found.features.dtype == np.float32
    assert np.isfinite(found.features).all()
    assert np.array_equal(found.tiles, np.repeat(np.arange(4), a_tile)) and np.array_equal(found.slides, [0] * 4)


@pytest.mark.parametrize("colours", ["slide", "light"])
def test_a_patch_is_known_by_what_is_at_its_own_place(colours: str, make_dataset: MakeDataset) -> None:
    """Of a tile with tumour at its left, the patches at the left are as of tumour and those at the right are not."""
    dataset = make_dataset(train={"normal": 2, "metastases": 2}, val={}, tile_px=256)
    left = np.broadcast_to(np.arange(256) < 128, (256, 256))
    add_tile(dataset, "left", left, slide="train", split="train")
    job = job_of(dataset, 32, colours=colours)
    found = known(job)
    (place,) = [place for place, row in enumerate(job.rows["train"].rows) if row.tile_id == "left"]
    classes = nearest(found.features, class_means(found, job))[found.tiles == place].reshape(8, 8)
    assert (classes[:, :2] == 1).all() and (classes[:, -2:] == 0).all()


def test_only_patches_of_tissue_are_known(make_dataset: MakeDataset) -> None:
    dataset = make_dataset(train={"normal": 1, "mixture": 1}, val={})
    upper = np.broadcast_to(np.arange(64)[:, None] < 32, (64, 64))
    add_tile(dataset, "half", np.zeros_like(upper), tissue=upper, slide="train", split="train")
    job = job_of(dataset)
    found = known(job)
    numbers = {row.tile_id: int(np.sum(found.tiles == place)) for place, row in enumerate(job.rows["train"].rows)}
    assert numbers == {"train_000": 16, "train_001": 16, "half": 8}
    assert len(found.features) == 40


def test_it_is_the_same_however_many_tiles_are_looked_at_at_once(
    make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(make_dataset(train={"normal": 3, "metastases": 2, "mixture": 2}, val={}))
    together = known(job)
    monkeypatch.setattr(features, "_TILES_AT_ONCE", 3)
    apart = known(job)
    np.testing.assert_allclose(apart.features, together.features, atol=1e-4)
    assert np.array_equal(apart.tiles, together.tiles)


@pytest.mark.parametrize(("tile_px", "colours"), [(64, "slide"), (72, "slide"), (64, "light")])
def test_it_is_shown_tiles_made_alike_with_their_mirror_image_around_them(
    tile_px: int, colours: str, make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    class Shown(nn.Module):
        """In place of what knows: it keeps what it is shown, and knows where it is to look."""

        def __init__(self, encoder: nn.Module, *, margin_px: int, cells: int, cell_px: int) -> None:
            super().__init__()
            self.margin_px, self.cells = margin_px, cells

        def forward(self, pictures: Tensor) -> Tensor:
            shown.append((pictures, self.margin_px))
            return pictures.new_zeros(len(pictures), self.cells, self.cells, 1)

    monkeypatch.setattr(features, "CellKnowledge", Shown)
    dataset = make_dataset(train={"normal": 1, "mixture": 1}, val={}, tile_px=tile_px)
    add_tile(dataset, "darker", np.zeros((tile_px, tile_px), bool), density=1.5, slide="other", split="train")
    job = job_of(dataset, colours=colours)
    known(job)
    ((pictures, margin_px),) = shown
    inner, end = slice(margin_px, margin_px + tile_px), margin_px + tile_px
    rgb = torch.from_numpy(np.stack([tile_png.read_image(dataset, row) for row in job.rows["train"].rows]))
    standard = tile_set(job.run.tiles, "train", job.rows["train"], colours).standard
    stain = None if standard is None else torch.from_numpy(standard)
    torch.testing.assert_close(pictures[..., inner, inner], Preparation(colours, *LEVELS[colours])(rgb, stain))
    assert margin_px >= 16 and pictures.shape[-1] >= end + margin_px and pictures.shape[-1] % 16 == 0
    for axis in (2, 3):
        rows = pictures.movedim(axis, 0)
        assert torch.equal(rows[:margin_px], rows[margin_px + 1 : 2 * margin_px + 1].flip(0))
        assert torch.equal(rows[end : end + margin_px], rows[end - 1 - margin_px : end - 1].flip(0))


def of_classes(job: Any, split: str, *, noisy: bool = False) -> PatchFeatures:
    """Values of patches by construction: 20 that tell the truth of a patch and many more of chance, or those alone."""
    rng = np.random.default_rng(split == "val")
    rows = job.rows[split].rows
    truth = np.concatenate([tile_png.read_mask(job.request.dataset, row)[8::16, 8::16].ravel() for row in rows])
    values = rng.standard_normal((len(truth), 1020))
    values[:, :20] += 0 if noisy else 2.0 * (truth > 0)[:, None]
    tiles = np.repeat(np.arange(len(rows)), len(truth) // len(rows))
    return PatchFeatures(values.astype(np.float32), tiles, np.zeros(len(rows), np.int64))


@pytest.mark.parametrize("encoder", ["lite0", "blocks"])
def test_with_lite0_counts_are_parted_by_what_it_knows_and_otherwise_by_what_the_first_round_does(
    encoder: str, make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(make_dataset(), encoder=encoder)
    is_lite = encoder == "lite0"
    sources = {"knowledge_of_tiles": not is_lite, "features_of_tiles": is_lite}  # what is of chance alone
    for name, noisy in sources.items():
        monkeypatch.setattr(sorting, name, lambda job, lesson, split, noisy=noisy: of_classes(job, split, noisy=noisy))
    found = classes_of_tiles(job, SimpleNamespace(), Clusters(np.zeros((2, 4), np.float32), CLASSES))  # type: ignore[arg-type]
    assert found["train"].tolist() == found["val"].tolist() == [0] * 4 + [1] * 4 + [MIXED] * 8


@pytest.mark.parametrize("swapped", [False, True])
def test_without_kinds_classes_are_called_as_the_clusters_of_the_first_round(
    swapped: bool, make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make_dataset()
    tiles_csv.write(dataset, [replace(row, kind=None) for row in tiles_csv.read(dataset)])
    job = job_of(dataset)

    def by_first_round(job: Any, lesson: Any, split: str) -> PatchFeatures:
        """One feature, which is 1 where there is tumour; what lite0 knows has more."""
        found = of_classes(job, split)
        return replace(found, features=(found.features[:, :20].mean(axis=1, keepdims=True) > 1).astype(np.float32))

    monkeypatch.setattr(sorting, "knowledge_of_tiles", lambda job, lesson, split: of_classes(job, split))
    monkeypatch.setattr(sorting, "features_of_tiles", by_first_round)
    centroids = np.array([[1.0], [0.0]] if swapped else [[0.0], [1.0]], np.float32)
    found = classes_of_tiles(job, SimpleNamespace(), Clusters(centroids, ("cluster 1", "cluster 2")))  # type: ignore[arg-type]
    first, second = (1, 0) if swapped else (0, 1)
    assert found["train"].tolist() == [first] * 4 + [second] * 4 + [MIXED] * 8


def test_a_tile_that_no_class_has_most_of_is_unclear_to_learn_from_and_unknown_to_judge_by(
    make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = np.array([0.0, 0.3, 0.31, 0.5, 0.69, 0.7, 1.0, np.nan] + [0.5] * 8)  # the last ones are mixtures
    monkeypatch.setattr(sorting, "_shares_of_second", lambda *given: {"train": shares, "val": shares})
    found = classes_of_tiles(job_of(make_dataset()), SimpleNamespace(), Clusters(np.zeros((2, 4), np.float32), CLASSES))  # type: ignore[arg-type]
    assert found["train"].tolist() == [0, 0, UNCLEAR, UNCLEAR, UNCLEAR, 1, 1, UNKNOWN] + [MIXED] * 8
    assert found["val"].tolist() == [0, 0, UNKNOWN, UNKNOWN, UNKNOWN, 1, 1, UNKNOWN] + [MIXED] * 8
