"""The label of a tile: its kind, and its unique class count, from the share of it that is tumour."""

from __future__ import annotations

from ucc_path.errors import SettingsError
from ucc_path.settings import TilingSettings

NORMAL = "normal"
METASTASES = "metastases"
MIXTURE = "mixture"
KINDS = (NORMAL, METASTASES, MIXTURE)
CLASSES = (NORMAL, METASTASES)
"""What pure tiles can be; the label value of a class is its place + 1."""
UNLABELLED = "unlabelled"  # what people read in place of a kind where a tile has none

UCC_OF_KIND = {NORMAL: 1, METASTASES: 1, MIXTURE: 2}


def kind_of(tumour_fraction: float, settings: TilingSettings) -> str | None:
    """The kind of a tile, or None where the share is too near a mixture to be pure, or the other way round.

    >>> kind_of(0.1, TilingSettings()), kind_of(0.5, TilingSettings()), kind_of(0.25, TilingSettings())
    ('normal', 'mixture', None)
    """
    for kind, (low, high) in kind_ranges(settings).items():
        if low < tumour_fraction < high:
            return kind
    return None


def kind_ranges(settings: TilingSettings) -> dict[str, tuple[float, float]]:
    """The open range of tumour shares of each kind."""
    return {
        NORMAL: (-1.0, settings.normal_below),
        METASTASES: (settings.metastases_above, 2.0),
        MIXTURE: (settings.mixture_above, settings.mixture_below),
    }


def check_thresholds(settings: TilingSettings) -> None:
    """SettingsError where the thresholds would give one share two kinds."""
    thresholds = (
        settings.normal_below,
        settings.mixture_above,
        settings.mixture_below,
        settings.metastases_above,
    )
    if not 0 < thresholds[0] <= thresholds[1] < thresholds[2] <= thresholds[3] < 1:
        raise SettingsError(
            "the thresholds must rise, normal_below <= mixture_above < mixture_below <= metastases_above, "
            f"between 0 and 1; they are {', '.join(f'{t:g}' for t in thresholds)}"
        )
