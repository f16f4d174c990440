"""Synthetic slides: they open as slides, they are what their truth says, and chance is the seed alone."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import openslide
import pytest
import shapely
from numpy.typing import NDArray
from shapely import MultiPolygon, Polygon

from ucc_path.errors import SettingsError
from ucc_path.formats import asap_xml
from ucc_path.synthetic import SyntheticSlide, make_slide

SIZE_PX = (1700, 1500)


@pytest.fixture(scope="module")
def slide(tmp_path_factory: pytest.TempPathFactory) -> SyntheticSlide:
    return make_slide(tmp_path_factory.mktemp("slide") / "s.tif", seed=3, size_px=SIZE_PX, tumour_share=0.5)


@pytest.fixture(scope="module")
def pixels(slide: SyntheticSlide) -> NDArray[np.uint8]:
    with openslide.OpenSlide(str(slide.path)) as reader:
        return np.asarray(reader.read_region((0, 0), 0, reader.dimensions).convert("RGB"))


def inside(shape: MultiPolygon | Polygon) -> NDArray[np.bool_]:
    """Pixels of the slide whose centre is in a shape, as shapely sees it."""
    y, x = np.mgrid[: SIZE_PX[1], : SIZE_PX[0]] + 0.5
    shapely.prepare(shape)
    return np.asarray(shapely.contains_xy(shape, x, y))


def test_openslide_sees_all_levels_and_the_scale(slide: SyntheticSlide) -> None:
    with openslide.OpenSlide(str(slide.path)) as reader:
        assert reader.level_dimensions == ((1700, 1500), (850, 750))
        assert float(reader.properties["openslide.mpp-x"]) == pytest.approx(0.5)


def test_glass_is_nearly_white_tissue_is_stained_and_ink_is_dark(
    slide: SyntheticSlide, pixels: NDArray[np.uint8]
) -> None:
    glass = ~inside(slide.tissue.union(slide.ink).buffer(17))  # JPEG blurs colour over blocks of 16 px
    assert pixels[glass].min() > 220
    stained = pixels[inside(slide.tissue.buffer(-9))].mean(axis=0)
    assert stained[1] < 190
    assert stained[1] < stained[0] - 15  # pink and violet take green most
    assert slide.ink.area > 0
    assert pixels[inside(slide.ink.buffer(-9))].mean() < 110


def test_tissue_tumour_and_ink_lie_where_they_may(slide: SyntheticSlide) -> None:
    assert slide.tissue.is_valid and slide.tumour.is_valid and slide.ink.is_valid
    assert slide.tumour.within(slide.tissue)
    assert not slide.ink.intersects(slide.tissue)
    assert shapely.box(0, 0, *SIZE_PX).contains(slide.tissue)


def test_the_annotation_holds_the_very_outlines_of_the_truth(slide: SyntheticSlide) -> None:
    found: dict[str, list[Polygon]] = {"_0": [], "_2": []}
    for annotation in ElementTree.parse(slide.xml).iter("Annotation"):
        places = [(float(c.get("X")), float(c.get("Y"))) for c in annotation.iter("Coordinate")]
        found[annotation.get("PartOfGroup")].append(Polygon(places))
    assert found["_0"] and found["_2"]
    drawn = shapely.union_all(found["_0"]).difference(shapely.union_all(found["_2"]))
    assert drawn.symmetric_difference(slide.tumour).area == 0


def test_the_product_reads_the_same_tumour_from_the_annotation(slide: SyntheticSlide) -> None:
    mask = asap_xml.read(slide.xml).tumour_mask((0, 0), SIZE_PX)
    row, col = np.nonzero(mask != inside(slide.tumour))
    doubtful = shapely.distance(slide.tumour.boundary, shapely.points(col + 0.5, row + 0.5))
    assert 0.1 < mask.mean() < 0.5
    assert (doubtful < 1e-9).all()  # a centre exactly on an outline may go either way


def test_the_bytes_depend_on_the_seed_and_not_on_the_workers(tmp_path: Path) -> None:
    size_px = (1000, 600)
    first = make_slide(tmp_path / "first.tif", seed=5, size_px=size_px, tile_px=256)
    again = make_slide(tmp_path / "again.tif", seed=5, size_px=size_px, tile_px=256, workers=2)
    other = make_slide(tmp_path / "other.tif", seed=6, size_px=size_px, tile_px=256)
    assert again.path.read_bytes() == first.path.read_bytes()
    assert again.xml.read_bytes() == first.xml.read_bytes()
    assert other.path.read_bytes() != first.path.read_bytes()
    assert other.xml.read_bytes() != first.xml.read_bytes()


def test_a_normal_slide_has_an_annotation_without_outlines(tmp_path: Path) -> None:
    normal = make_slide(tmp_path / "n.tif", seed=1, size_px=(800, 800), tumour_share=0, ink=False)
    assert normal.tumour.is_empty and normal.ink.is_empty
    assert normal.tissue.area / 800**2 == pytest.approx(0.55, abs=0.05)
    assert not list(ElementTree.parse(normal.xml).iter("Annotation"))


def test_progress_counts_every_tile(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    make_slide(tmp_path / "p.tif", seed=1, size_px=(800, 600), on_tile=lambda done, of: told.append((done, of)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_slide_leaves_no_file_and_no_process(tmp_path: Path, workers: int) -> None:
    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_slide(tmp_path / "i.tif", seed=1, size_px=(1000, 600), workers=workers, on_tile=interrupt)
    assert not list(tmp_path.iterdir())
    assert not multiprocessing.active_children()


def test_a_killed_slide_has_nothing_under_its_final_name(tmp_path: Path) -> None:
    script = (
        "import os, pathlib; from ucc_path.synthetic import make_slide\n"
        f"path = pathlib.Path({str(tmp_path / 'k.tif')!r})\n"
        "make_slide(path, seed=1, size_px=(1000, 600), on_tile=lambda done, of: os.kill(os.getpid(), 9))"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode == -9
    assert [p.name for p in tmp_path.iterdir()] == ["k.tif.partial"]
    make_slide(tmp_path / "k.tif", seed=1, size_px=(1000, 600))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.tif", "k.xml"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"tumour_share": 0.9}, "tumour_share is 0.9"),
        ({"tumour_share": -0.1}, "tumour_share is -0.1"),
        ({"tumour_share": float("nan")}, "tumour_share is nan"),
        ({"tissue_share": 1.0}, "tissue_share is 1.0"),
        ({"size_px": (400, 4000)}, "under 250 um"),
        ({"mpp": 0.0}, "mpp is 0.0"),
        ({"workers": 0}, "workers is 0"),
        ({"tile_px": 0}, "tile_px is 0"),
        ({"quality": 0}, "quality is 0"),
    ],
)
def test_impossible_arguments_are_refused_by_name(tmp_path: Path, wrong: dict[str, float], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        make_slide(tmp_path / "w.tif", seed=1, **wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_not_a_tiffs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"end it in \.tif"):
        make_slide(tmp_path / "w.xml", seed=1)
