"""Every file that is read or written, one module per format, its specification in the docstring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ucc_path.errors import AnnotationError
from ucc_path.settings import AnnotationSettings

if TYPE_CHECKING:
    from ucc_path.annotation import Annotation

__all__ = ["read_annotation"]

_AS_SHIPPED = AnnotationSettings()


def read_annotation(
    path: str | Path, *, size_l0: tuple[float, float] | None = None, settings: AnnotationSettings = _AS_SHIPPED
) -> Annotation:
    """The tumour of a slide from ASAP XML, QuPath GeoJSON or a mask image, told apart by the ending of the name.

    `size_l0` is the (width, height) of the slide; without it a mask image is taken to be as large as the slide.
    """
    from ucc_path.formats import asap_xml, mask_image, qupath_geojson

    path = Path(path)
    name = path.name.lower()
    if name.endswith(".xml"):
        return asap_xml.read(path, settings)
    if name.endswith((".geojson", ".json", ".geojson.gz")):
        return qupath_geojson.read(path, settings)
    if name.endswith((".png", ".tif", ".tiff")):
        return mask_image.read(path, size_l0=size_l0, tumour_values=settings.mask_tumour_values)
    if name.endswith((".jpg", ".jpeg")):
        raise AnnotationError(f"{path} is a JPEG, which blurs the values of a mask; save the mask as PNG or TIFF")
    raise AnnotationError(
        f"{path} is of no kind of annotation that is read; give ASAP .xml, QuPath .geojson or .geojson.gz, "
        "or a mask image _mask.png or _mask.tif"
    )
