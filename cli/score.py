"""`ucc-path score`: segmented slides against their annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .main import EXIT_SOME_FAILED

_HELP = """Compare segmented slides with annotations, in a report with tables, pictures and FROC.

DIR is a folder that `ucc-path segment` has made. The annotation of a slide S is S.xml (ASAP), S.geojson[.gz] (QuPath),
S_mask.png or S_mask.tif. Figures are TPR, FPR, TNR, FNR, PA, balanced accuracy, IoU and Dice, of each slide and of all,
on the grid of the mask and exact to the pixel; and how many lesions are found at how many false alarms (FROC, as
CAMELYON16 counts), each polygon with its score.

REPORT gets report.html (one file to look at, print and pass on), metrics.csv, metrics.json (every figure), images.csv
(each slide) and figures/.

\b
Examples:
  ucc-path score segmented --annotations xml/ -o report
  ucc-path score segmented --annotations xml/ -o report --unannotated normal
"""


@click.command(help=_HELP)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--annotations",
    type=click.Path(path_type=Path),
    required=True,
    help="File or folder of annotations, matched by name.",
)
@options.report
@options.unannotated
@click.option(
    "--not-exhaustive",
    multiple=True,
    metavar="SLIDE",
    help="Name of a slide whose tumour is not all outlined: its other tissue is left out. Known for CAMELYON16.",
)
@options.annotation
@options.workers
@options.overwrite
@options.settings_file
@options.talk
def score(settings: Path | None, quiet: bool, verbose: bool, **given: Any) -> None:
    from ucc_path.workflows.score import ScoreRequest, score_slides

    from .show import scores_table, show

    request = ScoreRequest(
        annotation=options.annotation_settings(settings, given),
        evaluation=options.merged("evaluation", settings),
        **given,
    )
    report = show(score_slides(request), quiet=quiet, verbose=verbose)
    if not quiet:
        click.echo(scores_table(report.table))
        if report.froc == report.froc:
            click.echo(f"FROC {report.froc:.3f}")
        click.echo(f"The report is {report.output}/report.html")
    if report.failures:
        failed = len(report.failures)
        click.echo(f"{failed} of {failed + report.slides} slides failed, named above.", err=True)
        raise click.exceptions.Exit(EXIT_SOME_FAILED)
