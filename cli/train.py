"""`ucc-path train`: a model from a data set."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ucc_path.settings import ENCODERS, MODELS, PRECISIONS, PRESETS, SUPERVISIONS, TABLES, TrainingSettings

from . import options
from .main import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from ucc_path.workflows.train import TrainReport

F = TypeVar("F", bound=Callable[..., Any])

_UNUSED = {
    "unet": ("supervision", "alpha", "bag_size", "refine"),
    "supervised": ("supervision", "alpha", "refine", "encoder"),
    "autoencoder": ("supervision", "alpha", "refine", "encoder"),
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULT_PRESET = next(iter(PRESETS))
_HELP = """Train a model on the tiles of a data set.

The default model, ucc, needs one label a tile: its unique class count, 1 if the tile is one kind of tissue, 2 if it is
a mix. The others are there to compare with: unet and supervised learn from masks, autoencoder from pictures alone.
At the end the patches are clustered and the clusters named by the pure tiles among them.

The preset fast is made for a CPU, paper is the architecture of the paper and wants a GPU. A run that was stopped, even
by a power cut, goes on with --resume to the model it would have become: on a CPU exactly, with as many threads.

\b
Examples:
  ucc-path train dataset -o run
  ucc-path train dataset -o run --resume
  ucc-path train dataset -o unet --model unet
  ucc-path train dataset -o paper --preset paper --device cuda
  torchrun --nproc-per-node 4 -m ucc_path_cli train dataset -o run --preset paper
"""


def _setting(table: str, name: str, **extra: Any) -> Callable[[F], F]:
    """An option for a setting of one of the tables of the presets, with its default in each of those."""
    values = {preset: getattr(tables[table], name) for preset, tables in PRESETS.items()}
    if len(set(values.values())) > 1:
        shown = {preset: f"{value:g}" if isinstance(value, float) else value for preset, value in values.items()}
        extra["shown"] = ", ".join(f"{preset} {value}" for preset, value in shown.items())
    return options.setting(TABLES[table], name, **extra)


_training = partial(_setting, "training")


@click.command(help=_HELP)
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("run"),
    show_default=True,
    metavar="RUN",
    help="Folder for the model and its record.",
)
@click.option("--model", type=click.Choice(MODELS), default=MODELS[0], show_default=True, help="What is trained.")
@_training("supervision", type=click.Choice(SUPERVISIONS))
@_setting("model", "encoder", type=click.Choice(ENCODERS))
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    default=_DEFAULT_PRESET,
    show_default=True,
    help="A whole set of settings; a settings file and flags win over it.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@_training("steps")
@_training("learning_rate")
@_training("bag_size")
@_training("bags_per_step")
@_training("alpha")
@_training("evaluate_every")
@_training("patience")
@_training("stain_jitter")
@_training("refine")
@_training("precision", type=click.Choice(PRECISIONS))
@_training("seed")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped; on a finished one do nothing.")
@click.option("--tensorboard", is_flag=True, help="Also log to RUN/tensorboard; needs ucc-path[tensorboard].")
@options.overwrite
@options.settings_file
@options.talk
def train(
    dataset: Path,
    output: Path,
    model: str,
    preset: str,
    settings: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    from ucc_path.workflows.train import TrainRequest
    from ucc_path.workflows.train import train as train_model

    from .show import show

    is_helper = os.environ.get("RANK", "0") != "0"  # one of several processes; the first speaks for all
    _refuse_unused(model, given)
    training = {field.name: given.pop(field.name) for field in fields(TrainingSettings) if field.name in given}
    request = TrainRequest(
        dataset=dataset,
        output=output,
        model=model,
        model_settings=options.merged("model", settings, preset=preset, encoder=given.pop("encoder")),
        training=options.merged("training", settings, preset=preset, **training),
        tissue=options.merged("tissue", settings),
        **given,
    )
    with _stop_at_a_signal() as should_stop:
        report = show(train_model(request, should_stop), quiet=quiet or is_helper, verbose=verbose)
    if report is None:
        return
    if report.is_interrupted:
        click.echo(f"Stopped at step {report.step}, and saved. Go on with the same command and --resume.", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED)
    if not quiet:
        _tell(report)


def _refuse_unused(model: str, given: dict[str, Any]) -> None:
    for name in _UNUSED.get(model, ()):
        if given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} has no meaning for --model {model}; leave it out")


@contextmanager
def _stop_at_a_signal() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C, or a scheduler's SIGTERM, asked to stop; a second one does not wait for the state to be saved."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        asked = True
        for any_of_them in _SIGNALS:
            signal.signal(any_of_them, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(report: TrainReport) -> None:
    if report.pace is None:
        click.echo(f"{report.run} is a finished run of {report.step} steps; there is nothing to go on with.")
        return
    pace, kept = report.pace, report.kept
    why = {"early": "the validation loss fell no more", "steps": "all steps are done", "diverged": "the loss diverged"}
    click.echo(
        f"{report.step} steps in {pace.seconds:.0f} s ({pace.bags_per_s:.1f} bags/s, {pace.waiting_share:.1%} of the "
        f"time spent waiting for data); {why[pace.stopped]}."
    )
    if kept:
        figures = {"loss": kept.val_loss, "accuracy": kept.val_accuracy}
        split = "val"
        if kept.val_loss is None:
            figures, split = {"loss": kept.train_loss, "accuracy": kept.train_accuracy}, "train"
        text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value is not None)
        click.echo(f"Kept the weights of step {kept.step}: {split} {text}.")
    if report.second is not None:
        click.echo(f"Second round: {report.second.steps} steps in {report.second.pace.seconds:.0f} s.")
    click.echo(f"Classes: {', '.join(report.classes)}.")
    if all(name.startswith("cluster ") for name in report.classes):
        click.echo("No pure tile tells which class is which, so they are called by their numbers.")
    click.echo(f"The model is {report.run}/model.safetensors; its curves are in {report.run}/loss.png")
