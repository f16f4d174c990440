"""`ucc-path evaluate`: models side by side on tiles whose tumour is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ucc_path.settings import ASSIGNMENTS, INFERENCES, SegmentationSettings

from . import options

_HELP = """Compare models on the test tiles of a data set, in a report with tables, pictures and curves.

DATASET is a folder that `ucc-path tile` has made; each RUN one that `ucc-path train` has made on it. Beside the
models the report has raw k-means (kmeans), a classifier of mean colours (colour), the mask without any tumour
(empty), and the best that a grid of patches can do (grid-ceiling). Figures are TPR, FPR, TNR, FNR, PA, balanced
accuracy, IoU and Dice, as means over tiles (as the paper) and of all pixels together, each over all pixels and over
tissue alone, with intervals.

REPORT gets report.html (one file to look at, print and pass on), metrics.csv, metrics.json (every figure), images.csv
(each tile) and figures/.

\b
Examples:
  ucc-path evaluate dataset -m run -o report
  ucc-path evaluate dataset -m run -m unet -m autoencoder -o report
  ucc-path evaluate dataset -m run -o report --split val
"""


@click.command(help=_HELP)
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "-m",
    "--model",
    "models",
    type=click.Path(path_type=Path),
    multiple=True,
    default=(Path("run"),),
    metavar="RUN",
    help="Folder of a trained model, or its model.safetensors; again for each further one. Pictures are chosen by the "
    "first.  [default: run]",
)
@options.report
@click.option(
    "--split",
    type=click.Choice(("test", "val")),
    default="test",
    show_default=True,
    help="Tiles to judge; val tiles are for choices on the way, test tiles for the end.",
)
@click.option(
    "--match",
    type=click.Choice(("names", "oracle")),
    default="names",
    show_default=True,
    help="How clusters become classes: by the names in the model, or by the best match with the truth of these tiles, "
    "which the report says.",
)
@options.setting(SegmentationSettings, "assign", type=click.Choice(("model", *ASSIGNMENTS)))
@options.setting(SegmentationSettings, "smooth_px")
@options.setting(SegmentationSettings, "adapt")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@options.setting(SegmentationSettings, "inference", type=click.Choice(INFERENCES))
@options.overwrite
@options.settings_file
@options.talk
def evaluate(
    assign: str | None,
    smooth_px: float | None,
    adapt: float | None,
    inference: str | None,
    settings: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    from ucc_path.workflows.evaluate import EvaluateRequest
    from ucc_path.workflows.evaluate import evaluate as compare

    from .show import scores_table, show

    request = EvaluateRequest(
        segmentation=options.merged(
            "segmentation", settings, assign=assign, smooth_px=smooth_px, adapt=adapt, inference=inference
        ),
        tissue=options.merged("tissue", settings),
        evaluation=options.merged("evaluation", settings),
        **given,
    )
    report = show(compare(request), quiet=quiet, verbose=verbose)
    if not quiet:
        click.echo(scores_table(report.table))
        click.echo(f"The report is {report.output}/report.html")
