"""What directories say of their images, and what becomes of files that are damaged or made to do harm."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import OverlayError
from ucc_path.formats import label_tiff, tiff_images


def classic(*entries: bytes, following: int = 0, first: int = 8) -> bytes:
    """A little-endian TIFF with one directory at byte 8."""
    head = struct.pack("<2sHIH", b"II", 42, first, len(entries))
    return head + b"".join(entries) + struct.pack("<I", following)


def entry(tag: int, kind: int, count: int, value: int) -> bytes:
    return struct.pack("<HHII", tag, kind, count, value)


SIZE = (entry(256, 4, 1, 9), entry(257, 4, 1, 9))


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("bigtiff", [False, True])
def test_either_byte_order_and_either_kind_of_tiff_is_read(tmp_path: Path, byteorder: str, bigtiff: bool) -> None:
    image = np.zeros((300, 500, 3), np.uint16)
    options = {"tile": (64, 32), "photometric": "rgb", "description": "some words", "metadata": None}
    options |= {"resolution": (40_000, 40_000), "resolutionunit": "CENTIMETER"}
    with tifffile.TiffWriter(tmp_path / "a.tif", byteorder=byteorder, bigtiff=bigtiff) as tiff:
        tiff.write(image, subifds=2, **options)
        tiff.write(image[::2, ::2], **options)
        tiff.write(image[::4, ::4], **options)
        tiff.write(image[::8, ::8], **options)
    found = tiff_images.read(tmp_path / "a.tif")
    assert [(image.width_px, image.height_px) for image in found.chain] == [(500, 300), (63, 38)]
    assert [(image.width_px, image.height_px) for image in found.sub_ifds] == [(250, 150), (125, 75)]
    first = found.chain[0]
    assert (first.tile_px, first.samples, first.bits, first.codec, first.photometric) == ((32, 64), 3, 16, 1, 2)
    assert first.description.startswith("some words")
    assert first.mpp == pytest.approx(0.25)


@pytest.mark.parametrize(("unit", "mpp"), [("INCH", 25.4), ("CENTIMETER", 10.0), ("NONE", None)])
def test_the_scale_follows_the_unit(tmp_path: Path, unit: str, mpp: float | None) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 8), np.uint8), resolution=(1000, 1000), resolutionunit=unit)
    assert tiff_images.read(tmp_path / "a.tif").chain[0].mpp == mpp


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"II", "does not begin as one"),
        (b"some text that is no picture", "does not begin as one"),
        (struct.pack("<2sHI", b"II", 42, 0), "holds no image"),
        (struct.pack("<2sHI", b"II", 42, 1000), "ends too early"),
        (struct.pack("<2sHHHQ", b"II", 43, 8, 0, 2**64 - 1), "ends too early"),
        (classic(entry(256, 4, 1, 9)), "without pixels"),
        (classic(*SIZE)[:-10], "ends too early"),
        (classic(*SIZE, following=8), "lead back"),
        (classic(*SIZE, entry(330, 4, 1, 8)), "lead back"),
        (classic(*SIZE, entry(270, 2, 2**32 - 1, 8)), "ends too early"),
        (classic(*SIZE, entry(324, 4, 1, 5000), entry(325, 4, 1, 10)), "pixels beyond its end"),
        (classic(*SIZE, entry(273, 4, 1, 8), entry(279, 4, 1, 2**32 - 1)), "pixels beyond its end"),
        (struct.pack("<2sHIH", b"II", 42, 8, 60_000) + bytes(800_000), "over 256 tags"),
    ],
)
def test_a_file_that_is_no_whole_tiff_is_refused_with_the_reason(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(OverlayError, match=f"a.tif is not a whole TIFF: .*{words}.*; copy it again"):
        tiff_images.read(tmp_path / "a.tif")


def test_a_chain_without_end_is_given_up(tmp_path: Path) -> None:
    length = len(classic(*SIZE)) - 8
    directories = [struct.pack("<H", 2) + b"".join(SIZE) + struct.pack("<I", 8 + (n + 1) * length) for n in range(300)]
    (tmp_path / "a.tif").write_bytes(struct.pack("<2sHI", b"II", 42, 8) + b"".join(directories))
    with pytest.raises(OverlayError, match="over 256 directories"):
        tiff_images.read(tmp_path / "a.tif")


def test_values_of_strange_types_are_taken_for_none(tmp_path: Path) -> None:
    strange = (entry(259, 12, 1, 0), entry(262, 99, 5, 5), entry(270, 3, 1, 65_535), entry(282, 4, 1, 7))
    (tmp_path / "a.tif").write_bytes(classic(*SIZE, *strange))
    image = tiff_images.read(tmp_path / "a.tif").chain[0]
    assert (image.codec, image.photometric, image.mpp) == (1, 1, None)


def test_a_huge_value_is_not_read_whole(tmp_path: Path) -> None:
    entries = (*SIZE, *(entry(tag, 2, 2**26, 0) for tag in range(258, 330) if tag not in (273, 279, 324, 325)))
    (tmp_path / "a.tif").write_bytes(classic(*entries))
    os.truncate(tmp_path / "a.tif", 2**27)  # a hole: it takes no room on the disk
    tracemalloc.start()
    tiff_images.read(tmp_path / "a.tif")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


def test_what_is_not_a_file_or_not_there_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OverlayError, match="is not a file"):
            tiff_images.read(path)
    with pytest.raises(OverlayError, match=r"absent.tif cannot be opened \(No such file or directory\)"):
        tiff_images.read(tmp_path / "absent.tif")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "a.tif"
    label_tiff.write(path, np.arange(100, dtype=np.uint8).reshape(10, 10), mpp=8.0, enlarge=60, as_ome=True)
    return path.read_bytes()


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4), st.floats(0, 1))
def test_a_damaged_or_cut_file_is_read_or_refused_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    whole: bytes,
    damage: list[tuple[float, int]],
    kept: float,
) -> None:
    content = bytearray(whole)
    directories_at = whole.index(b"<?xml") - 300
    for place, value in damage:
        content[directories_at + int(place * (len(whole) - directories_at))] = value
    path = tmp_path_factory.getbasetemp() / "damaged.tif"
    path.write_bytes(content[: len(content) if damage else int(kept * len(content))])
    try:
        found = tiff_images.read(path)
    except OverlayError:
        return
    assert found.chain
