"""The tumour of a slide as its annotation has it, refused where it does not belong to the slide."""

from __future__ import annotations

from pathlib import Path

from ucc_path.annotation import Annotation, from_polygons
from ucc_path.errors import AnnotationError
from ucc_path.formats import read_annotation
from ucc_path.geometry import SizeL0
from ucc_path.settings import AnnotationSettings

MAX_OUTSIDE_SHARE = 0.5  # with more of its area beyond the slide, an outline does not belong to it
MIN_OUTSIDE_SHARE = 0.001  # less is not worth telling: outlines are drawn by hand


def read_outline(
    path: Path | None, *, slide: str, size_l0: SizeL0, settings: AnnotationSettings
) -> tuple[Annotation, float]:
    """The slide's tumour, and the share of its area that lies beyond the slide; without a path there is no tumour."""
    if path is None:
        return from_polygons([]), 0.0
    annotation = read_annotation(path, size_l0=size_l0, settings=settings)
    if annotation.is_empty:
        return annotation, 0.0
    inside_l0 = annotation.tumour_share((0, 0), size_l0) * size_l0.width * size_l0.height
    outside_share = max(0.0, 1 - inside_l0 / annotation.area_l0)
    if outside_share > MAX_OUTSIDE_SHARE:
        raise AnnotationError(
            f"{path} outlines tumour of which {outside_share:.0%} lies outside {slide} "
            f"({size_l0.width} x {size_l0.height} px); give the annotation of this slide, in level-0 pixels"
        )
    return annotation, outside_share if outside_share > MIN_OUTSIDE_SHARE else 0.0
