"""What a workflow says, as a person sees it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator

import pytest
from ucc_path_cli.show import show, table

from ucc_path.workflows.events import Detail, Event, Failure, Notice, Progress, Step


def work() -> Generator[Event, None, str]:
    yield Step("a step")
    yield Progress("cutting", 0, 2, "tiles")
    yield Notice("a notice")
    yield Detail("a detail")
    yield Failure("slide 7", "it is empty")
    yield Progress("cutting", 2, 2, "tiles")
    return "the result"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"quiet": True}, ["Failed: slide 7: it is empty"]),
        ({}, ["a step", "Note: a notice", "Failed: slide 7: it is empty", "cutting: 2 of 2 tiles ("]),
        (
            {"verbose": True},
            ["a step", "Note: a notice", "a detail", "Failed: slide 7: it is empty", "cutting: 2 of 2"],
        ),
    ],
    ids=["quiet", "usual", "verbose"],
)
def test_lines_say_what_was_asked_for_and_failures_always(
    how: dict[str, bool], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(work(), **how) == "the result"
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_the_end_of_a_stage_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    def ends_twice() -> Generator[Event, None, None]:
        for stage in ("cutting", "training"):
            yield Progress(stage, 2, 2, "bags")
            yield Progress(stage, 2, 2, "bags")

    show(ends_twice())
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["cutting", "training"]


def test_on_a_terminal_there_is_a_bar_and_lines_stand_above_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert show(work()) == "the result"
    shown = capsys.readouterr().err
    assert "cutting: 100%" in shown and "2/2" in shown
    assert "Note: a notice\n" in shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_megapixels_a_second_are_said_where_they_are_known(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def segmenting() -> Generator[Event, None, None]:
        for done in (0, 2):
            time.sleep(0.05)
            yield Progress("segmenting", done, 2, "patches", "1 of 1 slides", 1000.0)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    show(segmenting())
    shown = capsys.readouterr().err
    assert float(re.findall(r"([\d.]+) MPix/s", shown)[-1]) > 1000
    assert "1 of 1 slides" in shown


def test_a_workflow_that_raises_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    closed: list[bool] = []

    def failing() -> Generator[Event, None, None]:
        try:
            yield Step("a step")
            raise ValueError("broken")
        finally:
            closed.append(True)

    with pytest.raises(ValueError, match="broken"):
        show(failing())
    assert closed == [True]


def test_the_table_has_a_row_a_split_and_a_column_a_kind() -> None:
    text = table({"train": {"normal": 12, "mixture": 3}, "val": {"normal": 0, "mixture": 1}})
    assert [line.split() for line in text.splitlines()] == [
        ["normal", "mixture"],
        ["train", "12", "3"],
        ["val", "0", "1"],
    ]
