"""`ucc-path`: the group of commands, and the one place where errors become a line and an exit status."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import Any

import click

from ucc_path import __version__
from ucc_path.errors import SettingsError, UccPathError

from . import interrupting

GROUPS = {
    "To begin with": {
        "demo": "The whole workflow, offline, on slides it makes itself or on yours.",
        "doctor": "What is installed, what is missing, and how to mend it.",
    },
    "From slides to masks": {
        "tile": "Crop labelled tiles from slides and their annotations.",
        "train": "Train a model on a data set's tiles.",
        "segment": "Segment whole slides: masks, overlays and polygons.",
    },
    "How good they are": {
        "evaluate": "Compare models on tiles whose tumour is known, in a report.",
        "score": "Compare segmented slides with annotations, in a report.",
    },
    "The paper": {
        "reproduce": "The paper's clustering experiments on MNIST and CIFAR, in a report.",
    },
    "In viewers": {
        "check-overlay": "Which viewers open a TIFF as a pyramid, and why not.",
    },
}
COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}
"""In the order of use, with the line that `--help` shows; a command's module is imported only when it is called."""

_HELP_FLAGS = ["-h", "--help"]

EXIT_SOME_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class Commands(click.Group):
    """Commands that are imported when called, so that help comes at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f".{module}", __package__), module)
        command.context_settings.setdefault("help_option_names", _HELP_FLAGS)  # as of the group, also when called alone
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(COMMANDS)}."
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in commands.items()])


@click.group(cls=Commands, context_settings={"help_option_names": _HELP_FLAGS, "max_content_width": 110})
@click.version_option(__version__, prog_name="ucc-path")
def ucc_path() -> None:
    """Segment whole-slide images from a label that costs a second: is this crop one kind of tissue, or a mix?

    Start with `ucc-path demo`, or with `ucc-path tile` on your own slides. Each command explains itself with --help.
    """


def main() -> None:
    """Runs a command; what the user can repair ends as one line, with a traceback only after --debug."""
    interrupting.install()
    try:
        status = ucc_path.main(prog_name="ucc-path", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted; nothing half written was left behind.", err=True)
        status = EXIT_INTERRUPTED
    except click.ClickException as err:
        err.show()
        status = err.exit_code
    except UccPathError as err:
        if "--debug" in sys.argv:
            raise
        # Settings are as wrong in all processes of a torchrun; the first says so.
        if not (isinstance(err, SettingsError) and os.environ.get("RANK", "0") != "0"):
            click.echo(f"Error: {err}", err=True)
        status = EXIT_BAD_INPUT
    sys.exit(status or 0)
