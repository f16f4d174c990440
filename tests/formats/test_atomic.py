"""Files and folders appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ucc_path.errors import DatasetError, OutputError, WorkerError
from ucc_path.formats.atomic import explaining, replacing, replacing_folder, replacing_together, together

MARKER = "mark.json"


class Interrupted(BaseException):
    """As Ctrl-C is, not an Exception."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_ours(path: Path, content: str = "old") -> Path:
    path.mkdir()
    (path / MARKER).write_text(content)
    return path


def write_new(path: Path, *, overwrite: bool = False, content: str = "new") -> None:
    with replacing_folder(path, marker=MARKER, overwrite=overwrite) as folder:
        (folder / MARKER).write_text(content)


def test_a_file_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.csv") as partial:
        partial.write_text("x")
        assert names(tmp_path) == ["a.csv.partial"]
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("error", [ValueError, Interrupted])
def test_after_an_error_the_old_file_stands_and_nothing_is_left(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(error), replacing(tmp_path / "a.csv") as partial:
        partial.write_text("half")
        raise error
    assert names(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv.partial").symlink_to("/dev/full")
    with pytest.raises(OutputError) as error, replacing(tmp_path / "a.csv") as partial:
        partial.write_text("x")
    expected = f"{tmp_path}/a.csv cannot be written (No space left on device); make room on the disk and run it again"
    assert str(error.value) == expected
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "what_now"),
    [
        (errno.ENOSPC, "make room on the disk"),
        (errno.EDQUOT, "make room in your quota"),
        (errno.EACCES, "choose a folder you may write to with -o"),
        (errno.EPERM, "choose a folder you may write to with -o"),
        (errno.EROFS, "choose a folder you may write to with -o"),
        (errno.EIO, "check the folder and the disk"),
    ],
)
def test_the_systems_error_comes_with_what_to_do(code: int, what_now: str) -> None:
    with pytest.raises(OutputError, match=rf"^out cannot be written \(.+\); {what_now}"), explaining(Path("out")):
        raise OSError(code, os.strerror(code))


def test_an_error_of_our_own_passes_as_it_is() -> None:
    with pytest.raises(DatasetError, match=r"^no tiles$"), explaining(Path("out")):
        raise DatasetError("no tiles")


def test_a_folder_appears_whole_with_the_folders_above_it(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "data"
    with replacing_folder(target, marker=MARKER, overwrite=False) as folder:
        (folder / MARKER).touch()
        assert not target.exists()
    assert names(target) == [MARKER]
    assert names(target.parent) == ["data"]


@pytest.mark.parametrize("error", [ValueError, Interrupted, DatasetError])
def test_after_an_error_the_old_folder_stands_and_nothing_is_left(tmp_path: Path, error: type[BaseException]) -> None:
    target = make_ours(tmp_path / "data")
    with pytest.raises(error), replacing_folder(target, marker=MARKER, overwrite=True) as folder:
        (folder / "half").touch()
        raise error
    assert names(tmp_path) == ["data"]
    assert (target / MARKER).read_text() == "old"


def test_if_the_new_folder_cannot_take_its_place_the_old_one_keeps_it(tmp_path: Path) -> None:
    target = make_ours(tmp_path / "data")
    with (
        pytest.raises(OutputError, match="cannot be written"),
        replacing_folder(target, marker=MARKER, overwrite=True) as folder,
    ):
        shutil.rmtree(folder)  # somebody cleaned up
    assert names(tmp_path) == ["data"]
    assert (target / MARKER).read_text() == "old"


def test_an_existing_folder_of_ours_is_replaced_only_if_told_so(tmp_path: Path) -> None:
    target = make_ours(tmp_path / "data")
    (target / "stale").touch()
    with pytest.raises(
        OutputError, match=r"data exists; replace it with --overwrite, or choose another folder with -o"
    ):
        write_new(target)
    assert (target / MARKER).read_text() == "old"
    write_new(target, overwrite=True)
    assert names(tmp_path) == ["data"] and names(target) == [MARKER]
    assert (target / MARKER).read_text() == "new"


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"thesis exists and holds no mark\.json, so it is not ours to replace"):
        write_new(target, overwrite=True)
    assert (target / "chapter1.tex").read_text() == "years of work"
    assert names(tmp_path) == ["thesis"]


def test_a_file_in_the_place_of_the_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    with pytest.raises(OutputError, match="not ours to replace"):
        write_new(tmp_path / "data", overwrite=True)
    assert (tmp_path / "data").read_text() == "mine"


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_new(tmp_path / "data")
    assert names(tmp_path) == ["data"] and names(tmp_path / "data") == [MARKER]


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "data.ucc-path.lock").touch()
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "half").touch()
    write_new(tmp_path / "data")
    assert names(tmp_path) == ["data"] and names(tmp_path / "data") == [MARKER]


