"""QuPath's GeoJSON export, plain or gzipped.

A FeatureCollection, one Feature, or a list of Features, in level-0 pixels:

    {"type": "Feature",
     "geometry": {"type": "Polygon", "coordinates": [[[x, y], ...], [hole], ...]},
     "properties": {"objectType": "annotation", "classification": {"name": "Tumor", "color": [200, 0, 0]}}}

Polygon and MultiPolygon are read, with their holes; points and lines have no area and are left out, and so is a
Feature without geometry. The class is `classification.name`, the list `classification.names`, or `classification`
itself where it is a string; it says tumour or excluded by the settings `[annotation]`. A class derived from another,
`Tumor: Positive`, means what the class before its colon means unless it is known itself. Outlines that cross
themselves are filled by non-zero winding.

At most MAX_BYTES of JSON are read, counted after decompression.

A mask is written gzipped as a FeatureCollection in UTF-8, one Feature a line, one Feature a region, as above and with

    "id": a UUID made of the label and the first vertex: the same for the same region, and another for any other
    "geometry": a valid Polygon with whole coordinates, each ring closed, the outside first
    "properties": {"objectType": "annotation", "isLocked": false, "classification": {"name", "color"},
                   "measurements": {"score": from 0 to 1, how sure its cells are on average, "area_mm2": its area}}

The gzip holds neither time nor name, so the same regions give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import uuid
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from ucc_path.annotation import LARGEST_COORDINATE_L0, Annotation, from_polygons
from ucc_path.errors import AnnotationError
from ucc_path.formats.atomic import replacing
from ucc_path.formats.vocabulary import meaning, quoted
from ucc_path.mask.polygons import Region
from ucc_path.settings import AnnotationSettings

MAX_BYTES = 256 * 2**20

_WITHOUT_AREA = ("Point", "MultiPoint", "LineString", "MultiLineString")
_AS_SHIPPED = AnnotationSettings()
_REGIONS = uuid.UUID("b3059bc0-4584-4e5b-8c2b-35e005ace013")  # never to change: the ids of all regions come from it
_LEVEL = 4  # of gzip: 6 takes twice as long for a file a hundredth smaller


def read(path: Path, settings: AnnotationSettings = _AS_SHIPPED) -> Annotation:
    """The tumour outlined in a GeoJSON file; AnnotationError where it cannot be read or does not say what is tumour."""
    outlines: dict[str, list[BaseGeometry]] = {"tumour": [], "excluded": []}
    without_area = 0
    for number, feature in enumerate(_features(path, _json(path))):
        where = f"{path}: feature {number}"
        polygons = _polygons(where, feature.get("geometry"))
        if not polygons:
            without_area += 1
            continue
        name = _class_name(where, feature.get("properties"))
        outlines[meaning(path, "class", [name, name.split(":")[0].strip()], settings)].extend(polygons)
    try:
        return from_polygons(outlines["tumour"], outlines["excluded"], without_area=without_area)
    except AnnotationError as err:
        raise AnnotationError(f"{path}: {err}") from err


def write(
    path: Path,
    regions: Iterable[Region],
    classes: Sequence[str],
    colours: Sequence[tuple[int, int, int]],
    *,
    mm2_per_cell: float,
) -> int:
    """Regions as they come, never all in memory; how many there were. The label k is of the class classes[k - 1]."""
    kinds = [{"name": name, "color": list(colour)} for name, colour in zip(classes, colours, strict=True)]
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    count = 0
    with (
        replacing(path) as partial,
        partial.open("wb") as file,
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as stream,
    ):
        stream.write(b'{"type":"FeatureCollection","features":[')
        for region in regions:
            feature = _feature(region, kinds[region.label - 1], region.cells * mm2_per_cell)
            stream.write((",\n" if count else "\n").encode() + encode(feature).encode())
            count += 1
        stream.write(b"\n]}\n")
    return count


def _feature(region: Region, kind: dict[str, Any], area_mm2: float) -> dict[str, Any]:
    x, y = region.rings[0][0].tolist()
    return {
        "type": "Feature",
        "id": str(uuid.uuid5(_REGIONS, f"{region.label},{x},{y}")),
        "geometry": {"type": "Polygon", "coordinates": [ring.tolist() for ring in region.rings]},
        "properties": {
            "objectType": "annotation",
            "isLocked": False,
            "classification": kind,
            "measurements": {"score": round(region.score, 4), "area_mm2": round(area_mm2, 6)},
        },
    }


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as file, gzip.open(file) if path.suffix.lower() == ".gz" else file as stream:
            text = stream.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as err:
        raise AnnotationError(f"{path} is not a whole gzip file ({err}); export it anew from QuPath") from err
    except OSError as err:
        raise AnnotationError(f"{path} cannot be read ({err.strerror}); check the path and its permissions") from err
    if len(text) > MAX_BYTES:
        raise AnnotationError(f"{path} holds over {MAX_BYTES >> 20} MB of JSON; export fewer objects from QuPath")
    try:
        return json.loads(text.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as err:  # ValueError: not JSON, not UTF-8, NaN
        raise AnnotationError(f"{path} is not whole JSON ({err}); export it anew from QuPath") from err


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _features(path: Path, document: Any) -> list[dict[str, Any]]:
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection":
        features = document.get("features")
    else:
        features = [document] if kind == "Feature" else document
    if not isinstance(features, list) or not all(isinstance(f, dict) and f.get("type") == "Feature" for f in features):
        raise AnnotationError(f"{path} is JSON, but not the Features of GeoJSON; export it from QuPath as GeoJSON")
    return features


def _polygons(where: str, geometry: Any) -> list[BaseGeometry]:
    """The polygons of a geometry; none where it has no area."""
    if geometry is None:
        return []
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind in _WITHOUT_AREA:
        return []
    if kind not in ("Polygon", "MultiPolygon"):
        raise AnnotationError(f"{where} has a geometry of type {quoted(str(kind))}; make it a Polygon or MultiPolygon")
    coordinates = geometry.get("coordinates")
    members = _list_of(where, [coordinates] if kind == "Polygon" else coordinates)
    polygons = []
    for member in members:
        rings = [_ring(where, ring) for ring in _list_of(where, member)]
        if rings and len(rings[0]) >= 3:
            polygons.append(shapely.Polygon(rings[0], [hole for hole in rings[1:] if len(hole) >= 3]))
    return polygons


def _list_of(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise AnnotationError(f"{where} has coordinates that are not nested as in GeoJSON; export it anew from QuPath")
    return value


def _ring(where: str, value: Any) -> NDArray[np.float64]:
    points = [point[:2] if isinstance(point, list) else point for point in _list_of(where, value)]  # [x, y, plane]
    try:
        ring = np.asarray(points if points else np.zeros((0, 2)))
    except ValueError:  # points of unlike length
        ring = np.zeros(0)
    if ring.ndim != 2 or ring.shape[1] != 2 or ring.dtype.kind not in "iuf":
        raise AnnotationError(f"{where} has an outline that is not a list of [x, y]; export it anew from QuPath")
    if not np.all(np.abs(ring) <= LARGEST_COORDINATE_L0):
        raise AnnotationError(f"{where} has a vertex at no place of a slide (infinite or too large); draw it anew")
    return ring.astype(np.float64)


def _class_name(where: str, properties: Any) -> str:
    found = properties.get("classification") if isinstance(properties, dict) else None
    if isinstance(found, dict):
        names = found.get("names")
        found = ": ".join(map(str, names)) if isinstance(names, list) else found.get("name")
    if not isinstance(found, str) or not found.strip():
        raise AnnotationError(f"{where} has no class; give it one in QuPath with Set class and export it anew")
    return found.strip()
