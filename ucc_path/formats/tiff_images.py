"""What the directories of a TIFF say of its images, whoever wrote it; pixels are not looked at.

Either byte order, classic or BigTIFF. The images are those of the chain of directories, and those that the first lists
as SubIFDs. A file may be made to do harm, so a limit is set to the directories, their tags, and the values that are
taken of each tag. A file that names pixels beyond its end is refused.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ucc_path.errors import OverlayError
from ucc_path.formats.tiff_directories import ASCII, DESCRIPTION, HEADER_BYTES, LONG, LONG8, RATIONAL, SHORT, SUB_IFDS

MAX_DIRECTORIES = 256
MAX_TAGS = 256
MAX_VALUES = 16  # of a tag other than these:
MAX_TEXT = 2**14
MAX_TILES = 2**20  # of a directory; whether the pixels of more are there is not asked

_LIMITS = {DESCRIPTION: MAX_TEXT, SUB_IFDS: MAX_DIRECTORIES}
_PIXELS = ((324, 325), (273, 279))  # offsets and byte counts, of tiles and of strips
_BYTE, _IFD, _IFD8 = 1, 13, 18
_CODES = {_BYTE: "B", ASCII: "B", SHORT: "H", LONG: "I", RATIONAL: "I", _IFD: "I", LONG8: "Q", _IFD8: "Q"}
_LAYOUTS = {42: ("H", "I"), 43: ("Q", "Q")}  # how the number of tags, and how an offset is packed
_UM_PER_UNIT = {2: 25_400.0, 3: 10_000.0}

_Tags = Mapping[int, tuple[int, ...]]


class Image(NamedTuple):
    """One directory. Numbers are as in the file; what is not there has the value that TIFF gives it."""

    width_px: int
    height_px: int
    tile_px: tuple[int, int] | None  # none where it is stored in strips
    codec: int
    photometric: int
    samples: int
    bits: int
    sample_format: int
    is_planar: bool
    description: str
    per_unit: float | None  # XResolution
    unit: int

    @property
    def mpp(self) -> float | None:
        """The scale in um/px, where it is recorded."""
        return _UM_PER_UNIT[self.unit] / self.per_unit if self.per_unit and self.unit in _UM_PER_UNIT else None


class Images(NamedTuple):
    """All images of a file."""

    chain: tuple[Image, ...]
    sub_ifds: tuple[Image, ...]


def read(path: Path) -> Images:
    """The images of a TIFF; OverlayError where it is none, or not whole."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # from a pipe one would wait for ever
            raise OverlayError(f"{path} is not a file; name a TIFF")
        with path.open("rb") as stream:
            return _Reader(stream, path.stat().st_size).images()
    except OSError as err:
        raise OverlayError(f"{path} cannot be opened ({err.strerror or err}); check the path") from err
    except _Damage as err:
        raise OverlayError(f"{path} is not a whole TIFF: {err}; copy it again, or write it anew") from err


class _Damage(Exception):
    """What is wrong with the file, as a part of a sentence."""


class _Reader:
    """Follows the offsets of an open file."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        if not size:
            raise _Damage("it is empty")
        head = stream.read(HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
        self._order = {b"II": "<", b"MM": ">"}.get(head[:2], "")
        version = struct.unpack_from(f"{self._order}H", head, 2)[0] if self._order else 0
        if version not in _LAYOUTS:
            raise _Damage("it does not begin as one")
        self._count, self._word = (struct.Struct(self._order + code) for code in _LAYOUTS[version])
        self._first = self._word.unpack_from(head, self._word.size)[0]
        self._seen: set[int] = set()

    def images(self) -> Images:
        chain: list[_Tags] = []
        offset = self._first
        while offset:
            tags, offset = self._directory(offset)
            chain.append(tags)
        if not chain:
            raise _Damage("it holds no image")
        sub_ifds = [self._directory(place)[0] for place in chain[0].get(SUB_IFDS, ())]
        return Images(tuple(map(_image, chain)), tuple(map(_image, sub_ifds)))

    def _directory(self, offset: int) -> tuple[_Tags, int]:
        """The tags at an offset, and the offset of the next directory."""
        if offset in self._seen:
            raise _Damage("its directories lead back to one another")
        self._seen.add(offset)
        (count,) = self._count.unpack(self._bytes(offset, self._count.size))
        if count > MAX_TAGS or len(self._seen) > MAX_DIRECTORIES:
            raise _Damage(f"it has over {MAX_DIRECTORIES} directories, or over {MAX_TAGS} tags in one")
        length = 4 + 2 * self._word.size
        table = self._bytes(offset + self._count.size, count * length + self._word.size)
        (following,) = self._word.unpack_from(table, count * length)
        entries = [table[place : place + length] for place in range(0, count * length, length)]
        by_tag = {struct.unpack_from(f"{self._order}H", entry)[0]: entry for entry in entries}
        self._refuse_cut(by_tag)
        return {tag: self._values(entry, _LIMITS.get(tag, MAX_VALUES)) for tag, entry in by_tag.items()}, following

    def _refuse_cut(self, by_tag: Mapping[int, bytes]) -> None:
        for pair in _PIXELS:
            if all(tag in by_tag for tag in pair):
                tables = [self._packed(by_tag[tag], MAX_TILES) for tag in pair]
                offsets, counts = (np.frombuffer(data, code or "u1").astype(float) for code, data in tables)
                known = min(len(offsets), len(counts))
                if known and (offsets[:known] + counts[:known]).max() > self._size:
                    raise _Damage("it is cut short, for it names pixels beyond its end")

    def _values(self, entry: bytes, limit: int) -> tuple[int, ...]:
        code, data = self._packed(entry, limit)
        return tuple(np.frombuffer(data, code).tolist()) if code else ()

    def _packed(self, entry: bytes, limit: int) -> tuple[str, bytes]:
        """The first values of a tag and how they are packed; none where they are neither whole numbers nor text."""
        (kind,) = struct.unpack_from(f"{self._order}H", entry, 2)
        if kind not in _CODES:
            return "", b""
        code = self._order + _CODES[kind]
        (count,) = self._word.unpack_from(entry, 4)
        length = count * struct.calcsize(code) * (2 if kind == RATIONAL else 1)
        value = entry[4 + self._word.size :]
        if length > self._word.size:
            length = min(length, limit * struct.calcsize(code))
            value = self._bytes(self._word.unpack(value)[0], length)
        return code, value[:length]

    def _bytes(self, offset: int, count: int) -> bytes:
        data = b""
        if offset + count <= self._size:
            self._stream.seek(offset)
            data = self._stream.read(count)
        if len(data) < count:
            raise _Damage("it ends too early")
        return data


def _image(tags: _Tags) -> Image:
    def first(tag: int, otherwise: int) -> int:
        return (tags.get(tag) or (otherwise,))[0]

    width_px, height_px, tile_px, samples = first(256, 0), first(257, 0), (first(322, 0), first(323, 0)), first(277, 1)
    if not (width_px and height_px):
        raise _Damage("it holds an image without pixels")
    numerator, denominator = (*tags.get(282, ()), 0, 0)[:2]
    return Image(
        width_px=width_px,
        height_px=height_px,
        tile_px=tile_px if all(tile_px) else None,
        codec=first(259, 1),
        photometric=first(262, 1),
        samples=samples,
        bits=first(258, 1),
        sample_format=first(339, 1),
        is_planar=first(284, 1) != 1 and samples > 1,
        description=bytes(value & 255 for value in tags.get(DESCRIPTION, ())).decode(errors="replace"),
        per_unit=numerator / denominator if numerator and denominator else None,
        unit=first(296, 2),
    )
