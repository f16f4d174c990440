"""Networks by name, and models put together from a card and tensors that may not belong together."""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ucc_path.errors import ModelError, SettingsError
from ucc_path.model import UCC, Autoencoder, PatchClassifier, Unet, network_of_pixels
from ucc_path.model.card import ModelCard
from ucc_path.model.lite import LiteUnet
from ucc_path.model.recipes import CENTROIDS, CLUSTERED, NETWORK, PIXELS, assemble, build, check_shape
from ucc_path.settings import ENCODERS, MODELS, PRESETS, ModelSettings

CPU = torch.device("cpu")
SMALL = ModelSettings(patch_px=16, width=4, features=4, hidden=(8,), encoder="blocks")
LABELS = {"ucc": ("ucc 1", "ucc 2", "ucc 3")}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_card(model: str = "ucc", settings: ModelSettings = SMALL, **changes: Any) -> ModelCard:
    card = ModelCard(
        model=model,
        supervision="ucc",
        labels=LABELS.get(model, ()),
        settings=settings,
        alpha=0.5,
        mpp=1.0,
        mean=(0.7, 0.5, 0.6),
        std=(0.2, 0.25, 0.1),
        classes=("normal", "metastases"),
        converged=True,
        versions={},
    )
    return dataclasses.replace(card, **changes)


def make_tensors(card: ModelCard) -> dict[str, Tensor]:
    """What a trained model of this card would have: weights other than the first, and centroids where it clusters."""
    torch.manual_seed(1)
    network = build(card.model, card.settings, outputs=len(card.labels), alpha=card.alpha)
    tensors = {NETWORK + name: value + 0.01 for name, value in network.state_dict().items()}
    if card.model in CLUSTERED:
        tensors[CENTROIDS] = torch.rand(card.settings.classes, card.settings.features)
    return tensors


def make_refined(card: ModelCard) -> dict[str, Tensor]:
    """The same after a second round."""
    tensors, pixels = make_tensors(card), network_of_pixels(card.settings)
    return tensors | {PIXELS + name: value + 0.01 for name, value in pixels.state_dict().items()}


def images_for(model: str) -> Tensor:
    shape = (2, 3, 16, 16) if model == "unet" else (2, 4, 3, 16, 16)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("encoder", "of_pixels"), [("lite0", LiteUnet), ("blocks", Unet)])
def test_each_model_has_its_network(encoder: str, of_pixels: type) -> None:
    settings = dataclasses.replace(SMALL, encoder=encoder)
    kinds = [type(build(model, settings, outputs=2, alpha=0.5)) for model in MODELS]
    assert kinds == [UCC, of_pixels, PatchClassifier, Autoencoder]


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_put_together_does_what_the_trained_one_did(model: str, norm: str) -> None:
    card = make_card(model, dataclasses.replace(SMALL, norm=norm))
    tensors = make_tensors(card)
    trained = build(model, card.settings, outputs=len(card.labels), alpha=card.alpha).eval()
    trained.load_state_dict({name.removeprefix(NETWORK): t for name, t in tensors.items() if name != CENTROIDS})
    # Memory that has been used before: what is forgotten to be filled in shall not be zero by luck.
    junk = [torch.full((size,), 7e7) for size in range(1, 64) for _ in range(50)]
    del junk

    found = assemble(card, tensors, CPU)

    assert found.card == card and not found.network.training
    wanted, answer = (network(images_for(model)) for network in (trained, found.network))
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (wanted, answer)), strict=True):
        torch.testing.assert_close(other, one)
    if model in CLUSTERED:
        assert found.centroids is not None and torch.equal(found.centroids, tensors[CENTROIDS])
    else:
        assert found.centroids is None
    black = torch.zeros(1, 1, 1, 3, dtype=torch.uint8)
    darkest = -(torch.log10(torch.tensor(1 / 255)))
    wanted_black = (darkest - torch.tensor([0.7, 0.5, 0.6])) / torch.tensor([0.2, 0.25, 0.1])
    torch.testing.assert_close(found.preparation(black).flatten(), wanted_black)


