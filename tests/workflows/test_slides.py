"""The slides that a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import SlideError
from ucc_path.workflows.slides import expand


def make_files(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_a_folder_stands_for_the_slides_in_it_sorted_by_name(tmp_path: Path) -> None:
    folder = make_files(tmp_path / "slides", "b.svs", "a.TIF", "a.xml", "b_mask.png", "notes.txt")
    (folder / "c.tif").mkdir()
    assert expand([folder]) == (folder / "a.TIF", folder / "b.svs")


def test_a_file_is_taken_as_it_is_and_each_slide_once(tmp_path: Path) -> None:
    folder = make_files(tmp_path / "slides", "a.tif", "b.tif")
    odd = tmp_path / "no_ending"
    assert expand([folder / "b.tif", odd, folder, odd]) == (folder / "b.tif", odd, folder / "a.tif")


def test_a_folder_without_slides_is_refused(tmp_path: Path) -> None:
    folder = make_files(tmp_path / "slides", "a.xml", "a_mask.tif")
    with pytest.raises(SlideError, match=r"there is no slide in .*slides; name a folder with files that OpenSlide"):
        expand([folder])


def test_hidden_files_in_a_folder_are_not_slides(tmp_path: Path) -> None:
    folder = make_files(tmp_path / "slides", "a.tif", "._a.tif", ".DS_Store")
    assert expand([folder]) == (folder / "a.tif",)


def test_a_slide_reached_by_two_names_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_files(tmp_path / "slides", "a.tif")
    (folder / "b.tif").symlink_to("a.tif")
    monkeypatch.chdir(tmp_path)
    assert expand([Path("slides/a.tif"), folder, folder / ".." / "slides" / "a.tif"]) == (Path("slides/a.tif"),)


def test_results_of_segment_that_lie_beside_slides_are_not_slides(tmp_path: Path) -> None:
    results = ["a.json", "a_labels.tif", "a_labels.ome.tif", "a_overlay.tif", "a.png", "a_likelihood_map.tif"]
    for name in ("a.tif", "b.png", "b.json", "c_labels.tif", *results):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in expand([tmp_path])] == ["a.tif", "b.png", "c_labels.tif"]
