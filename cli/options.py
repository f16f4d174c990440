"""Options that several commands share, and how flags, a settings file and defaults become settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ucc_path.ahead import usable_cores
from ucc_path.formats import settings_toml
from ucc_path.settings import PRESETS, TABLES, within_bounds

F = TypeVar("F", bound=Callable[..., Any])

quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors and failures.")
verbose = click.option("-v", "--verbose", is_flag=True, help="Say more.")
debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.", expose_value=False)
overwrite = click.option("--overwrite", is_flag=True, help="Replace finished output.")
settings_file = click.option(
    "--settings",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help=f"Settings by table, {' '.join(f'[{name}]' for name in TABLES)}; a flag wins over the file.",
)
workers = click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=usable_cores,
    help="Processes at work at once; the result does not depend on it.  [default: the cores of this machine]",
)


def talk(command: F) -> F:
    """The options of every command: --quiet, --verbose, --debug."""
    return quiet(verbose(debug(command)))


def setting(settings: type[Any], name: str, *flags: str, shown: str = "", **extra: Any) -> Callable[[F], F]:
    """An option for one field of a settings class: its help and its default are written there and nowhere else.

    `shown` stands in the help in place of the default, where that depends.
    """
    field = next(field for field in fields(settings) if field.name == name)
    text = str(field.metadata["help"])
    extra.setdefault("type", type(field.default))
    extra.setdefault("help", f"{text[0].upper()}{text[1:]}.  [default: {shown or field.default}]")
    return click.option(*(flags or (f"--{name.replace('_', '-')}",)), name, default=None, **extra)


def merged(table: str, file: Path | None, *, preset: str = "", **flags: Any) -> Any:
    """The settings of a table that are in force: defaults or preset, then the file, then the flags that were given."""
    bases = PRESETS.get(preset, {})
    base = (settings_toml.read(file, bases) if file else {}).get(table, bases.get(table) or TABLES[table]())
    settings = replace(base, **{name: value for name, value in flags.items() if value is not None})
    return within_bounds(settings, f"[{table}]")
