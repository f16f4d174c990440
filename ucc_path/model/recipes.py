"""Which network a model is, what it is taught by, and a trained one put together from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ucc_path.errors import ModelError, SettingsError
from ucc_path.model.card import ModelCard
from ucc_path.model.lite import CHANNELS
from ucc_path.model.losses import count_losses, mask_losses, patch_losses, reconstruction_losses
from ucc_path.model.preparing import Preparation
from ucc_path.model.training import LossesOf
from ucc_path.model.ucc import UCC, Autoencoder, PatchClassifier
from ucc_path.model.unet import PixelNetwork, network_of_pixels
from ucc_path.settings import ASSIGNMENTS, ModelSettings

LOSSES: Mapping[str, LossesOf] = {
    "ucc": count_losses,
    "unet": mask_losses,
    "supervised": patch_losses,
    "autoencoder": reconstruction_losses,
}
LEARNS_FROM_MASKS = ("unet", "supervised")
TEACHERS = {"ucc": "unique class counts", "kind": "kinds of tiles", "mask": "masks", "none": "pictures alone"}
"""What a model learns from, in words, by its supervision."""

CLUSTERED = ("ucc", "autoencoder")
"""Models whose classes are clusters of their features."""

MOST_LAYERS = 16
ASSIGN_PIXELS = ASSIGNMENTS[-1]
CENTROIDS = "centroids"
NETWORK, PIXELS = "network.", "pixels."
"""What the names of weights begin with: the model's own, and those of the network of pixels that it has taught."""


def build(model: str, settings: ModelSettings, *, outputs: int, alpha: float, decode_every: int = 1) -> nn.Module:
    """A network with its first weights; `outputs` are the labels that a UCC model tells apart."""
    if model == "ucc":
        return UCC(settings, outputs=outputs, with_decoder=alpha < 1, decode_every=decode_every)
    if model == "unet":
        return network_of_pixels(settings)
    return PatchClassifier(settings) if model == "supervised" else Autoencoder(settings)


def check_shape(settings: ModelSettings) -> None:
    """SettingsError where the parts of a network would not fit together."""
    multiple = settings.side_multiple
    if settings.patch_px % multiple:
        raise SettingsError(
            f"patch_px is {settings.patch_px}; with stem_stride {settings.stem_stride} give a multiple of {multiple}"
        )
    if settings.colours == "slide" and settings.channels != 3:
        raise SettingsError(
            f"colours = slide is for stains in 3 channels, not {settings.channels}; set colours = light"
        )
    if settings.encoder == "lite0" and settings.channels != CHANNELS:
        raise SettingsError(
            f"encoder = lite0 sees colours in {CHANNELS} channels, not {settings.channels}; set encoder = blocks"
        )
    if len(settings.ucc_labels) < 2 or sorted(set(settings.ucc_labels)) != list(settings.ucc_labels):
        raise SettingsError(
            f"ucc_labels is {list(settings.ucc_labels)}; give two or more counts, rising, such as [1, 2]"
        )
    if len(settings.hidden) > MOST_LAYERS:
        raise SettingsError(f"hidden has {len(settings.hidden)} layers; give {MOST_LAYERS} or fewer")


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A network ready for use, and what is known of it."""

    card: ModelCard
    network: nn.Module
    preparation: Preparation
    centroids: Tensor | None  # (classes, features); None where the network itself names the class
    pixels: PixelNetwork | None = None  # of a UCC model with a second round: what draws its mask


def assemble(card: ModelCard, tensors: Mapping[str, Tensor], device: torch.device) -> TrainedModel:
    """The model that a card and its tensors describe; ModelError where they do not belong together.

    Shapes are compared before anything of the size that the card claims is made.
    """
    try:
        check_shape(card.settings)
    except SettingsError as err:
        raise ModelError(f"the model's settings do not fit together ({err}); get a whole copy of it") from err
    if len(card.classes) != card.settings.classes or (card.model == "ucc" and not card.labels):
        raise ModelError("the model's classes or labels do not fit its settings; train it again, or get a whole copy")
    with torch.device("meta"):
        network = build(card.model, card.settings, outputs=len(card.labels), alpha=card.alpha)
        pixels = network_of_pixels(card.settings) if _has_pixels(card, tensors) else None
    wanted = {NETWORK + name: value.shape for name, value in network.state_dict().items()}
    if pixels is not None:
        wanted |= {PIXELS + name: value.shape for name, value in pixels.state_dict().items()}
    if card.model in CLUSTERED:
        wanted[CENTROIDS] = torch.Size((card.settings.classes, card.settings.features))
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in wanted or name not in tensors or tensors[name].shape != wanted[name]:
            raise ModelError(
                f"the model's weights do not fit its description ({name}); train it again, or get a whole copy"
            )
    for part, prefix in ((network, NETWORK), (pixels, PIXELS)):
        if part is not None:
            part.to_empty(device=device)
            part.load_state_dict({name: tensors[prefix + name] for name in part.state_dict()})
            part.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    preparation = Preparation(card.settings.colours, card.mean, card.std).to(device)
    return TrainedModel(card, network, preparation, tensors.get(CENTROIDS), pixels)


def _has_pixels(card: ModelCard, tensors: Mapping[str, Tensor]) -> bool:
    """Whether there should be a network of pixels, by the card or by the weights: a part of one is refused."""
    is_claimed = card.assign == ASSIGN_PIXELS or any(name.startswith(PIXELS) for name in tensors)
    return is_claimed and card.model == "ucc" and card.settings.classes == 2  # which is what a Unet tells apart
