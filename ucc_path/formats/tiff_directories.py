"""How the directories of a TIFF are packed behind its pixels.

Little-endian, classic TIFF where the file ends below 4 GB and BigTIFF otherwise:

- bytes 0-15   the header; a classic one is 8 bytes long and the other 8 stay empty
- then         whatever the writer puts there
- at the end   one image file directory (IFD) per image, each with its long values behind it, tags in ascending order;
               chained, or the first lists the offsets of all others as SubIFDs (tag 330) and the chain ends with it
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

HEADER_BYTES = 16
CLASSIC_END = 2**32 - 1

ASCII, SHORT, LONG, RATIONAL, LONG8 = 2, 3, 4, 5, 16
DESCRIPTION, SUB_IFDS = 270, 330
_CODES = {ASCII: "B", SHORT: "H", LONG: "I", RATIONAL: "I", LONG8: "Q"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tag of a directory; a rational is two values, a text its bytes with a 0 behind them."""

    tag: int
    kind: int
    values: tuple[int, ...]


def text(tag: int, words: str) -> Entry:
    """A tag whose value is a text; beyond ASCII it is UTF-8, as OME has it."""
    return Entry(tag, ASCII, (*words.encode(), 0))


def write(stream: BinaryIO, directories: Sequence[Sequence[Entry]], *, as_sub_ifds: bool = False) -> None:
    """Append the directories and write the header that their place asks for.

    The stream stands at the end of the file, of which the first HEADER_BYTES were left free. In a classic file LONG8
    becomes LONG.
    """
    start = stream.tell() + stream.tell() % 2
    blocks = _pack_all(directories, start, big=True, as_sub_ifds=as_sub_ifds)
    header = struct.pack("<2sHHHQ", b"II", 43, 8, 0, start)
    if start + sum(map(len, blocks)) <= CLASSIC_END:  # the same directories are shorter in a classic file
        blocks = _pack_all(directories, start, big=False, as_sub_ifds=as_sub_ifds)
        header = struct.pack("<2sHI", b"II", 42, start)
    stream.seek(start)
    stream.writelines(blocks)
    stream.seek(0)
    stream.write(header)


def _pack_all(directories: Sequence[Sequence[Entry]], start: int, *, big: bool, as_sub_ifds: bool) -> list[bytes]:
    """The bytes of each directory with its long values behind it, the first at `start`."""
    given = [list(entries) for entries in directories]
    listed = as_sub_ifds and len(given) > 1
    if listed:
        given[0].append(Entry(SUB_IFDS, LONG8, (0,) * (len(given) - 1)))
    places = [start]
    for entries in given:
        places.append(places[-1] + len(_pack(entries, 0, following=0, big=big)))
    if listed:
        given[0][-1] = Entry(SUB_IFDS, LONG8, tuple(places[1:-1]))
    following = [0] * len(given) if as_sub_ifds else [*places[1:-1], 0]
    return [
        _pack(entries, place, following=after, big=big)
        for entries, place, after in zip(given, places, following, strict=False)
    ]


def _pack(entries: Sequence[Entry], start: int, *, following: int, big: bool) -> bytes:
    count_code, word_code, word = ("<Q", "<Q", 8) if big else ("<H", "<I", 4)
    size = struct.calcsize(count_code) + len(entries) * (4 + 2 * word) + word
    table, values = struct.pack(count_code, len(entries)), b""
    for entry in sorted(entries, key=lambda entry: entry.tag):
        kind = entry.kind if big or entry.kind != LONG8 else LONG
        data = struct.pack(f"<{len(entry.values)}{_CODES[kind]}", *entry.values)
        count = len(entry.values) // (2 if kind == RATIONAL else 1)
        if len(data) > word:
            place = start + size + len(values)
            values += data + bytes(len(data) % 2)
            data = struct.pack(word_code, place)
        table += struct.pack("<HH", entry.tag, kind) + struct.pack(word_code, count) + data.ljust(word, b"\0")
    return table + struct.pack(word_code, following) + values
