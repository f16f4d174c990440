"""Tiles whose tumour was painted, judged by models and baselines: every figure is known before."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, add_tile, write_dataset
from forks import Forks
from numpy.typing import NDArray
from reports import counts_in, evaluated, figures_in, notices, table_rows
from torch.nn import functional

from ucc_path.errors import DatasetError, SettingsError
from ucc_path.formats import model_safetensors, png, report_json, tile_png, tiles_csv
from ucc_path.model.recipes import TrainedModel, assemble
from ucc_path.settings import SegmentationSettings, TissueSettings
from ucc_path.workflows import evaluate as workflow

SIDE, PATCH = 64, 16
Y, X = np.indices((SIDE, SIDE))
PALE = 0.42  # so weakly stained that its tumour has the colour of other slides' tissue

Bools = NDArray[np.bool_]


@pytest.fixture(scope="module")
def unet_run(forks: Forks, clustered_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unet")
    (folder / "tiny.toml").write_text(TINY)
    how = ("--settings", "tiny.toml", "--model", "unet", "--steps", "30", "-o", "unet")
    done = forks.start(folder, "train", clustered_run.parent / "dataset", *how).wait()
    assert done.returncode == 0, done.stderr
    return folder / "unet"


@pytest.fixture(scope="module")
def dataset(clustered_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Test tiles of two slides beside the tiles that the models were trained on."""
    path = tmp_path_factory.mktemp("evaluated") / "dataset"
    shutil.copytree(clustered_run.parent / "dataset", path)
    add_tile(path, "aligned", X < 32)
    add_tile(path, "quarter", (X >= 4) & (X < 36))  # a quarter of a patch from its borders
    add_tile(path, "half", (X >= 8) & (X < 40))
    add_tile(path, "glass", Y < 32, tissue=X < 32)  # an outline that goes on over the glass
    add_tile(path, "normal", X < 0)
    add_tile(path, "tumour", X >= 0)
    for name, tumour in (("pale_1", X < 32), ("pale_2", Y >= 32)):
        add_tile(path, name, tumour, slide="pale", density=PALE)
    return path


