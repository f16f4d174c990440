"""The shapes of the networks, and which of their numbers depend on which."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model import UCC, Autoencoder, PatchClassifier, Unet
from ucc_path.model.blocks import WideBlock
from ucc_path.model.losses import Batch
from ucc_path.model.recipes import LOSSES, build
from ucc_path.model.ucc import Decoder, Extractor
from ucc_path.settings import MODELS, NORMS, PRESETS, ModelSettings

PAPER: ModelSettings = PRESETS["paper"]["model"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def small(**changes: object) -> ModelSettings:
    shape: dict[str, object] = {"patch_px": 16, "width": 4, "encoder": "blocks", "features": 5, "hidden": (8,)}
    return ModelSettings(**{**shape, **changes})  # type: ignore[arg-type]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def outputs_of(
    network: nn.Module, kinds: tuple[type[nn.Module], ...], images: Tensor
) -> list[tuple[nn.Module, Tensor]]:
    """Every layer of these kinds with what it gives, in the order in which they are used."""
    found: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda layer, _, output: found.append((layer, output)))
        for layer in network.modules()
        if isinstance(layer, kinds)
    ]
    with torch.no_grad():
        network(images)
    for hook in hooks:
        hook.remove()
    return found


def test_the_papers_network_has_the_papers_parameters() -> None:
    def conv(inputs: int, outputs: int, side: int) -> int:
        return side**2 * inputs * outputs + outputs

    def block(inputs: int, outputs: int) -> int:
        return conv(inputs, outputs, 3) + conv(outputs, outputs, 3) + conv(inputs, outputs, 1)

    extractor = conv(3, 16, 3) + block(16, 32) + block(32, 64) + block(64, 128) + 8 * 8 * 128 * 16
    head = (16 * 11 + 1) * 384 + (384 + 1) * 192 + (192 + 1) * 2
    decoder = (16 + 1) * 8 * 8 * 128 + block(128, 64) + block(64, 32) + block(32, 16) + conv(16, 3, 3)
    assert (extractor, head, decoder) == (433_248, 142_274, 295_939)

    model = UCC(PAPER)
    assert model.decoder is not None
    assert [parameters(part) for part in (model.extractor, model.head, model.decoder)] == [extractor, head, decoder]
    assert parameters(model) == extractor + head + decoder


def test_the_papers_extractor_halves_the_picture_twice_on_the_way_to_its_features() -> None:
    extractor = Extractor(PAPER)
    layers = list(extractor.layers)
    shapes = [
        tuple(output.shape[1:])
        for layer, output in outputs_of(extractor, (nn.Module,), noise(1, 3, 32, 32))
        if layer in layers
    ]
    assert shapes[:4] == [(16, 32, 32), (32, 32, 32), (64, 16, 16), (128, 8, 8)]
    assert shapes[-3:] == [(8192,), (16,), (16,)]


def test_the_papers_extractor_takes_44_6_million_multiplications_a_patch() -> None:
    layers = outputs_of(Extractor(PAPER), (nn.Conv2d, nn.Linear), noise(1, 3, 32, 32))
    multiplications = sum(
        output.numel() * layer.weight[0].numel()
        for layer, output in layers
        if isinstance(layer, (nn.Conv2d, nn.Linear))
    )
    assert multiplications == (
        32**2 * 3 * 9 * 16
        + 32**2 * (16 * 9 * 32 + 32 * 9 * 32 + 16 * 32)
        + 16**2 * (32 * 9 * 64 + 64 * 9 * 64 + 32 * 64)
        + 8**2 * (64 * 9 * 128 + 128 * 9 * 128 + 64 * 128)
        + 8 * 8 * 128 * 16
    )
    assert round(multiplications / 1e6, 1) == 44.6


def test_features_lie_between_zero_and_one_and_differ_between_patches() -> None:
    features = Extractor(PAPER)(noise(4, 3, 32, 32))
    assert features.min() > 0 and features.max() < 1
    assert (features[0] - features[1]).abs().max() > 1e-4


@pytest.mark.parametrize("norm", ["none", "group"])
def test_a_block_is_two_convolutions_and_a_shortcut_after_the_same_activation(norm: str) -> None:
    block, x = WideBlock(4, 8, stride=2, norm=norm), noise(2, 4, 6, 6)
    active = block.norm1(x).relu()
    inner = block.conv2(block.norm2(block.conv1(active)).relu())
    torch.testing.assert_close(block(x), inner + block.shortcut(active[..., ::2, ::2]))


@pytest.mark.parametrize("norm", ["none", "group"])
def test_a_block_that_enlarges_is_the_same_as_one_that_is_given_every_pixel_four_times(norm: str) -> None:
    block, x = WideBlock(4, 8, upsample=True, norm=norm), noise(2, 4, 6, 6)
    enlarged = block(x)
    block.upsample = False
    torch.testing.assert_close(enlarged, block(x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"patch_px": 32, "stem_stride": 1},
        {"patch_px": 64},
        {"patch_px": 24, "stem_stride": 3},
        {"channels": 1},
        {"features": 1},
        {"norm": "batch"},
        {"norm": "none"},
    ],
    ids=str,
)
def test_patches_become_features_and_are_drawn_again_in_their_own_shape(changes: dict[str, object]) -> None:
    settings = small(**changes)
    bags = noise(2, 3, settings.channels, settings.patch_px, settings.patch_px)
    features = Extractor(settings)(bags.flatten(0, 1))
    logits, drawn = UCC(settings)(bags)
    assert features.shape == (6, settings.features)
    assert Decoder(settings)(features).shape == bags.flatten(0, 1).shape
    assert logits.shape == (2, 2) and drawn.shape == bags.shape
    assert Autoencoder(settings)(bags).shape == bags.shape
    assert PatchClassifier(settings)(bags).shape == (2, 3, 2)


def test_what_is_drawn_belongs_to_its_own_patch() -> None:
    bags = noise(2, 3, 3, 16, 16)
    model = UCC(small())
    assert model.decoder is not None
    _, drawn = model(bags)
    torch.testing.assert_close(drawn[1, 2], model.decoder(model.extractor(bags[1, 2:]))[0])
    torch.testing.assert_close(model(bags[1:])[0], model(bags)[0][1:])


@pytest.mark.parametrize(("decode_every", "drawn_of_five"), [(1, 5), (2, 3), (4, 2), (5, 1), (99, 1)])
def test_only_the_first_part_of_a_bag_is_drawn_again_where_that_is_asked(decode_every: int, drawn_of_five: int) -> None:
    torch.manual_seed(0)
    model = build("ucc", small(), outputs=2, alpha=0.5, decode_every=decode_every)
    bags = noise(2, 5, 3, 16, 16)
    logits, drawn = model(bags)
    model.decode_every = 1  # type: ignore[assignment]
    all_logits, all_drawn = model(bags)
    torch.testing.assert_close(drawn, all_drawn[:, :drawn_of_five])
    torch.testing.assert_close(logits, all_logits)  # the count is still of the whole bag


def test_a_bag_is_described_by_its_distributions_or_by_its_means() -> None:
    assert UCC(small(bins=7)).head[0].in_features == 5 * 7
    assert UCC(small(pooling="average", bins=7)).head[0].in_features == 5


def test_bins_sigma_and_normalise_reach_the_pooling() -> None:
    pooling = UCC(small(bins=7, sigma=0.3, normalise=True)).pooling
    pooled = pooling(torch.rand(2, 4, 5))
    assert pooled.shape == (2, 35)
    torch.testing.assert_close(pooled.unflatten(1, (5, 7)).sum(dim=-1), torch.ones(2, 5))
    middle = UCC(small(bins=3, sigma=0.3, features=1)).pooling(torch.full((1, 1, 1), 0.5))
    torch.testing.assert_close(middle[0, 1] / middle[0, 0], torch.tensor(0.25 / (2 * 0.09)).exp())


def test_there_is_an_output_for_each_count_or_as_many_as_are_asked_for() -> None:
    bags = noise(2, 3, 3, 16, 16)
    assert UCC(small(ucc_labels=(2, 3, 4)))(bags)[0].shape == (2, 3)
    assert UCC(small(), outputs=3)(bags)[0].shape == (2, 3)
    assert PatchClassifier(small(classes=4))(bags).shape == (2, 3, 4)


def test_the_hidden_layers_are_those_asked_for() -> None:
    shapes = [layer.weight.shape for layer in UCC(small(hidden=(9, 7, 6))).head if isinstance(layer, nn.Linear)]
    assert shapes == [(9, 55), (7, 9), (6, 7), (2, 6)]
    assert [type(layer) for layer in UCC(small(hidden=(9,))).head] == [nn.Linear, nn.ReLU, nn.Linear]


def test_alpha_one_has_no_decoder() -> None:
    model = build("ucc", small(), outputs=2, alpha=1.0)
    assert model(noise(2, 3, 3, 16, 16))[1] is None
    assert parameters(model) == parameters(UCC(small())) - parameters(Decoder(small()))
    assert build("ucc", small(), outputs=2, alpha=0.9)(noise(2, 3, 3, 16, 16))[1] is not None


@pytest.mark.parametrize("stem_stride", [1, 2, 4])
def test_a_unet_gives_a_logit_for_each_pixel(stem_stride: int) -> None:
    settings = small(stem_stride=stem_stride, channels=2)
    for times in (1, 2, 5):
        side = times * settings.side_multiple
        assert Unet(settings)(noise(2, 2, side, side)).shape == (2, side, side)


def test_a_unet_draws_on_what_it_saw_at_each_scale_on_the_way_down() -> None:
    model = Unet(small())
    given: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    for block in (model.down1, model.down2, model.up2, model.up1, model.last):
        block.register_forward_hook(lambda block, inputs, output: given.update({block: (inputs[0], output)}))
    model(noise(2, 3, 16, 16))
    for block, below, beside in ((model.up1, model.up2, model.down2), (model.last, model.up1, model.down1)):
        assert torch.equal(given[block][0], torch.cat([given[below][1], given[beside][1]], dim=1))


def test_a_unet_sees_where_things_are() -> None:
    """A bright pixel matters near itself and not in the far corner, where no path of convolutions reaches."""
    torch.manual_seed(0)
    model = Unet(small(norm="none")).eval()
    dark, lit = torch.zeros(1, 3, 128, 128), torch.zeros(1, 3, 128, 128)
    lit[..., 8, 8] = 5.0
    change = (model(lit) - model(dark)).abs()[0]
    assert change[:16, :16].max() > 1e-3
    assert change[96:, 96:].max() == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", MODELS)
def test_a_step_reaches_every_parameter(model: str, norm: str) -> None:
    torch.manual_seed(0)
    network = build(model, small(norm=norm), outputs=2, alpha=0.5)
    images = noise(4, 3, 16, 16) if model == "unet" else noise(4, 3, 3, 16, 16)
    targets = {
        "ucc": torch.tensor([0, 1, 1, 0]),
        "autoencoder": torch.full((4,), -1),
        "supervised": (noise(4, 3, seed=1) > 0).long(),
        "unet": noise(4, 16, 16, seed=1) > 0,
    }[model]
    LOSSES[model](network, Batch(images, targets), 0.5).total.backward()  # type: ignore[no-untyped-call]
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A bias right before a norm is taken away by it again.
        assert parameter.grad.abs().max() > 0 or (name.endswith("bias") and norm != "none"), name


@pytest.mark.parametrize(("norm", "is_alone"), [("none", True), ("group", True), ("batch", False)])
def test_only_batch_norm_looks_at_the_rest_of_the_batch(norm: str, is_alone: bool) -> None:
    torch.manual_seed(0)
    extractor, patches = Extractor(small(norm=norm)), noise(6, 3, 16, 16)
    company = torch.cat([patches[:1], 3 * patches[1:] + 1])
    in_training = extractor(patches)[0], extractor(company)[0]
    assert torch.allclose(*in_training, atol=1e-5) == is_alone
    extractor.eval()
    torch.testing.assert_close(extractor(patches)[0], extractor(company)[0])


@pytest.mark.parametrize("model", MODELS)
def test_first_weights_are_glorots_and_first_biases_zero(model: str) -> None:
    for layer in build(model, small(norm="none"), outputs=2, alpha=0.5).modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            area = layer.weight[0, 0].numel()
            bound = (6 / (area * (layer.weight.shape[0] + layer.weight.shape[1]))) ** 0.5
            assert layer.weight.abs().max() <= bound
            assert layer.weight.numel() < 200 or layer.weight.abs().max() > 0.95 * bound
            assert layer.bias is None or not layer.bias.any()


@pytest.mark.parametrize("pooling", ["kde", "average"])
def test_bags_that_share_a_pool_are_counted_as_the_same_bags_by_themselves(pooling: str) -> None:
    torch.manual_seed(0)
    network = UCC(ModelSettings(patch_px=8, width=2, features=3, hidden=(8,), pooling=pooling)).eval()
    pool = torch.randn(1, 12, 3, 8, 8)
    chosen = torch.stack([torch.randperm(12)[:4] for _ in range(6)])  # six bags of four
    shares = torch.zeros(6, 12).scatter_(1, chosen, 0.25)
    alone, _ = network(pool[0][chosen])
    together, drawn = network(pool, shares)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert together.std() > 0 and drawn is not None and drawn.shape == pool.shape
    features = network.extractor(pool[0])
    torch.testing.assert_close(network.count_shared(features, shares), network.count(features[chosen]))


def test_an_instance_may_be_in_a_bag_several_times() -> None:
    torch.manual_seed(0)
    network = UCC(ModelSettings(patch_px=8, width=2, features=3, hidden=(8,))).eval()
    features = torch.rand(2, 3)
    twice = network.count(features[[0, 0, 1]][None])
    torch.testing.assert_close(network.count_shared(features, torch.tensor([[2 / 3, 1 / 3]])), twice)
