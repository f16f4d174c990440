"""Tiles become bags of patches, each with its label; and crops with their masks, for the Unet."""

from ucc_path.bags.crops import Crops, CropSampler
from ucc_path.bags.drawing import Bags, BagSampler
from ucc_path.bags.pixels import TileSet, cell_px, patches_of_tissue, pixels_of_cells, tissue_cells

__all__ = [
    "BagSampler",
    "Bags",
    "CropSampler",
    "Crops",
    "TileSet",
    "cell_px",
    "patches_of_tissue",
    "pixels_of_cells",
    "tissue_cells",
]
