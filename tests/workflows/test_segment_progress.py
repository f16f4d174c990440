"""How far a cohort is: what is known, and what is estimated of the rest."""

from __future__ import annotations

from ucc_path.workflows.events import Progress
from ucc_path.workflows.segment.progress import Cohort


def told(cohort: Cohort) -> tuple[int, int]:
    progress = cohort.progress()
    assert (progress.stage, progress.unit) == ("segmenting", "patches")
    return progress.done, progress.total


def test_before_anything_is_known_nothing_is_done_of_something() -> None:
    assert told(Cohort(3)) == (0, 1)


def test_one_slide_is_its_own_patches() -> None:
    cohort = Cohort(1)
    cohort.hear("a", 0, 100)
    assert cohort.progress() == Progress("segmenting", 0, 100, "patches", "")
    cohort.hear("a", 40, 100)
    assert told(cohort) == (40, 100)
    cohort.hear("a", 100, 100)
    assert told(cohort) == (99, 100)  # its files are still to be written
    cohort.end("a")
    assert told(cohort) == (100, 100)


def test_slides_to_come_count_as_much_as_the_mean_of_those_known() -> None:
    cohort = Cohort(4)
    cohort.hear("a", 10, 100)
    assert told(cohort) == (10, 400)
    cohort.hear("b", 20, 300)
    assert told(cohort) == (30, 800)


def test_a_finished_slide_is_counted_with_what_it_had() -> None:
    cohort = Cohort(2)
    cohort.hear("a", 100, 100)
    cohort.end("a")
    assert cohort.progress() == Progress("segmenting", 100, 200, "patches", "1 of 2 slides")
    cohort.hear("b", 50, 60)
    assert told(cohort) == (150, 160)


def test_nothing_more_is_expected_of_a_slide_that_failed() -> None:
    cohort = Cohort(2)
    cohort.hear("a", 30, 100)
    cohort.hear("b", 0, 50)
    cohort.end("a")
    assert told(cohort) == (30, 80)


def test_at_the_end_all_is_done_and_no_slide_is_to_come() -> None:
    cohort = Cohort(3)
    for name, done in (("a", 10), ("b", 0)):
        cohort.hear(name, done, 10)
    cohort.end("never heard of")
    cohort.end("a")
    cohort.end("b")
    assert cohort.progress() == Progress("segmenting", 10, 10, "patches", "3 of 3 slides")


def test_failures_are_counted_and_megapixels_known() -> None:
    cohort = Cohort(3, 0.25)
    cohort.hear("a", 4, 4)
    cohort.end("a", is_done=False)
    assert cohort.progress() == Progress("segmenting", 4, 12, "patches", "1 of 3 slides, 1 failed", 0.25)


def test_what_is_done_is_never_more_than_there_is() -> None:
    cohort = Cohort(5)
    for number, name in enumerate("abcde"):
        for done in (0, number, 2 * number):
            cohort.hear(name, done, 2 * number)
            assert told(cohort)[0] <= told(cohort)[1]
        cohort.end(name)
        assert told(cohort)[0] <= told(cohort)[1]
