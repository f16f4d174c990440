"""How far a cohort is, in patches: those of a slide are known when its tissue is, those to come are estimated."""

from __future__ import annotations

from ucc_path.workflows.events import Progress


class Cohort:
    """Hears of slides while they are worked on."""

    def __init__(self, slides: int, mpix_a_cell: float = 0.0) -> None:
        self._slides, self._mpix_a_cell = slides, mpix_a_cell
        self._ended = self._failed = 0
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}

    def hear(self, name: str, done: int, total: int) -> None:
        self._done[name], self._totals[name] = done, total

    def end(self, name: str, *, is_done: bool = True) -> None:
        """A slide is finished, or has failed: nothing more is to be done for it."""
        self._ended += 1
        self._failed += not is_done
        self._totals[name] = self._done[name] = self._done.get(name, 0)

    def progress(self) -> Progress:
        """Slides of which nothing is known yet count as much as the mean of the others.

        The last patch counts as done when all slides are: their files are written after it.
        """
        known = sum(self._totals.values())
        is_over = self._ended == self._slides
        unknown = self._slides - len(self._totals)
        total = known + (unknown * known // max(1, len(self._totals)) if not is_over else 0)
        note = f"{self._ended} of {self._slides} slides" if self._slides > 1 else ""
        note += f", {self._failed} failed" if self._failed and note else ""
        total = max(total, 1)
        done = sum(self._done.values()) if is_over else min(sum(self._done.values()), total - 1)
        return Progress("segmenting", done, total, "patches", note, self._mpix_a_cell)
