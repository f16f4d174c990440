"""`ucc-path demo`: the workflow on slides it makes itself."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder to work in.",
)
@options.workers
@options.overwrite
@options.talk
def demo(output: Path, workers: int, overwrite: bool, quiet: bool, verbose: bool) -> None:
    """Make slides with known tumour and turn them into a labelled data set, offline, in about a minute.

    Slides that an earlier run has made are used again; --overwrite starts anew.
    """
    from ucc_path.workflows.demo import demo as run_demo

    from .show import show, table

    report = show(run_demo(output, workers=workers, overwrite=overwrite), quiet=quiet, verbose=verbose)
    if not quiet:
        click.echo(table(report.tiles.counts))
        click.echo(f"The data set is in {report.tiles.output}")
        click.echo(f"Look at {report.contact_sheet}: tiles by kind, tumour outlined in black.")
