"""Makers of small slides, annotations and data sets whose truth is known by construction."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from clusters import Machines
from forks import Forks, Started
from hypothesis import settings
from numpy.typing import NDArray

# A run in the background is deaf to Ctrl-C, and so would be all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same cases in every run, however busy the machine is.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

PROGRAM = Path(sys.executable).with_name("ucc-path")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"

GLASS = (243, 243, 243)
TISSUE = (205, 140, 190)
TUMOUR = (120, 60, 140)


@pytest.fixture
def shared_data() -> Path:
    """Real slides, where they are at hand."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real slides are not at {SHARED_DATA}")
    return SHARED_DATA


def write_tiff(path: Path, rgb: NDArray[np.uint8], *, mpp: float | None, levels: int = 3, tile_px: int = 256) -> Path:
    """A lossless pyramidal TIFF as OpenSlide reads it, each level the average of 2 x 2 pixels of the one below."""
    per_cm = None if mpp is None else (10_000 / mpp, 10_000 / mpp)
    with tifffile.TiffWriter(path) as tiff:
        for level in range(levels):
            tiff.write(
                rgb,
                tile=(tile_px, tile_px),
                photometric="rgb",
                compression="zlib",
                resolution=per_cm,
                resolutionunit=None if mpp is None else "CENTIMETER",
                subfiletype=int(level > 0),
                metadata=None,
            )
            rgb = halved(rgb)
    return path


def halved(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The mean of each 2 x 2 pixels; an odd last row or column is left out."""
    rows, cols = rgb.shape[0] // 2, rgb.shape[1] // 2
    blocks = rgb[: rows * 2, : cols * 2].reshape(rows, 2, cols, 2, 3)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(scope="session")
def slides_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `make_slide` keeps what it has made: making takes longer than copying."""
    return tmp_path_factory.mktemp("slides_made")


@pytest.fixture
def make_slide(tmp_path: Path, slides_made: Path) -> Callable[..., Path]:
    """`make_slide("a", tissue_px=(left, top, right, bottom))`: a slide of stained tissue in a box, glass around it."""

    def make(
        name: str = "slide",
        *,
        size_px: tuple[int, int] = (2048, 2048),
        tissue_px: tuple[int, int, int, int] = (128, 128, 1920, 1920),
        mpp: float | None = 0.5,
        seed: int = 0,
        folder: Path | None = None,
    ) -> Path:
        made = slides_made / f"{size_px}_{tissue_px}_{mpp}_{seed}.tif"
        if not made.exists():
            rng = np.random.default_rng(seed)
            rgb = np.full((size_px[1], size_px[0], 3), GLASS, np.int16)
            left, top, right, bottom = tissue_px
            rgb[top:bottom, left:right] = TISSUE
            rgb += rng.integers(-6, 7, rgb.shape, np.int16)
            write_tiff(made, np.clip(rgb, 0, 255).astype(np.uint8), mpp=mpp)
        folder = folder or tmp_path / "slides"
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(made, folder / f"{name}.tif"))

    return make


