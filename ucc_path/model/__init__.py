"""The networks: the unique class count model, its parts, and what it is compared with; how they learn."""

from ucc_path.model.pooling import AveragePooling, KernelDensity
from ucc_path.model.ucc import UCC, Autoencoder, PatchClassifier
from ucc_path.model.unet import PixelNetwork, Unet, network_of_pixels

__all__ = [
    "UCC",
    "Autoencoder",
    "AveragePooling",
    "KernelDensity",
    "PatchClassifier",
    "PixelNetwork",
    "Unet",
    "network_of_pixels",
]
