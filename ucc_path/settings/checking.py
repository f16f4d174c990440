"""What a setting is, and the check that a value is one: its type, its choices, its bounds."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from ucc_path.errors import SettingsError

S = TypeVar("S")


def setting(
    default: Any, help: str, *, choices: tuple[str, ...] = (), low: float = -math.inf, high: float = math.inf
) -> Any:
    """A setting; of a list, each value must lie from `low` to `high`."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, "low": low, "high": high})


def from_table(base: S, table: Mapping[str, Any], where: str) -> S:
    """`base` with what a TOML table says; `where` names the table in error messages."""
    hints = get_type_hints(type(base))
    known = {field.name: field for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise SettingsError(f"{where} has no setting {name!r}; it has: {', '.join(sorted(known))}")
        values[name] = _checked(value, hints[name], f"{where} {name}")
    return within_bounds(dataclasses.replace(base, **values), where)  # type: ignore[type-var]


def within_bounds(settings: S, where: str) -> S:
    """The settings themselves; refuses a value that is no choice or beyond its bounds."""
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value, bounds = getattr(settings, field.name), field.metadata
        if bounds["choices"] and value not in bounds["choices"]:
            raise SettingsError(f"{where} {field.name} is {value!r}; it can be {', '.join(bounds['choices'])}")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and not bounds["low"] <= number <= bounds["high"]:
                wanted = f"from {bounds['low']:g} to {bounds['high']:g}"
                if bounds["high"] == math.inf:
                    wanted = f"{bounds['low']:g} or more"
                raise SettingsError(f"{where} {field.name} is {str(number)[:20]}; give {wanted}")
    return settings


def _checked(value: Any, hint: Any, where: str) -> Any:
    if hint in (bool, str) and type(value) is hint:
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) < math.inf or abs(value) > sys.float_info.max:
            raise SettingsError(f"{where} is not a finite number; give one")
        return float(value)
    if hint == tuple[str, ...] and isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if hint == tuple[int, ...] and isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
        return tuple(value)
    wanted = {
        bool: "true or false",
        str: "a string",
        int: "a whole number",
        tuple[str, ...]: "a list of strings",
        tuple[int, ...]: "a list of whole numbers",
    }.get(hint, "a number")
    raise SettingsError(f"{where} is {value!r}; give {wanted}")
