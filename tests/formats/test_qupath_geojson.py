"""QuPath's GeoJSON: what it means, what is refused, and what is written."""

import gzip
import json
import uuid
import weakref

import numpy as np
import pytest

from ucc_path.errors import AnnotationError, OutputError
from ucc_path.formats import qupath_geojson, read_annotation
from ucc_path.mask.polygons import regions
from ucc_path.settings import AnnotationSettings

SQUARE = [[0, 0], [100, 0], [100, 100], [0, 100], [0, 0]]
WITHIN = [[10, 10], [30, 10], [30, 30], [10, 30], [10, 10]]


def make_feature(coordinates, classification="Tumor", kind="Polygon"):
    if isinstance(classification, str):
        classification = {"name": classification, "color": [200, 0, 0]}
    properties = {"objectType": "annotation"} | ({} if classification is None else {"classification": classification})
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "id": "7f", "geometry": geometry, "properties": properties}


@pytest.fixture
def make_file(tmp_path):
    def make(document, name="slide.geojson"):
        path = tmp_path / name
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make


def area(path, **settings):
    return qupath_geojson.read(path, AnnotationSettings(**settings)).area_l0


def refusal(path):
    with pytest.raises(AnnotationError) as caught:
        read_annotation(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert ";" in message
    return message


@pytest.mark.parametrize("name", ["s.geojson", "s.json", "s.geojson.gz", "S.GeoJSON"])
def test_a_collection_a_feature_and_a_list_are_read_plain_or_gzipped(make_file, name):
    features = [make_feature([SQUARE]), make_feature([WITHIN], "Exclusion")]
    assert read_annotation(make_file({"type": "FeatureCollection", "features": features}, name)).area_l0 == 9_600
    assert read_annotation(make_file(features, name)).area_l0 == 9_600
    assert read_annotation(make_file(features[0], name)).area_l0 == 10_000


def test_holes_are_holes(make_file):
    assert area(make_file(make_feature([SQUARE, WITHIN]))) == pytest.approx(9_600)


def test_the_members_of_a_multipolygon_are_all_read_with_their_holes(make_file):
    far = [[x + 500, y] for x, y in SQUARE]
    annotation = qupath_geojson.read(make_file(make_feature([[SQUARE, WITHIN], [far]], kind="MultiPolygon")))
    assert annotation.area_l0 == pytest.approx(19_600)
    assert annotation.summary.tumour_outlines == 2


@pytest.mark.parametrize("given", [{"name": "tumor"}, {"names": ["Tumor", "Positive"]}, {"name": "Tumor: Positive"}])
def test_the_class_is_found_in_every_place_qupath_puts_it(make_file, given):
    assert area(make_file(make_feature([SQUARE], given))) == 10_000


def test_the_class_may_be_a_plain_string(make_file):
    feature = make_feature([SQUARE])
    feature["properties"]["classification"] = "Tumor"
    assert area(make_file(feature)) == 10_000


def test_a_derived_class_that_is_known_itself_wins_over_its_base(make_file):
    features = [make_feature([SQUARE]), make_feature([WITHIN], "Tumor: Necrosis")]
    assert area(make_file(features)) == 10_000
    assert area(make_file(features), excluded_groups=("tumor: necrosis",)) == pytest.approx(9_600)


@pytest.mark.parametrize("missing", [None, {}, {"name": ""}, {"name": 7}])
def test_an_outline_without_class_is_refused(make_file, missing):
    message = refusal(make_file([make_feature([SQUARE]), make_feature([WITHIN], missing)]))
    assert "feature 1 has no class" in message
    assert "QuPath" in message


def test_an_unknown_class_is_refused_with_the_options_that_say_what_it_means(make_file):
    message = refusal(make_file(make_feature([SQUARE], "Stroma")))
    for part in ("class 'Stroma'", "tumor", "--tumour-group NAME", "--exclude-group NAME"):
        assert part in message


@pytest.mark.parametrize(
    ("kind", "coordinates"), [("Point", [1, 2]), ("LineString", [[1, 2], [3, 4]]), ("MultiPoint", [[1, 2]])]
)
def test_points_and_lines_are_left_out_and_counted_even_without_class(make_file, kind, coordinates):
    features = [make_feature([SQUARE]), make_feature(coordinates, None, kind)]
    annotation = qupath_geojson.read(make_file(features))
    assert annotation.area_l0 == 10_000
    assert annotation.summary.without_area == 1


def test_a_feature_without_geometry_or_with_too_few_places_is_left_out(make_file):
    features = [make_feature([SQUARE]) | {"geometry": None}, make_feature([WITHIN[:2]]), make_feature([])]
    annotation = qupath_geojson.read(make_file(features))
    assert annotation.is_empty
    assert annotation.summary.without_area == 3


def test_an_outline_that_crosses_itself_is_filled_by_non_zero_winding(make_file):
    annotation = qupath_geojson.read(make_file(make_feature([[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]])))
    assert annotation.area_l0 == pytest.approx(2)
    assert annotation.summary.repaired_outlines == 1


def test_a_third_coordinate_is_not_looked_at(make_file):
    assert area(make_file(make_feature([[[x, y, 0] for x, y in SQUARE]]))) == 10_000


@pytest.mark.parametrize(
    "coordinates",
    [
        SQUARE,
        [[SQUARE]],
        [[[0, 0], [1], [2, 2]]],
        [[["0", "0"], ["1", "0"], ["1", "1"]]],
        [[[0, 0], None, [1, 1]]],
        {"x": 1},
        None,
        [[[0], [1], [2]]],
    ],
)
def test_coordinates_that_are_not_nested_as_in_geojson_are_refused(make_file, coordinates):
    message = refusal(make_file(make_feature(coordinates)))
    assert "feature 0" in message


@pytest.mark.parametrize("bad", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1e300"])
def test_a_vertex_that_is_no_place_is_refused(make_file, bad):
    document = json.dumps(make_feature([SQUARE])).encode().replace(b"[100, 100]", b"[100, " + bad + b"]")
    refusal(make_file(document))


def test_a_ring_that_crosses_itself_over_and_over_is_refused_at_once(make_file):
    tangle = np.random.default_rng(0).integers(0, 2000, (3000, 2)).tolist()
    assert "crosses itself about" in refusal(make_file(make_feature([[*tangle, tangle[0]]])))


def test_an_unknown_geometry_is_refused(make_file):
    assert "'GeometryCollection'" in refusal(make_file(make_feature([], kind="GeometryCollection")))


@pytest.mark.parametrize("document", [{"type": "Topology"}, 7, "x", None, [1], {"type": "FeatureCollection"}, [{}]])
def test_json_that_is_not_geojson_is_refused(make_file, document):
    assert "not the Features of GeoJSON" in refusal(make_file(document))


@pytest.mark.parametrize("name", ["s.geojson", "s.geojson.gz"])
def test_json_that_is_cut_short_or_none_is_refused(make_file, name):
    whole = json.dumps(make_feature([SQUARE])).encode()
    for text in (b"", whole[:-20], b"\xff\xfe\x00", b"[" * 100_000, b"<xml/>"):
        assert "not whole JSON" in refusal(make_file(text, name))


def test_gzip_that_is_cut_short_or_none_is_refused(make_file, tmp_path):
    whole = make_file(make_feature([SQUARE]), "s.geojson.gz").read_bytes()
    damaged = whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:]
    for data in (whole[:-12], b"plain text", damaged):
        (tmp_path / "s.geojson.gz").write_bytes(data)
        assert "gzip" in refusal(tmp_path / "s.geojson.gz")


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(make_file, monkeypatch):
    monkeypatch.setattr(qupath_geojson, "MAX_BYTES", 2**20)
    path = make_file(b" " * 2**24, "s.geojson.gz")
    assert path.stat().st_size < 2**16
    assert "over 1 MB of JSON" in refusal(path)


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.geojson")


CLASSES = ("normal", "metastases")
COLOURS = ((0, 158, 115), (213, 94, 0))
MASK = np.array([[1, 1, 1, 1, 0], [1, 2, 2, 1, 0], [1, 2, 1, 1, 0], [1, 1, 1, 0, 2]], np.uint8)


def write_mask(path, labels=MASK, margins=None, classes=CLASSES):
    return qupath_geojson.write(path, regions(labels, margins, cell_l0=32), classes, COLOURS, mm2_per_cell=0.0002)


def written(path):
    return json.loads(gzip.decompress(path.read_bytes()).decode("utf-8"))


def test_a_mask_that_was_written_is_read_back_as_the_tumour_it_shows(tmp_path):
    path = tmp_path / "s.geojson.gz"
    assert write_mask(path) == 3
    annotation = read_annotation(path)
    size_l0 = (MASK.shape[1] * 32, MASK.shape[0] * 32)
    assert np.array_equal(annotation.tumour_mask((0, 0), size_l0, downsample=32), MASK == 2)
    assert annotation.area_l0 == 4 * 32**2
    assert annotation.summary.repaired_outlines == 0


def test_a_feature_has_the_fields_that_qupath_reads(tmp_path):
    margins = np.full(MASK.shape, 255, np.uint8)
    margins[1, 1] = 0
    write_mask(tmp_path / "s.geojson.gz", margins=margins)
    document = written(tmp_path / "s.geojson.gz")
    assert document.keys() == {"type", "features"} and document["type"] == "FeatureCollection"
    feature = document["features"][1]
    assert feature.keys() == {"type", "id", "geometry", "properties"} and feature["type"] == "Feature"
    corners = [[32, 32], [96, 32], [96, 64], [64, 64], [64, 96], [32, 96], [32, 32]]
    assert feature["geometry"] == {"type": "Polygon", "coordinates": [corners]}
    assert feature["properties"] == {
        "objectType": "annotation",
        "isLocked": False,
        "classification": {"name": "metastases", "color": [213, 94, 0]},
        "measurements": {"score": 0.6667, "area_mm2": 0.0006},
    }


def test_holes_are_written(tmp_path):
    write_mask(tmp_path / "s.geojson.gz")
    geometry = written(tmp_path / "s.geojson.gz")["features"][0]["geometry"]
    assert [ring[0] == ring[-1] for ring in geometry["coordinates"]] == [True, True]


def test_ids_are_uuids_no_two_alike_and_stay_with_the_region(tmp_path):
    labels = np.tile(np.array([[1, 0, 2, 0]], np.uint8), (3, 5))
    write_mask(tmp_path / "s.geojson.gz", labels)
    ids = [feature["id"] for feature in written(tmp_path / "s.geojson.gz")["features"]]
    assert [str(uuid.UUID(found)) for found in ids] == ids
    assert len(set(ids)) == 10
    labels[:, :4] = 0
    write_mask(tmp_path / "s.geojson.gz", labels)
    assert {feature["id"] for feature in written(tmp_path / "s.geojson.gz")["features"]} < set(ids)
    write_mask(tmp_path / "s.geojson.gz", np.where(labels > 0, 3 - labels, 0).astype(np.uint8))
    assert not {feature["id"] for feature in written(tmp_path / "s.geojson.gz")["features"]} & set(ids)


def test_the_same_mask_gives_the_same_bytes_under_any_name_at_any_time(tmp_path, monkeypatch):
    write_mask(tmp_path / "a.geojson.gz")
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_mask(tmp_path / "b.geojson.gz")
    data = (tmp_path / "a.geojson.gz").read_bytes()
    assert data == (tmp_path / "b.geojson.gz").read_bytes()
    assert data[3] == 0 and data[4:8] == bytes(4)  # of the header: no name follows; no time


def test_names_of_classes_are_plain_utf_8(tmp_path):
    write_mask(tmp_path / "s.geojson.gz", classes=("Gewebe ü", "метастаз"))
    assert '"name":"метастаз"'.encode() in gzip.decompress((tmp_path / "s.geojson.gz").read_bytes())


def test_a_mask_without_regions_is_a_collection_of_none(tmp_path):
    assert write_mask(tmp_path / "s.geojson.gz", np.zeros((2, 2), np.uint8)) == 0
    assert written(tmp_path / "s.geojson.gz") == {"type": "FeatureCollection", "features": []}
    assert read_annotation(tmp_path / "s.geojson.gz").is_empty


def test_regions_are_written_as_they_come(tmp_path):
    alive = []

    def one_by_one():
        for region in regions(np.tile(np.array([1, 0], np.uint8), (1, 50)), None, cell_l0=1):
            reference = weakref.ref(region.rings[0])
            yield region
            del region
            alive.append(reference)
            assert sum(found() is not None for found in alive) <= 2

    assert qupath_geojson.write(tmp_path / "s.geojson.gz", one_by_one(), CLASSES, COLOURS, mm2_per_cell=1) == 50


def test_nothing_is_left_where_outlining_failed(tmp_path):
    def broken():
        yield from regions(MASK, None, cell_l0=1)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        qupath_geojson.write(tmp_path / "s.geojson.gz", broken(), CLASSES, COLOURS, mm2_per_cell=1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said_in_one_line(tmp_path):
    with pytest.raises(OutputError, match=r"absent.s\.geojson\.gz cannot be written"):
        write_mask(tmp_path / "absent" / "s.geojson.gz")
