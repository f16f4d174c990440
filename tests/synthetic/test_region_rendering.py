"""Rendering follows the outlines exactly and does not depend on how a slide is cut into regions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from ucc_path.synthetic import cells, layout, raster
from ucc_path.synthetic.render import Renderer
from ucc_path.synthetic.scene import Window


@pytest.fixture(scope="module")
def plan() -> layout.Plan:
    return layout.plan(seed=8, size_px=(1200, 1100), mpp=0.5, tissue_share=0.55, tumour_share=0.5, ink=True)


def whole(plan: layout.Plan) -> Window:
    return Window(0, 0, *plan.scene.size_px)


def test_a_slide_cut_in_pieces_is_the_slide_rendered_whole(plan: layout.Plan) -> None:
    renderer = Renderer(plan.scene)
    window = Window(350, 300, 300, 260)
    at_once = renderer.region(window)
    pieced = np.vstack(
        [
            np.hstack([renderer.region(Window(350 + x, 300 + y, 75, 65)) for x in range(0, 300, 75)])
            for y in range(0, 260, 65)
        ]
    )
    assert at_once.std() > 15  # there is something to disagree about
    assert np.array_equal(at_once, pieced)


def test_tumour_shows_within_its_outlines_and_nowhere_else(plan: layout.Plan) -> None:
    healthy = dataclasses.replace(plan.scene, tumour=())
    differs = (Renderer(plan.scene).region(whole(plan)) != Renderer(healthy).region(whole(plan))).any(axis=2)
    tumour = raster.fill(raster.edges(plan.scene.tumour), whole(plan))
    y, x = np.nonzero(differs & ~tumour)
    distance = shapely.distance(plan.tumour, shapely.points(x + 0.5, y + 0.5))
    assert distance.max() <= 1.5 * cells.reach_px(0.5)  # only a cell that sits across the outline may look out
    assert differs[tumour].mean() > 0.97


def test_without_tissue_there_is_only_glass_and_ink(plan: layout.Plan) -> None:
    bare = dataclasses.replace(plan.scene, tissue=(), tumour=())
    rgb = Renderer(bare).region(whole(plan))
    inked = np.any([raster.fill(raster.edges(stroke.rings), whole(plan)) for stroke in bare.ink], axis=0)
    assert rgb[~inked].min() > 225
    assert rgb[inked].mean() < 120


def test_a_pixel_is_inside_when_its_centre_is(plan: layout.Plan) -> None:
    window = Window(-20, 100, 900, 777)
    y, x = np.mgrid[100:877, -20:880] + 0.5
    expected: NDArray[np.bool_] = shapely.contains_xy(plan.tumour, x, y)
    filled = raster.fill(raster.edges(plan.scene.tumour), window)
    assert 0.1 < filled.mean() < 0.9
    row, col = np.nonzero(filled != expected)
    doubtful = shapely.distance(plan.tumour.boundary, shapely.points(col - 20 + 0.5, row + 100 + 0.5))
    assert (doubtful < 1e-9).all()  # a centre exactly on an outline may go either way


def test_two_windows_agree_on_the_cells_they_share() -> None:
    left, right = Window(-30, 0, 400, 300), Window(170, 0, 400, 300)
    seen = [cells.places(4, cells.LYMPHOCYTE, window, 0.5) for window in (left, right)]
    shared = [
        {
            (x + w.x_l0, y, v)
            for x, y, v in zip(p.x_px.tolist(), p.y_px.tolist(), p.variant.tolist(), strict=True)
            if 170 <= x + w.x_l0 < 370
        }
        for p, w in zip(seen, (left, right), strict=True)
    ]
    assert len(shared[0]) > 100
    assert shared[0] == shared[1]


def test_tumour_nuclei_are_larger_than_lymphocytes_at_any_scale() -> None:
    for mpp in (0.25, 0.5, 1.0):
        bank = cells.bank(mpp)
        area = {name: (sprites.nuclei > 0.25).sum(axis=(1, 2)).mean() * mpp**2 for name, sprites in bank.items()}
        assert area["solid"] > 1.8 * area["lymphocyte"]
        assert area["pleomorphic"] > area["solid"]
