"""Tiles become bags of patches, each with its label, or crops with their masks; labelled images become bags too."""

from ucc_path.bags.crops import Crops, CropSampler
from ucc_path.bags.drawing import Bags, BagSampler
from ucc_path.bags.pixels import TileSet, cell_px, patches_of_tiles, patches_of_tissue, pixels_of_cells, tissue_cells
from ucc_path.bags.power_set import LabelledImages, Pool, PowerSet
from ucc_path.bags.wholes import Wholes, WholeSampler, tiles_a_step

__all__ = [
    "BagSampler",
    "Bags",
    "CropSampler",
    "Crops",
    "LabelledImages",
    "Pool",
    "PowerSet",
    "TileSet",
    "WholeSampler",
    "Wholes",
    "cell_px",
    "patches_of_tiles",
    "patches_of_tissue",
    "pixels_of_cells",
    "tiles_a_step",
    "tissue_cells",
]
