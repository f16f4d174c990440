"""Real annotations against what their makers say they mean; the data is not ours to ship, so it may be absent."""

import re
import xml.etree.ElementTree as ElementTree
from functools import cache

import numpy as np
import pytest
import shapely
from conftest import SHARED_DATA
from PIL import Image

from ucc_path.formats import asap_xml, mask_image, read_annotation
from ucc_path.formats.annotation_files import find_annotation

pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"the real data is not at {SHARED_DATA}")

PATCH_PX = 640
CAMELYON16 = SHARED_DATA / "camelyon16"
PATCHES = sorted(CAMELYON16.glob("t*_r*c*_mask.png"))
EVERY_XML = sorted([*(SHARED_DATA / "annotations").glob("*.xml"), *(SHARED_DATA / "oral-slides").glob("*.xml")])


@cache
def annotation_of(path):
    return asap_xml.read(path)


@cache
def rings_of(path):
    """An independent reading: every outline with its group, by the standard library alone."""
    rings = []
    for outline in ElementTree.parse(path).getroot().iter("Annotation"):
        vertices = sorted(outline.iter("Coordinate"), key=lambda c: int(c.get("Order")))
        ring = np.array([[float(c.get("X")), float(c.get("Y"))] for c in vertices])
        rings.append((outline.get("PartOfGroup"), ring))
    return rings


def is_inside(ring, points):
    """Non-zero winding by the definition of a crossing, one outline at a time, over points in no order."""
    begin, end = ring, np.roll(ring, -1, axis=0)
    near = np.flatnonzero(np.all((points >= ring.min(axis=0)) & (points <= ring.max(axis=0)), axis=1))
    winding = np.zeros(len(points), int)
    for some in np.array_split(near, max(1, len(near) * len(ring) // 4_000_000)):
        x, y = points[some].T[:, :, None]
        down = (begin[:, 1] <= y) & (end[:, 1] > y)
        up = (begin[:, 1] > y) & (end[:, 1] <= y)
        side = (end[:, 0] - begin[:, 0]) * (y - begin[:, 1]) - (x - begin[:, 0]) * (end[:, 1] - begin[:, 1])
        winding[some] = np.sum(down & (side < 0), axis=1) - np.sum(up & (side > 0), axis=1)
    return winding != 0


def intersection_over_union(mask, truth):
    return np.sum(mask & truth) / np.sum(mask | truth)


def place_of(patch):
    row, col = map(int, re.search(r"_r(\d+)c(\d+)", patch.name).groups())
    return col * PATCH_PX, row * PATCH_PX


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_the_experts_mask_is_reproduced_up_to_the_pixels_on_the_outline(patch):
    xml = CAMELYON16 / f"{patch.name.split('_r')[0]}.xml"
    corner = place_of(patch)
    mask = read_annotation(xml).tumour_mask(corner, (PATCH_PX, PATCH_PX))
    truth = np.asarray(Image.open(patch)) > 0
    assert intersection_over_union(mask, truth) >= 0.99
    outline = shapely.union_all([shapely.LinearRing(ring) for _, ring in rings_of(xml)])
    row, col = np.nonzero(mask != truth)
    centres = shapely.points(corner[0] + col + 0.5, corner[1] + row + 0.5)
    assert np.all(shapely.distance(outline, centres) <= 1)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_the_share_of_a_patch_is_that_of_its_mask(patch):
    xml = CAMELYON16 / f"{patch.name.split('_r')[0]}.xml"
    share = read_annotation(xml).tumour_share(place_of(patch), (PATCH_PX, PATCH_PX))
    assert share == pytest.approx(np.mean(np.asarray(Image.open(patch)) > 0), abs=0.002)
    assert share == pytest.approx(mask_image.read(patch).tumour_share((0, 0), (PATCH_PX, PATCH_PX)), abs=0.002)


def test_the_organisers_mask_at_one_in_32_is_reproduced():
    truth = np.asarray(Image.open(CAMELYON16 / "test_001_evaluation_mask.png")) > 0
    rows, cols = truth.shape
    mask = read_annotation(CAMELYON16 / "test_001.xml").tumour_mask((0, 0), (cols * 32, rows * 32), 32)
    assert intersection_over_union(mask, truth) >= 0.97


def test_the_organisers_mask_read_as_an_annotation_is_the_outlines_area():
    path = CAMELYON16 / "test_001_evaluation_mask.png"
    width, height = Image.open(path).size
    lesions = mask_image.read(path, size_l0=(width * 32, height * 32), tumour_values=tuple(range(1, 256)))
    assert lesions.area_l0 == pytest.approx(read_annotation(CAMELYON16 / "test_001.xml").area_l0, rel=0.03)


def test_a_normal_slide_has_no_annotation():
    assert find_annotation(CAMELYON16, "normal_001") is None
    assert find_annotation(CAMELYON16, "tumor_001") == CAMELYON16 / "tumor_001.xml"
    for patch in CAMELYON16.glob("normal_001_r*_mask.png"):
        assert read_annotation(patch).is_empty


@pytest.mark.parametrize("path", EVERY_XML, ids=lambda path: path.stem)
def test_every_exclusion_is_cut_out_of_every_lesion(path):
    annotation, rings = annotation_of(path), rings_of(path)
    tumour = [ring for group, ring in rings if group.lower() in ("_0", "tumor")]
    excluded = [ring for group, ring in rings if group.lower() in ("_2", "exclusion")]
    assert len(tumour) + len(excluded) == len(rings)
    assert (annotation.summary.tumour_outlines, annotation.summary.excluded_outlines) == (len(tumour), len(excluded))
    # Chance places in the boxes of the outlines, so that each exclusion is tried: both readings must agree on all.
    rng = np.random.default_rng(0)
    boxes = np.array([[*ring.min(axis=0), *ring.max(axis=0)] for _, ring in rings])
    box = np.concatenate([np.arange(len(boxes)), rng.integers(len(boxes), size=400)])
    points = rng.uniform(boxes[box, :2], boxes[box, 2:])
    in_excluded = np.any([np.zeros(len(points), bool), *(is_inside(ring, points) for ring in excluded)], axis=0)
    truth = np.any([is_inside(ring, points) for ring in tumour], axis=0) & ~in_excluded
    found = [annotation.tumour_mask(point - 0.5, (1, 1))[0, 0] for point in points]
    np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("path", EVERY_XML, ids=lambda path: path.stem)
def test_the_area_cut_out_is_that_of_the_exclusions_within_the_tumour(path):
    annotation = annotation_of(path)
    # shapely's own way round: each exclusion by itself, lines noded and polygons rebuilt, no structure repair.
    areas = {"tumour": [], "excluded": []}
    for group, ring in rings_of(path):
        faces = shapely.get_parts(shapely.polygonize([shapely.node(shapely.LinearRing(ring))]))
        inner = shapely.get_coordinates(shapely.point_on_surface(faces))
        kept = faces[is_inside(ring, inner)]
        areas["tumour" if group.lower() in ("_0", "tumor") else "excluded"].append(shapely.union_all(kept))
    tumour, excluded = (shapely.union_all(areas[kind]) for kind in ("tumour", "excluded"))
    cut = shapely.intersection(tumour, excluded).area
    assert annotation.summary.cut_area_l0 == pytest.approx(cut, rel=1e-6, abs=1e-3)
    assert annotation.area_l0 == pytest.approx(tumour.area - cut, rel=1e-9)
    if shapely.area(excluded) > 0:
        assert annotation.summary.cut_area_l0 > 0.5 * shapely.area(excluded)
