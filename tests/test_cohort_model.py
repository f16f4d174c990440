"""The model of a cohort's cost keeps the laws that hold for every site, whatever its rates are."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "cohort_model.py"
PAGE = Path(__file__).parents[1] / "docs" / "cost.md"
SITES = [(1, 1), (2, 1), (6, 1), (8, 4), (48, 8), (64, 0)]  # workers, GPUs


@cache
def model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cohort_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def make_site(workers: int, gpus: int, **other: float) -> Any:
    return model().Site(workers, gpus, **other)


def make_plan(preset: str = "paper", **other: Any) -> Any:
    return model().Plan(model().RATES[preset], **other)


def by_chance(asked: Any, workers: int) -> float:
    """Slides a second of one GPU by exact mean value analysis: the theory of queues for times that are all chance."""
    at_storage = at_gpu = rate = 0.0
    for number in range(1, workers + 1):
        storage_s, gpu_s = asked.storage_s * (1 + at_storage), asked.gpu_s * (1 + at_gpu)
        rate = number / (asked.cpu_s + asked.latency_s + storage_s + gpu_s)
        at_storage, at_gpu = rate * storage_s, rate * gpu_s
    return rate


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_worker_takes_the_sum_of_all_its_steps(gpus: int) -> None:
    site = make_site(1, gpus)
    slides = make_plan().slides(site, 10)
    assert model().simulate(slides, site, 5.0) == pytest.approx(5.0 + sum(slide.alone_s for slide in slides))


def test_a_storage_without_limits_leaves_the_core_and_the_gpu() -> None:
    site = make_site(1, 1, storage_mb_per_s=float("inf"), latency_ms=0.0)
    slide = make_plan().slide(site)
    assert model().simulate([slide], site) == pytest.approx(slide.cpu_s + slide.gpu_s)


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize(("workers", "gpus"), SITES)
def test_no_part_does_more_than_it_can(workers: int, gpus: int, preset: str) -> None:
    for storage_mb_per_s in (50.0, 1_000.0):
        site = make_site(workers, gpus, storage_mb_per_s=storage_mb_per_s)
        plan = make_plan(preset)
        rate = model().throughput(plan, site)
        assert 0 < rate <= min(model().limits(plan.slide(site), site).values()) * (1 + 1e-9)


@pytest.mark.parametrize("workers", [1, 2, 4, 6, 10, 20])
def test_steps_of_known_length_are_no_slower_than_steps_of_chance(workers: int) -> None:
    site = make_site(workers, 1)
    plan = make_plan(spread=0.0)
    slide = plan.slide(site)
    found = 200 / model().simulate([slide] * 200, site) * 200 / (200 - workers)  # without the end
    assert by_chance(slide, workers) * 0.95 <= found
    assert found <= min(model().limits(slide, site).values()) * 200 / (200 - workers)


def test_more_workers_never_cost_time_and_the_limit_moves_to_what_is_shared() -> None:
    plan, names = make_plan(spread=0.0), []
    rates = []
    for workers in (1, 2, 4, 8, 16):
        site = make_site(workers, 1, storage_mb_per_s=1_000.0)
        most = model().limits(plan.slide(site), site)
        names.append(min(most, key=most.__getitem__))
        rates.append(model().throughput(plan, site))
    assert all(after >= before * 0.999 for before, after in pairwise(rates))
    assert names[0] == "workers" and names[-1] == "GPU"


def test_a_slow_storage_is_the_limit_and_needs_fewer_workers() -> None:
    quick, slow = make_site(1, 8, storage_mb_per_s=10_000.0), make_site(1, 8, storage_mb_per_s=100.0)
    plan = make_plan()
    most = model().limits(plan.slide(slow), replace(slow, workers=48))
    assert min(most, key=most.__getitem__) == "storage"
    assert model().enough_workers(plan, slow) < model().enough_workers(plan, quick)


def test_reads_and_results_do_not_depend_on_the_site() -> None:
    here, there = (make_plan().slide(site) for site in (make_site(1, 0), make_site(99, 8, storage_mb_per_s=10.0)))
    assert (here.read_bytes, here.written_bytes) == (there.read_bytes, there.written_bytes)
    assert here.cpu_s == pytest.approx(there.cpu_s + 122_070 / model().RATES["paper"].cpu_patches_per_s, rel=1e-4)


def test_a_slide_of_100k_at_a_quarter_micrometre_has_610_thousand_cells() -> None:
    rates = replace(model().RATES["paper"], gpu_patches_per_s=1.0)
    assert model().demand(100_000, 1.0, rates, make_site(1, 1)).gpu_s == pytest.approx(610_352, abs=1)


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the page, without its two first lines."""
    below = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    table = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_the_page_shows_the_workers_that_the_model_gives() -> None:
    shown = rows("Workers a GPU")
    assert len(shown) >= 5
    for each, per_hour, gpu, storage, limit in shown:
        site = make_site(8 * int(each), 8)
        rate, most = model().throughput(make_plan(), site), model().limits(make_plan().slide(site), site)
        assert (per_hour, limit) == (f"{3600 * rate:,.0f}", min(most, key=most.__getitem__))
        assert (gpu, storage) == (
            f"{rate / most['GPU']:.0%}".replace("%", " %"),
            f"{rate / most['storage']:.0%}".replace("%", " %"),
        )


def test_the_page_shows_where_the_model_has_its_limit() -> None:
    for patches_per_s, *cells in rows("Where the bottleneck moves"):
        rates = replace(model().RATES["paper"], gpu_patches_per_s=float(patches_per_s.replace(",", "")))
        for storage_mb_s, cell in zip(model().STORAGES_MB_S, cells, strict=True):
            site, plan = make_site(1, 8, storage_mb_per_s=storage_mb_s), model().Plan(rates)
            each, most = model().enough_workers(plan, site), model().limits(plan.slide(site), site)
            rate = model().throughput(plan, replace(site, workers=8 * each))
            assert cell == f"{each}; {3600 * rate:,.0f}; {min(model().SHARED, key=most.__getitem__)}"


def test_the_script_prints_its_tables() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--gpus", "1", "--slides", "1000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "workers a GPU" in done.stdout and "1,000 slides" in done.stdout
