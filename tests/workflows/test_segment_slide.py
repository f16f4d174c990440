"""One slide segmented: the mask is what was painted, and every file says the same."""

from __future__ import annotations

import gzip
import json
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openslide
import pytest
import shapely
import tifffile
import torch
from conftest import paint_slide, write_tiff
from numpy.typing import NDArray
from PIL import Image

from ucc_path.errors import ModelError, SettingsError, SlideError, TissueError, TooLargeError
from ucc_path.formats import review_csv, segmentation_json, viewer_rules
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.settings import SegmentationSettings, TissueSettings
from ucc_path.workflows.segment.jobs import ModelSpec, SlideJob, examine, segment_slide

Segment = Callable[..., dict[str, Any]]
CELL = 64  # level-0 pixels of a patch: 16 px at 2 um/px on a slide of 0.5 um/px
PLENTY = 10**12


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What a worker sets for itself is taken back: these tests run in the process of all others."""
    threads, limit = torch.get_num_threads(), resource.getrlimit(resource.RLIMIT_DATA)
    yield
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_DATA, limit)


@pytest.fixture
def segment(whole_run: Path, tmp_path: Path) -> Segment:
    """`segment(slide, stride_px=8)`: the record of a slide segmented by the tiny model into `segmented`."""

    def run(
        slide: Path,
        *,
        run: Path = whole_run,
        output: str = "segmented",
        threads: int = 2,
        slide_mpp: float | None = None,
        full_size: bool = False,
        is_strict: bool = False,
        bytes_each: int = PLENTY,
        **wishes: Any,
    ) -> dict[str, Any]:
        settings = replace(SegmentationSettings(inference="torch", window_px=128, smooth_px=0, adapt=0), **wishes)
        folder = tmp_path / output
        folder.mkdir(exist_ok=True)
        spec = ModelSpec(run / "model.safetensors", "cpu", threads, settings)
        identity = {"model": {"sha256": "of the test"}, "settings": {}}
        job = SlideJob(
            slide.stem, slide, slide_mpp, folder, spec, TissueSettings(), full_size, is_strict, bytes_each, identity
        )
        return segment_slide(job)

    return run


@pytest.fixture
def slide(tmp_path: Path) -> Path:
    return paint_slide(tmp_path / "slides" / "s.tif")


def raster(path: Path, level: int = 0) -> NDArray[np.uint8]:
    return np.asarray(tifffile.imread(path, key=level), np.uint8)


def painted(cell: int = CELL) -> NDArray[np.uint8]:
    """The truth of `paint_slide`, by cells."""
    truth = np.zeros((2048 // cell, 2048 // cell), np.uint8)
    truth[256 // cell : 1792 // cell, 256 // cell : 1792 // cell] = 1
    truth[512 // cell : 1280 // cell, 512 // cell : 1280 // cell] = 2
    return truth


def test_the_mask_is_what_was_painted(slide: Path, segment: Segment, tmp_path: Path) -> None:
    record = segment(slide)
    labels = raster(tmp_path / "segmented" / "s_labels.tif")
    np.testing.assert_array_equal(labels, painted())
    assert record["patches"] == np.count_nonzero(painted())
    areas = {found["name"]: found["area_mm2"] for found in record["classes"]}
    assert areas["metastases"] == pytest.approx((12 * 32e-3) ** 2)
    assert areas["normal"] == pytest.approx((24 * 32e-3) ** 2 - (12 * 32e-3) ** 2)


def test_all_files_of_the_design_are_there_and_nothing_else(slide: Path, segment: Segment, tmp_path: Path) -> None:
    record = segment(slide)
    expected = {f"s{ending}" for what, ending in ENDINGS.items() if what != "ome"}
    assert {path.name for path in (tmp_path / "segmented").iterdir()} == expected
    assert {name: (tmp_path / "segmented" / name).stat().st_size for name in record["files"]} == record["files"]
    assert set(record["files"]) == expected - {"s.json"}
    assert segmentation_json.read(tmp_path / "segmented", "s")["files"] == record["files"]


@pytest.mark.parametrize("full_size", [False, True])
def test_every_tiff_is_a_pyramid_in_its_place_for_openslide_and_asap(
    slide: Path, segment: Segment, tmp_path: Path, full_size: bool
) -> None:
    segment(slide, full_size=full_size)
    pixel_l0 = 1 if full_size else CELL
    for what in ("labels", "overlay", "uncertainty", "mixture", "likelihood"):
        path = tmp_path / "segmented" / f"s{ENDINGS[what]}"
        verdicts = {verdict.viewer: verdict for verdict in viewer_rules.examine(path)}
        for viewer in ("OpenSlide", "ASAP", "tiffslide"):
            assert verdicts[viewer].opens and verdicts[viewer].levels >= 2, verdicts[viewer]
        assert viewer_rules.misfits(path, slide) == () or what != "likelihood"
        with openslide.OpenSlide(path) as opened:
            if what != "likelihood":
                assert opened.dimensions == (2048 // pixel_l0, 2048 // pixel_l0)
            scale = float(opened.properties["openslide.mpp-x"])
            assert scale * opened.dimensions[0] == pytest.approx(2048 * 0.5, rel=1e-4)
            if what == "labels":  # the corner of the painted tumour, just inside and just outside
                inside, outside = 512 // pixel_l0, 512 // pixel_l0 - 1
                assert opened.read_region((inside, inside), 0, (1, 1)).getpixel((0, 0))[0] == 2
                assert opened.read_region((outside, inside), 0, (1, 1)).getpixel((0, 0))[0] == 1
    verdicts = {verdict.viewer: verdict for verdict in viewer_rules.examine(tmp_path / "segmented" / "s_overlay.tif")}
    assert verdicts["QuPath"].opens and verdicts["QuPath"].levels >= 2


def test_full_size_is_every_cell_repeated_and_an_ome_tiff_for_qupath(
    slide: Path, segment: Segment, tmp_path: Path
) -> None:
    segment(slide, full_size=True)
    truth = painted().repeat(CELL, axis=0).repeat(CELL, axis=1)
    np.testing.assert_array_equal(raster(tmp_path / "segmented" / "s_labels.tif"), truth)
    with tifffile.TiffFile(tmp_path / "segmented" / "s_labels.ome.tif") as ome:
        assert ome.is_ome and len(ome.series[0].levels) >= 2
        np.testing.assert_array_equal(ome.series[0].asarray(), truth)


def test_polygons_are_valid_classified_and_agree_with_the_raster(slide: Path, segment: Segment, tmp_path: Path) -> None:
    record = segment(slide)
    features = json.loads(gzip.decompress((tmp_path / "segmented" / "s.geojson.gz").read_bytes()))["features"]
    assert len(features) == record["regions"] == 2
    shapes = {f["properties"]["classification"]["name"]: shapely.geometry.shape(f["geometry"]) for f in features}
    assert all(shape.is_valid for shape in shapes.values())
    tumour = shapely.box(512, 512, 1280, 1280)
    assert shapes["metastases"].equals(tumour)
    assert shapes["normal"].equals(shapely.box(256, 256, 1792, 1792).difference(tumour))
    assert all(0 < f["properties"]["measurements"]["score"] <= 1 for f in features)


def test_the_uncertainty_is_of_tissue_alone_and_its_complement_is_the_score(
    slide: Path, segment: Segment, tmp_path: Path
) -> None:
    segment(slide)
    uncertainty = raster(tmp_path / "segmented" / "s_uncertainty.tif")
    assert (uncertainty[painted() == 0] == 0).all()
    features = json.loads(gzip.decompress((tmp_path / "segmented" / "s.geojson.gz").read_bytes()))["features"]
    for feature in features:
        label = {"normal": 1, "metastases": 2}[feature["properties"]["classification"]["name"]]
        sure = 1 - uncertainty[painted() == label].mean() / 255
        assert feature["properties"]["measurements"]["score"] == pytest.approx(sure, abs=1e-4)


def test_tissue_is_mixed_along_the_edge_of_the_tumour_and_not_far_from_it(
    slide: Path, segment: Segment, tmp_path: Path
) -> None:
    segment(slide)
    mixture = raster(tmp_path / "segmented" / "s_mixture.tif") / 255
    truth = painted()
    assert (mixture[truth == 0] == 0).all()
    assert mixture[11:17, 7].mean() > 0.5  # just left of the tumour: half of the window around is tumour
    assert mixture[24:27, 24:27].mean() < 0.5 < mixture[18:20, 18:20].max()


def test_windows_that_contradict_the_mask_are_listed(slide: Path, segment: Segment, tmp_path: Path) -> None:
    """With an impossible share no class counts, so that every window that the model has judged disagrees."""
    segment(slide, min_class_share=1.0)
    rows = review_csv.read(tmp_path / "segmented" / "s_review.csv")
    assert rows and all(row.predicted_ucc != row.classes_in_mask for row in rows)
    side = 8 * CELL  # 128 px at 2 um/px are 8 patches of 16 px
    assert all(row.side_l0 == side and row.x_l0 % side == row.y_l0 % side == 0 for row in rows)
    assert any(row.predicted_ucc == 2 for row in rows)


def test_the_picture_shows_the_slide_with_its_mask(slide: Path, segment: Segment, tmp_path: Path) -> None:
    segment(slide)
    picture = np.asarray(Image.open(tmp_path / "segmented" / "s.png"))
    assert picture.shape[1] == 128 and picture.shape[0] > 128  # 16 um/px, and words below
    glass, normal, tumour = picture[4, 4], picture[24, 24], picture[56, 56]
    assert glass.min() > 235
    assert int(normal[1]) > int(normal[0])  # green
    assert int(tumour[0]) > int(tumour[2])  # orange


@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_bytes_come_out_for_any_number_of_threads(
    slide: Path, segment: Segment, tmp_path: Path, threads: int
) -> None:
    records = [segment(slide, output=name, threads=count) for name, count in (("two", 2), ("other", threads))]
    for name in records[0]["files"]:
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
    for record in records:
        del record["seconds"], record["peak_memory_mb"]
    assert records[0] == records[1]


def test_openvino_gives_the_same_labels(slide: Path, segment: Segment, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    record = segment(slide, inference="openvino")
    assert record["inference"]["engine"] == "openvino"
    np.testing.assert_array_equal(raster(tmp_path / "segmented" / "s_labels.tif"), painted())


def test_a_smaller_stride_gives_a_finer_mask_of_the_same_place(slide: Path, segment: Segment, tmp_path: Path) -> None:
    record = segment(slide, stride_px=4)
    assert record["grid"] == {"cell_l0": 16, "rows": 128, "cols": 128}
    labels, truth = raster(tmp_path / "segmented" / "s_labels.tif"), painted(16)
    # At the four corners of the tissue a patch is less than half tissue.
    assert np.count_nonzero((labels > 0) != (truth > 0)) <= 4 * 3
    inner = slice(256 // 16 + 2, 1792 // 16 - 2)  # where no patch hangs over the edge of the tissue
    rows, cols = np.nonzero((labels != truth)[inner, inner]) + np.array([[inner.start]])
    # A patch is four cells wide: the tiny model errs where it hangs over the edge of the tumour, hardly else.
    edges = np.array([512, 1280]) // 16
    beside = [np.abs(cells[:, None] + 0.5 - edges).min(axis=1) for cells in (rows, cols)]
    assert np.count_nonzero(np.minimum(*beside) > 2) <= 3
    assert len(rows) < 0.02 * truth.size


def test_a_scale_that_does_not_divide_evenly_keeps_everything_in_place(segment: Segment, tmp_path: Path) -> None:
    slide = paint_slide(tmp_path / "slides" / "s.tif", mpp=0.486)  # a patch is 65.8 level-0 pixels wide
    record = segment(slide)
    cell = record["grid"]["cell_l0"]
    assert cell == 66
    labels = raster(tmp_path / "segmented" / "s_labels.tif")
    assert labels.shape == (2048 // 66, 2048 // 66)
    middles = (np.arange(len(labels)) + 0.5) * cell
    inside = (middles > 512 + cell) & (middles < 1280 - cell)
    assert (labels[inside][:, inside] == 2).all()
    outside = (middles > 256 + cell) & (middles < 512 - cell)
    assert (labels[outside][:, inside] == 1).all() and (labels[inside][:, outside] == 1).all()


def test_a_slide_that_openslide_reads_gives_the_same_mask_as_its_jpeg_twin(
    slide: Path, segment: Segment, tmp_path: Path
) -> None:
    with openslide.OpenSlide(slide) as opened:
        rgb = np.asarray(opened.read_region((0, 0), 0, opened.dimensions).convert("RGB"))
    twin = write_tiff(tmp_path / "slides" / "twin.tif", rgb, mpp=0.5)
    segment(slide)
    segment(twin)
    labels = [raster(tmp_path / "segmented" / f"{name}_labels.tif") for name in ("s", "twin")]
    np.testing.assert_array_equal(*labels)


@pytest.mark.parametrize("how", ["kmeans", "spectral", "merge"])
def test_a_slide_clustered_anew_keeps_the_names_of_its_classes(
    slide: Path, segment: Segment, tmp_path: Path, how: str
) -> None:
    record = segment(slide, refit=how)
    np.testing.assert_array_equal(raster(tmp_path / "segmented" / "s_labels.tif"), painted())
    assert {path.name for path in (tmp_path / "segmented").iterdir()} == {*record["files"], "s.json"}


def test_too_many_patches_for_spectral_clustering_are_refused_before_they_are_computed(
    slide: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ucc_path.workflows.segment.refitting.MOST_SPECTRAL", 100)
    with pytest.raises(TooLargeError, match=r"s\.tif has 576 patches, and --refit-spectral is for up to 100"):
        segment(slide, refit="spectral")


def test_cleaning_is_off_unless_asked_for(tmp_path: Path, segment: Segment, clustered_run: Path) -> None:
    """A single dark patch in pale tissue, far from the tumour, is one of its own, or none."""
    slide = paint_slide(tmp_path / "slides" / "s.tif", lone_px=(1536, 1536, 1536 + CELL, 1536 + CELL))
    found = {}
    for how in ("none", "lone", "median"):
        segment(slide, run=clustered_run, output=how, clean_up=how)
        found[how] = raster(tmp_path / how / "s_labels.tif")
    assert found["none"][24, 24] == 2
    assert found["lone"][24, 24] == found["median"][24, 24] == 1
    np.testing.assert_array_equal(found["lone"], painted())
    assert found["median"][8, 8] == 1  # a corner of the tumour: four of nine


def damage(slide: Path, corner_px: tuple[int, int], level: int = 2) -> None:
    """Destroys the stored tile of a level that holds a pixel of it."""
    with tifffile.TiffFile(slide) as tiff:
        page: Any = tiff.pages[level]
        across = -(-page.imagewidth // page.tilewidth)
        index = corner_px[1] // page.tilelength * across + corner_px[0] // page.tilewidth
        start, count = page.dataoffsets[index], page.databytecounts[index]
    with slide.open("r+b") as file:
        file.seek(start)
        file.write(b"\0" * count)


def test_what_cannot_be_decoded_is_background_and_counted(segment: Segment, tmp_path: Path) -> None:
    slide = paint_slide(tmp_path / "slides" / "s.tif", size_px=(4096, 2048))
    damage(slide, (300, 300))  # at 2 um/px: the tile from (256, 256) to (512, 512), which are 16 x 16 patches
    record = segment(slide)
    lost = painted()[16:, 16:] > 0
    assert record["unreadable_patches"] == np.count_nonzero(lost)
    labels = raster(tmp_path / "segmented" / "s_labels.tif")[:, :32]
    expected = painted()
    expected[16:, 16:] = 0
    np.testing.assert_array_equal(labels, expected)


def test_a_damaged_slide_fails_where_the_user_is_strict(slide: Path, segment: Segment, tmp_path: Path) -> None:
    for finer in (0, 1):  # which are not read
        damage(slide, (300, 300), level=finer)
    segment(slide, is_strict=True)
    damage(slide, (300, 300))
    with pytest.raises(SlideError, match="damaged"):
        segment(slide, output="strict", is_strict=True)
    assert list((tmp_path / "strict").iterdir()) == []


def test_a_slide_that_is_mostly_damaged_fails(
    segment: Segment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ucc_path.workflows.segment.slide._SOME_LOST", 10)
    slide = paint_slide(tmp_path / "slides" / "s.tif", size_px=(4096, 2048))
    damage(slide, (300, 300))
    with pytest.raises(SlideError, match=r"s\.tif is damaged: \d+ of its 576 patches .* cannot be read; copy the file"):
        segment(slide)
    assert list((tmp_path / "segmented").iterdir()) == []


def test_slides_that_cannot_be_segmented_are_refused_in_one_sentence(segment: Segment, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    glass = np.clip(243 + rng.integers(-3, 4, (512, 512, 3)), 0, 255).astype(np.uint8)
    small, blank = (
        write_tiff(tmp_path / f"{name}.tif", glass, mpp=mpp) for name, mpp in (("small", 19.0), ("blank", 0.5))
    )
    without = write_tiff(tmp_path / "without.tif", glass, mpp=None)
    with pytest.raises(
        SlideError, match=r"small\.tif has 19 um/px, coarser than the 2 um/px that the model was trained"
    ):
        segment(small)
    with pytest.raises(
        SlideError, match=r"small\.tif is 512 x 512 px at 0\.05 um/px, smaller than a patch of 16 px at 2"
    ):
        segment(small, slide_mpp=0.05)
    with pytest.raises(TissueError, match=r"no tissue was found on .*blank\.tif"):
        segment(blank)
    with pytest.raises(SlideError, match=r"without\.tif does not record its scale; give it with --slide-mpp"):
        segment(without)
    assert list((tmp_path / "segmented").iterdir()) == []


def test_a_slide_that_does_not_fit_into_the_memory_is_refused_before_any_work(slide: Path, segment: Segment) -> None:
    with pytest.raises(
        TooLargeError, match=r"s\.tif needs about \d{3} MB for its mask of 1,024 cells, and may take 500"
    ):
        segment(slide, bytes_each=500 * 10**6)


def test_models_that_cannot_do_what_is_asked_are_refused(whole_run: Path, tmp_path: Path) -> None:
    def spec(**wishes: Any) -> ModelSpec:
        settings = replace(SegmentationSettings(inference="torch"), **wishes)
        return ModelSpec(whole_run / "model.safetensors", "cpu", 1, settings)

    with pytest.raises(
        SettingsError, match="--stride-px 17 would leave gaps between patches of 16 px; give 16 or less"
    ):
        examine(spec(stride_px=17))
    with pytest.raises(SettingsError, match="--assign head is for models that were taught which class"):
        examine(spec(assign="head"))
    with pytest.raises(ModelError, match="is not a model that can be used"):
        (tmp_path / "model.safetensors").write_bytes(b"no")
        examine(replace(spec(), path=tmp_path / "model.safetensors"))
    assert examine(spec(refit="merge")).classes == examine(spec()).classes == ("normal", "metastases")


def test_merging_by_the_count_is_refused_for_a_model_that_does_not_count(
    make_dataset: Callable[..., Path], run_train: Callable[..., Any], tmp_path: Path
) -> None:
    make_dataset()
    done = run_train("--model", "autoencoder", "--steps", "2")
    assert done.returncode == 0, done.stderr
    settings = SegmentationSettings(inference="torch", refit="merge")
    path = tmp_path / "run" / "model.safetensors"
    message = f"^--refit-merge is for models that count classes, and {path} is a model autoencoder; give --refit$"
    with pytest.raises(SettingsError, match=message):
        examine(ModelSpec(path, "cpu", 1, settings))