def test_a_run_killed_in_the_middle_of_the_swap_has_lost_nothing(tmp_path: Path) -> None:
    make_ours(tmp_path / "data.replaced", "old")
    make_ours(tmp_path / "data.partial", "never finished")
    with pytest.raises(OutputError, match="data exists; replace it with --overwrite"):
        write_new(tmp_path / "data")
    assert (tmp_path / "data" / MARKER).read_text() == "old"
    assert names(tmp_path) == ["data"] or names(tmp_path) == ["data", "data.partial"]
    write_new(tmp_path / "data", overwrite=True)
    assert names(tmp_path) == ["data"]


def test_a_run_killed_just_after_the_swap_keeps_the_new_folder(tmp_path: Path) -> None:
    make_ours(tmp_path / "data.replaced", "old")
    make_ours(tmp_path / "data", "new")
    with pytest.raises(OutputError, match="data exists"):
        write_new(tmp_path / "data")
    assert names(tmp_path) == ["data"]
    assert (tmp_path / "data" / MARKER).read_text() == "new"


def test_two_runs_at_once_into_one_folder_are_refused_and_the_first_is_undisturbed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ucc_path.formats.atomic import replacing_folder\n"
        f"with replacing_folder(Path(sys.argv[1]), marker={MARKER!r}, overwrite=True) as folder:\n"
        f"    (folder / {MARKER!r}).write_text('first'); print('ready', flush=True); sys.stdin.read()\n"
    )
    target = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "ready\n"
        with pytest.raises(OutputError, match=r"another run is writing .*data now; wait for it, or choose another"):
            write_new(target, overwrite=True)
        first.communicate()
    assert first.returncode == 0
    assert (target / MARKER).read_text() == "first"
    write_new(target, overwrite=True)
    assert names(tmp_path) == ["data"]


def test_a_link_to_a_folder_stays_a_link_however_often_it_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    make_ours(tmp_path / "disk" / "data")
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "disk" / "data")
    for content in ("1", "2", "3"):
        write_new(link, overwrite=True, content=content)
        assert link.is_symlink() and (link / MARKER).read_text() == content
    assert names(tmp_path) == ["data", "disk"] and names(tmp_path / "disk") == ["data"]


@pytest.mark.parametrize("folder", ["/", "/proc"])
def test_a_disk_of_its_own_is_refused_before_any_work(folder: str) -> None:
    with pytest.raises(OutputError, match=f"^{folder} is a disk of its own, .*choose a folder in it with -o"):
        write_new(Path(folder), overwrite=True)


def test_a_folder_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/data cannot be written \("):
        write_new(tmp_path / "file" / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match=r"\(Permission denied\); choose a folder you may write to with -o"):
            write_new(tmp_path / "data")
    finally:
        tmp_path.chmod(0o700)


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OutputError, match="is a link that leads to itself; choose another folder with -o"):
        write_new(loop)
    assert names(tmp_path) == ["loop"]


LAST = "s.json"
STALE = ("s.png", "s.tif", "s.old.tif")


def write_together(folder: Path, content: str, *names: str, stale: tuple[str, ...] = ()) -> None:
    with replacing_together(folder, "s", last=LAST, stale=stale) as work:
        for name in (*names, LAST):
            (work / name).write_text(content)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str, error: type[BaseException]) -> None:
    """An error when this file is about to take its place."""
    replace = Path.replace

    def replace_or_stop(path: Path, target: Path) -> Path:
        if path.name == name:
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_or_stop)


def test_files_appear_together_and_the_folder_they_were_written_to_goes(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("mine")
    with replacing_together(tmp_path / "deep" / "out", "s", last=LAST) as work:
        assert work.parent == together(tmp_path / "deep" / "out", "s")
        for name in ("s.tif", LAST):
            (work / name).write_text("new")
        assert names(tmp_path / "deep" / "out") == [work.parent.name]
    assert contents(tmp_path / "deep" / "out") == {"s.tif": "new", LAST: "new"}
    assert names(tmp_path / "deep" / "out") == [LAST, "s.tif"]


def test_old_files_are_replaced_stale_ones_go_and_others_stay(tmp_path: Path) -> None:
    write_together(tmp_path, "old", "s.tif", "s.old.tif")
    (tmp_path / "t.tif").write_text("of another slide")
    write_together(tmp_path, "new", "s.tif", "s.png", stale=STALE)
    assert contents(tmp_path) == {"s.tif": "new", "s.png": "new", LAST: "new", "t.tif": "of another slide"}


def test_the_last_file_goes_first_and_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_together(tmp_path, "old", "s.png", "s.tif", "s.old.tif")
    seen, replace = [], Path.replace

    def watch(path: Path, target: Path) -> Path:
        seen.append((path.name, (tmp_path / LAST).exists(), (tmp_path / "s.old.tif").exists()))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watch)
    write_together(tmp_path, "new", "s.png", "s.tif", stale=STALE)
    assert seen == [("s.png", False, False), ("s.tif", False, False), (LAST, False, False)]


