"""`ucc-path reproduce`: the paper's clustering experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ucc_path.settings import (
    EXPERIMENTS,
    POOLINGS,
    PRESETS,
    REPRODUCED,
    ModelSettings,
    TrainingSettings,
    reproduction_preset,
)

from . import options

_HELP = """Repeat the paper's experiments on labelled images: do counts alone teach classes?

Networks learn how many classes bags of images hold, and never which; then the features of the test images are
clustered and the clusters compared with the classes. DIR of --data holds the four IDX files of MNIST, or the official
binary version of CIFAR-10 or CIFAR-100.

The folder gets metrics.csv (a row a model and seed), paper.csv (the published figures in the same columns), report.html
and runs/ with every figure of each run. Runs that are finished are left as they are, so that an interrupted experiment
is simply run again, and runs with other --models, --seeds, --ucc-labels or --pooling are added to those there.

\b
Examples:
  ucc-path reproduce mnist --data mnist/ -o mnist-report
  ucc-path reproduce mnist --data mnist/ -o mnist-report --models ucc --seeds 3
  ucc-path reproduce mnist --data mnist/ -o mnist-report --models ucc,ucc2+ --ucc-labels 1-10
  ucc-path reproduce cifar10 --data cifar/ -o cifar-report --preset paper --device cuda
"""
_DEFAULT_PRESET = next(iter(PRESETS))
_STEPS = {preset: reproduction_preset(EXPERIMENTS[0], preset)["training"].steps for preset in PRESETS}


@click.command(help=_HELP)
@click.argument("experiment", type=click.Choice(EXPERIMENTS))
@click.option(
    "--data", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder with the images' files."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    metavar="DIR",
    help="Folder for the tables, the report and the runs.",
)
@click.option(
    "--models",
    default=",".join(REPRODUCED),
    show_default=True,
    metavar="NAME,NAME",
    help="What is trained and clustered.",
)
@click.option("--ucc-labels", metavar="LOW-HIGH", help="Counts that are taught; ucc2+ leaves out 1.  [default: 1-4]")
@options.setting(ModelSettings, "pooling", type=click.Choice(POOLINGS))
@click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs of each model.")
@options.setting(TrainingSettings, "seed", help="The first of the seeds.  [default: 0]")
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    default=_DEFAULT_PRESET,
    show_default=True,
    help="fast is made for a CPU; paper is the architecture of the paper and wants a GPU.",
)
@options.setting(TrainingSettings, "steps", shown=", ".join(f"{preset} {steps}" for preset, steps in _STEPS.items()))
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@options.overwrite
@options.settings_file
@options.talk
def reproduce(
    experiment: str,
    models: str,
    ucc_labels: str | None,
    pooling: str | None,
    seed: int | None,
    steps: int | None,
    preset: str,
    settings: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    from ucc_path.workflows.reproduce import ReproduceRequest
    from ucc_path.workflows.reproduce import reproduce as repeat
    from ucc_path.workflows.reproduce.request import labels_from

    from .show import reproduction_table, show

    bases = reproduction_preset(experiment, preset)
    labels = labels_from(ucc_labels) if ucc_labels else None
    request = ReproduceRequest(
        experiment=experiment,
        models=tuple(name.strip() for name in models.split(",") if name.strip()),
        model=options.merged("model", settings, bases=bases, ucc_labels=labels, pooling=pooling),
        training=options.merged("training", settings, bases=bases, seed=seed, steps=steps),
        reproduction=options.merged("reproduction", settings, bases=bases),
        **given,
    )
    report = show(repeat(request), quiet=quiet, verbose=verbose)
    if not quiet:
        click.echo(reproduction_table(report.rows))
        click.echo(f"The report is {report.output}/report.html")