@pytest.fixture(scope="module")
def report(dataset: Path, clustered_run: Path, unet_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "report"
    evaluated(dataset, clustered_run, unet_run, output=output)
    return output


def picture(dataset: Path, name: str) -> tuple[NDArray[np.uint8], Bools]:
    (row,) = [row for row in tiles_csv.read(dataset) if row.tile_id == name]
    return tile_png.read_image(dataset, row), tile_png.read_mask(dataset, row)


def prepared(dataset: Path, name: str) -> torch.Tensor:
    """A tile of the slide `test` as a network takes it: density, by mean and spread over all tissue of the slide."""
    tiles = {row.tile_id: picture(dataset, row.tile_id)[0] for row in tiles_csv.read(dataset) if row.slide == "test"}
    tissue = np.concatenate([tiles[tile][(X < 32) | (tile != "glass")] for tile in tiles])
    density = -np.log10(tissue / 255)
    standard = (-np.log10(tiles[name] / 255) - density.mean(axis=0)) / density.std(axis=0)
    return torch.from_numpy(standard.astype(np.float32)).movedim(-1, 0)


def model_of(run: Path) -> TrainedModel:
    return assemble(*model_safetensors.read(run / model_safetensors.NAME), torch.device("cpu"))


def counted(found: Bools, truth: Bools) -> tuple[int, ...]:
    return tuple(int(both.sum()) for both in (found & truth, found & ~truth, ~found & ~truth, ~found & truth))


def test_the_rows_are_the_runs_and_what_they_are_compared_with(report: Path, dataset: Path) -> None:
    models = ["run", "unet", "unet-pixels", "kmeans", "colour", "empty", "grid-ceiling"]
    averagings = ["image", "pooled", "image-tissue", "pooled-tissue"]
    found = [(row["model"], row["averaging"]) for row in table_rows(report / "metrics.csv")]
    assert found == [(model, averaging) for model in models for averaging in averagings]
    tiles = {row.tile_id: row.slide for row in tiles_csv.read(dataset) if row.split == "test"}
    found = [(row["model"], row["image"]) for row in table_rows(report / "images.csv")]
    assert found == [(model, tile) for model in models for tile in sorted(tiles, key=lambda tile: tiles[tile])]


@pytest.mark.parametrize("tile", ["quarter", "half"])
def test_the_figures_of_a_model_are_those_of_its_own_mask(
    report: Path, dataset: Path, clustered_run: Path, tile: str
) -> None:
    """Each patch through the network by itself, and to the nearest centre."""
    model = model_of(clustered_run)
    assert model.centroids is not None
    pixels = prepared(dataset, tile)
    patches = pixels.reshape(3, 4, PATCH, 4, PATCH).permute(1, 3, 0, 2, 4).reshape(16, 3, PATCH, PATCH)
    with torch.no_grad():
        features = model.network.get_submodule("extractor")(patches)
    is_tumour = (torch.cdist(features, model.centroids).argmin(dim=1) == 1).numpy().reshape(4, 4)
    assert 0 < is_tumour.sum() < 16
    found = is_tumour.repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    assert counts_in(report, "run", tile) == counted(found, picture(dataset, tile)[1])


@pytest.mark.parametrize("tile", ["quarter", "half"])
def test_the_mask_of_a_unet_counts_on_the_grid_and_by_its_pixels(
    report: Path, dataset: Path, unet_run: Path, tile: str
) -> None:
    """It sees the tile mirrored around itself, since a tile has nothing around it."""
    mirrored = functional.pad(prepared(dataset, tile)[None], (32, 32, 32, 32), mode="reflect")
    with torch.no_grad():
        shares = torch.sigmoid(model_of(unet_run).network(mirrored))[0, 32:-32, 32:-32].numpy()
    truth = picture(dataset, tile)[1]
    (slide,) = {row.slide for row in tiles_csv.read(dataset) if row.tile_id == tile}
    unet = next(found for found in report_json.read(report)["models"] if found["name"] == "unet")
    threshold = unet["thresholds"][slide]
    means = shares.reshape(4, PATCH, 4, PATCH).mean(axis=(1, 3))  # as they are: masks have taught where an edge is
    on_grid = (means > threshold).repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    assert not np.array_equal(shares > threshold, on_grid)
    assert counts_in(report, "unet-pixels", tile) == counted(shares > threshold, truth)
    assert counts_in(report, "unet", tile) == counted(on_grid, truth)


def test_a_network_whose_stride_does_not_divide_the_side_of_a_tile_is_judged_too(
    forks: Forks, clustered_run: Path, dataset: Path, tmp_path: Path
) -> None:
    """Tiles of 64 px, and pictures whose side has to be a multiple of 12."""
    (tmp_path / "odd.toml").write_text(TINY.replace("patch_px = 16", "patch_px = 24\nstem_stride = 3"))
    how = ("--settings", "odd.toml", "--model", "unet", "--steps", "2", "-o", "odd")
    done = forks.start(tmp_path, "train", clustered_run.parent / "dataset", *how).wait()
    assert done.returncode == 0, done.stderr
    evaluated(dataset, tmp_path / "odd", output=tmp_path / "report")
    tiles = {row.tile_id for row in tiles_csv.read(dataset) if row.split == "test"}
    assert {row["image"] for row in table_rows(tmp_path / "report" / "images.csv") if row["model"] == "odd"} == tiles
    assert all(sum(counts_in(tmp_path / "report", "odd-pixels", tile)) == SIDE**2 for tile in tiles)


def test_with_nothing_drawn_all_tumour_is_missed_and_all_else_right(report: Path, dataset: Path) -> None:
    for row in tiles_csv.read(dataset):
        if row.split == "test":
            tumour = (row.tumour_fraction or 0) * SIDE**2
            assert counts_in(report, "empty", row.tile_id) == (0, 0, SIDE**2 - tumour, tumour)
    for averaging in ("image", "pooled"):
        figures = figures_in(report, "empty", averaging)
        assert (figures["TPR"], figures["FPR"]) == (0, 0)
        assert figures["PA"] == pytest.approx(1 - 0.5)  # the tumour is on the half of seven tiles, all of one, no one's
    tissue = figures_in(report, "empty", "pooled-tissue")
    assert tissue["PA"] == pytest.approx(1 - (5.25 / 2 + 1) / 7.25, abs=1e-6)


def test_the_truth_on_the_grid_is_perfect_only_where_tumour_follows_the_patches(report: Path) -> None:
    assert counts_in(report, "grid-ceiling", "aligned") == (32 * SIDE, 0, 32 * SIDE, 0)
    # Tumour in columns 4 to 36: the first patch is 12/16 tumour, the second all, the third 4/16.
    assert counts_in(report, "grid-ceiling", "quarter") == (28 * SIDE, 4 * SIDE, 28 * SIDE, 4 * SIDE)
    # In columns 8 to 40: the first and the third patch are half tumour, which is enough.
    assert counts_in(report, "grid-ceiling", "half") == (32 * SIDE, 16 * SIDE, 16 * SIDE, 0)


def test_glass_is_background_and_left_out_of_the_figures_over_tissue(report: Path) -> None:
    for model in ("run", "kmeans", "colour", "grid-ceiling"):
        assert counts_in(report, model, "glass") == (32 * 32, 0, 32 * SIDE, 32 * 32)
        assert counts_in(report, model, "glass", "_tissue") == (32 * 32, 0, 32 * 32, 0)


def test_means_over_images_and_figures_of_all_pixels_are_told_apart(report: Path) -> None:
    # Share of the tumour that the grid finds: in tiles of 2048 pixels of tumour, and in one of 4096.
    found = {"aligned": 1, "quarter": 28 / 32, "half": 1, "glass": 0.5, "pale_1": 1, "pale_2": 1}
    image, pooled = (figures_in(report, "grid-ceiling", averaging) for averaging in ("image", "pooled"))
    assert image["TPR"] == pytest.approx((sum(found.values()) + 1) / 7, abs=1e-6)  # "normal" has none
    assert pooled["TPR"] == pytest.approx((sum(found.values()) + 2) / 8, abs=1e-6)
    tissue = figures_in(report, "grid-ceiling", "image-tissue")
    assert tissue["TPR"] == pytest.approx((sum(found.values()) + 0.5 + 1) / 7, abs=1e-6)


def test_each_slide_is_judged_by_its_own_stain(report: Path) -> None:
    for tile in ("pale_1", "pale_2"):
        assert counts_in(report, "run", tile) == (32 * SIDE, 0, 32 * SIDE, 0)
        # Raw pixels and colours know no stains: the tumour of the pale slide looks like tissue.
        for model in ("kmeans", "colour"):
            assert counts_in(report, model, tile) == (0, 0, 32 * SIDE, 32 * SIDE)
            assert counts_in(report, model, "aligned") == (32 * SIDE, 0, 32 * SIDE, 0)


def test_slides_drawn_again_show_how_slides_differ(report: Path) -> None:
    """Of two slides a quarter of the draws has one of them alone, and so both are within an interval of 95 %."""
    rows = [row for row in table_rows(report / "images.csv") if row["model"] == "kmeans" and row["TPR"]]
    other = [float(row["TPR"]) for row in rows if row["slide"] == "test"]
    figures = figures_in(report, "kmeans")
    assert figures["TPR_low_slides"] == 0
    assert figures["TPR_high_slides"] == pytest.approx(float(np.mean(other)), abs=1e-5)
    assert 0 < figures["TPR_low"] < figures["TPR"] < figures["TPR_high"]


def test_one_slide_has_no_intervals_over_slides(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"normal": 1, "mixture": 3})
    events = evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert any("of one slide" in text for text in notices(events))
    for row in table_rows(tmp_path / "report" / "metrics.csv"):
        assert all(row[f"{name}_{end}_slides"] == "" for name in ("TPR", "PA", "Dice") for end in ("low", "high"))
        assert row["PA_low"] and row["PA_high"]
    assert "intervals over slides" not in (tmp_path / "report" / "report.html").read_text()


