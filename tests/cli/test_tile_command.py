"""`ucc-path tile` as a user meets it: what is said, what is left behind, what the exit status means."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from conftest import PROGRAM, box
from PIL import Image
from ucc_path_cli.options import _numbers

from ucc_path.formats import tiles_csv

TUMOUR = box(256, 256, 1200, 1800)
SMALL = ("--tile-px", "128", "--per-slide", "3")


def run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, "tile", *arguments], cwd=folder, capture_output=True, text=True)


def assert_one_line(done: subprocess.CompletedProcess[str], folder: Path, *words: str) -> None:
    """Exit status 2, one line that says what is wrong, and no trace of a data set."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in done.stderr
    assert [path.name for path in folder.iterdir() if path.name.startswith("dataset")] == []


@pytest.fixture
def slide(make_slide: Callable[..., Path], make_xml: Callable[..., Path]) -> Path:
    path = make_slide("good")
    make_xml(path, [TUMOUR])
    return path


def test_a_folder_of_slides_becomes_a_data_set_with_a_table_and_a_picture(slide: Path, tmp_path: Path) -> None:
    done = run(tmp_path, slide.parent, "-o", "dataset", *SMALL, "--split", "train=1")
    assert done.returncode == 0, done.stderr
    assert "normal  metastases     mixture" in done.stdout
    assert "train              3           3           3" in done.stdout
    assert len(tiles_csv.read(tmp_path / "dataset")) == 9
    assert Image.open(tmp_path / "dataset" / "contact_sheet.png").mode == "RGB"


