"""The comparison of weak labels with masks: folds, order of jobs, fewer labels, intervals and tables, untrained."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
KINDS = ["normal"] * 343 + ["metastases"] * 33 + ["mixture"] * 78
SIZES = (25, 50, 100, 200, len(KINDS))


@cache
def part(name: str) -> ModuleType:
    """A module of the benchmark, which finds its parts beside itself, as any script does."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    return importlib.import_module(name)


def make_plan(root: Path, **other: Any) -> Any:
    slides = tuple(root / f"s{number}.tif" for number in range(5))
    settings = {"folds": (0, 4), "seeds": (0,), **other}
    return part("comparison.plan").Plan(slides, root / "out", **settings)


def make_job(name: str, done: list[str], *, fails: bool = False, **other: Any) -> Any:
    jobs = part("comparison.jobs")

    def work(run: object) -> None:
        if fails:
            raise jobs.CommandFailed("it is made to")
        done.append(name)

    return jobs.Job(name, "", lambda: name in done, work, **other)


def make_line(row: str, balanced: float, *, case: str = "a", seed: int = 0, **other: Any) -> Any:
    # TPR FPR PA balanced IoU, with the digits that a table keeps
    figures = tuple(round(v, 6) for v in (balanced, 1 - balanced, balanced - 0.1, balanced, balanced / 2))
    where = {"split": "test", "scope": "tiles", "averaging": "pooled-tissue", **other}
    return part("comparison.figures").Line(fold=0, case=case, seed=seed, row=row, figures=figures, **where)


def make_about(**other: Any) -> Any:
    training = {"fold": 0, "seed": 0, "row": "unet", "taught_by": "masks", "tiles": 454, "steps": 700, "allowed": 1000}
    ends = {"best_step": 200, "seconds": 311.4, "due_s": 300.2, "stopped": "early"}
    given = {"facts": {"commit": "abc"}, "trainings": [{**training, **ends}], "missing": [], **other}
    return part("comparison.page").About(**given)


def run_jobs(jobs: list[Any], tmp_path: Path, side_by_side: int = 2) -> tuple[list[str], list[str]]:
    said: list[str] = []
    running = part("comparison.jobs")
    return running.run_all(jobs, running.Shell(tmp_path), side_by_side=side_by_side, say=said.append), said


@pytest.mark.parametrize("number", [3, 4, 5, 9])
def test_every_slide_is_test_once_and_no_fold_has_a_slide_in_two_splits(number: int) -> None:
    names = [f"s{place}" for place in range(number)]
    splits = [part("comparison.slides").split_of_fold(names, fold) for fold in range(number)]
    for split in splits:
        assert sorted(split) == names
        assert Counter(split.values()) == {"test": 1, "val": 1, "train": number - 2}
    assert [part("comparison.slides").slide_in(split, "test") for split in splits] == names


def test_two_slides_are_too_few_for_folds() -> None:
    with pytest.raises(ValueError, match="2 slides are too few"):
        part("comparison.slides").split_of_fold(["a", "b"], 0)


def test_slides_are_files_with_an_annotation_beside_them_and_masks_are_none(tmp_path: Path) -> None:
    for name in ("b.tif", "b.xml", "a.svs", "a_mask.tif", "alone.tif", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in part("comparison.slides").find_slides(tmp_path)] == ["a.svs", "b.tif"]


def test_an_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = {"a": [0.7, 0.72, 0.69], "b": [0.9, 0.88], "c": [0.81]}
    first, second = (part("comparison.intervals").estimate(values) for _ in range(2))
    assert first == second
    assert first.mean == pytest.approx((0.70333333 + 0.89 + 0.81) / 3)
    assert first.low < first.mean < first.high
    assert (first.cases, first.values) == (3, 6)


def test_cases_are_drawn_and_not_only_seeds() -> None:
    """Cases that differ much, each of which always has the same figure, leave it open where the mean lies."""
    found = part("comparison.intervals").estimate({"a": [0.2] * 3, "b": [0.8] * 3})
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.8))


def test_a_single_value_has_no_interval_and_undefined_ones_do_not_count() -> None:
    estimate = part("comparison.intervals").estimate
    assert not estimate({"a": [0.5, math.nan], "b": [math.nan]}).has_interval
    assert estimate({"a": [math.nan]}).values == 0


def test_fewer_labels_are_among_more_labels_and_keep_the_shares_of_the_kinds() -> None:
    order = part("comparison.label_sets").nested_order(KINDS, seed=0)
    assert sorted(order) == list(range(len(KINDS)))
    for size, larger in pairwise(SIZES):
        counts = Counter(KINDS[at] for at in order[:size])
        assert set(order[:size]) < set(order[:larger])
        for kind, whole in Counter(KINDS).items():
            assert counts[kind] >= 3
            assert abs(counts[kind] - size * whole / len(KINDS)) < 2


