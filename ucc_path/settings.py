"""Every tunable number of every stage, as frozen dataclasses; the only place where a default is written.

A settings file is TOML with one table per stage, `[tissue] min_area_um2 = 20000`. A flag on the command line wins over
the file, and the file over the defaults here.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from ucc_path.errors import SettingsError

S = TypeVar("S")


def _setting(default: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class AnnotationSettings:
    """Which names in an annotation mean what; compared without regard to case."""

    tumour_groups: tuple[str, ...] = _setting(
        ("_0", "_1", "tumor", "tumour", "metastases", "metastasis"), "groups or classes that outline tumour"
    )
    excluded_groups: tuple[str, ...] = _setting(
        ("_2", "exclusion", "none", "normal"), "groups or classes that are cut out of the tumour"
    )
    mask_tumour_values: tuple[int, ...] = _setting(
        (), "values of a mask image that are tumour; none given: the one value other than 0 that there is"
    )


@dataclass(frozen=True, slots=True)
class TissueSettings:
    """How tissue is told from glass."""

    mpp: float = _setting(8.0, "scale of the thumbnail on which tissue is found, in um/px")
    min_stain_od: float = _setting(0.015, "optical density by which tissue absorbs more green than red and blue")
    min_stain_share: float = _setting(0.12, "the same as a share of all green absorbed; below it is grey: shadow, pen")
    ink_od: float = _setting(0.3, "optical density above which what has no colour of stained tissue is pen or ink")
    ink_margin_um: float = _setting(24.0, "width of the blurred edge of pen and ink that is not tissue either, in um")
    close_um: float = _setting(16.0, "gaps in tissue up to twice this wide are bridged, as in a mesh of fat, in um")
    max_hole_um2: float = _setting(10_000.0, "holes in tissue up to this area are tissue, such as fat cells, in um2")
    min_area_um2: float = _setting(5_000.0, "pieces smaller than this are dust, in um2")


@dataclass(frozen=True, slots=True)
class TilingSettings:
    """Which tiles are cropped and how they are labelled."""

    tile_px: int = _setting(512, "side of a tile in pixels")
    mpp: float = _setting(1.0, "scale of the tiles in um/px; 0 (--mpp native) is each slide's level 0")
    per_slide: int = _setting(20, "tiles of each kind taken from a slide")
    normal_below: float = _setting(0.2, "a tile with less tumour than this share is normal, ucc 1")
    metastases_above: float = _setting(0.8, "a tile with more tumour than this share is metastases, ucc 1")
    mixture_above: float = _setting(0.3, "a mixture, ucc 2, has more tumour than this share")
    mixture_below: float = _setting(0.7, "a mixture, ucc 2, has less tumour than this share")
    min_tissue: float = _setting(0.75, "share of a tile that must be tissue")
    max_overlap: float = _setting(0.0, "share of a tile that another tile of the same slide may cover")
    seed: int = _setting(0, "seed of the random choice of tiles and splits")


TABLES: dict[str, type[Any]] = {"tiling": TilingSettings, "tissue": TissueSettings, "annotation": AnnotationSettings}
"""The name of each stage's table in a settings file."""

DEFAULT_SPLIT = "train=0.6,val=0.2,test=0.2"
UNANNOTATED = ("error", "normal", "skip")
"""What a slide without an annotation may mean; the first unless told otherwise."""


def from_table(settings: type[S], table: Mapping[str, Any], where: str) -> S:
    """A settings value from a TOML table; `where` names the table in error messages."""
    hints = get_type_hints(settings)
    known = {field.name for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise SettingsError(f"{where} has no setting {name!r}; it has: {', '.join(sorted(known))}")
        values[name] = _checked(value, hints[name], f"{where} {name}")
    return settings(**values)


def _checked(value: Any, hint: Any, where: str) -> Any:
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
        int: "a whole number",
        tuple[str, ...]: "a list of strings",
        tuple[int, ...]: "a list of whole numbers",
    }.get(hint, "a number")
    raise SettingsError(f"{where} is {value!r}; give {wanted}")
