"""Options that several commands share, and how flags, a settings file and defaults become settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ucc_path.ahead import usable_cores
from ucc_path.engine.values import Cluster
from ucc_path.formats import settings_toml
from ucc_path.settings import PRESETS, TABLES, UNANNOTATED, AnnotationSettings, within_bounds

MAX_MASK_VALUES = 2**16  # that a mask of 16 bits can have

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

_engine = click.option(
    "--engine",
    type=click.Choice(("local", "ray")),
    default="local",
    show_default=True,
    help="Processes of this machine, or workers on the machines of a Ray cluster.",
)
_ray_address = click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="The Ray cluster to work on, or auto for the one that runs here.  [default: one of this machine's own]",
)
report = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report"),
    show_default=True,
    metavar="REPORT",
    help="Folder to make.",
)
unannotated = click.option(
    "--unannotated",
    type=click.Choice(UNANNOTATED),
    default=UNANNOTATED[0],
    show_default=True,
    help="What a slide without an annotation means.",
)
_tumour_group = click.option(
    "--tumour-group", multiple=True, metavar="NAME", help="A further group or class that outlines tumour."
)
_exclude_group = click.option(
    "--exclude-group", multiple=True, metavar="NAME", help="A further group or class cut out of the tumour."
)
_mask_tumour_values = click.option(
    "--mask-tumour-values", metavar="N,N-N", help="Values that are tumour in a mask image that has several."
)
_camelyon_rules = click.option(
    "--camelyon-rules/--no-camelyon-rules",
    default=True,
    show_default=True,
    help="Whether the known problem slides of CAMELYON16 get their rule.",
)


def annotation(command: F) -> F:
    """What annotations mean: --tumour-group, --exclude-group, --mask-tumour-values, --camelyon-rules."""
    return _tumour_group(_exclude_group(_mask_tumour_values(_camelyon_rules(command))))


def engine(command: F) -> F:
    """Where slides are worked on: --engine, --ray-address, --workers."""
    return _engine(_ray_address(workers(command)))


def cluster(given: dict[str, Any]) -> Cluster | None:
    """Takes the options of `engine`, but for --workers, out of `given`; None for processes of this machine.

    On a cluster --workers are the cores to be used on each machine: all of them, unless it is given.
    """
    name, address = given.pop("engine"), given.pop("ray_address")
    if name == "local":
        if address is not None:
            raise click.UsageError("--ray-address is for --engine ray; give that too, or leave it out")
        return None
    source = click.get_current_context().get_parameter_source("workers")
    return Cluster(address, None if source is click.core.ParameterSource.DEFAULT else given["workers"])


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


def merged(
    table: str, file: Path | None, *, preset: str = "", bases: Mapping[str, Any] | None = None, **flags: Any
) -> Any:
    """The settings of a table that are in force: defaults or preset, then the file, then the flags that were given.

    `bases` are the tables of a preset that has no name of its own.
    """
    bases = PRESETS.get(preset, {}) if bases is None else bases
    base = (settings_toml.read(file, bases) if file else {}).get(table, bases.get(table) or TABLES[table]())
    settings = replace(base, **{name: value for name, value in flags.items() if value is not None})
    return within_bounds(settings, f"[{table}]")


def annotation_settings(settings: Path | None, given: dict[str, Any]) -> AnnotationSettings:
    """Takes the options of `annotation`, but for the rules, out of `given`.

    A group named on the command line means what is said there, and only that.
    """
    known: AnnotationSettings = merged("annotation", settings)
    tumour, excluded = given.pop("tumour_group"), given.pop("exclude_group")
    values = given.pop("mask_tumour_values")
    return replace(
        known,
        tumour_groups=_without(known.tumour_groups, excluded) + tumour,
        excluded_groups=_without(known.excluded_groups, tumour) + excluded,
        mask_tumour_values=_numbers(values) if values else known.mask_tumour_values,
    )


def _without(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name.casefold() not in {other.casefold() for other in others})


def _numbers(text: str) -> tuple[int, ...]:
    """`1,3` or `1-23` as numbers."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not 0 <= high - low < MAX_MASK_VALUES:
                raise ValueError
            numbers += range(low, high + 1)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a list like 1,2 or 1-23", param_hint="--mask-tumour-values"
        ) from None
    return tuple(numbers)