def test_quiet_says_nothing_when_all_is_well(slide: Path, tmp_path: Path) -> None:
    done = run(tmp_path, slide, "-o", "dataset", *SMALL, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_verbose_tells_where_the_scale_comes_from(slide: Path, tmp_path: Path) -> None:
    done = run(tmp_path, slide, "-o", "dataset", *SMALL, "--verbose")
    assert "good: 0.5 um/px (openslide.mpp-x, mpp-y)" in done.stderr


def test_a_flag_wins_over_the_settings_file_and_the_file_over_the_default(slide: Path, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[tiling]\ntile_px = 64\nper_slide = 2\n")
    done = run(tmp_path, slide, "-o", "dataset", "--settings", "my.toml", "--per-slide", "3")
    assert done.returncode == 0, done.stderr
    rows = tiles_csv.read(tmp_path / "dataset")
    assert {row.tile_px for row in rows} == {64}
    assert len(rows) == 9


def test_a_misspelt_setting_is_refused(slide: Path, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[tiling]\ntile_size = 64\n")
    done = run(tmp_path, slide, "-o", "dataset", "--settings", "my.toml")
    assert_one_line(done, tmp_path, "my.toml [tiling] has no setting 'tile_size'", "tile_px")


HOSTILE_SLIDES = {  # tests/slide has many more
    "text.svs": (b"not a slide", "neither a slide that OpenSlide reads nor a picture"),
    "cut.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0", "damaged picture"),
    "header.tif": (b"II*\0\x08\0\0\0", "header.tif"),
    "loop.tif": (b"II*\0\x08\0\0\0\0\0\x08\0\0\0", "loop.tif"),
}


@pytest.mark.parametrize("name", HOSTILE_SLIDES)
def test_a_hostile_slide_costs_one_line(name: str, tmp_path: Path) -> None:
    content, words = HOSTILE_SLIDES[name]
    (tmp_path / name).write_bytes(content)
    assert_one_line(run(tmp_path, name, "-o", "dataset", "--unlabelled", "-q"), tmp_path, name, words)


ODD_SLIDES = {  # those that are refused on opening are in tests/slide/test_reader.py
    "CMU-1-Small-Region.jpeg.tiff": "0.00499 um/px",
    "no_dzi.tif": "no tissue was found",
    "unreadable.svs": "the file is damaged",
}


@pytest.mark.parametrize("name", ODD_SLIDES)
def test_a_slide_that_tools_stumble_over_costs_one_line(name: str, tmp_path: Path, shared_data: Path) -> None:
    done = run(tmp_path, shared_data / "odd-slides" / name, "-o", "dataset", "--unlabelled", "-q", "--tile-px", "64")
    assert_one_line(done, tmp_path, ODD_SLIDES[name])


def test_a_slide_with_its_scale_given_by_hand_is_tiled(tmp_path: Path, shared_data: Path) -> None:
    slide = shared_data / "odd-slides" / "tcga-cr-7395-01a-01-ts1.svs"
    done = run(tmp_path, slide, "-o", "dataset", "--unlabelled", "--tile-px", "128", "--slide-mpp", "0.5")
    assert done.returncode == 0, done.stderr
    rows = tiles_csv.read(tmp_path / "dataset")
    assert rows
    pictures = [np.asarray(Image.open(tiles_csv.image_path(tmp_path / "dataset", row))) for row in rows]
    assert all(picture.mean() < 235 for picture in pictures)  # tissue, not glass


BOMB = """<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<ASAP_Annotations><Annotations>&c;</Annotations></ASAP_Annotations>"""
ONE = '<ASAP_Annotations><Annotations><Annotation Name="A" Type="Polygon" PartOfGroup="{group}"><Coordinates>{points}'
END = "</Coordinates></Annotation></Annotations></ASAP_Annotations>"
POINT = '<Coordinate Order="{}" X="{}" Y="{}" />'


def outline(points: list[tuple[object, object]], group: str = "_0") -> str:
    coordinates = "".join(POINT.format(order, x, y) for order, (x, y) in enumerate(points))
    return ONE.format(group=group, points=coordinates) + END


HOSTILE_XML = {  # tests/formats/test_asap_xml.py has many more
    "cut": (outline([(1, 1), (500, 1), (500, 500)])[:-40], "is not whole XML"),
    "an entity bomb": (BOMB, "DOCTYPE"),
    "NaN": (outline([(1, 1), ("NaN", 1), (500, 500)]), "annotation 'A'"),
    "an unknown group": (outline([(1, 1), (500, 1), (500, 500)], "Stroma"), "--tumour-group"),
    "another slide": (outline([(90_000, 90_000), (91_000, 90_000), (91_000, 91_000)]), "outside"),
}


@pytest.mark.parametrize("what", HOSTILE_XML)
def test_a_hostile_annotation_costs_one_line(what: str, slide: Path, tmp_path: Path) -> None:
    text, words = HOSTILE_XML[what]
    slide.with_suffix(".xml").write_text(text)
    assert_one_line(run(tmp_path, slide, "-o", "dataset", "-q", *SMALL), tmp_path, "good.xml", words)


def test_an_outline_of_a_hundred_thousand_vertices_is_worked_through(slide: Path, tmp_path: Path) -> None:
    angle = np.linspace(0, 2 * np.pi, 100_000, endpoint=False)
    ring = np.stack([1000 + 600 * np.cos(angle), 1000 + 600 * np.sin(angle)], axis=1).round(4).tolist()
    slide.with_suffix(".xml").write_text(outline([(x, y) for x, y in ring]))
    done = run(tmp_path, slide, "-o", "dataset", *SMALL)
    assert done.returncode == 0, done.stderr
    assert {row.kind for row in tiles_csv.read(tmp_path / "dataset")} == {"normal", "metastases", "mixture"}


def test_an_unknown_group_is_understood_once_it_is_named(slide: Path, tmp_path: Path) -> None:
    slide.with_suffix(".xml").write_text(outline([(256, 256), (1200, 256), (1200, 1800), (256, 1800)], "Lesion"))
    done = run(tmp_path, slide, "-o", "dataset", *SMALL, "--tumour-group", "lesion")
    assert done.returncode == 0, done.stderr
    assert {row.kind for row in tiles_csv.read(tmp_path / "dataset")} == {"normal", "metastases", "mixture"}


def test_bad_slides_among_good_ones_are_named_and_the_exit_status_is_1(slide: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.svs").write_bytes(b"nothing")
    done = run(tmp_path, slide, "bad.svs", "missing.svs", "-o", "dataset", "--unannotated", "normal", "-q", *SMALL)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert sorted(line.split(": ")[1] for line in lines if line.startswith("Failed: ")) == ["bad", "missing"]
    assert lines[-1] == "2 of 3 slides failed, named above."
    assert {row.slide for row in tiles_csv.read(tmp_path / "dataset")} == {"good"}
    assert len(json.loads((tmp_path / "dataset" / "dataset.json").read_text())["failed"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--split", "train=0.5,training=0.5"), "--split"),
        (("--split", "train=-1"), "--split"),
        (("--totals", "train=1/2"), "--totals"),
        (("--mpp", "0.1"), "coarser than the 0.1 asked for; give --mpp 0.5"),
        (("--slide-mpp", "99"), "--slide-mpp"),
        (("--annotations", "nowhere"), "nowhere"),
        (("--split-csv", "nowhere.csv"), "nowhere.csv"),
        (("--settings", "nowhere.toml"), "nowhere.toml"),
        (("--unlabelled", "--totals", "train=1/1/1"), "give --per-slide instead"),
        (("--preview", "dataset/pictures"), "lies in the data set, which is replaced; choose a folder apart"),
        (("-o", "d" * 300), "cannot be written (File name too long)"),
    ],
)
def test_what_cannot_be_meant_costs_one_line(
    arguments: tuple[str, ...], words: str, slide: Path, tmp_path: Path
) -> None:
    assert_one_line(run(tmp_path, slide, "-o", "dataset", "-q", *SMALL, *arguments), tmp_path, words)


def test_a_folder_that_is_not_a_data_set_is_never_replaced(slide: Path, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("years of work")
    done = run(tmp_path, slide, "-o", "thesis", "-q", *SMALL, "--overwrite")
    assert done.returncode == 2
    assert "not ours to replace" in done.stderr
    assert (precious / "chapter.txt").read_text() == "years of work"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_costs_one_line(slide: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("locked").mkdir(mode=0o555)
    assert_one_line(run(tmp_path, slide, "-o", "locked/dataset", "-q", *SMALL), tmp_path, "choose a folder")


def start(folder: Path, slide: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PROGRAM, "tile", slide, "-o", "dataset", "-q", *SMALL, *arguments], cwd=folder, start_new_session=True
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.005)


def test_a_killed_run_leaves_no_data_set_and_the_next_one_is_undisturbed(slide: Path, tmp_path: Path) -> None:
    process = start(tmp_path, slide)
    wait_for(tmp_path / "dataset.partial" / "images")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "dataset").exists()
    done = run(tmp_path, slide, "-o", "dataset", *SMALL)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("dataset*")) == ["dataset"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_clears_up(stop: signal.Signals, slide: Path, tmp_path: Path) -> None:
    process = start(tmp_path, slide, "--per-slide", "400", "--max-overlap", "0.9")
    wait_for(tmp_path / "dataset.partial")
    process.send_signal(stop)
    assert process.wait() == 130
    assert list(tmp_path.glob("dataset*")) == []


def test_two_runs_into_one_folder_do_not_meet(slide: Path, tmp_path: Path) -> None:
    first = start(tmp_path, slide)
    wait_for(tmp_path / "dataset.partial")
    os.killpg(first.pid, signal.SIGSTOP)  # so that it is still at work when the second comes
    second = run(tmp_path, slide, "-o", "dataset", "-q", *SMALL)
    os.killpg(first.pid, signal.SIGCONT)
    assert second.returncode == 2
    assert "another run is writing" in second.stderr
    assert first.wait() == 0
    assert len(tiles_csv.read(tmp_path / "dataset")) == 9


@pytest.mark.parametrize(("text", "values"), [("255", (255,)), ("1,3", (1, 3)), ("1-3,7", (1, 2, 3, 7))])
def test_mask_values_are_given_one_by_one_or_as_ranges(text: str, values: tuple[int, ...]) -> None:
    assert _numbers(text) == values


@pytest.mark.parametrize("text", ["", "x", "1,", "1-x", "-3", "5-3"])
def test_mask_values_that_are_not_understood_are_refused_showing_how_to_write_them(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a list like 1,2 or 1-23"):
        _numbers(text)


@pytest.mark.parametrize("values", ["5-1", "1-99999999999", "-3", "one"])
def test_values_that_no_mask_can_have_are_refused(values: str, slide: Path, tmp_path: Path) -> None:
    done = run(tmp_path, slide, "-o", "dataset", *SMALL, "--mask-tumour-values", values)
    assert done.returncode == 2
    assert "is not a list like 1,2 or 1-23" in done.stderr and "Traceback" not in done.stderr
