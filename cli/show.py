"""What a workflow says, shown to a person: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

import click
from tqdm import tqdm

from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import Table
from ucc_path.formats.reproduction_csv import ReproductionRow
from ucc_path.workflows.events import Event, Failure, Notice, Progress, Step

R = TypeVar("R")

LINE_EVERY_S = 10.0


def show(work: Generator[Event, None, R], *, quiet: bool = False, verbose: bool = False) -> R:
    """Runs a workflow to its end, telling of it on standard error; returns its result."""
    screen = _QuietScreen() if quiet else _BarScreen() if sys.stderr.isatty() else _LineScreen()
    try:
        while True:
            try:
                event = next(work)
            except StopIteration as end:
                result: R = end.value
                return result
            if isinstance(event, Progress):
                screen.update(event)
            elif isinstance(event, Failure):
                screen.say(f"Failed: {event.item}: {event.reason}")
            elif not quiet and isinstance(event, Notice):
                screen.say(f"Note: {event.text}")
            elif not quiet and (verbose or isinstance(event, Step)):
                screen.say(event.text)
    finally:
        screen.close()
        work.close()


def table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Tiles by split and kind, for reading."""
    kinds = list(next(iter(counts.values())))
    lines = [f"{'':8}" + "".join(f"{kind:>12}" for kind in kinds)]
    lines += [f"{split:8}" + "".join(f"{row[kind]:>12}" for kind in kinds) for split, row in counts.items()]
    return "\n".join(lines)


def scores_table(table: Table) -> str:
    """Each model's mean over images and its balanced accuracy on tissue, for reading."""
    width = max(len("model"), *map(len, table))
    lines = [f"{'model':{width}}" + "".join(f"{figure:>8}" for figure in FIGURES[:5]) + f"{'balanced, tissue':>19}"]
    for model, summaries in table.items():
        values = [*summaries["image"].value[:5], summaries["pooled-tissue"].value[FIGURES.index("balanced")]]
        words = ["-" if value != value else f"{value:.3f}" for value in values]
        lines.append(f"{model:{width}}" + "".join(f"{word:>8}" for word in words[:5]) + f"{words[5]:>19}")
    return "\n".join(lines)


def reproduction_table(rows: Sequence[ReproductionRow]) -> str:
    """A line a run: how it counts, how far its classes lie apart, how it clusters, and what it cost; for reading."""
    heads = {
        "ucc_accuracy": "ucc",
        "min_js": "min JS",
        "clustering_kmeans": "k-means",
        "clustering_spectral": "spectral",
        "clustering_merge": "merging",
    }
    names = [" ".join(filter(None, (row.model, row.ucc_labels, row.pooling, f"seed {row.seed}"))) for row in rows]
    width = max(map(len, names), default=0)
    lines = [f"{'':{width}}" + "".join(f"{head:>10}" for head in heads.values()) + f"{'seconds':>10}"]
    for name, row in zip(names, rows, strict=True):
        values = [getattr(row, figure) for figure in heads]
        words = ["-" if value != value else f"{value:.4f}" for value in values]
        words.append("-" if row.seconds != row.seconds else f"{row.seconds:.0f}")
        lines.append(f"{name:{width}}" + "".join(f"{word:>10}" for word in words))
    return "\n".join(lines)


class _QuietScreen:
    """Only what must be said."""

    def update(self, progress: Progress) -> None:
        pass

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def close(self) -> None:
        pass


class _LineScreen(_QuietScreen):
    """A line when a stage ends, and now and then before."""

    def __init__(self) -> None:
        self._stage = ""
        self._began_s = self._said_s = 0.0
        self._is_over = False
        self._first = 0  # what was done before: a run may go on from there

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._began_s, self._said_s, self._first = progress.stage, now, now, progress.done
            self._is_over = False
        is_over = progress.done == progress.total
        if is_over and self._is_over:
            return
        self._is_over = is_over
        if is_over or now - self._said_s >= LINE_EVERY_S:
            self._said_s = now
            rate = (progress.done - self._first) / max(now - self._began_s, 1e-3)
            left = "" if is_over or not rate else f", {(progress.total - progress.done) / rate:.0f} s left"
            mpix = f", {rate * progress.mpix_each:.1f} MPix/s" if progress.mpix_each else ""
            pace = f" ({rate:.1f} {progress.unit}/s{mpix}{left})" if rate else ""  # not where all is done at once
            note = f", {progress.note}" if progress.note else ""
            self.say(f"{progress.stage}: {progress.done} of {progress.total} {progress.unit}{pace}{note}")


class _BarScreen(_QuietScreen):
    """A bar with rate and time left."""

    def __init__(self) -> None:
        self._bar: tqdm[None] | None = None
        self._stage = ""

    def update(self, progress: Progress) -> None:
        if self._bar is None or progress.stage != self._stage:
            self.close()
            self._stage = progress.stage
            self._bar = tqdm(
                desc=progress.stage,
                initial=progress.done,
                total=progress.total,
                unit=f" {progress.unit}",
                dynamic_ncols=True,
                file=sys.stderr,
            )
        self._bar.total = progress.total  # of which more may become known on the way
        self._bar.set_postfix_str(", ".join(filter(None, (self._mpix(progress), progress.note))), refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def _mpix(self, progress: Progress) -> str:
        """Megapixels a second since the bar began."""
        if self._bar is None or not progress.mpix_each:
            return ""
        told = self._bar.format_dict
        rate = (progress.done - told["initial"]) / max(told["elapsed"], 1e-3)
        return f"{rate * progress.mpix_each:.1f} MPix/s"

    def say(self, text: str) -> None:
        tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
