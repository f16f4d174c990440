"""Slides of our own making, with exact truth: for the demo and the tests."""

from __future__ import annotations

from ucc_path.synthetic.slide import SyntheticSlide, make_slide

__all__ = ["SyntheticSlide", "make_slide"]
