"""`ucc-path tile`: labelled tiles from slides and their annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ucc_path.settings import DEFAULT_SPLIT, TilingSettings

from . import options
from .main import EXIT_SOME_FAILED

_USUAL = TilingSettings()
_HELP = f"""Crop labelled tiles from slides into a data set.

SLIDE is anything OpenSlide reads, a plain picture, or a folder of them. Tiles lie at random over the tissue. A tile is
normal (ucc 1) if tumour covers less than {_USUAL.normal_below:.0%} of it,
metastases (ucc 1) above {_USUAL.metastases_above:.0%},
mixture (ucc 2) between {_USUAL.mixture_above:.0%} and {_USUAL.mixture_below:.0%},
and otherwise not used. No slide, and no patient where the name tells, is in two splits.

\b
Examples:
  ucc-path tile slides/*.tif -o dataset --annotations xml/ --unannotated normal
  ucc-path tile slides/ -o dataset --split camelyon16 --totals paper --unannotated normal
  ucc-path tile biopsy.svs -o to-label --unlabelled
"""


class _Mpp(click.ParamType):  # type: ignore[type-arg]
    """A scale in um/px, or `native`."""

    name = "um/px|native"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "native":
            return 0.0
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number of um/px nor 'native'", param, ctx)


@click.command(help=_HELP)
@click.argument("slides", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="SLIDE...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DATASET", help="Folder to make."
)
@click.option(
    "--annotations",
    type=click.Path(path_type=Path),
    help="File or folder of annotations, matched by name: S.xml (ASAP), S.geojson[.gz] (QuPath), S_mask.png or "
    "S_mask.tif for a slide S.  [default: beside the slide]",
)
@options.unannotated
@options.setting(TilingSettings, "tile_px")
@options.setting(TilingSettings, "mpp", type=_Mpp())
@click.option("--slide-mpp", type=float, help="Scale of the slides in um/px, where they do not record it or are wrong.")
@options.setting(TilingSettings, "per_slide")
@click.option(
    "--totals",
    metavar="TOTALS",
    help="Tiles of each split as normal/metastases/mixture, instead of --per-slide: paper, or train=9/9/9,val=...",
)
@click.option(
    "--split",
    default=DEFAULT_SPLIT,
    show_default=True,
    help="Share of slides for each split, or camelyon16: slides named test_* are test, the others train and val.",
)
@click.option(
    "--split-csv", type=click.Path(path_type=Path), help="Table with columns slide,split, instead of --split."
)
@options.setting(TilingSettings, "max_overlap")
@options.setting(TilingSettings, "seed")
@click.option("--unlabelled", is_flag=True, help="Tiles of tissue without labels; needs no annotations.")
@options.annotation
@click.option(
    "--preview",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for pictures of the tissue and tiles found.",
)
@options.engine
@options.overwrite
@options.settings_file
@options.talk
def tile(
    slides: tuple[Path, ...],
    output: Path,
    totals: str | None,
    settings: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    from ucc_path.tiles.quotas import parse_totals
    from ucc_path.workflows.slides import expand
    from ucc_path.workflows.tile import CONTACT_SHEET, TileRequest
    from ucc_path.workflows.tile import tile as make_dataset

    from .show import show, table

    tiling = {name: given.pop(name) for name in ("tile_px", "mpp", "per_slide", "max_overlap", "seed")}
    request = TileRequest(
        slides=expand(slides),
        output=output,
        totals=parse_totals(totals) if totals else None,
        annotation=options.annotation_settings(settings, given),
        tiling=options.merged("tiling", settings, **tiling),
        tissue=options.merged("tissue", settings),
        cluster=options.cluster(given),
        **given,
    )
    report = show(make_dataset(request), quiet=quiet, verbose=verbose)
    if not quiet:
        click.echo(table(report.counts))
        click.echo(f"The data set is in {report.output}; see its {CONTACT_SHEET}")
    if report.failures:
        click.echo(f"{len(report.failures)} of {len(request.slides)} slides failed, named above.", err=True)
        raise click.exceptions.Exit(EXIT_SOME_FAILED)