def test_which_tiles_are_labelled_is_chance_by_a_seed() -> None:
    order = part("comparison.label_sets").nested_order
    assert order(KINDS, seed=1) == order(KINDS, seed=1) != order(KINDS, seed=2)


def test_a_smaller_data_set_has_the_same_pictures_and_all_tiles_of_other_splits(tmp_path: Path) -> None:
    whole, smaller = tmp_path / "fold-0" / "dataset", tmp_path / "fold-0" / "labels-25" / "dataset"
    (whole / "images" / "train").mkdir(parents=True)
    (whole / "masks").mkdir()
    (whole / "images" / "train" / "t0.png").touch()
    (whole / "dataset.json").write_text("{}")
    rows = [f"t{at},train,{kind}" for at, kind in enumerate(KINDS)] + [f"v{at},val,normal" for at in range(30)]
    (whole / "tiles.csv").write_text("\n".join(["tile_id,split,kind", *rows]) + "\n")
    part("comparison.label_sets").make_smaller(whole, smaller, 25, seed=0)
    splits = Counter(row["split"] for row in part("comparison.label_sets").read_tiles(smaller))
    assert splits == {"train": 25, "val": 30}
    assert (smaller / "images" / "train" / "t0.png").exists()
    assert (smaller / "dataset.json").exists()


def test_jobs_come_after_all_that_they_wait_for(tmp_path: Path) -> None:
    jobs = part("comparison.plan").jobs_of(make_plan(tmp_path, seeds=(0, 1), label_cost=True))
    part("comparison.jobs").require_order(jobs)
    by_name = {job.name: job for job in jobs}
    assert set(by_name["fold-4/seed-1/unet"].needs) >= {"fold-4/seed-1/ucc-kinds", "fold-4/seed-1/ucc"}
    assert by_name["fold-0/seed-0/unet-twice"].needs == ("fold-0/seed-0/unet",)
    assert "fold-0/seed-1/unet-twice" not in by_name
    assert "fold-0/labels-25/unet" in by_name


def test_what_is_compared_comes_first_and_has_a_report_before_what_stands_beside_it(tmp_path: Path) -> None:
    names = [job.name for job in part("comparison.plan").jobs_of(make_plan(tmp_path, seeds=(0, 1), label_cost=True))]
    beside = [f"fold-{fold}/seed-0/{row}" for fold in (0, 4) for row in ("supervised", "unet-twice")]
    compared = [f"fold-{fold}/seed-{seed}/report-test" for fold in (0, 4) for seed in (0, 1)]
    assert max(map(names.index, compared)) < names.index("fold-0/labels-25/unet") < min(map(names.index, beside))
    assert [name for name in names if name in beside] == sorted(beside, key=lambda name: name[14:])  # row by row
    assert names.index("fold-4/seed-0/unet-twice") < names.index("fold-0/seed-0/report-test-again")


def test_jobs_that_would_wait_for_ever_are_refused() -> None:
    with pytest.raises(ValueError, match="does not come before"):
        part("comparison.jobs").require_order([make_job("a", [], needs=("b",)), make_job("b", [])])


def test_jobs_are_done_in_order_and_finished_ones_not_again(tmp_path: Path) -> None:
    done = ["tiles"]
    jobs = [make_job("tiles", done), make_job("b", done, needs=("tiles",)), make_job("c", done, needs=("b",))]
    failures, said = run_jobs(jobs, tmp_path)
    assert (failures, done) == ([], ["tiles", "b", "c"])
    assert "1 of them done before" in said[0]
    assert said[-1].startswith("c: ") and said[-1].endswith("0 left")


def test_what_an_earlier_run_left_is_done_again_where_what_it_waits_for_is_still_to_come(tmp_path: Path) -> None:
    done = ["report", "again"]
    jobs = [make_job("report", done), make_job("model", done), make_job("again", done, after=("report", "model"))]
    failures, said = run_jobs(jobs, tmp_path)
    assert (failures, done) == ([], ["report", "again", "model", "again"])
    assert "1 of them done before" in said[0]


def test_a_job_that_fails_costs_those_that_need_it_and_no_others(tmp_path: Path) -> None:
    done: list[str] = []
    jobs = [
        make_job("a", done, fails=True),
        make_job("b", done, needs=("a",)),
        make_job("c", done, needs=("b",)),
        make_job("d", done, after=("a", "b")),
    ]
    failures, _ = run_jobs(jobs, tmp_path)
    assert done == ["d"]
    assert [failure.split(":")[0] for failure in failures] == ["a failed", "b skipped", "c skipped"]
    assert str(tmp_path / "a.log") in failures[0]


