"""`ucc-path check-overlay`: which viewers open a TIFF as a pyramid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .main import EXIT_SOME_FAILED

if TYPE_CHECKING:
    from ucc_path.formats.viewer_rules import Verdict

_COLOURS = {"opens": "green", "fits": "green", "flat": "yellow", "refused": "red", "misfit": "red"}


@click.command("check-overlay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--slide", type=click.Path(path_type=Path), metavar="SLIDE", help="Also say whether it lies right on this slide."
)
@options.talk
def check_overlay(file: Path, slide: Path | None, quiet: bool, verbose: bool) -> None:
    """Say which viewers will open a TIFF as a pyramid, and why not.

    For each viewer: opens, flat (it shows the largest level only, slowly if that is large) or refused, and what to
    write instead. Exit status 0 if at least one opens it with two levels or more, and it lies right on the slide if
    one is given; 1 otherwise. --quiet shows only what needs attention.

    \b
    Examples:
      ucc-path check-overlay segmented/slide_labels.tif
      ucc-path check-overlay segmented/slide_labels.tif --slide slide.tif
    """
    from ucc_path.formats import viewer_rules

    verdicts = viewer_rules.examine(file)
    reasons = viewer_rules.misfits(file, slide) if slide else ()
    if verbose:
        click.echo(f"{file}: {viewer_rules.describe(file)}")
    for verdict in verdicts:
        status = _status(verdict)
        if not quiet or status != "opens" or verdict.reasons:
            levels = [f"{verdict.levels} level{'s' if verdict.levels > 1 else ''}"] if verdict.opens else []
            _say(status, verdict.viewer, "; ".join([*levels, *verdict.reasons]))
    if slide and (reasons or not quiet):
        _say("misfit" if reasons else "fits", str(slide), "; ".join(reasons) or "it lies where it belongs")
    if reasons or not any(_status(verdict) == "opens" for verdict in verdicts):
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


def _status(verdict: Verdict) -> str:
    if not verdict.opens:
        return "refused"
    return "opens" if verdict.levels > 1 else "flat"


def _say(status: str, what: str, text: str) -> None:
    click.echo(f"{click.style(status, fg=_COLOURS[status])}{' ' * (9 - len(status))}{what}: {text}")
