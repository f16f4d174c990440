"""A network of pixels that sees with EfficientNet-Lite0: its shapes, what it is shown, and what it knows of cells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ucc_path.model import network_of_pixels
from ucc_path.model.lite import SIDE_MULTIPLE, CellKnowledge, LiteBlock, LiteEncoder, LiteUnet, _Conv
from ucc_path.model.losses import Batch
from ucc_path.model.preparing import Preparation
from ucc_path.model.recipes import LOSSES
from ucc_path.model.training import Learner
from ucc_path.settings import ENCODERS, ModelSettings, TrainingSettings

CPU = torch.device("cpu")
# What a section with haematoxylin and eosin often has: the mean and spread of its density, or of its light.
USUAL = {"slide": ((0.22, 0.38, 0.24), (0.13, 0.17, 0.12)), "light": ((0.7,) * 3, (0.2,) * 3)}
REACH_PX = 192
"""More than the encoder looks around a pixel."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make_unet(*, is_density: bool = True) -> LiteUnet:
    torch.manual_seed(0)
    return LiteUnet(is_density=is_density)


def make_conv(weight: Tensor, stride: int) -> _Conv:
    """One channel in, one out."""
    conv = _Conv(1, 1, weight.shape[-1], stride)
    conv.load_state_dict({"weight": weight[None, None], "bias": torch.zeros(1)})
    return conv


def shown(encoder: LiteEncoder, pictures: Tensor) -> Tensor:
    """What the first convolution of an encoder is given."""
    given: list[Tensor] = []
    hook = encoder.stem.register_forward_hook(lambda layer, inputs, output: given.append(inputs[0]))
    with torch.no_grad():
        encoder(pictures)
    hook.remove()
    return given[0]


@pytest.mark.parametrize("side", [16, 32, 48, 80, 112])
def test_there_is_a_logit_for_each_pixel_of_a_side_that_can_be_halved_four_times(side: int) -> None:
    logits = make_unet()(noise(2, 3, side, side))
    assert logits.shape == (2, side, side) and logits.dtype == torch.float32
    assert logits.isfinite().all() and logits.std() > 0


@pytest.mark.parametrize("side", [8, 24, 40, 56])
def test_a_side_that_cannot_be_halved_four_times_is_not_taken(side: int) -> None:
    with pytest.raises(RuntimeError):
        make_unet()(noise(1, 3, side, side))


def test_the_settings_promise_sides_that_the_network_takes() -> None:
    assert ModelSettings(encoder="lite0", stem_stride=1).picture_multiple == SIDE_MULTIPLE
    for encoder in ENCODERS:
        for stem_stride in (1, 2, 4):
            settings = ModelSettings(patch_px=16, width=4, stem_stride=stem_stride, encoder=encoder)
            side = 3 * settings.picture_multiple
            assert network_of_pixels(settings)(noise(1, 3, side, side)).shape == (1, side, side)


def test_each_stage_sees_the_picture_smaller() -> None:
    stages = LiteEncoder(is_density=True)(noise(2, 3, 64, 64))
    shapes = [(16, 32), (24, 16), (40, 8), (80, 4), (112, 4)]
    assert [stage.shape for stage in stages] == [(2, channels, side, side) for channels, side in shapes]


