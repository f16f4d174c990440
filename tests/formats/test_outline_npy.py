"""Prepared outlines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely

from ucc_path.annotation import from_polygons
from ucc_path.errors import OutputError
from ucc_path.formats import outline_npy


def test_an_outline_that_was_stored_answers_as_the_one_before(tmp_path: Path) -> None:
    annotation = from_polygons([shapely.Point(500, 400).buffer(321.5)], [shapely.box(450, 350, 700.25, 380)])
    outline_npy.write(tmp_path / "a.npy", annotation)
    copy = outline_npy.read(tmp_path / "a.npy")
    np.testing.assert_array_equal(copy.edges, annotation.edges)
    assert (copy.bounds, copy.area_l0) == (annotation.bounds, annotation.area_l0)
    for corner in [(0, 0), (333, 301), (600, 500), (5000, 5000)]:
        assert copy.tumour_share(corner, (150, 90)) == annotation.tumour_share(corner, (150, 90))
        np.testing.assert_array_equal(
            copy.tumour_mask(corner, (150, 90), downsample=1.5),
            annotation.tumour_mask(corner, (150, 90), downsample=1.5),
        )


def test_an_outline_of_nothing_stays_nothing(tmp_path: Path) -> None:
    outline_npy.write(tmp_path / "a.npy", from_polygons([]))
    assert outline_npy.read(tmp_path / "a.npy").is_empty


def test_an_outline_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.npy cannot be written"):
        outline_npy.write(tmp_path / "none" / "a.npy", from_polygons([]))
