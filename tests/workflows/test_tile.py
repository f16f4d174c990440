"""`tile` as a workflow: what ends up in the data set is what the outlines say, whatever goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from conftest import box
from PIL import Image

from ucc_path.errors import (
    AnnotationError,
    DatasetError,
    OutputError,
    SettingsError,
    SlideError,
    TissueError,
    WorkerError,
)
from ucc_path.formats import dataset_json, tiles_csv
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.settings import TilingSettings, TissueSettings
from ucc_path.slide import Slide
from ucc_path.tiles import kind_of
from ucc_path.workflows.events import Event, Failure, Notice, Progress
from ucc_path.workflows.tile import TileReport, TileRequest, _named, tile

TILING = replace(TilingSettings(), tile_px=128, per_slide=4)
TUMOUR = box(256, 256, 1200, 1800)
HOLE = box(500, 600, 800, 900)


def run(request: TileRequest) -> tuple[list[Event], TileReport]:
    """All that a workflow says, and its result."""
    events: list[Event] = []
    work = tile(request)
    while True:
        try:
            events.append(next(work))
        except StopIteration as end:
            return events, end.value


def rows_by_slide(dataset: Path) -> dict[str, list[TileRow]]:
    found: dict[str, list[TileRow]] = {}
    for row in tiles_csv.read(dataset):
        found.setdefault(row.slide, []).append(row)
    return found


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def three_slides(make_slide: Callable[..., Path], make_xml: Callable[..., Path]) -> Path:
    """A folder of three annotated slides."""
    for number in range(3):
        make_xml(make_slide(f"case_{number}", seed=number), [TUMOUR], [HOLE])
    return make_slide("case_0").parent


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., TileRequest]:
    def make(folder: Path, **more: object) -> TileRequest:
        slides = tuple(sorted(folder.glob("*.tif")))
        return replace(TileRequest(slides=slides, output=tmp_path / "dataset", tiling=TILING), **more)  # type: ignore[arg-type]

    return make


def test_every_label_agrees_with_the_outlines_and_with_the_mask_on_disk(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(three_slides)
    run(request)
    truth = shapely.Polygon(TUMOUR).difference(shapely.Polygon(HOLE))
    rows = tiles_csv.read(request.output)
    assert {row.kind for row in rows} == {"normal", "metastases", "mixture"}
    for row in rows:
        side_l0 = 128 * 1.0 / 0.5
        square = shapely.box(row.x_l0, row.y_l0, row.x_l0 + side_l0, row.y_l0 + side_l0)
        by_area = truth.intersection(square).area / square.area
        mask = np.asarray(Image.open(tiles_csv.mask_path(request.output, row)))
        assert set(np.unique(mask)) <= {0, 255}
        assert row.tumour_fraction == (mask == 255).mean()
        assert kind_of(by_area, TILING) == kind_of(float((mask == 255).mean()), TILING) == row.kind
        assert row.ucc == (2 if row.kind == "mixture" else 1)


def test_every_picture_is_the_slide_at_its_place(three_slides: Path, request_for: Callable[..., TileRequest]) -> None:
    request = request_for(three_slides)
    run(request)
    for name, rows in rows_by_slide(request.output).items():
        with Slide(three_slides / f"{name}.tif") as slide:
            for row in rows:
                picture = np.asarray(Image.open(tiles_csv.image_path(request.output, row)))
                assert np.array_equal(picture, slide.read((row.x_l0, row.y_l0), row.tile_px, row.mpp))


def test_each_slide_is_in_one_split_and_every_split_has_one(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(three_slides)
    _, report = run(request)
    splits = {name: {row.split for row in rows} for name, rows in rows_by_slide(request.output).items()}
    assert sorted(splits.values(), key=str) == [{"test"}, {"train"}, {"val"}]
    assert report.counts == {split: dict.fromkeys(("normal", "metastases", "mixture"), 4) for split in report.counts}


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_workers(
    three_slides: Path, request_for: Callable[..., TileRequest], tmp_path: Path
) -> None:
    run(request_for(three_slides, output=tmp_path / "one", workers=1))
    run(request_for(three_slides, output=tmp_path / "four", workers=4))
    assert every_file(tmp_path / "one") == every_file(tmp_path / "four")


def test_tiles_of_a_slide_do_not_depend_on_the_other_slides(
    three_slides: Path, request_for: Callable[..., TileRequest], tmp_path: Path
) -> None:
    run(request_for(three_slides, output=tmp_path / "all"))
    run(request_for(three_slides, output=tmp_path / "one", slides=(three_slides / "case_1.tif",)))
    together = {row.tile_id for row in rows_by_slide(tmp_path / "all")["case_1"]}
    assert {row.tile_id for row in tiles_csv.read(tmp_path / "one")} == together


def test_totals_are_met_exactly_by_split_and_kind(three_slides: Path, request_for: Callable[..., TileRequest]) -> None:
    totals = {
        "train": {"normal": 5, "metastases": 3, "mixture": 2},
        "test": {"normal": 1, "metastases": 2, "mixture": 3},
    }
    _, report = run(request_for(three_slides, totals=totals))
    assert report.counts["train"] == totals["train"]
    assert report.counts["test"] == totals["test"]
    assert sum(report.counts["val"].values()) == 0


def test_a_kind_that_runs_short_is_said_with_how_many_were_found(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    events, report = run(request_for(three_slides, tiling=replace(TILING, per_slide=50)))
    found = sum(counts["metastases"] for counts in report.counts.values())
    (notice,) = [event for event in events if isinstance(event, Notice) and event.text.startswith("metastases")]
    assert f"{found} of 150 tiles were found" in notice.text
    assert 0 < found < 150


def test_unlabelled_tiles_have_neither_labels_nor_masks(
    make_slide: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(make_slide().parent, unlabelled=True)
    run(request)
    rows = tiles_csv.read(request.output)
    assert len(rows) == 4
    assert {(row.kind, row.ucc, row.tumour_fraction) for row in rows} == {(None, None, None)}
    assert not (request.output / "masks").exists()


def test_native_tiles_are_level_0_itself(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide(mpp=0.2345)
    make_xml(slide, [TUMOUR])
    request = request_for(slide.parent, tiling=replace(TILING, mpp=0.0))
    run(request)
    assert [row.mpp for row in tiles_csv.read(request.output)] == [pytest.approx(0.2345, rel=1e-4)] * 12


@pytest.mark.parametrize(("unannotated", "kinds"), [("normal", {"normal"}), ("skip", None)])
def test_a_slide_without_annotation_means_what_the_user_says(
    make_slide: Callable[..., Path],
    make_xml: Callable[..., Path],
    request_for: Callable[..., TileRequest],
    unannotated: str,
    kinds: set[str] | None,
) -> None:
    make_xml(make_slide("with"), [TUMOUR])
    make_slide("without")
    request = request_for(make_slide("with").parent, unannotated=unannotated)
    run(request)
    found = rows_by_slide(request.output)
    assert {row.kind for row in found["with"]} == {"normal", "metastases", "mixture"}
    assert ({row.kind for row in found["without"]} if "without" in found else None) == kinds


def test_a_slide_without_annotation_is_refused_before_any_work(
    make_slide: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(make_slide("bare").parent)
    with pytest.raises(AnnotationError, match=r"no annotation for bare in .*--unannotated normal"):
        run(request)
    assert list(request.output.parent.glob("dataset*")) == []


def test_two_annotations_of_one_slide_are_an_error_that_names_both(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide("twice")
    make_xml(slide, [TUMOUR])
    slide.with_suffix(".geojson").write_text('{"type": "FeatureCollection", "features": []}')
    with pytest.raises(AnnotationError, match=r"twice\.geojson and .*twice\.xml"):
        run(request_for(slide.parent))


def test_two_slides_of_one_name_are_an_error_that_names_both(
    make_slide: Callable[..., Path], request_for: Callable[..., TileRequest], tmp_path: Path
) -> None:
    slides = (make_slide("same"), make_slide("same", folder=tmp_path / "other"))
    with pytest.raises(SlideError, match=r"slides/same\.tif and .*other/same\.tif have one name"):
        run(request_for(tmp_path, slides=slides))


def test_a_bad_slide_is_reported_and_the_others_go_on(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    whole = (three_slides / "case_1.tif").read_bytes()
    (three_slides / "case_1.tif").write_bytes(whole[: len(whole) // 3])
    request = request_for(three_slides)
    events, report = run(request)
    assert [failure.item for failure in report.failures] == ["case_1"]
    assert [event.item for event in events if isinstance(event, Failure)] == ["case_1"]
    assert set(rows_by_slide(request.output)) == {"case_0", "case_2"}
    record = dataset_json.read(request.output)
    assert [failed["slide"] for failed in record["failed"]] == ["case_1"]
    assert [slide["name"] for slide in record["slides"]] == ["case_0", "case_2"]


def test_a_slide_that_turns_out_damaged_while_tiles_are_cut_leaves_none_of_them(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(three_slides)
    work = tile(request)
    report = None
    try:
        while True:
            event = next(work)
            if isinstance(event, Progress) and event.stage == "cutting tiles" and event.done == 0:
                (three_slides / "case_2.tif").write_bytes(b"not a slide any more")
    except StopIteration as end:
        report = end.value
    assert [failure.item for failure in report.failures] == ["case_2"]
    left = {path.name for path in request.output.rglob("*.png")}
    assert not [name for name in left if name.startswith("case_2")]
    assert set(rows_by_slide(request.output)) == {"case_0", "case_1"}


def test_when_every_slide_is_bad_nothing_is_written(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    for slide in three_slides.glob("*.tif"):
        slide.write_bytes(b"nothing")
    request = request_for(three_slides)
    with pytest.raises(DatasetError, match="none of the 3 slides could be used"):
        run(request)
    assert list(request.output.parent.glob("dataset*")) == []


def test_a_slide_without_tissue_is_said_so_and_its_picture_can_be_had(
    make_slide: Callable[..., Path], request_for: Callable[..., TileRequest], tmp_path: Path
) -> None:
    slide = make_slide("empty", tissue_px=(0, 0, 0, 0))
    request = request_for(slide.parent, unlabelled=True, preview=tmp_path / "pictures")
    with pytest.raises(TissueError, match="no tissue was found on empty"):
        run(request)
    assert Image.open(tmp_path / "pictures" / "empty.png").size == (128, 128)


def test_the_preview_shows_the_tiles(
    three_slides: Path, request_for: Callable[..., TileRequest], tmp_path: Path
) -> None:
    from ucc_path.report.overlay import PALETTE

    run(request_for(three_slides, preview=tmp_path / "pictures"))
    picture = np.asarray(Image.open(tmp_path / "pictures" / "case_0.png"))
    for kind in ("normal", "metastases", "mixture"):
        assert (picture == PALETTE[kind]).all(axis=2).any()


def test_a_preview_never_takes_the_place_of_a_slide_nor_of_a_file_that_is_there(
    tmp_path: Path, request_for: Callable[..., TileRequest]
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGB", (600, 600), (205, 140, 190)).save(folder / "a.png")
    before = (folder / "a.png").read_bytes()
    request = request_for(folder, slides=(folder / "a.png",), unlabelled=True, slide_mpp=0.5, preview=folder)
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=r"a\.png would replace the slide; choose another folder"):
            run(replace(request, overwrite=overwrite))
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "a.png").write_text("years of work")
    with pytest.raises(OutputError, match=r"exports/a\.png exists; replace it with --overwrite, or choose"):
        run(replace(request, preview=tmp_path / "exports"))
    assert (folder / "a.png").read_bytes() == before
    assert (tmp_path / "exports" / "a.png").read_text() == "years of work"


@pytest.mark.parametrize("close_um", [-1.0, 1e9])
def test_a_width_that_no_gap_has_is_refused(
    close_um: float, three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    with pytest.raises(SettingsError, match=r"close_um and ink_margin_um of \[tissue\] must be 0 to 2000 um"):
        run(request_for(three_slides, tissue=TissueSettings(close_um=close_um)))


def test_outlines_of_another_slide_are_refused(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide("moved")
    make_xml(slide, [box(90_000, 90_000, 95_000, 95_000)])
    with pytest.raises(AnnotationError, match=r"100% lies outside .*moved\.tif \(2048 x 2048 px\)"):
        run(request_for(slide.parent))


def test_outlines_that_hang_over_the_edge_are_used_and_said(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide("over")
    make_xml(slide, [box(1000, 200, 2248, 1800)])
    events, _ = run(request_for(slide.parent))
    assert "over: 16.0% of the outlined tumour lies beyond the slide" in [
        event.text for event in events if isinstance(event, Notice)
    ]


def test_a_slide_not_exhaustively_outlined_gives_metastases_alone_and_the_user_is_told(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide("tumor_010")
    make_xml(slide, [TUMOUR])
    request = request_for(slide.parent)
    events, _ = run(request)
    assert {row.kind for row in tiles_csv.read(request.output)} == {"metastases"}
    told = [event.text for event in events if isinstance(event, Notice)]
    assert [text for text in told if "not all outlined" in text]
    assert not [text for text in told if "ran short" in text]  # normal tiles and mixtures were not wanted
    run(replace(request, camelyon_rules=False, overwrite=True))
    assert {row.kind for row in tiles_csv.read(request.output)} == {"normal", "metastases", "mixture"}


def test_a_slide_that_is_left_out_by_rule_is_recorded(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    make_xml(make_slide("tumor_001"), [TUMOUR])
    make_slide("normal_144")
    request = request_for(make_slide("tumor_001").parent, unannotated="normal")
    run(request)
    assert set(rows_by_slide(request.output)) == {"tumor_001"}
    assert list(dataset_json.read(request.output)["left_out"]) == ["normal_144"]


def test_a_mask_beside_its_slide_is_not_taken_for_a_slide(
    make_slide: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    slide = make_slide("masked")
    mask = np.zeros((2048, 2048), np.uint8)
    mask[256:1800, 256:1200] = 255
    Image.fromarray(mask).save(slide.with_name("masked_mask.tif"))
    request = request_for(slide.parent)
    assert len(request.slides) == 2
    run(request)
    assert set(rows_by_slide(request.output)) == {"masked"}


def test_a_mask_and_the_same_outline_give_the_same_tiles(
    make_slide: Callable[..., Path],
    make_xml: Callable[..., Path],
    request_for: Callable[..., TileRequest],
    tmp_path: Path,
) -> None:
    slide = make_slide("same")
    mask = np.zeros((64, 64), np.uint8)  # one thirty-second of the slide
    mask[8:56, 8:37] = 1
    Image.fromarray(mask).save(tmp_path / "same_mask.png")
    make_xml(slide, [box(8 * 32, 8 * 32, 37 * 32, 56 * 32)])
    run(request_for(slide.parent, output=tmp_path / "by_outline"))
    run(request_for(slide.parent, output=tmp_path / "by_mask", annotations=tmp_path / "same_mask.png"))
    assert (tmp_path / "by_mask" / "tiles.csv").read_bytes() == (tmp_path / "by_outline" / "tiles.csv").read_bytes()


def test_finished_output_is_replaced_only_when_asked_for(
    three_slides: Path, request_for: Callable[..., TileRequest]
) -> None:
    request = request_for(three_slides)
    run(request)
    before = every_file(request.output)
    other_seed = replace(request, tiling=replace(TILING, seed=5))
    with pytest.raises(OutputError, match="--overwrite"):
        run(other_seed)
    assert every_file(request.output) == before
    run(replace(other_seed, overwrite=True))
    assert (request.output / "tiles.csv").read_bytes() != before["tiles.csv"]
    assert [path.name for path in request.output.parent.glob("dataset*")] == ["dataset"]


def test_a_run_that_is_abandoned_leaves_nothing(three_slides: Path, request_for: Callable[..., TileRequest]) -> None:
    request = request_for(three_slides)
    work = tile(request)
    while not (isinstance(event := next(work), Progress) and event.stage == "cutting tiles"):
        pass
    work.close()
    assert list(request.output.parent.glob("dataset*")) == []


def test_too_large_a_tile_is_said_with_what_to_do(three_slides: Path, request_for: Callable[..., TileRequest]) -> None:
    with pytest.raises(DatasetError, match=r"no tile of 4096 px .* give a smaller --tile-px"):
        run(request_for(three_slides, tiling=replace(TILING, tile_px=4096)))


@pytest.mark.parametrize(
    "tiling",
    [
        replace(TILING, tile_px=0),
        replace(TILING, per_slide=0),
        replace(TILING, mpp=-1.0),
        replace(TILING, max_overlap=1.0),
        replace(TILING, min_tissue=1.5),
        replace(TILING, normal_below=0.9),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(
    tmp_path: Path, request_for: Callable[..., TileRequest], tiling: TilingSettings
) -> None:
    with pytest.raises(SettingsError):
        run(request_for(tmp_path, tiling=tiling))


@pytest.mark.parametrize("mpp", [0.0, -8.0, 1e6])
def test_a_scale_at_which_no_tissue_can_be_found_is_refused(
    tmp_path: Path, request_for: Callable[..., TileRequest], mpp: float
) -> None:
    with pytest.raises(SettingsError, match=r"mpp under \[tissue\]"):
        run(request_for(tmp_path, tissue=TissueSettings(mpp=mpp)))


@pytest.mark.parametrize("name", ["two\nlines", "\udcff"])
def test_a_slide_whose_name_cannot_be_written_is_refused(
    request_for: Callable[..., TileRequest], tmp_path: Path, name: str
) -> None:
    with pytest.raises(SlideError, match="rename the slide"):
        run(request_for(tmp_path, slides=(tmp_path / f"{name}.tif",)))


def test_camelyon16_without_its_test_slides_is_said(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    for name in ("tumor_001", "tumor_002"):
        make_xml(make_slide(name), [TUMOUR])
    events, report = run(request_for(make_slide("tumor_001").parent, split="camelyon16"))
    assert sum(report.counts["test"].values()) == 0
    assert [event.text for event in events if isinstance(event, Notice) and event.text.startswith("test got no slides")]


def test_a_slide_whose_process_dies_is_named() -> None:
    assert str(_named(WorkerError("its process was killed"), "case_1")) == "case_1: its process was killed"


def test_patients_stay_together(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], request_for: Callable[..., TileRequest]
) -> None:
    for patient in range(3):
        for node in range(2):
            make_xml(make_slide(f"patient_{patient:03d}_node_{node}"), [TUMOUR])
    request = request_for(make_slide("patient_000_node_0").parent)
    run(request)
    homes: dict[str, set[str]] = {}
    for row in tiles_csv.read(request.output):
        homes.setdefault(row.slide[:11], set()).add(row.split)
    assert sorted(map(sorted, homes.values())) == [["test"], ["train"], ["val"]]