def test_a_strip_that_is_no_whole_patch_is_background(clustered_run: Path, unet_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset")
    y, x = np.indices((70, 70))  # four patches, a cell, and two pixels
    add_tile(dataset, "upper", y < 32)
    add_tile(dataset, "left", x < 32)
    evaluated(dataset, clustered_run, unet_run, output=tmp_path / "report")
    for model in ("run", "unet", "kmeans", "colour", "grid-ceiling"):
        for tile in ("upper", "left"):
            assert counts_in(tmp_path / "report", model, tile) == (32 * 64, 0, 38 * 70, 32 * 6)
            # Whole cells of a quarter patch may be tissue; what is left beside them is not looked at.
            assert counts_in(tmp_path / "report", model, tile, "_tissue") == (32 * 64, 0, 36 * 68, 32 * 4)


def test_a_tile_without_any_tissue_is_background_and_is_not_counted(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"normal": 1, "metastases": 1, "mixture": 2})
    add_tile(dataset, "bare", X < 0, tissue=X < 0)
    add_tile(dataset, "odd", X < 16, tissue=X < 0)  # an outline around nothing
    report = tmp_path / "report"
    evaluated(dataset, clustered_run, output=report)
    for model in ("run", "kmeans", "colour", "empty", "grid-ceiling"):
        assert counts_in(report, model, "bare") == (0, 0, SIDE**2, 0)
        assert counts_in(report, model, "odd") == (0, 0, 48 * SIDE, 16 * SIDE)
        assert counts_in(report, model, "bare", "_tissue") == counts_in(report, model, "odd", "_tissue") == (0,) * 4
    bare = next(row for row in table_rows(report / "images.csv") if row["image"] == "bare")
    assert bare["PA"] == "1.000000" and bare["PA_tissue"] == bare["TPR"] == ""
    assert figures_in(report, "run", "image-tissue")["PA"] == 1
    counting = report_json.read(report)["models"][0]["ucc"]
    assert counting["confusion"] == [[2, 0], [0, 2]]


