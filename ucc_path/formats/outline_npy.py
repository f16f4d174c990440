"""A prepared outline on its way from one process to another: the edges of an annotation as a NumPy array.

`.npy`, float64 (n, 4), columns x0, y0, x1, y1 in level-0 pixels, as `Annotation.edges` holds them. Lives only inside a
run: reading an XML of 70,000 vertices takes longer than reading a slide's tiles, so it is done once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ucc_path.annotation import Annotation, from_edges
from ucc_path.formats.atomic import explaining


def write(path: Path, annotation: Annotation) -> None:
    with explaining(path):
        np.save(path, annotation.edges, allow_pickle=False)


def read(path: Path) -> Annotation:
    return from_edges(np.load(path, allow_pickle=False))