def test_a_command_that_fails_leaves_its_words_in_the_log(tmp_path: Path) -> None:
    jobs = part("comparison.jobs")
    with pytest.raises(jobs.CommandFailed, match="status 2"):
        jobs.Shell(tmp_path).run("fold-0/x", "no-such-command")
    assert "no-such-command" in (tmp_path / "fold-0_x.log").read_text()


def test_the_unet_is_run_again_with_more_steps_until_it_had_the_time(tmp_path: Path) -> None:
    trainings = part("comparison.trainings")
    for row, seconds in (("ucc", 100.0), ("ucc-kinds", 120.0)):
        trainings.write_json(tmp_path / row / "run.json", {"seconds": seconds, "finished": True})
    rates_s = iter([0.2, 0.05, 0.3])  # a step: the probe was slow, so the first whole run is given too few

    def train(*words: object) -> None:
        steps = int(str(words[words.index("--steps") + 1]))
        patience = int(str(words[words.index("--patience") + 1])) if "--patience" in words else 10
        how = {"training": {"steps": steps, "patience": patience, "evaluate_every": 50}}
        record = {"steps": steps, "seconds": steps * next(rates_s), "stopped": "early", "settings": how}
        record |= {"finished": True}
        trainings.write_json(Path(str(words[words.index("-o") + 1])) / "run.json", record)

    trainings.train_unet(train, dataset=tmp_path, folder=tmp_path / "unet", seed=0, least_steps=100)
    account = json.loads((tmp_path / "unet-time.json").read_text())
    assert account["due_s"] == 120.0
    assert [attempt["allowed"] for attempt in account["attempts"]] == pytest.approx([660, 2640], abs=1)
    assert [attempt["patience"] for attempt in account["attempts"]] == [14, 53]  # of 50 steps: no end before
    assert account["enough"] is True
    assert trainings.has_had_its_time(tmp_path / "unet")


@pytest.mark.parametrize(
    ("stopped", "seconds", "fair"),
    [("early", 10, False), ("early", 99, True), ("steps", 10, False), ("steps", 99, True), ("diverged", 10, True)],
)
def test_the_unet_has_the_time_unless_it_cannot_go_on(stopped: str, seconds: float, fair: bool) -> None:
    assert part("comparison.trainings").is_fair({"stopped": stopped, "seconds": seconds}, 50.0) is fair


def test_twice_the_unet_has_twice_the_patience(tmp_path: Path) -> None:
    trainings = part("comparison.trainings")
    record = {"settings": {"training": {"steps": 1000, "patience": 10}}}
    trainings.write_json(tmp_path / "unet" / "run.json", record)
    asked: list[str] = []
    folder = tmp_path / "unet-twice"
    trainings.train_unet_twice(lambda *words: asked.extend(map(str, words)), dataset=tmp_path, folder=folder, seed=0)
    assert asked[asked.index("--steps") + 1] == "2000"
    assert asked[asked.index("--patience") + 1] == "20"


def test_lines_come_back_from_the_table_as_they_were(tmp_path: Path) -> None:
    figures = part("comparison.figures")
    lines = [make_line("unet", 0.8, seconds=311.4, stopped="early"), make_line("unet@25", 0.75, case="b", seed=1)]
    figures.write(tmp_path / "quality.csv", lines)
    again = figures.read(tmp_path / "quality.csv")
    assert again[0] == lines[0]
    assert (again[1].row, again[1].case, again[1].seed) == ("unet@25", "b", 1)
    assert math.isnan(again[1].seconds)


def test_the_page_has_means_with_intervals_aims_and_what_is_missing(tmp_path: Path) -> None:
    figures, page = part("comparison.figures"), part("comparison.page")
    made = [
        make_line(row, value + 0.1 * (case == "b"), case=case, seconds=300.0, stopped="early")
        for case in ("a", "b")
        for row, value in (("ucc-kinds", 0.7), ("unet", 0.71), ("unet-pixels", 0.74), ("unet@25", 0.1))
    ]
    figures.write(tmp_path / "quality.csv", made)
    lines = figures.read(tmp_path / "quality.csv")
    text = page.page(lines, make_about(missing=["supervised in fold-0"]), [], "")
    assert "0.750 (0.700 to 0.800)" in text
    assert "454 masks" in text
    assert "- supervised in fold-0" in text
    assert "unet@25" not in text
    wanted = {
        "ucc-kinds - unet**": ("-0.010", "-0.02 or more", "reached"),
        "ucc-kinds - unet-pixels ": ("-0.040", "missed"),
    }
    for pair, words in wanted.items():
        line = next(line for line in text.splitlines() if pair in line and "balanced" in line)
        assert all(word in line for word in words)


