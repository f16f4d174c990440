"""Makers of small labelled images in the files that MNIST and CIFAR come in; each class is a bar in its own place."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from ucc_path.workflows.reproduce import ReproduceRequest

CIFAR_PX = 32


def make_digits(
    each: int, *, classes: int = 10, side_px: int = 12, seed: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, side, side) and their classes, shuffled: a bright bar on a dark noisy ground, its place is the class.

    The first five classes have bars that lie, the others such that stand.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), each)).astype(np.uint8)
    images = rng.integers(0, 60, (len(labels), side_px, side_px))
    for image, label in zip(images, labels, strict=True):
        first = 1 + label % 5 * (side_px - 2) // 5
        bar = slice(first, first + 2)
        image[(bar, slice(None)) if label < 5 else (slice(None), bar)] += 180
    return images.astype(np.uint8), labels


def idx_bytes(values: NDArray[np.uint8]) -> bytes:
    """As an IDX file has them."""
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


def write_idx(path: Path, values: NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = idx_bytes(values)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def write_mnist(
    folder: Path,
    *,
    train: int = 50,
    test: int = 8,
    classes: int = 10,
    side_px: int = 12,
    mark: str = "-",
    ending: str = "",
    seed: int = 0,
) -> Path:
    """The four files of MNIST, with so many images of each class."""
    for number, (prefix, each) in enumerate((("train", train), ("t10k", test))):
        images, labels = make_digits(each, classes=classes, side_px=side_px, seed=2 * seed + number)
        write_idx(folder / f"{prefix}-images{mark}idx3-ubyte{ending}", images)
        write_idx(folder / f"{prefix}-labels{mark}idx1-ubyte{ending}", labels)
    return folder


def cifar_bytes(images: NDArray[np.uint8], *labels: NDArray[np.uint8]) -> bytes:
    """Records of images (n, 32, 32, 3), each after its labels."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([*(label[:, None] for label in labels), planes], axis=1).astype(np.uint8).tobytes()


def make_photographs(each: int, *, classes: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and their classes, shuffled: a bar in one of ten places; from the eleventh class on blue.

    Mirrored left to right they are still of their class: only the place of lying bars tells.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), each)).astype(np.uint8)
    images = rng.integers(0, 60, (len(labels), CIFAR_PX, CIFAR_PX, 3))
    for image, label in zip(images, labels, strict=True):
        first = 1 + label % 10 * 3
        image[first : first + 3, :, 2 if label >= 10 else slice(0, 2)] += 180
    return images.astype(np.uint8), labels


def write_cifar10(folder: Path, *, train: int = 50, test: int = 8) -> Path:
    """The six files of CIFAR-10, with so many images of each class."""
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = make_photographs(train, classes=10)
    for number, places in enumerate(np.array_split(np.arange(len(labels)), 5), start=1):
        (folder / f"data_batch_{number}.bin").write_bytes(cifar_bytes(images[places], labels[places]))
    (folder / "test_batch.bin").write_bytes(cifar_bytes(*make_photographs(test, classes=10, seed=1)))
    return folder


def write_cifar100(folder: Path, *, train: int = 50, test: int = 8) -> Path:
    """The two files of CIFAR-100, with so many images of each of its 20 classes, and any fine ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in (("train", train), ("test", test)):
        images, labels = make_photographs(each, classes=20, seed=name == "test")
        (folder / f"{name}.bin").write_bytes(cifar_bytes(images, labels, 99 - labels))
    return folder


SMALL = """
[model]
patch_px = 16
width = 2
features = 10
hidden = [64]

[training]
steps = 150
warm_up = 10
bag_size = 6
bags_per_step = 256
evaluate_every = 50
validation_bags = 256
learning_rate = 0.01
averaging = 0.9

[reproduction]
shift_px = 0
test_bags = 100
curve_images = 100
first_clusters = 4
"""
"""Settings with which `ucc-alpha1` learns the digits of `write_mnist` in seconds."""

QUICK = """
[model]
patch_px = 16
width = 1
features = 2
hidden = [4]

[training]
steps = 4
bag_size = 4
bags_per_step = 8
evaluate_every = 2
validation_bags = 8

[reproduction]
test_bags = 5
curve_images = 60
first_clusters = 2
"""
"""Settings that cost next to nothing; what is learnt is of no matter."""


def request_of(
    data: Path, output: Path, *models: str, text: str = QUICK, experiment: str = "mnist", **changes: Any
) -> ReproduceRequest:
    """What `ucc-path reproduce` asks for with a settings file of this text; `changes` are of the tables or the rest.

    A change of a setting is named with its table, as in `training_seed=1`.
    """
    from ucc_path.settings import TABLES, from_table, reproduction_preset
    from ucc_path.workflows.reproduce import ReproduceRequest

    bases = reproduction_preset(experiment, "fast")
    tables = tomllib.loads(text)
    for name in list(changes):
        table, _, setting = name.partition("_")
        if table in bases and setting:
            tables.setdefault(table, {})[setting] = changes.pop(name)
    settings = {name: from_table(base, tables.get(name, {}), name) for name, base in bases.items() if name in TABLES}
    return ReproduceRequest(experiment, data, output, models or ("ucc",), device="cpu", **settings, **changes)
