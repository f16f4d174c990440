"""A settings file: TOML with one table a stage, such as `[tiling]` or `[training]`, whose keys are its settings.

    [tissue]
    min_area_um2 = 20000

What is not named keeps its default, or its preset. An unknown table or key is refused, so that a misspelt one is never
ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import SettingsError
from ucc_path.settings import TABLES, from_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: Path, preset: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings value of each table there is, by the name of the table; what it does not name is the preset's."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as err:
        raise SettingsError(f"{path} cannot be read ({err.strerror}); check --settings") from err
    except (ValueError, RecursionError) as err:
        raise SettingsError(f"{path} is not TOML ({err}); mend that line") from err
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise SettingsError(f"{path} has a table or key {unknown[0]!r}; the tables are {', '.join(TABLES)}")
    bases = {name: settings() for name, settings in TABLES.items()} | dict(preset or {})
    return {
        name: from_table(bases[name], _table(table, path, name), f"{path} [{name}]") for name, table in tables.items()
    }


def _table(value: Any, path: Path, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{path}: {name} is a table; write [{name}] and its keys below")
    return value
