"""One seed becomes one independent stream of chance per purpose.

A stream depends on the seed and the names of its purpose alone, so a draw added in one place moves nothing elsewhere,
and a slide's tiles do not depend on which slides come before it or on which worker takes it.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator for one purpose, e.g. `stream(seed, "tiles", slide_name)`."""
    words = hashlib.sha256("\0".join([str(seed), *map(str, purpose)]).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(words, "big")))
