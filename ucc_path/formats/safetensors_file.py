"""Tensors with a record, in one safetensors file that may come from a stranger.

    8 bytes     length of the header, little-endian
    header      JSON, UTF-8: {"__metadata__": {"ucc-path": RECORD}, NAME: {"dtype", "shape", "data_offsets"}, ...}
    data        the tensors one after the other, without gaps

RECORD is itself JSON, in a string: {"format", "version", ...}. Written with the package safetensors, the same tensors
to the same bytes. Read here and not with the package, because that maps the file into memory, where a file that
shrinks kills the program. Nothing is believed before it is checked: no code runs, no more memory is taken than the file
is long and a little for the header.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from ucc_path.errors import UccPathError
from ucc_path.formats.atomic import replacing

KEY = "ucc-path"
MOST_HEADER_BYTES = 2**20
MOST_BYTES = 2**32
_MOST_DIMENSIONS = 8
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A tensor as the header describes it."""

    name: str
    bounds: tuple[int, int]  # in the data
    shape: tuple[int, ...]
    dtype: torch.dtype


Refusal = Callable[[str], UccPathError]
"""Makes the error of a reason such as "it is empty"."""


def write(path: Path, *, format: str, version: int, record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """The file appears whole, and is on the disk before it takes its name: a power cut leaves the old one or this."""
    text = json.dumps({"format": format, "version": version, **record}, sort_keys=True, allow_nan=False)
    # Copies, since tensors may share memory, lie on another device or have gaps, none of which can be stored.
    copies = {name: tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format) for name in tensors}
    data = save(copies, {KEY: text})  # in an order of its own, the same for any order of ours
    if int.from_bytes(data[:8], "little") > MOST_HEADER_BYTES or len(data) > MOST_BYTES:
        raise ValueError(f"{path} would be too large to be read back")
    with replacing(path, durable=True) as partial:
        partial.write_bytes(data)


def read(path: Path, *, format: str, version: int, refusal: Refusal) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The record, without its format and version, and the tensors on the CPU."""
    try:
        # Asked before it is opened: to open a pipe is to wait for its other end.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise refusal("it is a folder" if stat.S_ISDIR(mode) else "it is not a file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            header = _header(file, size, refusal)
            record = _record(header.pop("__metadata__", None), format, version, refusal)
            return record, _tensors(file, header, size - file.tell(), refusal)
    except UccPathError:
        raise
    except OSError as err:
        raise refusal(err.strerror or str(err)) from err


def _header(file: BufferedReader, size: int, refusal: Refusal) -> dict[str, Any]:
    if size == 0:
        raise refusal("it is empty")
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or (length <= MOST_HEADER_BYTES and 8 + length > size):
        raise refusal("it is cut short")
    if size > MOST_BYTES or length > MOST_HEADER_BYTES:
        raise refusal("it is no safetensors file, or one far too large")
    return _object(file.read(length), "its header", refusal)


def _object(text: bytes | str, name: str, refusal: Refusal) -> dict[str, Any]:
    def refuse_constant(constant: str) -> Any:
        raise ValueError(f"{constant} is no number")

    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as err:
        raise refusal(f"{name} is not JSON") from err
    if not isinstance(value, dict):
        raise refusal(f"{name} is not a JSON object")
    return value


def _record(metadata: Any, format: str, version: int, refusal: Refusal) -> dict[str, Any]:
    text = metadata.get(KEY) if isinstance(metadata, dict) else None
    record = _object(text, f"its record of {KEY}", refusal) if isinstance(text, str) else {}
    if record.pop("format", None) != format:
        raise refusal(f"it holds no {format}")
    found = record.pop("version", None)
    if found != version or type(found) is not int:
        shown = found if type(found) is int and abs(found) < 10**9 else "unknown"
        raise refusal(f"it is of version {shown}, this program reads {version}")
    return record


def _tensors(file: BufferedReader, header: Mapping[str, Any], size: int, refusal: Refusal) -> dict[str, Tensor]:
    """Reads what the header lists, which must be each of the `size` bytes once."""
    parts = sorted((_part(name, entry, size, refusal) for name, entry in header.items()), key=lambda part: part.bounds)
    edges = [0, *(edge for part in parts for edge in part.bounds), size]
    if any(edges[at] != edges[at + 1] for at in range(0, len(edges), 2)):
        raise refusal("its tensors are not one after the other")
    tensors = {}
    for part in parts:
        data = bytearray(part.bounds[1] - part.bounds[0])
        if file.readinto(data) != len(data):
            raise refusal("it is cut short")
        flat = torch.frombuffer(data, dtype=part.dtype) if data else torch.empty(0, dtype=part.dtype)
        tensors[part.name] = flat.reshape(part.shape)
    return tensors


def _part(name: str, entry: Any, size: int, refusal: Refusal) -> _Part:
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(start), int(end)]} if code in _DTYPES:
            if end > size:
                raise refusal("it is cut short")
            is_counted = len(shape) <= _MOST_DIMENSIONS and all(type(side) is int and side >= 0 for side in shape)
            # Where a side is 0 the others take no room, but must not overflow either.
            if is_counted and 0 <= start <= end and math.prod(max(side, 1) for side in shape) <= max(size, 1):
                part = _Part(name, (start, end), tuple(shape), _DTYPES[code])
                if math.prod(shape) * part.dtype.itemsize == end - start:
                    return part
    raise refusal(f"its tensor {name[:60]!r} has a type, a shape or a place that is not possible")
