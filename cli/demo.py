"""`ucc-path demo`: the whole workflow, on slides it makes itself or on your own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ucc_path.settings import TilingSettings

from . import options

if TYPE_CHECKING:
    from ucc_path.workflows.demo import DemoReport

_HELP = """Run the whole workflow, offline, in minutes on two CPU cores: slides, tiles, training, masks, a report.

It makes five slides with known tumour, crops tiles with one label each, trains the UCC model from those labels and a
Unet from full masks, segments the one slide that neither has seen, and reports how good that is. It says what you would
type on your own slides.

Run again, it goes on where it was; --overwrite starts anew. With --slides it does the same on your own.

\b
Examples:
  ucc-path demo
  ucc-path demo -o mine --slides slides/ --annotations xml/
"""


@click.command(help=_HELP)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder to work in.",
)
@click.option("--slides", type=click.Path(path_type=Path), metavar="DIR", help="Folder of your own slides.")
@click.option(
    "--annotations",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of their annotations.  [default: beside the slides]",
)
@options.setting(TilingSettings, "tile_px", shown="256 for slides made here, else 512")
@options.workers
@options.overwrite
@options.talk
def demo(
    output: Path,
    slides: Path | None,
    annotations: Path | None,
    tile_px: int | None,
    workers: int,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    from ucc_path.workflows import demo as workflow

    from .show import show

    if annotations and not slides:
        raise click.UsageError("--annotations are those of your own slides; name their folder with --slides")
    tiling = workflow.OWN_TILING if slides else workflow.TILING
    request = workflow.DemoRequest(
        output=output,
        slides=slides,
        annotations=annotations,
        tiling=replace(tiling, tile_px=tile_px or tiling.tile_px),
        workers=workers,
        overwrite=overwrite,
    )
    report = show(workflow.demo(request), quiet=quiet, verbose=verbose)
    if not quiet:
        _tell(report)


def _tell(report: DemoReport) -> None:
    """The scores, where everything is, how to look at it."""
    places, slide = report.places, report.unseen[0]
    click.echo(report.in_words())
    click.echo(
        f"The report is {places.report}/report.html, and of the whole slide {places.slide_report}/report.html; "
        f"overlays and polygons are in {places.segmented}"
    )
    click.echo(
        f"To look: open the report in a browser, see {places.segmented}/{slide}.png, or in QuPath open the slide "
        f"{slide} of {places.slides} and drag {places.segmented}/{slide}.geojson.gz onto it"
    )
