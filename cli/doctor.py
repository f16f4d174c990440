"""`ucc-path doctor`: what is installed, what is missing, and how to mend it."""

from __future__ import annotations

from pathlib import Path

import click

from . import options
from .main import EXIT_SOME_FAILED

_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}


@click.command()
@options.talk
def doctor(quiet: bool, verbose: bool) -> None:
    """Look at all the tool stands on: PASS, WARN or FAIL for each, with the fix.

    Exit status 0 if nothing failed, 1 otherwise. --quiet shows only what needs attention, --verbose also the versions
    of the packages that results depend on.
    """
    from ucc_path.workflows.doctor import FAIL, PASS, examine
    from ucc_path.workflows.versions import versions

    failed = 0
    for finding in examine(Path.cwd()):
        failed += finding.status == FAIL
        if quiet and finding.status == PASS:
            continue
        click.echo(f"{click.style(finding.status, fg=_COLOURS[finding.status])}  {finding.what}: {finding.text}")
        if finding.fix:
            click.echo(f"      fix: {finding.fix}")
    if verbose:
        for name, version in versions().items():
            click.echo(f"      {name} {version}")
    if failed:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)
