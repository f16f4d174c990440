"""The plan of a synthetic slide: shares that are asked for are met, and cut-outs are there."""

from __future__ import annotations

import pytest

from ucc_path.errors import SettingsError
from ucc_path.synthetic import layout


@pytest.mark.parametrize("size_px", [(1500, 1500), (2000, 1200)])
@pytest.mark.parametrize(("seed", "share"), [(1, 0.35), (2, 0.5), (3, 0.65), (4, 0.1)])
def test_the_share_of_tumour_is_the_one_asked_for(size_px: tuple[int, int], seed: int, share: float) -> None:
    plan = layout.plan(seed=seed, size_px=size_px, mpp=0.5, tissue_share=0.55, tumour_share=share, ink=False)
    assert plan.tumour.area / plan.tissue.area == pytest.approx(share, abs=0.05)
    assert plan.tissue.area / (size_px[0] * size_px[1]) == pytest.approx(0.55, abs=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_half_a_tumour_slide_has_cut_outs_of_normal_tissue(seed: int) -> None:
    plan = layout.plan(seed=seed, size_px=(4000, 4000), mpp=0.5, tissue_share=0.55, tumour_share=0.5, ink=False)
    assert sum(len(piece.interiors) for piece in plan.tumour.geoms) >= 1


def test_more_tumour_than_a_small_piece_can_hold_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"tumour_share 0\.85 does not fit"):
        layout.plan(seed=1, size_px=(550, 550), mpp=0.5, tissue_share=0.3, tumour_share=0.85, ink=False)


def test_a_large_slide_has_several_pieces_of_tissue_apart() -> None:
    plan = layout.plan(seed=1, size_px=(16000, 16000), mpp=0.5, tissue_share=0.55, tumour_share=0, ink=False)
    large = [piece for piece in plan.tissue.geoms if piece.area > 0.05 * plan.tissue.area]
    assert len(large) >= 2


def test_there_is_room_for_pure_tiles_of_both_kinds() -> None:
    plan = layout.plan(seed=1, size_px=(6000, 6000), mpp=0.5, tissue_share=0.55, tumour_share=0.5, ink=False)
    assert plan.tumour.area / plan.tissue.area == pytest.approx(0.5, abs=0.05)
    for kind in (plan.tumour, plan.tissue.difference(plan.tumour)):
        assert kind.buffer(-256).area > 0  # a disc as wide as a tile of 256 px at 1 um/px fits in


def test_slides_differ_in_their_stain() -> None:
    stains = [
        layout.plan(
            seed=s, size_px=(800, 800), mpp=0.5, tissue_share=0.5, tumour_share=0, ink=False
        ).scene.stain.eosin.tolist()
        for s in (1, 2)
    ]
    assert stains[0] != stains[1]