@pytest.mark.parametrize("colours", ["slide", "light"])
def test_it_is_shown_light_as_photographs_were_given_whether_pictures_are_of_density_or_of_light(colours: str) -> None:
    pixels = torch.randint(1, 256, (2, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = network_of_pixels(ModelSettings(colours=colours))
    assert isinstance(network, LiteUnet)
    given = shown(network.encoder, Preparation(colours, *USUAL[colours])(pixels))
    torch.testing.assert_close(given, (pixels.movedim(-1, 1).float() - 127) / 128, atol=1e-4, rtol=0)


def test_the_same_pixels_are_the_same_to_it_as_density_and_as_light() -> None:
    pixels = torch.randint(1, 256, (1, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    density, light = make_unet(is_density=True), make_unet(is_density=False)
    found = [unet(Preparation(c, *USUAL[c])(pixels)) for unet, c in ((density, "slide"), (light, "light"))]
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)
    assert found[0].std() > 1e-3  # so it would show if they were not


def test_nothing_is_brighter_than_bare_glass() -> None:
    """A slide made alike to others may have less than no density; there is no such light in photographs."""
    given = shown(LiteEncoder(is_density=True), torch.full((1, 3, 16, 16), -50.0))
    torch.testing.assert_close(given, torch.ones(1, 3, 16, 16))  # (255 - 127) / 128


def test_a_stride_of_two_begins_at_the_first_pixel_and_looks_beyond_the_last() -> None:
    x = torch.arange(36.0).reshape(1, 1, 6, 6)
    sums = make_conv(torch.ones(3, 3), 2)(x)[0, 0]
    assert sums.shape == (3, 3)
    assert sums[0, 0] == x[0, 0, :3, :3].sum() and sums[1, 2] == x[0, 0, 2:5, 4:].sum()
    assert sums[2, 2] == x[0, 0, 4:, 4:].sum()
    # Of five, one lies before the first pixel and two beyond the last one.
    wide = make_conv(torch.ones(5, 5), 2)(x)[0, 0]
    assert wide.shape == (3, 3)
    assert wide[0, 0] == x[0, 0, :4, :4].sum() and wide[1, 1] == x[0, 0, 1:, 1:].sum()
    assert wide[2, 2] == x[0, 0, 3:, 3:].sum()


@pytest.mark.parametrize("kernel", [3, 5])
def test_a_stride_of_one_has_each_pixel_in_the_middle(kernel: int) -> None:
    middle = torch.zeros(kernel, kernel)
    middle[kernel // 2, kernel // 2] = 1.0
    x = noise(1, 1, 7, 7)
    assert torch.equal(make_conv(middle, 1)(x), x)


def test_a_channel_of_a_block_is_looked_at_by_itself_and_cut_at_six() -> None:
    """With kernels that change nothing, a block adds to a picture what of it lies from 0 to 6."""
    block = LiteBlock(2, 2, kernel=3, stride=1, widening=1)
    middle, swap = torch.zeros(2, 1, 3, 3), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    middle[:, :, 1, 1] = 1.0
    weights = {"depthwise.weight": middle, "project.weight": swap[..., None, None]}
    block.load_state_dict(weights | {name: torch.zeros(2) for name in ("depthwise.bias", "project.bias")})
    x = 5 * noise(1, 2, 8, 8)
    torch.testing.assert_close(block(x), x + x.clamp(0, 6).flip(1))


@pytest.mark.parametrize(("outputs", "stride"), [(3, 1), (2, 2)])
def test_a_block_of_another_shape_adds_nothing(outputs: int, stride: int) -> None:
    block = LiteBlock(2, outputs, kernel=3, stride=stride, widening=6)
    block.project.weight.data.zero_()
    block.project.bias.data.fill_(0.5)  # type: ignore[union-attr]
    assert torch.equal(block(noise(1, 2, 8, 8)), torch.full((1, outputs, 8 // stride, 8 // stride), 0.5))


def test_a_widened_block_is_cut_at_six_where_it_is_widest_too() -> None:
    block = LiteBlock(1, 1, kernel=3, stride=1, widening=6)
    for layer in (block.expand, block.depthwise, block.project):
        assert layer is not None and layer.bias is not None
        layer.weight.data.zero_()
        layer.bias.data.zero_()
    assert block.expand is not None
    block.expand.weight.data.fill_(100.0)
    block.depthwise.weight.data[:, :, 1, 1] = 0.5
    block.project.weight.data[0, 0] = 1.0  # the first of the six
    x = torch.ones(1, 1, 4, 4)
    torch.testing.assert_close(block(x), x + 0.5 * 6)


def test_it_draws_on_what_it_saw_at_each_size_from_the_coarsest_on() -> None:
    unet, pictures = make_unet(), noise(2, 3, 32, 32)
    given: list[tuple[Tensor, Tensor]] = []
    for join in unet.join:
        join.register_forward_hook(lambda join, inputs, output: given.append((inputs[0], output)))
    unet(pictures)
    stages = unet.encoder(pictures)
    seen = [functional.relu(narrow(stages[place])) for narrow, place in zip(unet.narrow, (4, 2, 1, 0), strict=True)]
    below = seen[0]
    for (joined, drawn), beside in zip(given, seen[1:], strict=True):
        enlarged = below.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        assert torch.equal(joined, torch.cat([enlarged, beside], dim=1))
        below = functional.relu(drawn)


def test_it_sees_where_things_are() -> None:
    unet = make_unet(is_density=False).eval()
    dark, lit = torch.zeros(1, 3, 256, 256), torch.zeros(1, 3, 256, 256)
    lit[..., 8, 8] = 50.0
    with torch.no_grad():
        change = (unet(lit) - unet(dark)).abs()[0]
    assert change[:16, :16].max() > 1e-3
    assert change[8 + REACH_PX :, 8 + REACH_PX :].max() == 0


def make_batch(number: int) -> Batch:
    """Pictures of two colours, of which one is the class that is looked for."""
    chance = torch.Generator().manual_seed(number)
    is_tumour = torch.zeros(8, 32, 32, dtype=torch.bool)
    for place in range(8):
        is_tumour[place, :, : 4 * (1 + place % 7)] = True
    images = torch.where(is_tumour[:, None], 1.0, -1.0) + 0.3 * torch.randn(8, 3, 32, 32, generator=chance)
    return Batch(images, is_tumour)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_to_tell_two_colours_apart(precision: str) -> None:
    training = TrainingSettings(steps=20, learning_rate=0.003, averaging=0.0, precision=precision)
    learner = Learner(make_unet(), LOSSES["unet"], training, CPU)
    losses = []
    for number in range(20):
        learner.learn(make_batch(number))
        losses.append(learner.evaluate([]).train.loss)
    assert losses[-1] < 0.5 * losses[0]


def test_a_step_reaches_every_parameter() -> None:
    unet = make_unet()
    LOSSES["unet"](unet, make_batch(0), 0.5).total.backward()  # type: ignore[no-untyped-call]
    for name, parameter in unet.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0, name


class Means(nn.Module):
    """In place of an encoder: each stage has the means of the pixels that it covers."""

    def forward(self, pictures: Tensor) -> list[Tensor]:
        return [functional.avg_pool2d(pictures, shrunk) for shrunk in (2, 4, 8, 16, 16)]


def known_by_means(pictures: Tensor, *, cells: int, cell_px: int, margin_px: int = 32) -> Tensor:
    found = CellKnowledge(Means(), margin_px=margin_px, cells=cells, cell_px=cell_px)(pictures)  # type: ignore[arg-type]
    return found.unflatten(-1, (3, pictures.shape[1]))  # of each of the three stages that tell tissues apart


@pytest.mark.parametrize(("cell_px", "cells"), [(16, 3), (16, 1), (32, 2), (48, 2)])
def test_a_cell_has_the_mean_of_what_was_seen_there(cell_px: int, cells: int) -> None:
    side = 64 + cells * cell_px
    pictures = noise(2, 3, side, side)
    wanted = functional.avg_pool2d(pictures[..., 32:-32, 32:-32], cell_px).movedim(1, -1)
    found = known_by_means(pictures, cells=cells, cell_px=cell_px)
    torch.testing.assert_close(found, wanted.unsqueeze(3).expand_as(found))


@pytest.mark.parametrize(("cell_px", "cells"), [(24, 3), (24, 5), (8, 7), (40, 2), (20, 4)])
def test_a_cell_that_is_no_whole_number_of_what_was_seen_has_what_is_about_there(cell_px: int, cells: int) -> None:
    """The pixels tell their row, so that the values of a cell tell where they come from."""
    side = -(-(64 + cells * cell_px) // 16) * 16
    pictures = torch.arange(float(side))[:, None].expand(1, 1, side, side)
    found = known_by_means(pictures, cells=cells, cell_px=cell_px)[0, :, 0, :, 0]
    middles = 32 + cell_px * (torch.arange(cells) + 0.5) - 0.5
    assert (found - middles[:, None]).abs().max() <= 8


@pytest.mark.parametrize(("cell_px", "cells"), [(16, 3), (24, 3), (32, 2)])
def test_the_encoder_gives_each_cell_a_value_for_each_channel_of_its_later_stages(cell_px: int, cells: int) -> None:
    side = -(-(64 + cells * cell_px) // 16) * 16
    seen = CellKnowledge(LiteEncoder(is_density=True), margin_px=32, cells=cells, cell_px=cell_px)
    found = seen(noise(2, 3, side, side))
    assert found.shape == (2, cells, cells, 40 + 80 + 112) and found.dtype == torch.float32
    assert found.flatten(1, 2).std(dim=1).min() > 0  # no two cells are the same


def test_what_is_known_of_a_cell_does_not_depend_on_what_is_far_from_it() -> None:
    torch.manual_seed(0)
    seen = CellKnowledge(LiteEncoder(is_density=False), margin_px=32, cells=14, cell_px=16).eval()
    one = noise(1, 3, 288, 288)
    other = one.clone()
    other[..., :, :48] = 3.0  # the margin and the first column of cells
    with torch.no_grad():
        change = (seen(one) - seen(other)).abs().amax(dim=(0, 1, 3))  # by column
    first_beyond = -(-(48 + REACH_PX - 32) // 16)
    assert change[0] > 1e-4
    assert change[first_beyond:].max() == 0


def test_what_is_known_is_averaged_in_full_precision() -> None:
    seen = CellKnowledge(LiteEncoder(is_density=True), margin_px=32, cells=2, cell_px=16)
    with torch.autocast("cpu", torch.bfloat16):
        assert seen(noise(1, 3, 96, 96)).dtype == torch.float32
