"""Whether a slide needs to be worked on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import segmentation_json
from ucc_path.formats.atomic import together
from ucc_path.workflows.segment.finished import clear_leftovers, is_finished

IDENTITY = {"model": {"sha256": "a" * 64}, "settings": {"segmentation": {"seed": 0, "clean_up": "none"}}}


@pytest.fixture
def slide(tmp_path: Path) -> Path:
    path = tmp_path / "s.tif"
    path.write_bytes(b"slide")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def finish(folder: Path, **changes: Any) -> None:
    """A slide that has been segmented, as far as can be seen."""
    for name in ("s_labels.tif", "s.png"):
        (folder / name).write_bytes(name.encode())
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    segmentation_json.write(folder, "s", {"slide": {"bytes": 5}, "files": files, **IDENTITY, **changes})


def test_a_slide_of_which_nothing_is_there_is_not_finished(folder: Path, slide: Path) -> None:
    assert not is_finished(folder, "s", slide, IDENTITY)
    assert not is_finished(folder / "none", "s", slide, IDENTITY)


def test_a_slide_with_all_its_files_is_finished_also_where_it_has_been_moved_away(folder: Path, slide: Path) -> None:
    finish(folder)
    assert is_finished(folder, "s", slide, IDENTITY)
    slide.unlink()
    assert is_finished(folder, "s", slide, IDENTITY)


@pytest.mark.parametrize("content", [None, b"", b"another size"])
def test_a_slide_of_which_a_file_is_missing_or_cut_is_not_finished(
    folder: Path, slide: Path, content: bytes | None
) -> None:
    finish(folder)
    (folder / "s.png").unlink()
    if content is not None:
        (folder / "s.png").write_bytes(content)
    assert not is_finished(folder, "s", slide, IDENTITY)


def test_results_of_another_model_are_refused_before_other_settings_are_named(folder: Path, slide: Path) -> None:
    finish(folder, model={"sha256": "b" * 64}, settings={})
    message = r"s\.json is of another model \(sha256 b{12}, now a{12}\); replace it with --overwrite, or choose another"
    with pytest.raises(OutputError, match=message):
        is_finished(folder, "s", slide, IDENTITY)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"segmentation": {"seed": 7, "clean_up": "none"}}, "seed 7, now 0"),
        ({"segmentation": {"seed": 0, "clean_up": "lone"}}, "clean_up lone, now none"),
        ({"segmentation": {"seed": 0}}, "clean_up None, now none"),
        ({}, "seed None, now 0"),
    ],
)
def test_results_of_other_settings_are_refused_and_the_setting_is_named(
    folder: Path, slide: Path, settings: dict[str, Any], what: str
) -> None:
    finish(folder, settings=settings)
    with pytest.raises(OutputError, match=rf"s\.json is of another setting \({what}\); replace it with --overwrite"):
        is_finished(folder, "s", slide, IDENTITY)


def test_results_of_another_slide_of_that_name_are_refused(folder: Path, slide: Path) -> None:
    finish(folder)
    slide.write_bytes(b"another slide")
    with pytest.raises(OutputError, match=r"s\.json is of another file called s; replace it with --overwrite"):
        is_finished(folder, "s", slide, IDENTITY)


def test_a_record_that_cannot_be_read_is_refused(folder: Path, slide: Path) -> None:
    (folder / "s.json").write_text("{")
    with pytest.raises(OutputError, match=r"s\.json is not JSON"):
        is_finished(folder, "s", slide, IDENTITY)


@pytest.mark.parametrize("ending", sorted({*segmentation_json.ENDINGS.values()} - {segmentation_json.ENDING}))
def test_files_without_a_record_are_not_ours_unless_a_killed_run_has_left_its_folder(
    folder: Path, slide: Path, ending: str
) -> None:
    (folder / f"s{ending}").write_text("mine")
    with pytest.raises(
        OutputError, match=rf"s{ending} exists and is not known to be ours; replace it with --overwrite"
    ):
        is_finished(folder, "s", slide, IDENTITY)
    together(folder, "s").mkdir()
    assert not is_finished(folder, "s", slide, IDENTITY)


def test_files_of_other_slides_are_no_obstacle(folder: Path, slide: Path) -> None:
    (folder / "s2.png").write_text("of another slide")
    (folder / "t_labels.tif").write_text("of another slide")
    assert not is_finished(folder, "s", slide, IDENTITY)


def test_what_a_killed_worker_left_is_cleared_but_not_where_its_files_are_known_by_it(
    folder: Path, slide: Path
) -> None:
    (together(folder, "s") / "attempt").mkdir(parents=True)
    (folder / "s.png").write_bytes(b"without a record")
    clear_leftovers(folder, "s")
    assert together(folder, "s").exists() and not is_finished(folder, "s", slide, IDENTITY)
    (folder / "s.png").unlink()
    clear_leftovers(folder, "s")
    assert not together(folder, "s").exists()
    finish(folder)
    together(folder, "s").mkdir()
    clear_leftovers(folder, "s")
    assert not together(folder, "s").exists() and is_finished(folder, "s", slide, IDENTITY)
