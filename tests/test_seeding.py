"""Streams of chance."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from ucc_path.seeding import stream


def draws(*purpose: str | int, seed: int = 0) -> list[int]:
    return stream(seed, *purpose).integers(0, 2**62, 4).tolist()


def test_the_same_seed_and_purpose_give_the_same_draws() -> None:
    assert draws("tiles", "a") == draws("tiles", "a")


def test_each_seed_and_each_purpose_has_draws_of_its_own() -> None:
    streams = [draws("tiles", "a"), draws("tiles", "b"), draws("splits"), draws("tiles"), draws("tiles", "a", seed=1)]
    assert len({tuple(numbers) for numbers in streams}) == len(streams)


def test_where_one_name_ends_and_the_next_begins_matters() -> None:
    assert draws("ab", "c") != draws("a", "bc") != draws("abc")
    assert draws(seed=11) != draws(1, seed=1)


def test_another_process_draws_the_same_whatever_its_hash_seed() -> None:
    code = "from ucc_path.seeding import stream; print(stream(7, 'tiles', 'ä').integers(0, 2**62, 4).tolist())"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert texts == {str(draws("tiles", "ä", seed=7))}


def test_two_streams_are_not_correlated() -> None:
    first, second = (stream(0, "tiles", name).standard_normal(20_000) for name in "ab")
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
