"""QuPath's GeoJSON export, plain or gzipped.

A FeatureCollection, one Feature, or a list of Features, in level-0 pixels:

    {"type": "Feature",
     "geometry": {"type": "Polygon", "coordinates": [[[x, y], ...], [hole], ...]},
     "properties": {"objectType": "annotation", "classification": {"name": "Tumor", "color": [200, 0, 0]}}}

Polygon and MultiPolygon are read, with their holes; points and lines have no area and are left out, and so is a Feature
without geometry. The class is `classification.name`, the list `classification.names`, or `classification` itself where
it is a string; it says tumour or excluded by `AnnotationSettings`. A class derived from another, `Tumor: Positive`,
means what the class before its colon means unless it is known itself. Outlines that cross themselves are filled by
non-zero winding.

At most MAX_BYTES of JSON are read, counted after decompression.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from ucc_path.annotation import LARGEST_COORDINATE_L0, Annotation, from_polygons
from ucc_path.errors import AnnotationError
from ucc_path.formats.vocabulary import meaning, quoted
from ucc_path.settings import AnnotationSettings

MAX_BYTES = 256 * 2**20

_WITHOUT_AREA = ("Point", "MultiPoint", "LineString", "MultiLineString")
_AS_SHIPPED = AnnotationSettings()


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
