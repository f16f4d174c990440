"""`ucc-path score` as a user meets it: what is said, what is left behind, what the exit status means."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, box, write_segmented
from forks import Forks, Started

from ucc_path.formats import asap_xml, report_json

Start = Callable[..., Started]

TUMOUR = box(100, 100, 600, 600)


def cells() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """7 x 7 cells of 100 um, of which the tumour is found but for its first column."""
    labels = np.ones((7, 7), np.uint8)
    labels[1:6, 2:6] = 2
    return labels


@pytest.fixture
def slides(tmp_path: Path) -> Path:
    """Two slides in `segmented`, their outlines in `xml`."""
    (tmp_path / "xml").mkdir()
    for name in ("a", "b"):
        write_segmented(tmp_path / "segmented", name, cells())
        asap_xml.write(tmp_path / "xml" / f"{name}.xml", [np.array(TUMOUR, float)], [])
    return tmp_path


@pytest.fixture
def start(forks: Forks, slides: Path) -> Start:
    """`start("--unannotated", "skip")`: the command on `segmented`, on its way to `report`."""
    command = ("score", "segmented", "--annotations", "xml", "--workers", "1")
    return lambda *arguments: forks.start(slides, *command, *arguments)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_program_itself_scores_slides_and_says_where_to_look(slides: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "score", "segmented", "--annotations", "xml"], cwd=slides, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    head, *rows, froc, last = done.stdout.splitlines()
    assert head.split() == ["model", "TPR", "FPR", "TNR", "FNR", "PA", "balanced,", "tissue"]
    figures = {row.split()[0]: row.split()[1:] for row in rows}
    assert list(figures) == ["run", "run-exact", "empty", "grid-ceiling"]
    # 20 of 25 cells of tumour, and no false alarm among the other 24.
    assert figures["run"] == figures["run-exact"] == ["0.800", "0.000", "1.000", "0.200", "0.898", "0.900"]
    assert figures["empty"] == ["0.000", "0.000", "1.000", "1.000", "0.490", "0.500"]
    assert froc == "FROC 1.000"
    assert last == "The report is report/report.html"
    assert "scoring: 2 of 2 slides" in done.stderr
    assert names_in(slides) == ["report", "segmented", "xml"]


def test_quiet_says_nothing_when_all_is_well(start: Start, slides: Path) -> None:
    done = start("-q", "-o", "elsewhere", "--not-exhaustive", "b").wait()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert report_json.read(slides / "elsewhere")["data"]["not_exhaustive"] == ["b"]


def test_some_slides_that_fail_are_named_and_make_the_exit_status_1(start: Start, slides: Path) -> None:
    (slides / "xml" / "b.xml").write_text("<no")
    done = start().wait()
    assert done.returncode == 1
    failed = [line for line in done.stderr.splitlines() if line.startswith("Failed: ")]
    assert len(failed) == 1 and failed[0].startswith("Failed: b: ") and "b.xml" in failed[0]
    assert done.stderr.splitlines()[-1] == "1 of 2 slides failed, named above."
    assert done.stdout.splitlines()[-1] == "The report is report/report.html"
    assert report_json.read(slides / "report")["data"]["images"] == 1


def test_without_lesions_there_is_no_word_of_them(start: Start, slides: Path) -> None:
    for name in ("a", "b"):
        (slides / "xml" / f"{name}.xml").unlink()
    done = start("--unannotated", "normal").wait()
    assert done.returncode == 0, done.stderr
    assert "FROC" not in done.stdout
    assert done.stdout.splitlines()[1].split()[:2] == ["run", "-"]


def test_what_the_groups_of_outlines_mean_can_be_said(start: Start, slides: Path) -> None:
    path = slides / "xml" / "a.xml"
    text = path.read_text()
    path.write_text(text.replace('PartOfGroup="_0"', 'PartOfGroup="odd"'))
    assert path.read_text() != text
    done = start("--tumour-group", "odd").wait()
    assert done.returncode == 0, done.stderr
    assert report_json.read(slides / "report")["settings"]["annotation"]["tumour_groups"][-1] == "odd"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--annotations", "nowhere"), "nowhere cannot be read (No such file or directory)"),
        (("--annotations", "segmented"), "segmented annotates none of the slides of segmented, which are a, b"),
        (("--not-exhaustive", "c"), "there is no slide c in segmented; check --not-exhaustive"),
        (("-o", "xml", "--overwrite"), "xml exists and holds no metrics.json, so it is not ours"),
    ],
)
def test_what_cannot_be_meant_costs_one_line(
    start: Start, slides: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = start(*arguments).wait()
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ") and words in line
    assert names_in(slides) == ["segmented", "xml"]


def test_annotations_must_be_named(forks: Forks, slides: Path) -> None:
    done = forks.start(slides, "score", "segmented").wait()
    assert done.returncode == 2
    assert "--annotations" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_leaves_no_report_and_does_not_hinder_the_next(
    start: Start, slides: Path, number: signal.Signals
) -> None:
    started = start("-q")
    started.wait_for((slides / "report.partial").exists)
    started.send(number)
    done = started.wait()
    assert done.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert not (slides / "report").exists()
    if number == signal.SIGINT:
        assert done.stderr.strip() == "Interrupted; nothing half written was left behind."
        assert names_in(slides) == ["segmented", "xml"]
    else:
        assert start("-q").wait().returncode == 0
        assert names_in(slides) == ["report", "segmented", "xml"]