@pytest.mark.parametrize("error", [ValueError, Interrupted, DatasetError])
def test_after_an_error_the_old_files_stand_and_no_folder_is_left(tmp_path: Path, error: type[BaseException]) -> None:
    write_together(tmp_path, "old", "s.tif")
    with pytest.raises(error), replacing_together(tmp_path, "s", last=LAST, stale=STALE) as work:
        (work / "s.tif").write_text("half")
        raise error
    assert contents(tmp_path) == {"s.tif": "old", LAST: "old"}
    assert names(tmp_path) == [LAST, "s.tif"]


def test_files_without_the_last_one_are_an_error_and_replace_nothing(tmp_path: Path) -> None:
    write_together(tmp_path, "old", "s.tif")
    with (
        pytest.raises(OutputError, match="cannot be written"),
        replacing_together(tmp_path, "s", last=LAST) as work,
    ):
        (work / "s.tif").write_text("new")
    assert contents(tmp_path) == {"s.tif": "old", LAST: "old"}
    assert names(tmp_path) == [LAST, "s.tif"]


@pytest.mark.parametrize("error", [Interrupted, OSError])
@pytest.mark.parametrize("at", ["s.png", "s.tif", LAST])
def test_an_interruption_between_two_files_is_known_by_its_folder_and_the_next_run_makes_all_whole(
    tmp_path: Path, at: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, "old", "s.png", "s.tif", "s.old.tif")
    with monkeypatch.context() as patch, pytest.raises((Interrupted, OutputError)):
        stop_at(patch, at, error)
        write_together(tmp_path, "new", "s.png", "s.tif", stale=STALE)
    assert not (tmp_path / LAST).exists()
    assert together(tmp_path, "s").is_dir()
    write_together(tmp_path, "newer", "s.png", "s.tif", stale=STALE)
    assert contents(tmp_path) == {"s.png": "newer", "s.tif": "newer", LAST: "newer"}
    assert not together(tmp_path, "s").exists()


def test_a_run_that_fails_after_one_that_was_killed_leaves_its_files_as_known_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "s.tif").write_text("of a killed run")
    together(tmp_path, "s").mkdir()
    (together(tmp_path, "s") / "s.png").write_text("half")
    with pytest.raises(Interrupted), replacing_together(tmp_path, "s", last=LAST) as work:
        assert names(work) == []  # what was left is cleared
        raise Interrupted
    assert together(tmp_path, "s").is_dir()
    write_together(tmp_path, "new", "s.tif")
    assert contents(tmp_path) == {"s.tif": "new", LAST: "new"}
    assert not together(tmp_path, "s").exists()


def test_the_folders_of_two_names_do_not_meet(tmp_path: Path) -> None:
    with (
        replacing_together(tmp_path, "a", last="a.json") as one,
        replacing_together(tmp_path, "b", last="b.json") as two,
    ):
        (one / "a.json").write_text("a")
        (two / "b.json").write_text("b")
    assert contents(tmp_path) == {"a.json": "a", "b.json": "b"}


def test_a_worker_given_up_for_lost_does_not_disturb_the_one_that_took_its_place(tmp_path: Path) -> None:
    with (
        pytest.raises(WorkerError, match=r"^another worker has begun s too, and took its place; run it again$"),
        replacing_together(tmp_path, "s", last=LAST) as lost,
    ):
        (lost / "s.tif").write_text("half")
        with replacing_together(tmp_path, "s", last=LAST) as again:
            for name in ("s.tif", LAST):
                (again / name).write_text("whole")
    assert (tmp_path / "s.tif").read_text() == "whole"
    assert not together(tmp_path, "s").exists()


def test_the_lost_one_ends_without_taking_away_what_the_other_is_writing(tmp_path: Path) -> None:
    lost = replacing_together(tmp_path, "s", last=LAST)
    lost.__enter__()
    with replacing_together(tmp_path, "s", last=LAST) as again:
        (again / "s.tif").write_text("whole")
        with pytest.raises(WorkerError):
            lost.__exit__(None, None, None)
        (again / LAST).write_text("whole")
    assert (tmp_path / "s.tif").read_text() == "whole"


def test_files_that_cannot_be_written_together_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file cannot be written \("):
        write_together(tmp_path / "file", "new")
