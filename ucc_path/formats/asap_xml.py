"""ASAP XML, the format of CAMELYON's lesion outlines.

    <ASAP_Annotations>
      <Annotations>
        <Annotation Name="Annotation 0" Type="Polygon" PartOfGroup="_0" Color="#F4FA58">
          <Coordinates>
            <Coordinate Order="0" X="71924.4" Y="131761" />
            ...
      <AnnotationGroups>
        <Group Name="_0" PartOfGroup="None" Color="#64FE2E"><Attributes /></Group>

Coordinates are level-0 pixels; vertices are taken by `Order` (by place in the file where none has one) and outlines
are closed implicitly. Decimal commas are read. Types: `Polygon`; `Rectangle`, by its corners or by two opposite ones;
`Spline`, the closed centripetal Catmull-Rom curve through its points that ASAP draws, followed to a fifth of a pixel;
`Dot`, `PointSet` and `Measurement` have no area and are left out. `PartOfGroup` names the group, which says tumour or
excluded by the settings `[annotation]`; a group that is unknown there means what the group it is part of means. A
group need not be listed under AnnotationGroups. An annotation without a group is of the group `None`, as ASAP writes
it, but the `None` above a group is no group. Outlines that cross themselves are filled by non-zero winding, as ASAP
does.

A file may have MAX_BYTES and MAX_VERTICES; a DOCTYPE, and with it any entity, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from ucc_path.annotation import LARGEST_COORDINATE_L0, Annotation, from_polygons
from ucc_path.errors import AnnotationError
from ucc_path.formats.atomic import replacing
from ucc_path.formats.vocabulary import meaning, quoted
from ucc_path.settings import AnnotationSettings

MAX_BYTES = 512 * 2**20
MAX_VERTICES = 5_000_000
MAX_DEPTH = 64

_ROOT = "ASAP_Annotations"
_WITH_AREA = ("polygon", "rectangle", "spline")
_WITHOUT_AREA = ("dot", "pointset", "measurement")
_AS_SHIPPED = AnnotationSettings()

Ring = NDArray[np.float64]  # (n, 2) level-0 points


class _Outline(NamedTuple):
    group: str
    ring: Ring


def read(path: Path, settings: AnnotationSettings = _AS_SHIPPED) -> Annotation:
    """The tumour outlined in an ASAP file; AnnotationError where it cannot be read or does not say what is tumour."""
    found = _Reader(path)
    try:
        size_bytes = path.stat().st_size
        if size_bytes == 0:
            raise AnnotationError(f"{path} is empty; save it anew from ASAP")
        if size_bytes > MAX_BYTES:
            raise AnnotationError(f"{path} is over {MAX_BYTES >> 20} MB; simplify its outlines in ASAP")
        parser = found.parser()
        with path.open("rb") as file:
            parser.ParseFile(file)
    except AnnotationError:
        raise
    except expat.ExpatError as err:
        raise AnnotationError(f"{path} is not whole XML ({err}); save it anew from ASAP") from err
    except (LookupError, ValueError) as err:  # what expat says of encodings
        raise AnnotationError(f"{path} is in an encoding that cannot be read ({err}); save it as UTF-8") from err
    except OSError as err:
        raise AnnotationError(f"{path} cannot be read ({err.strerror}); check the path and its permissions") from err
    return found.annotation(settings)


def write(path: Path, tumour: Sequence[Ring], excluded: Sequence[Ring] = ()) -> None:
    """Outlines as CAMELYON16 has them, groups `_0` and `_2`; the same outlines give the same bytes."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(_lines([*(("_0", ring) for ring in tumour), *(("_2", ring) for ring in excluded)]))


def _lines(rings: Iterable[tuple[str, Ring]]) -> Iterable[str]:
    yield f'<?xml version="1.0"?>\n<{_ROOT}>\n\t<Annotations>\n'
    for number, (group, ring) in enumerate(rings):
        yield f'\t\t<Annotation Name="Annotation {number}" Type="Polygon" PartOfGroup="{group}" Color="#F4FA58">\n'
        yield "\t\t\t<Coordinates>\n"
        for order, (x, y) in enumerate(np.asarray(ring, np.float64).tolist()):
            yield f'\t\t\t\t<Coordinate Order="{order}" X="{x!r}" Y="{y!r}" />\n'
        yield "\t\t\t</Coordinates>\n\t\t</Annotation>\n"
    yield "\t</Annotations>\n\t<AnnotationGroups>\n"
    for group in ("_0", "_2"):
        yield f'\t\t<Group Name="{group}" PartOfGroup="None" Color="#64FE2E">\n\t\t\t<Attributes />\n\t\t</Group>\n'
    yield f"\t</AnnotationGroups>\n</{_ROOT}>\n"


