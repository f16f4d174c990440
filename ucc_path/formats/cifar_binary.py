"""The binary version of CIFAR-10 and CIFAR-100, as its authors publish it beside pickles, which are never read.

    cifar-10-batches-bin/    data_batch_1.bin ... data_batch_5.bin    10,000 training images each
                             test_batch.bin                           10,000 test images
    cifar-100-binary/        train.bin, test.bin                      50,000 and 10,000 images

A file is a row of records without any header: of CIFAR-10 a byte for the class and 3,072 for the image, of CIFAR-100
a byte for the coarse class (of 20, which the paper uses), one for the fine class (of 100), and 3,072 for the image. An
image is its 32 x 32 reds, row by row, then its greens, then its blues.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ucc_path.bags import LabelledImages
from ucc_path.errors import DatasetError

SIDE = 32
_FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
_FILES = {
    "cifar10": {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]},
    "cifar100": {"train": ["train.bin"], "test": ["test.bin"]},
}
_LABELS = {"cifar10": 1, "cifar100": 2}  # bytes before an image; the first is the class that is used
CLASSES = {"cifar10": 10, "cifar100": 20}
_MOST_BYTES = 2**30  # of a file: the largest has 154 million


def read(folder: Path, which: str, part: str) -> LabelledImages:
    """The `train` or `test` images of `cifar10` or `cifar100`, each (32, 32, 3); in the folder itself or below it."""
    inside = folder / _FOLDERS[which]
    place = inside if inside.is_dir() else folder
    records = np.concatenate([_records(place / name, which) for name in _FILES[which][part]])
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= CLASSES[which]:
        raise DatasetError(
            f"the {part} files of {place} name a class {labels.max()}, and {which} has {CLASSES[which]}; get them anew"
        )
    images = records[:, _LABELS[which] :].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return LabelledImages(np.ascontiguousarray(images), labels)


def _records(path: Path, which: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    size = _LABELS[which] + 3 * SIDE**2
    try:
        length = path.stat().st_size
        if not length or length % size or length > _MOST_BYTES:
            raise DatasetError(f"{path} has {length:,} bytes, which is not a number of images of {which}; get it anew")
        content = path.read_bytes()
    except OSError as err:
        raise DatasetError(
            f"{path} cannot be read ({err.strerror}); give the folder of {which}'s binary version, {_FOLDERS[which]}"
        ) from err
    return np.frombuffer(content, np.uint8).reshape(-1, size)