def test_a_model_without_decoder_is_put_together_without_one() -> None:
    card = make_card(alpha=1.0)
    assert assemble(card, make_tensors(card), CPU).network(images_for("ucc"))[1] is None


def test_tensors_are_copied_and_lie_channels_last() -> None:
    card = make_card()
    tensors = make_tensors(card)
    network = assemble(card, tensors, CPU).network
    weight = network.state_dict()["extractor.layers.1.conv1.weight"]
    assert weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
    assert weight.data_ptr() != tensors[NETWORK + "extractor.layers.1.conv1.weight"].data_ptr()


def test_light_or_density_is_prepared_as_the_card_says() -> None:
    card = make_card(settings=dataclasses.replace(SMALL, colours="light"))
    white = torch.full((1, 1, 1, 3), 255, dtype=torch.uint8)
    prepared = assemble(card, make_tensors(card), CPU).preparation(white)
    torch.testing.assert_close(prepared.flatten(), torch.tensor([0.3 / 0.2, 0.5 / 0.25, 0.4 / 0.1]))


@pytest.mark.parametrize("name", [CENTROIDS, NETWORK + "head.0.bias", NETWORK + "extractor.layers.0.weight"])
@pytest.mark.parametrize("damage", ["missing", "longer", "of another rank", "transposed"])
def test_a_tensor_that_is_missing_or_of_another_shape_is_refused_by_name(name: str, damage: str) -> None:
    card = make_card()
    tensors = make_tensors(card)
    whole = tensors.pop(name)
    if damage == "longer":
        tensors[name] = torch.cat([whole, whole[:1]])
    elif damage == "of another rank":
        tensors[name] = whole[None]
    elif damage == "transposed":
        tensors[name] = whole.movedim(0, -1) if whole.ndim > 1 else whole[:, None]
    with pytest.raises(ModelError, match=rf"do not fit its description \({name}\); train it again"):
        assemble(card, tensors, CPU)


@pytest.mark.parametrize("name", [NETWORK + "head.9.weight", "else", NETWORK])
def test_a_tensor_too_many_is_refused_by_name(name: str) -> None:
    card = make_card()
    with pytest.raises(ModelError, match=rf"\({name}\)"):
        assemble(card, make_tensors(card) | {name: torch.zeros(1)}, CPU)


def test_centroids_of_a_model_that_has_no_use_for_them_are_refused() -> None:
    card = make_card("supervised")
    with pytest.raises(ModelError, match=CENTROIDS):
        assemble(card, make_tensors(card) | {CENTROIDS: torch.zeros(2, 4)}, CPU)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("assign", ["pixels", "centroids"])
def test_the_network_of_pixels_is_put_together_too(assign: str, encoder: str) -> None:
    card = make_card(assign=assign, settings=dataclasses.replace(SMALL, encoder=encoder))
    tensors = make_refined(card)
    trained = network_of_pixels(card.settings).eval()
    trained.load_state_dict({name.removeprefix(PIXELS): t for name, t in tensors.items() if name.startswith(PIXELS)})
    found = assemble(card, tensors, CPU)
    assert found.pixels is not None and not found.pixels.training
    torch.testing.assert_close(found.pixels(images_for("unet")), trained(images_for("unet")))
    assert assemble(make_card(), make_tensors(card), CPU).pixels is None


def test_a_card_that_promises_a_network_of_pixels_is_refused_without_all_of_it() -> None:
    card = make_card(assign="pixels")
    with pytest.raises(ModelError, match=rf"^the model's weights do not fit its description \({PIXELS}\S+\); train"):
        assemble(card, make_tensors(card), CPU)
    for assign in ("pixels", "centroids"):
        tensors = make_refined(card)
        del tensors[PIXELS + "logit.weight"]
        with pytest.raises(ModelError, match=rf"\({PIXELS}logit.weight\); train it again"):
            assemble(make_card(assign=assign), tensors, CPU)


@pytest.mark.parametrize(("written", "claimed"), [ENCODERS, ENCODERS[::-1]])
def test_a_network_of_pixels_that_sees_with_another_encoder_is_refused(written: str, claimed: str) -> None:
    cards = {name: make_card(settings=dataclasses.replace(SMALL, encoder=name)) for name in ENCODERS}
    with pytest.raises(ModelError, match=rf"^the model's weights do not fit its description \({PIXELS}\S+\); train"):
        assemble(cards[claimed], make_refined(cards[written]), CPU)