def paint_slide(
    path: Path,
    *,
    tumour_px: tuple[int, int, int, int] = (512, 512, 1280, 1280),
    tissue_px: tuple[int, int, int, int] = (256, 256, 1792, 1792),
    size_px: tuple[int, int] = (2048, 2048),
    lone_px: tuple[int, int, int, int] = (0, 0, 0, 0),
    mpp: float = 0.5,
    seed: int = 0,
) -> Path:
    """A slide of JPEG tiles: glass, on it a box (left, top, right, bottom) of pale tissue, in that two of tumour."""
    from ucc_path.formats import pyramid_tiff

    rng = np.random.default_rng(seed)
    rgb = np.full((size_px[1], size_px[0], 3), GLASS, np.int16)
    for (left, top, right, bottom), colour in ((tissue_px, TISSUE), (tumour_px, TUMOUR), (lone_px, TUMOUR)):
        rgb[top:bottom, left:right] = colour
        # Grains of the size of the model's pixels, which are four of these: finer ones would be gone at its scale.
        grain = rng.integers(-12, 13, (-(-(bottom - top) // 4), -(-(right - left) // 4), 3), np.int16)
        rgb[top:bottom, left:right] += grain.repeat(4, axis=0).repeat(4, axis=1)[: bottom - top, : right - left]
    pixels = np.clip(rgb, 0, 255).astype(np.uint8)
    tiles = (
        pixels[top : top + 256, left : left + 256]
        for top in range(0, size_px[1], 256)
        for left in range(0, size_px[0], 256)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pyramid_tiff.write(path, tiles, size_px=size_px, mpp=mpp, tile_px=256, quality=95)
    return path


@pytest.fixture
def make_xml() -> Callable[..., Path]:
    """`make_xml(slide, [ring, ...], [hole, ...])` writes ASAP XML beside a slide; rings are lists of (x, y)."""
    from ucc_path.formats import asap_xml

    def make(
        slide: Path,
        tumour: Sequence[Sequence[tuple[float, float]]],
        excluded: Sequence[Sequence[tuple[float, float]]] = (),
    ) -> Path:
        path = slide.with_suffix(".xml")
        asap_xml.write(path, [np.array(ring, float) for ring in tumour], [np.array(ring, float) for ring in excluded])
        return path

    return make


def box(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    """A rectangle as a ring."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """`forks.start(folder, "train", ...)`: a run of the program in a process of its own, without the wait for torch."""
    server = Forks(tmp_path_factory.mktemp("forks"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """A Ray cluster with one machine of one core; `machines.add()` gives it another."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:  # its sockets need a short path
        cluster = Machines(Path(folder))
        cluster.add()
        yield cluster
        cluster.close()


def tile_pixels(kind: str, rng: np.random.Generator, side_px: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A tile of pale tissue, of dark tumour, or of half and half along a line between patches; and its mask."""
    is_tumour = np.zeros((side_px, side_px), bool)
    if kind == "mixture":
        is_tumour[: side_px // 2] = True
        is_tumour = np.rot90(is_tumour, rng.integers(4))
    is_tumour = is_tumour | (kind == "metastases")
    rgb = np.where(is_tumour[..., None], TUMOUR, TISSUE) + rng.integers(-12, 13, (side_px, side_px, 3))
    return np.clip(rgb, 0, 255).astype(np.uint8), is_tumour.astype(np.uint8) * 255


ALIKE = {"normal": 4, "metastases": 4, "mixture": 8}
TINY = """
[model]
patch_px = 16
width = 4
encoder = "blocks"
features = 4
hidden = [16]

[training]
steps = 40
refine = 0.4
bag_size = 8
bags_per_step = 8
evaluate_every = 10
validation_bags = 16
learning_rate = 0.005
"""
"""Settings with which a data set of `make_dataset` is learnt in a second."""

UNREFINED = TINY.replace("refine = 0.4", "refine = 0")
"""The same without a second round."""


def write_dataset(
    dataset: Path,
    *,
    train: Mapping[str, int] = ALIKE,
    val: Mapping[str, int] = ALIKE,
    test: Mapping[str, int] | None = None,
    test_slides: int = 1,
    tile_px: int = 64,
    mpp: float = 2.0,
    seed: int = 0,
) -> Path:
    """A data set with so many tiles of each kind in each split, and their masks; `unlabelled` is without a label.

    All tiles of a split are of one slide, called like it; of several test slides each gets its tiles in turn.
    """
    from ucc_path.formats import dataset_json, png, tiles_csv
    from ucc_path.tiles.labelling import KINDS, UCC_OF_KIND, UNLABELLED

    rng = np.random.default_rng(seed)
    rows: list[tiles_csv.TileRow] = []
    splits = {"train": train, "val": val} | ({} if test is None else {"test": test})
    for split, counts in splits.items():
        for folder in ("images", "masks"):
            (dataset / folder / split).mkdir(parents=True)
        kinds = [name for name in (*KINDS, UNLABELLED) for _ in range(counts.get(name, 0))]
        for number, kind in enumerate(kinds):
            rgb, mask = tile_pixels(kind, rng, tile_px)
            row = tiles_csv.TileRow(
                tile_id=f"{split}_{len(rows):03}",
                slide=f"{split}_{number % test_slides}" if split == "test" and test_slides > 1 else split,
                split=split,
                x_l0=len(rows) * tile_px,
                y_l0=0,
                tile_px=tile_px,
                mpp=mpp,
                tumour_fraction=None if kind == UNLABELLED else float(mask.mean() / 255),
                kind=None if kind == UNLABELLED else kind,
                ucc=UCC_OF_KIND.get(kind),
            )
            png.write(tiles_csv.image_path(dataset, row), rgb)
            png.write(tiles_csv.mask_path(dataset, row), mask)
            rows.append(row)
    tiles_csv.write(dataset, rows)
    dataset_json.write(dataset, {"settings": {}, "slides": []})
    return dataset


def add_tile(
    dataset: Path,
    tile_id: str,
    tumour: NDArray[np.bool_],
    *,
    dark: NDArray[np.bool_] | None = None,
    tissue: NDArray[np.bool_] | None = None,
    density: float = 1.0,
    slide: str = "test",
    split: str = "test",
    mpp: float = 2.0,
) -> None:
    """A further tile of a data set: its truth `tumour` (side, side), where it is `dark` and where `tissue` at all.

    Unless told otherwise, what is dark is tumour and all is tissue. `density` is how strongly it is stained.
    """
    from ucc_path.formats import png, tiles_csv
    from ucc_path.settings import TilingSettings
    from ucc_path.tiles.labelling import UCC_OF_KIND, kind_of

    rows = tiles_csv.read(dataset)
    rng = np.random.default_rng(len(rows))
    colours = np.where((tumour if dark is None else dark)[..., None], TUMOUR, TISSUE)
    rgb = colours + rng.integers(-12, 13, colours.shape)
    picture = 255 * (rgb / 255) ** density
    if tissue is not None:
        picture[~tissue] = (np.array(GLASS) + rng.integers(-3, 4, rgb.shape))[~tissue]
    share = float(tumour.mean())
    kind = kind_of(share, TilingSettings())
    row = tiles_csv.TileRow(
        tile_id, slide, split, 64 * len(rows), 0, len(tumour), mpp, share, kind, UCC_OF_KIND.get(kind or "")
    )
    for path, pixels in ((tiles_csv.image_path, picture), (tiles_csv.mask_path, tumour * 255)):
        path(dataset, row).parent.mkdir(parents=True, exist_ok=True)
        png.write(path(dataset, row), np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    tiles_csv.write(dataset, [*rows, row])


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """`make_dataset(val={"normal": 2})`: the folder `dataset`, as `write_dataset` makes it."""
    return lambda name="dataset", **how: write_dataset(tmp_path / name, **how)


@pytest.fixture
def start_train(forks: Forks, tmp_path: Path) -> Callable[..., Started]:
    """`start_train("--seed", "1")`: a tiny training of `dataset` into `run` on its way, in a process of its own."""
    (tmp_path / "tiny.toml").write_text(TINY)

    def start(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Started:
        command = ("train", "dataset", "--settings", "tiny.toml", *arguments)
        return forks.start(tmp_path, *command, environment=environment)

    return start


@pytest.fixture
def run_train(start_train: Callable[..., Started]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same, run to its end."""
    return lambda *arguments: start_train(*arguments).wait()


@pytest.fixture(scope="session")
def whole_run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run that nothing disturbed, to compare with; its `dataset` lies beside it."""
    return trained(forks, tmp_path_factory.mktemp("whole_run"), TINY)


@pytest.fixture(scope="session")
def clustered_run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a second round: the nearest centre of its clusters says the class of a patch."""
    return trained(forks, tmp_path_factory.mktemp("clustered_run"), UNREFINED)


def trained(forks: Forks, folder: Path, settings: str) -> Path:
    """A run in `folder`, to its end, on tiles made there."""
    write_dataset(folder / "dataset")
    (folder / "tiny.toml").write_text(settings)
    done = forks.start(folder, "train", "dataset", "--settings", "tiny.toml").wait()
    assert done.returncode == 0, done.stderr
    return folder / "run"


def write_segmented(
    folder: Path,
    name: str,
    labels: NDArray[np.uint8],
    *,
    sure: NDArray[np.uint8] | int = 255,
    cell_l0: int = 100,
    size_l0: tuple[int, int] | None = None,
    mpp: float = 1.0,
    full_size: bool = False,
    **model: Any,
) -> None:
    """A slide as `segment` leaves it, as far as `score` looks at it: 1 normal, 2 metastases, how `sure` of 255.

    A cell is 0.1 mm wide, unless told otherwise; `size_l0` is the slide's, where cells do not cover all of it.
    """
    from ucc_path.formats import label_tiff, segmentation_json

    rows, cols = labels.shape
    size_l0 = size_l0 or (cols * cell_l0, rows * cell_l0)
    folder.mkdir(parents=True, exist_ok=True)
    enlarged: dict[str, Any] = {"enlarge": cell_l0, "size_px": size_l0, "mpp": mpp}
    how = enlarged if full_size else {"mpp": mpp * cell_l0}
    unsure = np.where(labels > 0, 255 - np.broadcast_to(np.uint8(sure), labels.shape), 0).astype(np.uint8)
    label_tiff.write(folder / f"{name}_labels.tif", labels, highest=2, **how)
    label_tiff.write(folder / f"{name}_uncertainty.tif", unsure, **how)
    known = {"path": "somewhere/run/model.safetensors", "sha256": "0" * 64, "model": "ucc", "supervision": "ucc"}
    classes = model.pop("classes", ("normal", "metastases"))
    record = {
        "slide": {"name": name, "size_l0": size_l0, "mpp": mpp},
        "model": {**known, "mpp": 2.0, "patch_px": 16, "converged": True, **model},
        "settings": {"segmentation": {"stride_px": 0}, "tissue": {"mpp": 8.0}, "request": {"full_size": full_size}},
        "grid": {"cell_l0": cell_l0, "rows": rows, "cols": cols},
        "classes": [{"label": label, "name": called} for label, called in enumerate(classes, start=1)],
    }
    segmentation_json.write(folder, name, record)
