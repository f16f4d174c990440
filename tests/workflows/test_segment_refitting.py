"""A slide clustered anew by its own patches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.clusters import margins
from ucc_path.errors import TooLargeError, UccPathError
from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import decide
from ucc_path.workflows.segment import refitting
from ucc_path.workflows.segment.refitting import refitted, require_few

SHAPE = (21, 13)
KNOWN = np.array([[0.35] * 3, [0.9] * 3], np.float32)  # of other slides: all of this one is nearer to the first
HOW = ["kmeans", "spectral"]


def make_cells(share: float = 0.6) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]:
    """Values about 0.1 above and about 0.5 below, and the class of each cell; some cells and whole bands are empty."""
    rng = np.random.default_rng(0)
    is_there = rng.random(SHAPE) < share
    is_there[4:8] = is_there[20:] = False
    classes = np.broadcast_to((np.arange(SHAPE[0]) >= 12)[:, None], SHAPE).astype(np.int64)
    values = 0.1 + 0.4 * classes[..., None] + rng.normal(0, 0.02, (*SHAPE, 3))
    return (values * is_there[..., None]).astype(np.float32), is_there, classes


def in_bands(values: NDArray[np.float32], is_there: NDArray[np.bool_]) -> Iterator[Band]:
    for first in range(0, SHAPE[0], 4):
        yield Band(first, values[first : first + 4], is_there[first : first + 4])


@pytest.mark.parametrize("how", HOW)
def test_a_slide_is_clustered_by_its_own_patches_and_keeps_the_names_of_the_known_centres(
    how: str, tmp_path: Path
) -> None:
    values, is_there, classes = make_cells()
    with refitted(in_bands(values, is_there), KNOWN, how=how, seed=0, work=tmp_path, name="s") as (bands, decision):
        labels, sure = decide(bands, decision, SHAPE)
    assert np.array_equal(labels, np.where(is_there, classes + 1, 0))
    own = np.stack([values[is_there & (classes == place)].mean(axis=0) for place in (0, 1)])
    wanted = np.where(is_there, margins(values.reshape(-1, 3), own)[1].reshape(SHAPE), 0)
    assert np.abs(sure - 255 * wanted).max() <= 1


def test_a_patch_nearer_to_the_centre_of_another_cluster_than_to_that_of_its_own_is_not_sure_at_all(
    tmp_path: Path,
) -> None:
    """A ring about a blob: spectral clustering tells them apart, and the nearest centre does not."""
    rng = np.random.default_rng(0)
    is_ring = np.arange(SHAPE[0])[:, None].repeat(SHAPE[1], axis=1) >= 6
    angle, radius = rng.uniform(-2, 2, SHAPE), np.where(is_ring, 0.4, 0.05) + rng.normal(0, 0.01, SHAPE)
    values = np.stack([0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle), 0 * angle], axis=2)
    bands = in_bands(values.astype(np.float32), np.ones(SHAPE, np.bool_))
    known = np.array([[0.5, 0.5, 0], [0.8, 0.5, 0]], np.float32)
    with refitted(bands, known, how="spectral", seed=0, work=tmp_path, name="s") as (again, decision):
        labels, sure = decide(again, decision, SHAPE)
    assert np.array_equal(labels, 1 + is_ring)
    centres = np.stack([values[~is_ring].mean(axis=0), values[is_ring].mean(axis=0)]).astype(np.float32)
    nearest, margin = (found.reshape(SHAPE) for found in margins(values.reshape(-1, 3).astype(np.float32), centres))
    is_nearer = nearest != is_ring
    assert not sure[is_nearer].any() and (margin[is_nearer] > 0.2).any()
    assert np.abs(sure - 255 * margin)[~is_nearer].max() <= 1


@pytest.mark.parametrize("how", HOW)
def test_the_bands_come_once_more_as_they_were(how: str, tmp_path: Path) -> None:
    values, is_there, _ = make_cells()
    with refitted(in_bands(values, is_there), KNOWN, how=how, seed=0, work=tmp_path, name="s") as (again, _):
        for found, band in zip(again, in_bands(values, is_there), strict=True):
            assert found.first_row == band.first_row
            assert np.array_equal(found.is_there, band.is_there)
            assert np.array_equal(found.values, band.values) and found.values.dtype == np.float32


def test_bands_are_kept_in_a_file_that_goes_whatever_happens(tmp_path: Path) -> None:
    values, is_there, _ = make_cells()
    with refitted(in_bands(values, is_there), KNOWN, how="kmeans", seed=0, work=tmp_path, name="s"):
        (file,) = tmp_path.iterdir()
        assert file.stat().st_size == np.count_nonzero(is_there) * 3 * 4
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(KeyError),
        refitted(in_bands(values, is_there), KNOWN, how="kmeans", seed=0, work=tmp_path, name="s"),
    ):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_the_slide_is_read_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[Band]:
        yield next(in_bands(*make_cells()[:2]))
        raise OSError("damaged")

    with (
        pytest.raises(OSError, match="damaged"),
        refitted(broken(), KNOWN, how="kmeans", seed=0, work=tmp_path, name="s"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_patches_are_refused(count: int, tmp_path: Path) -> None:
    values, is_there, _ = make_cells()
    is_there[:] = False
    is_there[0, :count] = True
    message = rf"^s\.tif has {count} patches, too few to be clustered anew; leave out --refit$"
    with (
        pytest.raises(UccPathError, match=message),
        refitted(in_bands(values, is_there), KNOWN, how="kmeans", seed=0, work=tmp_path, name="s.tif"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_patches_are_refused_for_spectral_clustering_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refitting, "MOST_SPECTRAL", 2_000)
    require_few(2_000, how="spectral", name="s.tif")
    require_few(2_001, how="kmeans", name="s.tif")
    require_few(2_001, how="none", name="s.tif")
    with pytest.raises(TooLargeError, match=r"^s\.tif has 2,001 patches, and .* is for up to 2,000; give --refit$"):
        require_few(2_001, how="spectral", name="s.tif")


def test_of_many_patches_a_sample_drawn_by_the_seed_says_the_centres(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refitting, "SAMPLE", 40)
    values, is_there, classes = make_cells()
    found = []
    for seed in (0, 0, 1):
        with refitted(in_bands(values, is_there), KNOWN, how="kmeans", seed=seed, work=tmp_path, name="s") as (
            bands,
            decision,
        ):
            found.append(decision.centroids)  # type: ignore[attr-defined]
            labels, _ = decide(bands, decision, SHAPE)
        assert np.array_equal(labels, np.where(is_there, classes + 1, 0))  # of all patches, not only of the sample
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], [[0.1] * 3, [0.5] * 3], atol=0.03)


class Counts:
    """A perfect counter of the two classes of `make_looks`: one is at 0.1 and 0.9, the other between."""

    counts = np.array([1, 2])

    def added_by(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        is_between = np.abs(features[:, :1] - 0.5) < 0.2
        return np.concatenate([is_between, ~is_between], axis=1).astype(np.float32)

    def probabilities(self, means: NDArray[np.float32]) -> NDArray[np.float32]:
        is_mixed = means.min(axis=1) > 0.02
        return np.stack([~is_mixed, is_mixed], axis=1).astype(np.float32)


def make_looks() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Values about 0.1 above, 0.5 in the middle and 0.9 below; the first and the last are one class with two looks."""
    rng = np.random.default_rng(0)
    third = np.broadcast_to((np.arange(SHAPE[0]) * 3 // SHAPE[0])[:, None], SHAPE)
    values = 0.1 + 0.4 * third[..., None] + rng.normal(0, 0.02, (*SHAPE, 3))
    return values.astype(np.float32), (third == 1).astype(np.int64)


@pytest.mark.parametrize("place", [0, 1])
def test_looks_of_one_class_are_merged_by_the_count_and_named_after_the_known_centres(
    place: int, tmp_path: Path
) -> None:
    values, is_between = make_looks()
    known = np.array([[0.55] * 3, [0.95] * 3], np.float32)  # the class between is the first, or the second
    known = known[::-1] if place else known
    bands = in_bands(values, np.ones(SHAPE, np.bool_))
    with refitted(bands, known, how="merge", seed=0, work=tmp_path, name="s", head=Counts()) as (again, decision):
        labels, sure = decide(again, decision, SHAPE)
    assert np.array_equal(labels, np.where(is_between == 1, place + 1, 2 - place))
    assert sure.min() > 100
    assert list(tmp_path.iterdir()) == []