@pytest.mark.parametrize("model", ["unet", "supervised", "autoencoder", "ucc of three classes"])
def test_a_network_of_pixels_of_a_model_that_has_no_use_for_it_is_refused(model: str) -> None:
    three = {"settings": dataclasses.replace(SMALL, classes=3), "classes": ("a", "b", "c")}
    card = make_card(assign="pixels", **three) if model.startswith("ucc") else make_card(model)
    with pytest.raises(ModelError, match=rf"^the model's weights do not fit its description \({PIXELS}"):
        assemble(card, make_refined(card), CPU)


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": ("ucc 1", "ucc 2")},
        {"alpha": 1.0},
        {"model": "autoencoder"},
        {"settings": dataclasses.replace(SMALL, width=8)},
        {"settings": dataclasses.replace(SMALL, bins=12)},
        {"settings": dataclasses.replace(SMALL, classes=3)},
        {"settings": dataclasses.replace(SMALL, norm="group")},
        {"settings": dataclasses.replace(SMALL, channels=4, colours="light")},
    ],
    ids=str,
)
def test_a_card_of_another_network_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="do not fit"):
        assemble(make_card(**changes), make_tensors(make_card()), CPU)


@pytest.mark.parametrize("model", MODELS)
def test_a_card_that_claims_a_giant_is_refused_before_the_giant_is_made(model: str) -> None:
    giant = ModelSettings(
        patch_px=4096,
        width=1024,
        stem_stride=1,
        encoder="blocks",
        features=4096,
        bins=1024,
        hidden=(65536,) * 16,
        classes=255,
    )
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="do not fit"):
        assemble(make_card(model, giant), make_tensors(make_card(model)), CPU)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ModelSettings(patch_px=36), "patch_px is 36; with stem_stride 2 give a multiple of 8"),
        (ModelSettings(patch_px=32, stem_stride=3), "patch_px is 32; with stem_stride 3 give a multiple of 12"),
        (ModelSettings(channels=1), "colours = slide is for stains in 3 channels, not 1; set colours = light"),
        (
            ModelSettings(channels=1, colours="light"),
            "encoder = lite0 sees colours in 3 channels, not 1; set encoder = blocks",
        ),
        (ModelSettings(ucc_labels=(1,)), r"ucc_labels is \[1\]; give two or more counts, rising"),
        (ModelSettings(ucc_labels=()), r"ucc_labels is \[\]"),
        (ModelSettings(ucc_labels=(2, 1)), r"ucc_labels is \[2, 1\]"),
        (ModelSettings(ucc_labels=(1, 1, 2)), r"ucc_labels is \[1, 1, 2\]"),
        (ModelSettings(hidden=(8,) * 17), "hidden has 17 layers; give 16 or fewer"),
    ],
)
def test_a_shape_that_does_not_fit_together_is_refused(settings: ModelSettings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_shape(settings)
    with pytest.raises(ModelError, match=rf"settings do not fit together \({message}"):
        assemble(make_card(settings=settings), {}, CPU)


@pytest.mark.parametrize("changes", [{"classes": ("a", "b", "c")}, {"labels": ()}])
def test_a_card_whose_names_do_not_fit_its_settings_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="classes or labels do not fit"):
        assemble(make_card(**changes), {}, CPU)


@pytest.mark.parametrize(
    "settings",
    [
        *(preset["model"] for preset in PRESETS.values()),
        ModelSettings(patch_px=24, stem_stride=3, ucc_labels=(2, 4)),
        ModelSettings(channels=1, colours="light", encoder="blocks"),
    ],
    ids=str,
)
def test_a_shape_that_fits_together_is_accepted_and_works(settings: ModelSettings) -> None:
    check_shape(settings)
    bags = torch.zeros(1, 2, settings.channels, settings.patch_px, settings.patch_px)
    logits, drawn = build("ucc", settings, outputs=2, alpha=0.5)(bags)
    assert logits.shape == (1, 2) and drawn.shape == bags.shape
