"""`ucc-path check-overlay`: a line for each viewer, and an exit status that tells the truth."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import PROGRAM

from ucc_path.formats import label_tiff


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, "check-overlay", *arguments], capture_output=True, text=True)


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """Labels of a slide of 2048 x 2048 px and 0.5 um/px, a pixel for each 4."""
    path = tmp_path / "labels.tif"
    label_tiff.write(path, np.ones((512, 512), np.uint8), mpp=2.0, highest=1)
    return path


def test_each_viewer_has_its_line_and_one_pyramid_is_enough(overlay: Path) -> None:
    done = run(overlay)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "opens    OpenSlide: 2 levels"
    assert lines[1].startswith("flat     QuPath: 1 level; of an image that is not RGB ")
    assert lines[2:] == [f"opens    {viewer}: 2 levels" for viewer in ("ASAP", "tiffslide", "HistomicsUI")]


def test_a_viewer_that_refuses_says_why_and_what_to_write(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        for step in (1, 2):
            image = np.zeros((600 // step, 600 // step), np.uint8)
            tiff.write(image, tile=(256, 256), compression="zlib", subfiletype=step - 1, metadata=None)
    words = "refused  ASAP: compression 8 (zlib) is unknown to it; write DEFLATE with tag 32946, or LZW\n"
    assert words in run(tmp_path / "a.tif").stdout


def test_a_file_that_is_a_pyramid_nowhere_is_a_failure(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((600, 600), np.uint8))
    done = run(tmp_path / "a.tif")
    assert done.returncode == 1
    assert not [line for line in done.stdout.splitlines() if line.startswith("opens")]


def test_an_overlay_that_lies_right_on_its_slide_fits(overlay: Path, make_slide: Callable[..., Path]) -> None:
    slide = make_slide()
    done = run(overlay, "--slide", slide)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"fits     {slide}: it lies where it belongs"


def test_an_overlay_of_another_slide_is_a_failure(overlay: Path, make_slide: Callable[..., Path]) -> None:
    slide = make_slide(size_px=(1024, 2048), tissue_px=(0, 0, 512, 512))
    done = run(overlay, "--slide", slide)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith(f"misfit   {slide}: the slide is 2 times as wide and 4 as high")


def test_quiet_shows_what_needs_attention_and_verbose_what_the_file_is(overlay: Path) -> None:
    assert [line.split()[0] for line in run(overlay, "-q").stdout.splitlines()] == ["flat"]
    assert "512 x 512 px, 2 um/px" in run(overlay, "-v").stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be opened (No such file or directory)"),
        (b"", "it is empty"),
        (b"II*\0\x08\0\0\0", "it ends too early"),
        (b"no picture at all", "it does not begin as one"),
    ],
)
def test_what_is_no_tiff_ends_as_one_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "a.tif").write_bytes(content)
    done = run(tmp_path / "a.tif")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {tmp_path / 'a.tif'} ")
    assert words in line


def test_a_folder_ends_as_one_line(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (2, f"Error: {tmp_path} is not a file; name a TIFF\n")


def test_a_slide_that_is_not_there_ends_as_one_line(overlay: Path, tmp_path: Path) -> None:
    done = run(overlay, "--slide", tmp_path / "absent.tif")
    assert done.returncode == 2
    assert "absent.tif" in done.stderr
    assert not done.stdout