def test_the_page_says_what_ended_each_training_and_where_the_unet_did_not_get_its_time() -> None:
    page = part("comparison.page")
    trained = {**make_about().trainings[0], "second_round": {"steps": 400, "stopped": "steps"}}
    told = page.time_table([trained])
    assert all(words in told for words in ("early", "400 steps, steps", "311", "300"))
    assert "NOT" not in told
    assert "did NOT get its time" in page.time_table([{**trained, "account": {"enough": False}}])


def test_an_aim_is_not_surely_reached_where_there_is_no_interval() -> None:
    lines = [make_line("ucc-kinds", 0.8), make_line("unet", 0.8)]
    found = part("comparison.tables").differences(lines)
    assert {one.verdict for one in found} == {"reached, not surely"}


def test_the_form_of_a_mask_is_chosen_by_val_tiles_and_never_by_test_tiles() -> None:
    lines = [make_line("unet", 0.9), make_line("unet-pixels", 0.6), make_line("ucc-kinds", 0.7)]
    lines += [make_line("unet", 0.5, split="val"), make_line("unet-pixels", 0.8, split="val")]
    tables = part("comparison.tables")
    assert tables.chosen_form(lines, "unet") == "unet-pixels"
    chosen = {(one.first, one.second) for one in tables.differences(lines) if one.is_chosen}
    assert chosen == {("ucc-kinds", "unet-pixels")}


def test_a_difference_is_of_the_same_case_and_seed_only() -> None:
    lines = [make_line("ucc", 0.9, case="a"), make_line("ucc", 0.2, case="b"), make_line("empty", 0.5, case="a")]
    found = part("comparison.tables").differences(lines)
    assert [round(one.value.mean, 6) for one in found] == [0.4, 0.4]


def test_whole_slides_have_differences_of_their_own_on_the_grid_and_pixel_by_pixel() -> None:
    values = {"ucc-kinds": 0.8, "ucc-kinds-exact": 0.75, "unet": 0.7, "unet-exact": 0.72, "empty": 0.5}
    lines = [make_line(row, value, scope="slide") for row, value in values.items()]
    lines += [make_line("ucc-kinds", 0.1), make_line("unet", 0.9)]  # of tiles
    found = part("comparison.tables").differences(lines, "slide")
    balanced = {(one.first, one.second): round(one.value.mean, 6) for one in found if one.figure == "balanced"}
    assert balanced == {("ucc-kinds", "unet"): 0.1, ("ucc-kinds-exact", "unet-exact"): 0.03}
    text = part("comparison.page").page(lines, make_about(), [], "")
    assert "+0.030" in text[text.index("## Whole slides") : text.index("## Val tiles")]


def test_words_of_a_curve_stand_below_a_valley_and_otherwise_above_where_it_falls() -> None:
    curve = part("comparison.curve")
    places = ((0.0, 50.0), (10.0, 80.0), (20.0, 20.0), (30.0, 40.0))  # rows count downwards
    words = [curve._beside(places, at, "25") for at in range(len(places))]
    assert [word.place[1] > row for word, (_, row) in zip(words, places, strict=True)] == [False, True, False, False]
    assert [word.anchor for word in words] == ["start", "middle", "end", "start"]


def test_the_curve_has_both_models_and_costs_in_words_of_time() -> None:
    cost, curve = part("comparison.label_cost"), part("comparison.curve")
    estimate = part("comparison.intervals").estimate
    points = [
        cost.Point(row, size, tiles, 163, seconds * (tiles + 163), estimate({"a": [value]}), {"a": value})
        for row, seconds in (("ucc-kinds", 3), ("unet-pixels", 180))
        for size, tiles, value in (("25", 25, 0.6), ("all", 454, 0.8))
    ]
    shapes = curve.shapes(points, title="t", subtitle="3 < 180", y_label="y")
    text = curve.as_svg(shapes)
    assert all(words in text for words in (">ucc-kinds<", ">unet<", ">10 min<", ">10 h<", "3 &lt; 180"))
    pixels = curve.as_pixels(shapes)
    colour = part("ucc_path.report.chart").COLOURS[0]
    col, row = next(shape.place for shape in shapes if isinstance(shape, curve.Dot) and shape.colour == colour)
    assert tuple(pixels[round(row), round(col)]) == colour


def test_options_name_folds_that_there_are(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"s{number}.tif").touch()
        (tmp_path / f"s{number}.xml").touch()
    script = part("quality")
    asked = script._parser().parse_args([str(tmp_path), "-o", str(tmp_path / "out"), "--full"])
    assert (script.make_plan(asked).folds, script.make_plan(asked).seeds) == ((0, 1, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="folds 0 to 2"):
        script.make_plan(argparse.Namespace(**{**vars(asked), "folds": [4]}))
