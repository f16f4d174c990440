"""A model with a second round at work: masks and figures are what its two networks say of the same pixels."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from conftest import TINY, add_tile, paint_slide, write_dataset
from forks import Forks
from numpy.typing import NDArray
from reports import counts_in, evaluated, figures_in, table_rows

from ucc_path.errors import ModelError, SettingsError
from ucc_path.features.reading import PictureShape
from ucc_path.features.smoothing import CELL_PX, SmoothedEngine
from ucc_path.formats import model_safetensors, report_json, tile_png, tiles_csv
from ucc_path.geometry import PointL0
from ucc_path.mask.thresholds import count_normal, threshold_of
from ucc_path.model.recipes import TrainedModel, assemble
from ucc_path.settings import SegmentationSettings, TissueSettings
from ucc_path.slide import Slide
from ucc_path.workflows.segment.jobs import ModelSpec, SlideJob, examine, segment_slide

Segment = Callable[..., dict[str, Any]]
PATCH, SIDE = 16, 64
SMOOTH_PX = 12.0  # of what is painted to the pixel
SLIDE_PX, AROUND_PX = 256, 64  # of the slide at the model's 2 um/px, and more than a Unet looks around it


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What a worker sets for itself is taken back: these tests run in the process of all others."""
    threads, limit = torch.get_num_threads(), resource.getrlimit(resource.RLIMIT_DATA)
    yield
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_DATA, limit)


@pytest.fixture(scope="module")
def run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of kinds that looks at light, so that its pixels are the same on every slide."""
    folder = tmp_path_factory.mktemp("refined")
    write_dataset(folder / "dataset")
    (folder / "tiny.toml").write_text(TINY.replace("[model]", '[model]\ncolours = "light"'))
    done = forks.start(folder, "train", "dataset", "--settings", "tiny.toml", "--supervision", "kind").wait()
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def slide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tissue with tumour whose edges lie across the patches, which are 64 px wide."""
    boxes = {"tissue_px": (64, 64, 960, 896), "tumour_px": (300, 280, 700, 730)}
    return paint_slide(tmp_path_factory.mktemp("painted") / "s.tif", size_px=(1024, 1024), **boxes)


@pytest.fixture
def segment(run: Path, slide: Path, tmp_path: Path) -> Segment:
    """`segment("a", stride_px=4)`: the record of the slide segmented into the folder `a`."""

    def do(output: str = "segmented", **wishes: Any) -> dict[str, Any]:
        settings = replace(SegmentationSettings(inference="torch", window_px=64), **wishes)
        (tmp_path / output).mkdir()
        spec = ModelSpec(run / model_safetensors.NAME, "cpu", 1, settings)
        identity: dict[str, Any] = {"model": {"sha256": "of the test"}, "settings": {}}
        folder = tmp_path / output
        return segment_slide(SlideJob("s", slide, None, folder, spec, TissueSettings(), False, False, 10**12, identity))

    return do


def model_of(run: Path) -> TrainedModel:
    return assemble(*model_safetensors.read(run / model_safetensors.NAME), torch.device("cpu"))


def raster(folder: Path, what: str) -> NDArray[np.uint8]:
    return np.asarray(tifffile.imread(folder / f"s_{what}.tif", key=0), np.uint8)


