"""Nothing half written ever stands under a final name: files and folders appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ucc_path.errors import OutputError, UccPathError, WorkerError

PARTIAL = ".partial"
_REPLACED = ".replaced"
LOCK = ".ucc-path.lock"  # a name that nobody else gives: it is written to and removed


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A name to write to; when the block ends well the file takes its final name, otherwise it is removed.

    A durable file is on the disk before it takes its name: a power cut leaves the old one or the new one whole. That
    takes milliseconds, too many for every tile of a data set, which is worth nothing before its last file is there.
    """
    partial = _beside(path, PARTIAL)
    with explaining(path):
        try:
            yield partial
            if durable:
                _flush(partial)
            partial.replace(path)
            if durable:
                _flush(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def replacing_folder(path: Path, *, marker: str, overwrite: bool) -> Iterator[Path]:
    """The same for a folder, recognised as ours by the file `marker` in it; one of ours is replaced only if told so.

    What a killed run left behind is cleared, and two runs at once into one folder are refused.
    """
    with explaining(path):
        if Path(os.path.realpath(path)).is_mount():
            raise OutputError(f"{path} is a disk of its own, which cannot be replaced; choose a folder in it with -o")
    with locked_folder(path) as path:
        partial = _beside(path, PARTIAL)
        try:
            _recover(path)
            _refuse_existing(path, marker, overwrite)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            yield partial
            _swap(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def replacing_together(folder: Path, name: str, *, last: str, stale: Collection[str] = ()) -> Iterator[Path]:
    """A folder to write files into; when the block ends well they take their places in `folder`, together.

    By the file `last` they are known to be whole: the old one goes before the first of them comes, the new one comes
    when all are there and on the disk. Of the names in `stale` those that were not written are removed, for they are of
    an earlier set. While files without their last one may stand there, be the run killed or stopped, its folder stays,
    and they are known by it.

    Whoever begins anew takes away the folder of whoever was at it before: a worker on a machine that was given up for
    lost, and is at work still, finds nothing to put in place and ends with WorkerError.
    """
    ours = together(folder, name)
    with explaining(folder):
        is_needed = ours.exists()  # by the files of a run before this one
        partial = ours / secrets.token_hex(8)
        has_begun = False
        try:
            shutil.rmtree(ours, ignore_errors=True)
            partial.mkdir(parents=True)
            has_begun = True
            yield partial
            files = sorted(path for path in partial.iterdir() if path.name != last)
            for path in (*files, partial / last):
                _flush(path)
            is_needed = True
            (folder / last).unlink(missing_ok=True)
            for old in set(stale) - {path.name for path in files}:
                (folder / old).unlink(missing_ok=True)
            for path in files:
                path.replace(folder / path.name)
            _flush(folder)
            (partial / last).replace(folder / last)
            is_needed = False
            _flush(folder)
        except OSError as err:
            if has_begun and not partial.exists():
                raise WorkerError(f"another worker has begun {name} too, and took its place; run it again") from err
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if not is_needed:
                with suppress(OSError):  # what another worker has begun is its own
                    ours.rmdir()


def together(folder: Path, name: str) -> Path:
    """Where `replacing_together` writes first."""
    return folder / f"{name}.ucc-path{PARTIAL}"


@contextmanager
def locked_folder(path: Path) -> Iterator[Path]:
    """The folder that `path` leads to, there or not, for this run alone: another run into it is refused meanwhile."""
    path = Path(os.path.realpath(path))  # where a link leads to: the folder there is meant, not the link
    with explaining(path):
        if path.is_symlink():  # still
            raise OutputError(f"{path} is a link that leads to itself; choose another folder with -o")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_of(path)
        with lock.open("w") as locked:
            _take(lock, locked.fileno(), path)
            try:
                yield path
            finally:
                lock.unlink(missing_ok=True)


def lock_of(folder: Path) -> Path:
    """The file that is there while `locked_folder` holds a folder: who sees it sees the same disk."""
    return folder / LOCK if folder.is_mount() else _beside(folder, LOCK)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _take(lock: Path, file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, the run that held the lock may have ended and removed its file.
        is_ours = lock.exists() and os.fstat(file).st_ino == lock.stat().st_ino
    except BlockingIOError:
        is_ours = False
    if not is_ours:
        raise OutputError(f"another run is writing {path} now; wait for it, or choose another folder with -o")


def _refuse_existing(path: Path, marker: str, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / marker).is_file():
        raise OutputError(f"{path} exists and holds no {marker}, so it is not ours to replace; choose another with -o")
    if not overwrite:
        raise OutputError(f"{path} exists; replace it with --overwrite, or choose another folder with -o")


def _swap(partial: Path, path: Path) -> None:
    """The new folder in the place of the old one, which is kept until the new one is there."""
    replaced = _beside(path, _REPLACED)
    if path.exists():
        path.rename(replaced)
    try:
        partial.rename(path)
    except BaseException:
        if replaced.exists():
            replaced.rename(path)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _recover(path: Path) -> None:
    """Undoes a swap that was cut in its middle."""
    replaced = _beside(path, _REPLACED)
    if replaced.exists() and not path.exists():
        replaced.rename(path)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """The system's error on writing `path`, as one sentence that says what to do."""
    try:
        yield
    except UccPathError:
        raise
    except OSError as err:
        what_now = {
            errno.ENOSPC: "make room on the disk and run it again",
            errno.EDQUOT: "make room in your quota and run it again",
            errno.EACCES: "choose a folder you may write to with -o",
            errno.EPERM: "choose a folder you may write to with -o",
            errno.EROFS: "choose a folder you may write to with -o",
            errno.ENOMEM: "give it more memory, or fewer --workers",
        }.get(err.errno or 0, "check the folder and the disk")
        raise OutputError(f"{path} cannot be written ({err.strerror or err}); {what_now}") from err
