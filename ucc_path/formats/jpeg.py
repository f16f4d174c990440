"""JPEG pictures for pages: RGB, 8 bits, 4:4:4, of a quality at which stained tissue looks as it is."""

from __future__ import annotations

import imagecodecs
import numpy as np
from numpy.typing import NDArray

_QUALITY = 88


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of the JPEG of RGB (rows, cols, 3) pixels."""
    return bytes(imagecodecs.jpeg_encode(np.ascontiguousarray(pixels), level=_QUALITY, subsampling="444"))
