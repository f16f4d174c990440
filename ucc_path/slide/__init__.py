"""A file becomes pixels at a physical scale."""

from ucc_path.slide.reader import Slide
from ucc_path.slide.scale import Scale

__all__ = ["Scale", "Slide"]