class _Reader:
    """What the XML parser reports to; keeps one annotation's vertices as text, and of those before it their rings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._depth = 0
        self._vertices = 0
        self._annotation: Mapping[str, str] = {}
        self._texts: list[tuple[str | None, str | None, str | None]] = []  # (Order, X, Y)
        self._outlines: list[_Outline] = []
        self._parents: dict[str, str] = {}
        self._without_area = 0

    def parser(self) -> expat.XMLParserType:
        """Expat itself: of the parsers it is the quickest, and without a DOCTYPE there are no entities to expand."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse_doctype
        return parser

    def refuse_doctype(self, *_: object) -> None:
        raise AnnotationError(f"{self._path} has a DOCTYPE, which an annotation never needs; save it anew from ASAP")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag != _ROOT:
            raise AnnotationError(
                f"{self._path} is XML, but not of ASAP: it holds {quoted(tag)}, not {_ROOT}; give the file ASAP saved"
            )
        if self._depth > MAX_DEPTH:
            raise AnnotationError(f"{self._path} is nested over {MAX_DEPTH} deep, not by ASAP; save it anew from ASAP")
        if tag == "Coordinate":
            self._texts.append((attributes.get("Order"), attributes.get("X"), attributes.get("Y")))
            self._count(1)
        elif tag == "Annotation":
            self._annotation = attributes
            self._texts = []
        elif tag == "Group":
            self._parents[attributes.get("Name", "").casefold()] = attributes.get("PartOfGroup", "None")

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag != "Annotation":
            return
        kind = self._annotation.get("Type", "None").casefold()
        if kind in _WITHOUT_AREA:
            self._without_area += 1
        elif kind in _WITH_AREA:
            ring = self._ring()
            if kind == "spline":
                self._count(int(_chords(ring).sum()))  # before they are made: two far points may ask for millions
            self._outlines.append(_Outline(self._annotation.get("PartOfGroup") or "None", _shaped(ring, kind)))
        else:
            raise self._error(f"is of the unknown type {quoted(self._annotation.get('Type', ''))}", "make it a Polygon")
        self._texts = []

    def annotation(self, settings: AnnotationSettings) -> Annotation:
        rings: dict[str, list[Ring]] = {"tumour": [], "excluded": []}
        for group, ring in self._outlines:
            rings[meaning(self._path, "group", self._lineage(group), settings)].append(ring)
        try:
            return from_polygons(rings["tumour"], rings["excluded"], without_area=self._without_area)
        except AnnotationError as err:
            raise AnnotationError(f"{self._path}: {err}") from err

    def _lineage(self, group: str) -> list[str]:
        """A group, the group it is part of, and so on up; the `None` at the top is no group, and a circle is left."""
        names = [group]
        while (parent := self._parents.get(names[-1].casefold(), "None")) != "None" and parent not in names:
            names.append(parent)
        return names

    def _count(self, vertices: int) -> None:
        self._vertices += vertices
        if self._vertices > MAX_VERTICES:
            raise AnnotationError(f"{self._path} has over {MAX_VERTICES:,} vertices; simplify its outlines in ASAP")

    def _ring(self) -> Ring:
        orders = [order for order, _, _ in self._texts if order is not None]
        texts = self._texts
        if orders:
            try:
                places = [int(order) for order in orders]
            except ValueError as err:
                raise self._error("has an Order that is not a whole number", "number them 0, 1, 2, ...") from err
            if len(places) < len(texts) or len(set(places)) < len(places):
                raise self._error("has vertices without Order, or two of the same", "number them 0, 1, 2, ...")
            texts = [texts[index] for index in np.argsort(places).tolist()]
        try:
            values = [[float((text or "").replace(",", ".")) for text in (x, y)] for _, x, y in texts]
        except ValueError as err:
            raise self._error(f"has a vertex without a number for X or Y ({err})", "give every vertex both") from err
        ring = np.array(values, np.float64).reshape(-1, 2)
        if not np.all(np.abs(ring) <= LARGEST_COORDINATE_L0):
            raise self._error("has a vertex at no place of a slide (NaN or too large)", "correct its X and Y")
        return ring

    def _error(self, what: str, what_now: str) -> AnnotationError:
        name = quoted(self._annotation.get("Name", ""))
        return AnnotationError(f"{self._path}: annotation {name} {what}; {what_now}, or draw it anew in ASAP")


def _shaped(ring: Ring, kind: str) -> Ring:
    if kind == "rectangle" and len(ring) == 2:
        (left, top), (right, bottom) = ring
        return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    return _curve(ring) if kind == "spline" else ring


def _chords(ring: Ring) -> NDArray[np.int64]:
    """Into how many straight lines each segment of a spline is cut: the square root of its length in pixels.

    A segment of length L that turns by an angle a and is cut into n strays from the curve by about L·a / (8·n²).
    """
    length = np.linalg.norm(np.roll(ring, -1, axis=0) - ring, axis=1)
    chords: NDArray[np.int64] = np.ceil(np.sqrt(length)).astype(np.int64)
    return chords


def _curve(ring: Ring) -> Ring:
    """Points along the closed centripetal Catmull-Rom spline through a ring."""
    ring = ring[np.any(ring != np.roll(ring, 1, axis=0), axis=1)]  # a point given twice would have no direction
    if len(ring) < 3:
        return ring
    p0, p1, p2, p3 = (np.roll(ring, shift, axis=0) for shift in (1, 0, -1, -2))
    d1, d2, d3 = (np.linalg.norm(b - a, axis=1, keepdims=True) for a, b in ((p0, p1), (p1, p2), (p2, p3)))
    r1, r2, r3 = np.sqrt(d1), np.sqrt(d2), np.sqrt(d3)
    b1 = (d1 * p2 - d2 * p0 + (2 * d1 + 3 * r1 * r2 + d2) * p1) / (3 * r1 * (r1 + r2))  # Bézier control points
    b2 = (d3 * p1 - d2 * p3 + (2 * d3 + 3 * r3 * r2 + d2) * p2) / (3 * r3 * (r3 + r2))
    chords = _chords(ring)
    segment = np.repeat(np.arange(len(ring)), chords)
    t = ((np.arange(len(segment)) - (np.cumsum(chords) - chords)[segment]) / chords[segment])[:, None]
    s = 1 - t
    curve: Ring = s**3 * p1[segment] + 3 * s**2 * t * b1[segment] + 3 * s * t**2 * b2[segment] + t**3 * p2[segment]
    return curve
