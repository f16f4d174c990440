"""Where a slide's physical scale comes from, or why the slide is refused; how much coarser its levels are.

A wrong scale silently shifts every size the model knows, so it is never guessed: it is recorded in the file, or the
user gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ucc_path.errors import SlideError

MPP_RANGE = (0.05, 20.0)  # um/px: finer than light resolves ... coarser than any scan of tissue
MAX_ANISOTROPY = 0.05  # the tools treat pixels as square; beyond this they visibly are not


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a level-0 pixel in um, and where that was read."""

    mpp: float
    source: str


def find_scale(name: str, properties: Mapping[str, str], slide_mpp: float | None) -> Scale:
    """The scale of a slide from its OpenSlide properties; `slide_mpp`, given by the user, wins over them."""
    if slide_mpp is not None:
        if not _is_plausible(slide_mpp):
            raise SlideError(f"a slide scale of {slide_mpp:g} um/px is outside {_RANGE}; give another --slide-mpp")
        return Scale(slide_mpp, "--slide-mpp")
    recorded = [_number(properties.get(f"openslide.mpp-{axis}")) for axis in "xy"]
    known = [mpp for mpp in recorded if mpp is not None]
    if not known:
        raise SlideError(
            f"{name} does not record its scale; give it with --slide-mpp in um/px{_hint_from_objective(properties)}"
        )
    mpp = sum(known) / len(known)
    if not _is_plausible(mpp):
        raise SlideError(
            f"{name} records a scale of {mpp:.4g} um/px, outside {_RANGE}; "
            f"give the true one with --slide-mpp{_hint_from_objective(properties)}"
        )
    if max(known) > min(known) * (1 + MAX_ANISOTROPY):
        raise SlideError(
            f"{name} records pixels that are not square ({recorded[0]:g} x {recorded[1]:g} um); "
            "give one scale for both with --slide-mpp, or scan it again"
        )
    return Scale(mpp, "openslide.mpp-x, mpp-y")


def exact_downsamples(
    size_l0: tuple[int, int], level_sizes: Sequence[tuple[int, int]], downsamples: Sequence[float]
) -> tuple[float, ...]:
    """The levels' downsamples without the rounding of their sizes.

    A level of 2,221 pixels over 4,443 was made by halving: its downsample is 2, though the sizes say 2.0005. The
    difference would shift the far edge of a large slide by a pixel.
    """
    width, height = size_l0
    exact = []
    for downsample, (level_width, level_height) in zip(downsamples, level_sizes, strict=True):
        whole = max(1, round(downsample))
        is_rounding = abs(level_width - width / whole) <= 1 and abs(level_height - height / whole) <= 1
        exact.append(float(whole) if is_rounding else downsample)
    return tuple(exact)


_RANGE = f"{MPP_RANGE[0]:g}-{MPP_RANGE[1]:g} um/px"


def _is_plausible(mpp: float) -> bool:
    return math.isfinite(mpp) and MPP_RANGE[0] <= mpp <= MPP_RANGE[1]


def _number(text: str | None) -> float | None:
    """The property as a number; some scanners write a decimal comma, and some write nothing useful."""
    try:
        value = float((text or "").replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _hint_from_objective(properties: Mapping[str, str]) -> str:
    """A 20x objective usually means 0.5 um/px: said as a hint, never used as a fact."""
    power = _number(properties.get("openslide.objective-power"))
    return f" (its {power:g}x objective suggests about {10 / power:.3g})" if power else " (usually 0.25 or 0.5)"
