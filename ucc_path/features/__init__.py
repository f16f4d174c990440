"""Pixels and weights become features: a few patches at a time, or a whole slide as a stream."""

from ucc_path.features.patches import BATCH, features_of

__all__ = ["BATCH", "features_of"]
