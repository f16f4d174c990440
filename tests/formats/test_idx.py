"""The IDX files of MNIST: packed or not, with a hyphen or a dot, and whatever can be wrong with them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from labelled import idx_bytes, make_digits, write_idx, write_mnist

from ucc_path.errors import DatasetError
from ucc_path.formats import idx

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_and_labels_are_read_in_order(mark: str, ending: str, tmp_path: Path) -> None:
    write_mnist(tmp_path, train=3, test=2, mark=mark, ending=ending)
    for part, (each, seed) in {"train": (3, 0), "test": (2, 1)}.items():
        images, labels = make_digits(each, seed=seed)
        found = idx.read(tmp_path, part)
        assert len(found) == 10 * each and found.images.dtype == np.uint8
        assert found.images.shape == (10 * each, 12, 12, 1)
        assert np.array_equal(found.images[..., 0], images)
        assert np.array_equal(found.classes, labels) and found.classes.dtype == np.int64


def test_the_bytes_are_those_that_the_format_says(tmp_path: Path) -> None:
    """Written out by hand: two images of 2 x 2."""
    (tmp_path / IMAGES).write_bytes(bytes.fromhex("00000803 00000002 00000002 00000002 01020304 05060708"))
    (tmp_path / LABELS).write_bytes(bytes.fromhex("00000801 00000002 0907"))
    found = idx.read(tmp_path, "train")
    assert found.images[..., 0].tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert found.classes.tolist() == [9, 7]


def test_plain_files_win_over_packed_ones(tmp_path: Path) -> None:
    plain, packed = (np.full((1, 2, 2), value, np.uint8) for value in (1, 2))
    write_idx(tmp_path / IMAGES, plain)
    write_idx(tmp_path / f"{IMAGES}.gz", packed)
    write_idx(tmp_path / LABELS, np.zeros(1, np.uint8))
    assert idx.read(tmp_path, "train").images.max() == 1


@pytest.mark.parametrize("name", [IMAGES, LABELS])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    write_mnist(tmp_path, train=1, test=1)
    (tmp_path / name).unlink()
    message = f"^{tmp_path} holds no {name}; give the folder of MNIST's four IDX files "
    with pytest.raises(DatasetError, match=message):
        idx.read(tmp_path, "train")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nowhere holds no t10k-images-idx3-ubyte"):
        idx.read(tmp_path / "nowhere", "test")


WHOLE = idx_bytes(np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
NOT_IDX = "is not an IDX file of 3 axes of bytes; get it anew"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-1], "holds fewer values than it says; get a whole copy"),
        (WHOLE[:16], "holds fewer values than it says; get a whole copy"),
        (WHOLE + b"\0", "holds more values than it says; get a whole copy"),
        (WHOLE[:15], NOT_IDX),
        (b"", NOT_IDX),
        (b"\x80\x04pickle of something else", NOT_IDX),
        (b"<html>404 Not Found, and more words</html>", NOT_IDX),
        (idx_bytes(np.zeros(20, np.uint8)), NOT_IDX),  # labels in the place of images
        (b"\0\0\x0d\x03" + WHOLE[4:], NOT_IDX),  # floats
        (b"\0\1\x08\x03" + WHOLE[4:], NOT_IDX),
        (WHOLE[:4] + b"\xff" * 12 + WHOLE[16:], NOT_IDX),  # a size that no memory has
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_what_is_no_whole_file_is_refused(content: bytes, message: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"{IMAGES}{ending}"
    path.write_bytes(gzip.compress(content) if ending else content)
    with pytest.raises(DatasetError, match=f"^{path} {message}$"):
        idx.read(tmp_path, "train")


@pytest.mark.parametrize("kept", [2, 11, 20, -9, -1])
def test_a_packed_file_that_was_cut_is_refused(kept: int, tmp_path: Path) -> None:
    path = tmp_path / f"{IMAGES}.gz"
    path.write_bytes(gzip.compress(WHOLE)[:kept])
    with pytest.raises(DatasetError, match=rf"^{path} cannot be read \(.+\); get it anew$"):
        idx.read(tmp_path, "train")


def test_a_packed_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"{IMAGES}.gz"
    packed = bytearray(gzip.compress(WHOLE))
    packed[12] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(DatasetError, match=rf"^{path} .*; get "):
        idx.read(tmp_path, "train")


def test_a_plain_file_called_packed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"{IMAGES}.gz"
    path.write_bytes(WHOLE)
    with pytest.raises(DatasetError, match=rf"^{path} cannot be read \(Not a gzipped file .*\); get it anew$"):
        idx.read(tmp_path, "train")


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 4, 5)])
def test_files_that_do_not_belong_together_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    write_idx(tmp_path / IMAGES, np.zeros(shape, np.uint8))
    write_idx(tmp_path / LABELS, np.zeros(2, np.uint8))
    with pytest.raises(DatasetError, match=rf"^the train files of {tmp_path} do not belong together: .*; get them"):
        idx.read(tmp_path, "train")