def test_the_same_counts_come_out_however_many_tiles_are_judged_at_once(
    report: Path, dataset: Path, clustered_run: Path, unet_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "_PATCHES_AT_ONCE", 32)  # two tiles, where above all of a slide were
    how = SegmentationSettings(inference="torch", batch_size=8)
    evaluated(dataset, clustered_run, unet_run, output=tmp_path / "report", segmentation=how)
    assert (tmp_path / "report" / "images.csv").read_bytes() == (report / "images.csv").read_bytes()


def test_val_tiles_are_judged_where_asked_for_and_it_is_said_what_that_means(
    clustered_run: Path, tmp_path: Path
) -> None:
    dataset = clustered_run.parent / "dataset"
    events = evaluated(dataset, clustered_run, output=tmp_path / "report", split="val")
    text = "val tiles choose when training stops: figures on them promise more than on test tiles"
    assert text in notices(events) and not any("was trained on slides" in said for said in notices(events))
    record = report_json.read(tmp_path / "report")
    assert text in record["notes"]
    assert record["data"]["split"] == "val" and record["data"]["images"] == 16
    assert figures_in(tmp_path / "report", "run")["PA"] == 1


def test_tiles_without_a_mask_are_left_out_and_counted(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"normal": 1, "mixture": 2, "unlabelled": 4})
    events = evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert "4 of 7 test tiles have no mask and are left out" in notices(events)
    assert {row["image"] for row in table_rows(tmp_path / "report" / "images.csv")} == {
        f"test_03{n}" for n in (2, 3, 4)
    }


def test_without_train_tiles_the_baselines_are_made_of_val_tiles_and_that_is_said(
    clustered_run: Path, tmp_path: Path
) -> None:
    dataset = write_dataset(tmp_path / "dataset", train={}, test={"mixture": 2})
    events = evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert any("no train tiles" in text and "val tiles" in text for text in notices(events))
    for model in ("kmeans", "colour"):
        assert figures_in(tmp_path / "report", model)["PA"] == 1


def test_baselines_that_nobody_has_named_are_left_out_unless_the_truth_can_name_them(
    clustered_run: Path, tmp_path: Path
) -> None:
    dataset = write_dataset(tmp_path / "dataset", train={"unlabelled": 2}, val={}, test={"mixture": 2})
    rows = tiles_csv.read(dataset)
    for row, source in zip(rows[:2], rows[2:], strict=True):  # they show both kinds, and nobody has said so
        shutil.copyfile(tiles_csv.image_path(dataset, source), tiles_csv.image_path(dataset, row))
    events = evaluated(dataset, clustered_run, output=tmp_path / "names")
    assert any("kmeans is left out" in text for text in notices(events))
    assert {row["model"] for row in table_rows(tmp_path / "names" / "metrics.csv")} == {"run", "empty", "grid-ceiling"}
    evaluated(dataset, clustered_run, output=tmp_path / "oracle", match="oracle")
    assert figures_in(tmp_path / "oracle", "kmeans")["PA"] == 1
    assert "colour" not in {row["model"] for row in table_rows(tmp_path / "oracle" / "metrics.csv")}


