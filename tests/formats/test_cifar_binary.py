"""The binary version of CIFAR-10 and CIFAR-100: where a byte lies, and whatever can be wrong with the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from labelled import cifar_bytes, make_photographs, write_cifar10, write_cifar100

from ucc_path.errors import DatasetError
from ucc_path.formats import cifar_binary

WRITE: dict[str, Callable[..., Path]] = {"cifar10": write_cifar10, "cifar100": write_cifar100}
INSIDE = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
FIRST = {"cifar10": "data_batch_1.bin", "cifar100": "train.bin"}
CLASSES = {"cifar10": 10, "cifar100": 20}
WHICH = tuple(WRITE)


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("is_inside", [False, True])
def test_images_are_read_in_order_from_the_folder_or_the_one_inside(
    which: str, is_inside: bool, tmp_path: Path
) -> None:
    WRITE[which](tmp_path / INSIDE[which] if is_inside else tmp_path, train=2, test=1)
    for part, (each, seed) in {"train": (2, 0), "test": (1, 1)}.items():
        images, labels = make_photographs(each, classes=CLASSES[which], seed=seed)
        found = cifar_binary.read(tmp_path, which, part)
        assert np.array_equal(found.images, images) and found.images.flags.c_contiguous
        assert np.array_equal(found.classes, labels) and found.classes.dtype == np.int64


@pytest.mark.parametrize(("which", "labels"), [("cifar10", b"\x07"), ("cifar100", b"\x07\x63")])
def test_a_record_is_its_labels_then_reds_greens_and_blues_row_by_row(
    which: str, labels: bytes, tmp_path: Path
) -> None:
    """Of the two labels of CIFAR-100 the first, the coarse one, is the class."""
    planes = np.zeros((3, 32, 32), np.uint8)
    planes[0, 5, 9], planes[1, 6, 10], planes[2, 31, 0] = 11, 22, 33
    (tmp_path / ("test_batch.bin" if which == "cifar10" else "test.bin")).write_bytes(labels + planes.tobytes())
    found = cifar_binary.read(tmp_path, which, "test")
    assert found.classes.tolist() == [7] and found.images.shape == (1, 32, 32, 3)
    assert found.images[0, 5, 9].tolist() == [11, 0, 0]
    assert found.images[0, 6, 10].tolist() == [0, 22, 0]
    assert found.images[0, 31, 0].tolist() == [0, 0, 33]
    assert found.images.sum() == 66


@pytest.mark.parametrize("which", WHICH)
def test_a_missing_file_is_named(which: str, tmp_path: Path) -> None:
    path = WRITE[which](tmp_path, train=1, test=1) / FIRST[which]
    path.unlink()
    message = rf"^{path} cannot be read \(.+\); give the folder of {which}'s binary version, {INSIDE[which]}$"
    with pytest.raises(DatasetError, match=message):
        cifar_binary.read(tmp_path, which, "train")


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("change", [-1, 1, None])
def test_a_file_that_is_no_number_of_images_is_refused(which: str, change: int | None, tmp_path: Path) -> None:
    """Cut by a byte, too long by one, or empty."""
    path = WRITE[which](tmp_path, train=1, test=1) / FIRST[which]
    content = b"" if change is None else path.read_bytes()[:-1] if change < 0 else path.read_bytes() + b"\0"
    path.write_bytes(content)
    message = f"^{path} has {len(content):,} bytes, which is not a number of images of {which}; get it anew$"
    with pytest.raises(DatasetError, match=message):
        cifar_binary.read(tmp_path, which, "train")


@pytest.mark.parametrize("which", WHICH)
def test_a_class_that_there_is_not_is_refused(which: str, tmp_path: Path) -> None:
    classes = CLASSES[which]
    images, labels = make_photographs(1, classes=classes + 1)
    labels = (labels,) if which == "cifar10" else (labels, labels)
    path = tmp_path / ("test_batch.bin" if which == "cifar10" else "test.bin")
    path.write_bytes(cifar_bytes(images, *labels))
    message = f"^the test files of {tmp_path} name a class {classes}, and {which} has {classes}; get them anew$"
    with pytest.raises(DatasetError, match=message):
        cifar_binary.read(tmp_path, which, "test")


def test_files_of_the_other_data_set_are_not_taken_for_it(tmp_path: Path) -> None:
    """Its records are a byte longer."""
    (tmp_path / "test_batch.bin").write_bytes((write_cifar100(tmp_path, train=1, test=1) / "test.bin").read_bytes())
    with pytest.raises(DatasetError, match="is not a number of images of cifar10"):
        cifar_binary.read(tmp_path, "cifar10", "test")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.bin").mkdir()
    with pytest.raises(DatasetError, match=f"^{tmp_path / 'test.bin'} "):
        cifar_binary.read(tmp_path, "cifar100", "test")
