"""Writes the pages that are made of the source: `commands.md` of the help texts, `formats.md` of the docstrings.

python docs/generate.py            writes both
python docs/generate.py --check    writes nothing; names what is stale and ends with status 1
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

FOLDER = Path(__file__).parent
FORMATS = FOLDER.parent / "ucc_path" / "formats"
WIDTH = 100  # of help texts, whatever the terminal

CHAPTERS: Mapping[str, Mapping[str, str]] = {
    "What you write": {
        "labels_csv": "labels.csv",
        "split_csv": "The table of --split-csv",
        "settings_toml": "The file of --settings",
    },
    "Annotations": {
        "annotation_files": "Which file belongs to which slide",
        "asap_xml": "ASAP XML",
        "qupath_geojson": "GeoJSON, read and written",
        "mask_image": "Mask images",
    },
    "A data set, from tile": {
        "tiles_csv": "tiles.csv",
        "tile_png": "images/ and masks/",
        "dataset_json": "dataset.json",
    },
    "A run, from train": {
        "model_safetensors": "model.safetensors",
        "safetensors_file": "How a safetensors file is packed",
        "metrics_csv": "metrics.csv of a run",
        "run_json": "run.json",
        "tensorboard_log": "tensorboard/",
        "resume_state": "resume/",
        "lite0_pth": "What lite0 begins with",
    },
    "Segmented slides, from segment": {
        "label_tiff": "The TIFFs",
        "tiff_directories": "How a TIFF is packed",
        "segmentation_json": "S.json",
        "review_csv": "S_review.csv",
        "summary_csv": "summary.csv",
    },
    "A report, from evaluate and score": {
        "report_html": "report.html",
        "report_csv": "metrics.csv of a report",
        "image_scores_csv": "images.csv",
        "report_json": "metrics.json",
    },
    "Images that reproduce reads": {"idx": "MNIST", "cifar_binary": "CIFAR-10 and CIFAR-100"},
    "A reproduction, from reproduce": {
        "reproduction_csv": "metrics.csv and paper.csv",
        "reproduction_json": "runs/",
    },
    "Slides, from demo": {"pyramid_tiff": "The slides that the demo makes"},
}
"""The chapters of formats.md: modules of `ucc_path/formats/` and what their sections are called."""

NOT_MET = (
    "__init__",
    "atomic",
    "jpeg",
    "label_raster",
    "outline_npy",
    "png",
    "record_json",
    "tiff_images",
    "tile_store",
    "viewer_rules",
    "vocabulary",
)
"""Modules there that specify no file which users meet."""

_GENERATED = "<!-- Written by docs/generate.py; do not edit. -->"
_LIMIT = re.compile(r"\bMAX_[A-Z_]+\b")


def pages() -> dict[str, str]:
    """Each page by its name."""
    return {"commands.md": "\n".join(_commands()), "formats.md": "\n".join(_formats())}


def stale(folder: Path) -> dict[str, str]:
    """The pages that are missing in a folder, or not there as they would be now."""
    there = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return {name: text for name, text in pages().items() if there.get(name) != text}


def group() -> click.Group:
    """All commands."""
    found = importlib.import_module("ucc_path_cli.main").ucc_path
    assert isinstance(found, click.Group)
    return found


def _commands() -> Iterator[str]:
    yield from (_GENERATED, "# Commands", "", "What `--help` says of each command, in the order of use.", "")
    every = group()
    settings = {**every.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(every, info_name="ucc-path", **settings)
    yield from _section("ucc-path", every.get_help(context))
    for name in every.list_commands(context):
        command = every.get_command(context, name)
        assert command is not None
        yield from _section(f"ucc-path {name}", command.get_help(click.Context(command, context, name)))


def _section(title: str, text: str) -> Iterator[str]:
    lines = (line.rstrip() for line in text.strip().splitlines())
    yield from (f"## {title}", "", "```text", *lines, "```", "")


def _formats() -> Iterator[str]:
    yield from (_GENERATED, "# File formats", "")
    yield "Every file that you write, meet or may want to read, as `ucc_path/formats/` specifies it."
    yield "`S` is the name of a slide: its file name without its last ending."
    yield ""
    for chapter, modules in CHAPTERS.items():
        yield from (f"## {chapter}", "")
        for module, title in modules.items():
            yield from (f"### {title}", "", _docstring(module), "", *_limits(module))


def _docstring(module: str) -> str:
    text = ast.get_docstring(ast.parse((FORMATS / f"{module}.py").read_text("utf-8")))
    assert text is not None
    return text


def _limits(module: str) -> Iterator[str]:
    """The numbers behind the names of limits that a docstring gives."""
    names = sorted(set(_LIMIT.findall(_docstring(module))))
    if names:
        source = importlib.import_module(f"ucc_path.formats.{module}")
        yield from ("Limits: " + ", ".join(f"`{name}` is {getattr(source, name):,}" for name in names) + ".", "")


@click.command(help="Write the pages of docs/ that are made of the source.")
@click.option("--check", is_flag=True, help="Write nothing; name what is stale and end with status 1.")
def main(check: bool) -> None:
    found = stale(FOLDER)
    for name, text in found.items():
        if check:
            click.echo(f"docs/{name} is stale; run python docs/generate.py", err=True)
        else:
            (FOLDER / name).write_text(text, "utf-8")
    if check and found:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