def shares_of(model: TrainedModel, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What the network of pixels says of a picture, by itself."""
    assert model.pixels is not None
    with torch.no_grad():
        logits = model.pixels(model.preparation(torch.from_numpy(rgb[None])))[0]
    return np.asarray(torch.sigmoid(logits).numpy(), np.float32)


def shares_within(run: Path, rgb: NDArray[np.uint8], margin_px: int, smooth_px: float) -> NDArray[np.float32]:
    """What it says of each pixel within a margin, smoothed."""
    model = model_of(run)
    shares, core_px = shares_of(model, rgb), len(rgb) - 2 * margin_px
    inner = slice(margin_px, margin_px + core_px)
    if smooth_px == 0:
        return shares[inner, inner]
    looks = model.preparation(torch.from_numpy(rgb[None]))[0].permute(1, 2, 0).numpy()
    cells = len(rgb) // CELL_PX
    found = np.concatenate([shares[..., None], looks], axis=2).reshape(cells, CELL_PX, cells, CELL_PX, 4).mean((1, 3))

    class Said:
        name = "what it says by itself"

        def __call__(self, pictures: NDArray[np.uint8], table: NDArray[np.float32]) -> NDArray[np.float32]:
            return found[None]

    engine = SmoothedEngine(Said(), PictureShape(core_px, margin_px, len(rgb)), 1, smooth_px)
    return engine(rgb[None], np.zeros(0, np.float32))[0, :, :, 0]


@pytest.mark.parametrize(
    ("stride_px", "smooth_px", "adapt"), [(16, 0.0, 0.0), (8, 0.0, 0.0), (4, 0.0, 1.0), (16, 12.0, 1.0), (4, 6.0, 0.0)]
)
def test_the_mask_of_a_slide_is_what_the_network_of_pixels_says_of_its_cells(
    segment: Segment, run: Path, slide: Path, tmp_path: Path, stride_px: int, smooth_px: float, adapt: float
) -> None:
    record = segment(stride_px=stride_px, smooth_px=smooth_px, adapt=adapt)
    assert record["assigned_by"] == "pixels"
    with Slide(slide) as opened:
        corner, side = PointL0(-4 * AROUND_PX, -4 * AROUND_PX), SLIDE_PX + 2 * AROUND_PX
        rgb = np.array(opened.read_rectangle(corner, (side, side), 2.0))
    cells = SLIDE_PX // stride_px
    pixels = shares_within(run, rgb, AROUND_PX, smooth_px)
    shares = pixels.reshape(cells, stride_px, cells, stride_px).mean(axis=(1, 3))
    labels = raster(tmp_path / "segmented", "labels")
    is_tissue = labels > 0
    threshold = record["threshold"]
    assert threshold == pytest.approx(threshold_of(count_normal(shares[is_tissue]), adapt), abs=2e-3)
    assert (abs(threshold - 0.5) > 0.01) == (adapt > 0)
    is_clear = is_tissue & (np.abs(shares - threshold) > 1e-3)  # elsewhere a last digit decides
    np.testing.assert_array_equal(labels[is_clear], 1 + (shares > threshold)[is_clear])
    assert set(np.unique(labels[is_clear])) == {1, 2} and is_clear.mean() > 0.6
    sure = 255 - raster(tmp_path / "segmented", "uncertainty")[is_tissue]
    room = np.where(shares > threshold, 1 - threshold, threshold)
    np.testing.assert_allclose(sure, 255 * (np.abs(shares - threshold) / room)[is_tissue], atol=2)


@pytest.mark.parametrize("stride_px", [16, 4, 5])
def test_windows_are_counted_by_the_same_features_whoever_draws_the_mask(
    segment: Segment, tmp_path: Path, stride_px: int
) -> None:
    found = {}
    for assign in ("pixels", "centroids"):
        segment(assign, assign=assign, stride_px=stride_px)
        found[assign] = raster(tmp_path / assign, "mixture").astype(int)
    assert found["centroids"].max() > 128 > found["centroids"].min()
    np.testing.assert_allclose(found["pixels"], found["centroids"], atol=1)


@pytest.mark.parametrize("wish", [{"assign": "centroids"}, {"assign": "head"}, {"refit": "kmeans"}, {"refit": "merge"}])
def test_clusters_and_the_head_may_still_be_asked(segment: Segment, tmp_path: Path, wish: dict[str, str]) -> None:
    record = segment(**wish)
    assert record["assigned_by"] == wish.get("assign", "centroids")
    labels = raster(tmp_path / "segmented", "labels")
    assert (labels[6:10, 6:10] == 2).all() and (labels[2:4, 2:4] == 1).all()  # amid the tumour, and far from it


def test_openvino_gives_the_same_labels(segment: Segment, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    records = [segment(name, inference=name) for name in ("torch", "openvino")]
    assert [record["inference"]["engine"] for record in records] == ["torch", "openvino"]
    np.testing.assert_array_equal(*(raster(tmp_path / name, "labels") for name in ("torch", "openvino")))


def test_pixels_are_refused_where_there_was_no_second_round(clustered_run: Path) -> None:
    settings = SegmentationSettings(inference="torch", assign="pixels")
    with pytest.raises(SettingsError, match="--assign pixels is for models with a second round"):
        examine(ModelSpec(clustered_run / model_safetensors.NAME, "cpu", 1, settings))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Test tiles whose tumour ends within patches."""
    path = write_dataset(tmp_path_factory.mktemp("judged") / "dataset", test={"normal": 2, "metastases": 2})
    x = np.indices((SIDE, SIDE))[1]
    add_tile(path, "quarter", (x >= 4) & (x < 36))
    add_tile(path, "half", (x >= 8) & (x < 40))
    return path


@pytest.fixture(scope="module")
def report(run: Path, dataset: Path) -> Path:
    wishes = SegmentationSettings(inference="torch", batch_size=64, smooth_px=SMOOTH_PX)
    evaluated(dataset, run, output=dataset.with_name("report"), segmentation=wishes)
    return dataset.with_name("report")


def counted(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(both.sum()) for both in (found & truth, found & ~truth, ~found & ~truth, ~found & truth))


def shares_of_tile(dataset: Path, run: Path, tile: str, smooth_px: float) -> NDArray[np.float32]:
    """What the network of pixels says of a tile, which it sees mirrored: a tile has nothing around it."""
    (row,) = [row for row in tiles_csv.read(dataset) if row.tile_id == tile]
    mirrored = np.pad(tile_png.read_image(dataset, row), ((32, 32), (32, 32), (0, 0)), mode="reflect")
    return shares_within(run, mirrored, 32, smooth_px)


def of_patches(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(shares.reshape(4, PATCH, 4, PATCH).mean(axis=(1, 3)), np.float32)


@pytest.mark.parametrize("tile", ["quarter", "half"])
def test_the_figures_are_those_of_its_mask_on_the_grid_and_by_its_pixels(
    report: Path, dataset: Path, run: Path, tile: str
) -> None:
    (row,) = [row for row in tiles_csv.read(dataset) if row.tile_id == tile]
    truth, shares = tile_png.read_mask(dataset, row), shares_of_tile(dataset, run, tile, SMOOTH_PX)
    threshold = report_json.read(report)["models"][0]["thresholds"][row.slide]
    on_grid = (of_patches(shares) > threshold).repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    fine = shares > threshold
    assert not np.array_equal(fine, on_grid)
    assert counts_in(report, "run-pixels", tile) == counted(fine, truth)
    assert counts_in(report, "run", tile) == counted(on_grid, truth)


@pytest.mark.parametrize(("smooth_px", "adapt"), [(24.0, 0.0), (0.0, 0.5), (8.0, 1.0)])
def test_each_slide_is_judged_by_the_threshold_that_its_tiles_ask_for(
    run: Path, dataset: Path, tmp_path: Path, smooth_px: float, adapt: float
) -> None:
    wishes = SegmentationSettings(inference="torch", batch_size=64, smooth_px=smooth_px, adapt=adapt)
    evaluated(dataset, run, output=tmp_path / "report", segmentation=wishes)
    record = report_json.read(tmp_path / "report")
    assert record["settings"]["segmentation"]["adapt"] == adapt
    if not adapt:
        assert record["models"][0]["thresholds"] is None
        return
    tiles = [row for row in tiles_csv.read(dataset) if row.split == "test"]
    for slide in {row.slide for row in tiles}:
        ids = [row.tile_id for row in tiles if row.slide == slide]
        counts = sum(count_normal(of_patches(shares_of_tile(dataset, run, tile, smooth_px))) for tile in ids)
        threshold = record["models"][0]["thresholds"][slide]
        assert threshold == pytest.approx(threshold_of(counts, adapt), abs=2e-3) != 0.5


def test_a_model_with_a_second_round_has_two_rows_and_still_counts(report: Path) -> None:
    names = [row["model"] for row in table_rows(report / "metrics.csv") if row["averaging"] == "image"]
    assert names == ["run", "run-pixels", "kmeans", "colour", "empty", "grid-ceiling"]
    (found,) = report_json.read(report)["models"][:1]
    assert found["ucc"]["confusion"] == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    assert found["matched_by"] == "classes"  # which it was taught, and an oracle may not change
    assert sum(found["features"]["patches"]) == 6 * 16


@pytest.mark.parametrize(("wish", "matched_by"), [("centroids", "names"), ("head", "classes")])
def test_who_asks_for_clusters_or_the_head_gets_one_row(
    run: Path, dataset: Path, tmp_path: Path, wish: str, matched_by: str
) -> None:
    wishes = SegmentationSettings(inference="torch", batch_size=64, assign=wish)
    evaluated(dataset, run, output=tmp_path / "report", segmentation=wishes)
    assert "run-pixels" not in {row["model"] for row in table_rows(tmp_path / "report" / "metrics.csv")}
    assert report_json.read(tmp_path / "report")["models"][0]["matched_by"] == matched_by


def test_classes_that_nobody_has_named_are_judged_only_by_the_truth(
    whole_run: Path, dataset: Path, tmp_path: Path
) -> None:
    nameless = Path(shutil.copytree(whole_run, tmp_path / "nameless"))
    card, tensors = model_safetensors.read(nameless / model_safetensors.NAME)
    card = replace(card, classes=("cluster 1", "cluster 2"))
    model_safetensors.write(nameless / model_safetensors.NAME, card, tensors)
    with pytest.raises(ModelError, match=r"no cluster of nameless has the name of tumour .*give --match oracle"):
        evaluated(dataset, nameless, output=tmp_path / "report")
    evaluated(dataset, nameless, output=tmp_path / "report", match="oracle")
    assert figures_in(tmp_path / "report", "nameless")["TPR"] > 0.8
    assert figures_in(tmp_path / "report", "nameless-pixels")["TPR"] > 0.8
