"""Slide, annotation and tissue become labelled tiles, and splits that never share a slide."""

from ucc_path.tiles.labelling import KINDS, UCC_OF_KIND, kind_of
from ucc_path.tiles.sampling import Tile, TilePlane, find_tiles, find_unlabelled

__all__ = ["KINDS", "UCC_OF_KIND", "Tile", "TilePlane", "find_tiles", "find_unlabelled", "kind_of"]
