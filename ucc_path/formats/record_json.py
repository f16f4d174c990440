"""A record of how something came about: one JSON object that begins with its `format` and `version`.

UTF-8, indented, keys in the order given. What the other keys are is said where a record of that format is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucc_path.errors import UccPathError
from ucc_path.formats.atomic import replacing


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of records, and the words in which one that is not right is refused."""

    format: str
    version: int
    error: type[UccPathError]
    what: str  # "a data set"
    make_anew: str  # "make the data set anew with ucc-path tile"


def write(path: Path, kind: RecordFormat, record: Mapping[str, Any]) -> None:
    text = json.dumps({"format": kind.format, "version": kind.version, **record}, indent=2, ensure_ascii=False)
    with replacing(path, durable=True) as partial:
        # A path need not be text: its odd bytes become \\udcXX, which JSON reads back as they were.
        partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def read(path: Path, kind: RecordFormat) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise kind.error(f"{path} cannot be read ({err.strerror}); {path.parent} is not {kind.what}") from err
    except (ValueError, RecursionError) as err:
        raise kind.error(f"{path} is not JSON ({err}); {kind.make_anew}") from err
    if not isinstance(record, dict) or record.get("format") != kind.format:
        raise kind.error(f"{path} does not describe {kind.what} of ucc-path; {kind.make_anew}")
    if record.get("version") != kind.version:
        raise kind.error(
            f"{path} is of version {record.get('version')!r}, this program reads {kind.version}; {kind.make_anew}"
        )
    return record
