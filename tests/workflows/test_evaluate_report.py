"""The files of a report: the same bytes each time, a page that stands alone, and nothing half written."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import write_dataset
from PIL import Image
from reports import evaluated, table_rows

from ucc_path.errors import DatasetError, OutputError
from ucc_path.formats import png, report_json, tiles_csv
from ucc_path.formats.atomic import locked_folder
from ucc_path.settings import EvaluationSettings

TILES = {"normal": 2, "metastases": 2, "mixture": 5}
FIGURES = ("TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice")
SHOWN = EvaluationSettings(resamples=100, pictures=1)
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks that tags are closed in order; keeps the tables, as rows of cells, and the addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.addresses: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [(tag, value or "") for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("table", "tr", "td", "th")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):  # and not what is set small below
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("reported") / "dataset", test=TILES, test_slides=2)


@pytest.fixture(scope="module")
def report(dataset: Path, clustered_run: Path) -> Path:
    output = dataset.with_name("report")
    evaluated(dataset, clustered_run, output=output, evaluation=SHOWN)
    return output


@pytest.fixture
def bad_dataset(tmp_path: Path) -> Path:
    """The last of its test tiles is half a file."""
    dataset = write_dataset(tmp_path / "dataset", test={"mixture": 3})
    picture = tiles_csv.image_path(dataset, tiles_csv.read(dataset)[-1])
    picture.write_bytes(picture.read_bytes()[:500])
    return dataset


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_files_of_the_design_are_there_and_nothing_else(report: Path) -> None:
    names = ["figures", "images.csv", "metrics.csv", "metrics.json", "report.html"]
    assert sorted(path.name for path in report.iterdir()) == names
    figures = sorted(path.name for path in (report / "figures").iterdir())
    pictures = [name for name in figures if name.endswith(".png")]
    sorts = ["01_best", "02_typical", "03_worst", "04_worst_of_one_kind"]
    assert [re.sub(r"_test_\d+\.png$", "", name) for name in pictures] == sorts
    assert [name for name in figures if name not in pictures] == [
        "training_run_accuracy.svg",
        "training_run_cross-entropy_of_the_labels.svg",
        "training_run_squared_error_of_the_patches.svg",
    ]
    for name in pictures:
        with Image.open(report / "figures" / name) as picture:
            assert picture.width > 3 * 256  # the image, the truth, the model and kmeans
    assert sorted(path.name for path in report.parent.iterdir()) == ["dataset", "report"]


def test_the_page_stands_alone(report: Path) -> None:
    text = (report / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    for word in ("<script", "<link", "url(", "@import", 'src="http'):
        assert word not in text
    assert [address for tag, address in page.addresses if tag == "img"]
    for tag, address in page.addresses:
        assert address.startswith("data:image/") if tag == "img" else address.startswith(("#", "../dataset/images/"))


def test_the_links_of_the_page_lead_to_the_tiles(report: Path) -> None:
    page = Page((report / "report.html").read_text(encoding="utf-8"))
    links = [address for tag, address in page.addresses if tag == "a" and not address.startswith("#")]
    assert len(links) == 4
    assert all((report / unquote(address)).is_file() for address in links)


def test_every_figure_of_the_main_table_is_in_the_record(report: Path) -> None:
    (head, *rows), *_ = Page((report / "report.html").read_text(encoding="utf-8")).tables
    assert head == ["model", *FIGURES]
    models = {model["name"]: model["scores"]["image"] for model in report_json.read(report)["models"]}
    rows = [[cell.strip() for cell in row] for row in rows]
    found = {name: cells for name, *cells in rows if not name.startswith("paper: ")}
    assert list(found) == list(models) == ["run", "kmeans", "colour", "empty", "grid-ceiling"]
    for name, cells in found.items():
        values = [models[name][figure]["value"] for figure in FIGURES]
        assert cells == ["–" if value is None else f"{value:.3f}" for value in values]
    published = {name: cells for name, *cells in rows if name.startswith("paper: ")}
    paper = report_json.read(report)["paper"]
    assert {name.removeprefix("paper: "): [float(cell) for cell in cells[:5]] for name, cells in published.items()} == {
        name: [values[figure] for figure in FIGURES[:5]] for name, values in paper.items()
    }


def test_the_record_and_the_table_hold_the_same_figures(report: Path) -> None:
    models = {model["name"]: model["scores"] for model in report_json.read(report)["models"]}
    rows = table_rows(report / "metrics.csv")
    assert len(rows) == 5 * 4
    for row in rows:
        for figure in FIGURES:
            parts = models[row["model"]][row["averaging"]][figure]
            for part, ending in (("value", ""), ("low", "_low"), ("high_slides", "_high_slides")):
                assert row[figure + ending] == ("" if parts[part] is None else f"{parts[part]:.6f}")


def test_the_record_tells_what_was_judged(report: Path, dataset: Path) -> None:
    record = report_json.read(report)
    assert record["command"] == "evaluate"
    assert record["data"] == {
        "path": str(dataset),
        "split": "test",
        "images": 9,
        "slides": ["test_0", "test_1"],
        "kinds": TILES,
        "tile_px": 64,
        "mpp": 2.0,
        "patch_px": 16,
        "tumour_share": pytest.approx(0.5),
        "tumour_share_of_tissue": pytest.approx(0.5),
        "tissue_share": 1.0,
    }
    assert record["settings"]["evaluation"]["resamples"] == 100


def test_the_same_bytes_come_out_twice(report: Path, dataset: Path, clustered_run: Path) -> None:
    again = dataset.with_name("again")
    evaluated(dataset, clustered_run, output=again, evaluation=SHOWN)
    first, second = files_of(report), files_of(again)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_another_seed_draws_other_images_and_changes_no_figure(
    dataset: Path, report: Path, clustered_run: Path
) -> None:
    output = dataset.with_name("seeded")
    evaluated(dataset, clustered_run, output=output, evaluation=EvaluationSettings(resamples=100, pictures=0, seed=1))
    rows, others = (table_rows(folder / "metrics.csv") for folder in (report, output))
    assert [[row[figure] for figure in FIGURES] for row in rows] == [
        [row[figure] for figure in FIGURES] for row in others
    ]
    assert [row["TPR_low"] + row["PA_high"] for row in rows] != [row["TPR_low"] + row["PA_high"] for row in others]
    assert not list((output / "figures").glob("*.png"))
    assert "Pictures" not in (output / "report.html").read_text()


def test_what_fails_midway_leaves_nothing_behind(bad_dataset: Path, clustered_run: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"images/test/test_034\.png is damaged"):
        evaluated(bad_dataset, clustered_run, output=tmp_path / "report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


def test_what_fails_midway_leaves_the_report_of_before(bad_dataset: Path, clustered_run: Path, tmp_path: Path) -> None:
    evaluated(bad_dataset, clustered_run, output=tmp_path / "report", split="val")
    before = files_of(tmp_path / "report")
    with pytest.raises(DatasetError, match="is damaged"):
        evaluated(bad_dataset, clustered_run, output=tmp_path / "report", overwrite=True)
    assert files_of(tmp_path / "report") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "report"]


def test_a_report_is_replaced_only_when_told_so(dataset: Path, clustered_run: Path, tmp_path: Path) -> None:
    output = tmp_path / "report"
    evaluated(dataset, clustered_run, output=output)
    before = files_of(output)
    (output / "figures" / "of_before.png").write_bytes(b"old")
    with pytest.raises(OutputError, match=r"report exists; replace it with --overwrite, or choose another folder"):
        evaluated(dataset, clustered_run, output=output)
    assert (output / "figures" / "of_before.png").exists()
    evaluated(dataset, clustered_run, output=output, overwrite=True)
    assert files_of(output) == before


def test_a_folder_that_is_no_report_is_never_replaced(dataset: Path, clustered_run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=r"mine exists and holds no metrics\.json, so it is not ours to replace"):
            evaluated(dataset, clustered_run, output=tmp_path / "mine", overwrite=overwrite)
    assert files_of(tmp_path / "mine") == {"report.html": b"years of work"}


def test_two_runs_into_one_report_are_refused(dataset: Path, clustered_run: Path, tmp_path: Path) -> None:
    with locked_folder(tmp_path / "report"), pytest.raises(OutputError, match="another run is writing"):
        evaluated(dataset, clustered_run, output=tmp_path / "report")


def test_names_from_outside_cannot_break_the_page(clustered_run: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "<b>data & 50% #1", test={"mixture": 2})
    rows = tiles_csv.read(dataset)
    named = [replace(row, tile_id=f"<i>{row.tile_id}#", slide="<script>") for row in rows if row.split == "test"]
    for row, new in zip([row for row in rows if row.split == "test"], named, strict=True):
        for path in (tiles_csv.image_path, tiles_csv.mask_path):
            path(dataset, row).rename(path(dataset, new))
    tiles_csv.write(dataset, [*(row for row in rows if row.split != "test"), *named])
    evaluated(dataset, clustered_run, output=tmp_path / "report", evaluation=SHOWN)
    text = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and "<i>" not in text and "<b>" not in text
    links = [address for tag, address in Page(text).addresses if tag == "a" and not address.startswith("#")]
    assert links and all((tmp_path / "report" / unquote(address)).is_file() for address in links)
    assert all("#" not in address for address in links)  # what is behind it is no part of the file's name
    assert png.read(next((tmp_path / "report" / "figures").glob("*.png"))).shape[2] == 3