def test_raw_clusters_are_named_where_one_kind_is_known_and_colours_are_not_learnt(
    clustered_run: Path, tmp_path: Path
) -> None:
    dataset = write_dataset(tmp_path / "dataset", train={"normal": 2, "mixture": 2}, val={}, test={"mixture": 2})
    evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert figures_in(tmp_path / "report", "kmeans")["PA"] == 1
    assert "colour" not in {row["model"] for row in table_rows(tmp_path / "report" / "metrics.csv")}


def test_a_train_tile_without_tissue_is_no_part_of_the_baselines(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"mixture": 2})
    png.write(tiles_csv.image_path(dataset, tiles_csv.read(dataset)[0]), np.full((SIDE, SIDE, 3), 243, np.uint8))
    evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert figures_in(tmp_path / "report", "kmeans")["PA"] == figures_in(tmp_path / "report", "colour")["PA"] == 1


def test_train_tiles_that_show_nothing_are_refused(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", train={"normal": 2}, test={"mixture": 2})
    for row in tiles_csv.read(dataset)[:2]:
        png.write(tiles_csv.image_path(dataset, row), np.full((SIDE, SIDE, 3), 243, np.uint8))
    with pytest.raises(DatasetError, match=r"the train tiles of .*dataset show no tissue; check its images"):
        evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


def test_a_data_set_without_test_tiles_is_refused(clustered_run: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"dataset has no test tiles \(only train, val\); make it anew with"):
        evaluated(clustered_run.parent / "dataset", clustered_run, output=tmp_path / "report")
    empty = write_dataset(tmp_path / "empty", train={}, val={})
    with pytest.raises(DatasetError, match=r"empty has no test tiles \(only an empty table\)"):
        evaluated(empty, clustered_run, output=tmp_path / "report")
    with pytest.raises(DatasetError, match=r"tiles\.csv cannot be read .* is not a data set"):
        evaluated(tmp_path, clustered_run, output=tmp_path / "report")


def test_tiles_without_any_mask_are_refused(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"unlabelled": 3})
    with pytest.raises(DatasetError, match=r"the test tiles of .*dataset have no masks to compare with; make the data"):
        evaluated(dataset, clustered_run, output=tmp_path / "report")


def test_a_mask_that_is_missing_is_named(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"mixture": 3})
    (dataset / "masks" / "test" / "test_033.png").unlink()
    with pytest.raises(DatasetError, match=r"1 of 3 test tiles of .*dataset lack their masks \(test_033\); copy"):
        evaluated(dataset, clustered_run, output=tmp_path / "report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


def test_tiles_of_two_scales_are_not_judged_together(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"mixture": 2})
    *others, last = tiles_csv.read(dataset)
    tiles_csv.write(dataset, [*others, replace(last, mpp=1.0)])
    with pytest.raises(DatasetError, match="the tiles are not alike"):
        evaluated(dataset, clustered_run, output=tmp_path / "report")


def test_settings_with_which_no_tissue_can_be_found_are_refused(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset", test={"mixture": 2})
    with pytest.raises(SettingsError, match="tissue is looked for at 4 to 64 um/px, not at 1"):
        evaluated(dataset, clustered_run, output=tmp_path / "report", tissue=TissueSettings(mpp=1.0))


@pytest.mark.parametrize(("least", "cols"), [(0.75, (28, 4, 32, 0)), (0.8, (16, 0, 36, 12))])
def test_a_patch_with_less_tissue_than_asked_for_is_background(
    clustered_run: Path, tmp_path: Path, least: float, cols: tuple[int, ...]
) -> None:
    """Tissue in columns 0 to 44, of which those from 16 on are tumour: the third patch is tissue by three quarters."""
    dataset = write_dataset(tmp_path / "dataset")
    add_tile(dataset, "edge", (X >= 16) & (X < 44), tissue=X < 44)
    how = SegmentationSettings(inference="torch", batch_size=64, min_tissue=least)
    evaluated(dataset, clustered_run, output=tmp_path / "report", segmentation=how)
    assert counts_in(tmp_path / "report", "grid-ceiling", "edge") == tuple(SIDE * count for count in cols)
    assert report_json.read(tmp_path / "report")["settings"]["segmentation"]["min_tissue"] == least
