"""`ucc-path segment`: whole slides become masks, overlays and polygons."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ucc_path.settings import ASSIGNMENTS, CLEANINGS, INFERENCES, SegmentationSettings

from . import options
from .main import EXIT_BAD_INPUT, EXIT_SOME_FAILED

if TYPE_CHECKING:
    from ucc_path.workflows.segment import SegmentReport

_HELP = """Segment whole slides with a trained model.

SLIDE is anything OpenSlide reads, a plain picture, or a folder of them. Of a slide S this writes S_labels.tif
(0 background, 1.. classes), S_overlay.tif (colours), S_uncertainty.tif, S_mixture.tif (where tissue is mixed),
S_likelihood_map.tif (for ASAP), S.geojson.gz (polygons for QuPath), S_review.csv (places for a person to look at),
S.png (a picture) and S.json (areas, settings); and summary.csv for all slides.

Slides that are finished are left as they are, so an interrupted run is simply run again. A bad slide is named with its
reason, and the others go on.

\b
Examples:
  ucc-path segment slide.tif
  ucc-path segment slides/ -m run -o segmented
  ucc-path segment slide.tif --stride-px 8 --clean-up median
  ucc-path segment slide.tif --full-size
  ucc-path segment slides/ --engine ray --ray-address node1:6379
"""


@click.command(help=_HELP)
@click.argument("slides", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="SLIDE...")
@click.option(
    "-m",
    "--model",
    type=click.Path(path_type=Path),
    default=Path("run"),
    show_default=True,
    metavar="RUN",
    help="Folder of a trained model, or its model.safetensors.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("segmented"),
    show_default=True,
    metavar="DIR",
    help="Folder for the results.",
)
@options.setting(
    SegmentationSettings,
    "stride_px",
    shown="the model's patch",
    help="Side of a pixel of the mask, at the model's scale; below that of a patch the mask is finer, from overlapping "
    "patches.  [default: a patch]",
)
@options.setting(SegmentationSettings, "assign", type=click.Choice(("model", *ASSIGNMENTS)))
@options.setting(SegmentationSettings, "smooth_px")
@options.setting(SegmentationSettings, "adapt")
@click.option(
    "--refit", "refit", flag_value="kmeans", default=None, help="Cluster each slide's own patches anew by k-means."
)
@click.option(
    "--refit-spectral", "refit", flag_value="spectral", help="The same by spectral clustering, for small slides."
)
@click.option(
    "--refit-merge",
    "refit",
    flag_value="merge",
    help="The same by many small clusters, joined where the model counts one class (UCC models).",
)
@options.setting(SegmentationSettings, "clean_up", type=click.Choice(CLEANINGS))
@click.option("--full-size", is_flag=True, help="TIFFs as large as the slide's level 0, and an OME-TIFF for QuPath.")
@click.option("--slide-mpp", type=float, help="Scale of the slides in um/px, where they do not record it or are wrong.")
@click.option("--strict", is_flag=True, help="Fail a slide with damaged parts, which are otherwise background.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@options.setting(SegmentationSettings, "inference", type=click.Choice(INFERENCES))
@click.option(
    "--max-memory",
    default="4G",
    show_default=True,
    metavar="SIZE",
    help="Memory that all processes together may use, such as 4G or 800M; with --engine ray, on each machine.",
)
@options.engine
@options.overwrite
@options.settings_file
@options.talk
def segment(
    slides: tuple[Path, ...],
    max_memory: str,
    settings: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    from ucc_path.workflows.segment import SegmentRequest
    from ucc_path.workflows.segment import segment as segment_all
    from ucc_path.workflows.segment.memory import parse_size
    from ucc_path.workflows.slides import expand

    from .show import show

    wishes = {field.name: given.pop(field.name) for field in fields(SegmentationSettings) if field.name in given}
    request = SegmentRequest(
        slides=expand(slides),
        max_memory=parse_size(max_memory),
        segmentation=options.merged("segmentation", settings, **wishes),
        tissue=options.merged("tissue", settings),
        cluster=options.cluster(given),
        **given,
    )
    report = show(segment_all(request), quiet=quiet, verbose=verbose)
    if not quiet:
        _tell(report)
    if report.failures:
        failed, all_slides = len(report.failures), len(report.failures) + len(report.done) + len(report.skipped)
        click.echo(f"{failed} of {all_slides} slides failed, named above.", err=True)
        raise click.exceptions.Exit(EXIT_SOME_FAILED if failed < all_slides else EXIT_BAD_INPUT)


def _tell(report: SegmentReport) -> None:
    """A line a slide, for the first few of them."""
    shown = sorted(report.done.items())[:20]
    for name, record in shown:
        areas = ", ".join(f"{found['name']} {found['area_mm2']:.4g} mm2" for found in record["classes"])
        windows = record["windows"]
        review = f"; {windows['to_review']} windows to review" if windows else ""
        click.echo(f"{name}: {areas}{review}")
    if len(report.done) > len(shown):
        click.echo(f"... and {len(report.done) - len(shown)} more, in {report.output}/summary.csv")
    if report.done or report.skipped:
        some = next(iter([*sorted(report.done), *report.skipped]))
        click.echo(f"The results are in {report.output}; look at {report.output}/{some}.png")
