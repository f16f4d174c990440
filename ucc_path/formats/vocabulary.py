"""What the names of groups and classes in an annotation mean: tumour, or cut out of it; nothing is guessed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ucc_path.errors import AnnotationError
from ucc_path.settings import AnnotationSettings

Meaning = Literal["tumour", "excluded"]


def meaning(path: Path, kind: str, names: Sequence[str], settings: AnnotationSettings) -> Meaning:
    """What the first known of `names` means; they run from the name itself to ever more general ones.

    `kind` is what the program that wrote `path` calls such a name: group or class.
    """
    tumour = {name.casefold() for name in settings.tumour_groups}
    excluded = {name.casefold() for name in settings.excluded_groups}
    for name in (name.casefold() for name in names):
        if name in tumour and name in excluded:
            raise AnnotationError(
                f"{path}: the {kind} {quoted(name)} is set both as tumour and as excluded; "
                "take it out of tumour_groups or excluded_groups of the settings"
            )
        if name in tumour:
            return "tumour"
        if name in excluded:
            return "excluded"
    raise AnnotationError(
        f"{path}: the {kind} {quoted(names[0])} is unknown (tumour: {', '.join(settings.tumour_groups)}; "
        f"excluded: {', '.join(settings.excluded_groups)}); "
        "say what it means with --tumour-group NAME or --exclude-group NAME"
    )


def quoted(text: str) -> str:
    """Text from a file as it may stand in a message of one line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
