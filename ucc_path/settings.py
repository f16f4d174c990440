"""Every tunable number of every stage, as frozen dataclasses; the only place where a default is written.

A settings file is TOML with one table per stage, `[tissue] min_area_um2 = 20000`. A flag on the command line wins over
the file, and the file over the defaults here.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from ucc_path.errors import SettingsError

S = TypeVar("S")

NORMS = ("none", "group", "batch")
POOLINGS = ("kde", "average")
COLOURS = ("slide", "light")
SUPERVISIONS = ("ucc", "kind")
ASSIGNMENTS = ("centroids", "head")
REFITS = ("none", "kmeans", "spectral")
CLEANINGS = ("none", "lone", "median")
INFERENCES = ("auto", "torch", "compiled", "openvino")
MODELS = ("ucc", "unet", "supervised", "autoencoder")
"""What can be trained; the first unless told otherwise."""


def _setting(
    default: Any, help: str, *, choices: tuple[str, ...] = (), low: float = -math.inf, high: float = math.inf
) -> Any:
    """A setting; of a list, each value must lie from `low` to `high`."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class AnnotationSettings:
    """Which names in an annotation mean what; compared without regard to case."""

    tumour_groups: tuple[str, ...] = _setting(
        ("_0", "_1", "tumor", "tumour", "metastases", "metastasis"), "groups or classes that outline tumour"
    )
    excluded_groups: tuple[str, ...] = _setting(
        ("_2", "exclusion", "none", "normal"), "groups or classes that are cut out of the tumour"
    )
    mask_tumour_values: tuple[int, ...] = _setting(
        (), "values of a mask image that are tumour; none given: the one value other than 0 that there is"
    )


@dataclass(frozen=True, slots=True)
class TissueSettings:
    """How tissue is told from glass."""

    mpp: float = _setting(8.0, "scale of the thumbnail on which tissue is found, in um/px")
    min_stain_od: float = _setting(0.015, "optical density by which tissue absorbs more green than red and blue")
    min_stain_share: float = _setting(0.12, "the same as a share of all green absorbed; below it is grey: shadow, pen")
    ink_od: float = _setting(0.3, "optical density above which what has no colour of stained tissue is pen or ink")
    ink_margin_um: float = _setting(24.0, "width of the blurred edge of pen and ink that is not tissue either, in um")
    close_um: float = _setting(16.0, "gaps in tissue up to twice this wide are bridged, as in a mesh of fat, in um")
    max_hole_um2: float = _setting(10_000.0, "holes in tissue up to this area are tissue, such as fat cells, in um2")
    min_area_um2: float = _setting(5_000.0, "pieces smaller than this are dust, in um2")


@dataclass(frozen=True, slots=True)
class TilingSettings:
    """Which tiles are cropped and how they are labelled."""

    tile_px: int = _setting(512, "side of a tile in pixels")
    mpp: float = _setting(1.0, "scale of the tiles in um/px; 0 (--mpp native) is each slide's level 0")
    per_slide: int = _setting(20, "tiles of each kind taken from a slide")
    normal_below: float = _setting(0.2, "a tile with less tumour than this share is normal, ucc 1")
    metastases_above: float = _setting(0.8, "a tile with more tumour than this share is metastases, ucc 1")
    mixture_above: float = _setting(0.3, "a mixture, ucc 2, has more tumour than this share")
    mixture_below: float = _setting(0.7, "a mixture, ucc 2, has less tumour than this share")
    min_tissue: float = _setting(0.75, "share of a tile that must be tissue")
    max_overlap: float = _setting(0.0, "share of a tile that another tile of the same slide may cover")
    seed: int = _setting(0, "seed of the random choice of tiles and splits")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The shape of the networks; the defaults are preset `fast`."""

    patch_px: int = _setting(32, "side of a patch in pixels", low=4, high=4096)
    channels: int = _setting(3, "colour channels of a patch", low=1, high=64)
    colours: str = _setting(
        "slide", "what is looked at: optical density made alike from slide to slide, or light as it is", choices=COLOURS
    )
    width: int = _setting(
        8, "filters of the first convolution; the blocks have 2, 4 and 8 times as many", low=1, high=1024
    )
    stem_stride: int = _setting(
        2, "stride of the first convolution; 2 makes everything after it four times cheaper", low=1, high=8
    )
    norm: str = _setting("none", "norm before each activation; batch depends on the rest of the batch", choices=NORMS)
    features: int = _setting(16, "features of a patch, J in the paper", low=1, high=4096)
    pooling: str = _setting("kde", "how the features of a bag become one vector", choices=POOLINGS)
    bins: int = _setting(11, "places on [0, 1] where a feature's density is sampled", low=2, high=1024)
    sigma: float = _setting(0.1, "width of the Gaussian kernel", low=0.0001, high=100)
    normalise: bool = _setting(False, "whether a feature's densities are divided by their sum")
    hidden: tuple[int, ...] = _setting(
        (384, 192), "units of the hidden layers that predict the count", low=1, high=65536
    )
    ucc_labels: tuple[int, ...] = _setting(
        (1, 2), "the unique class counts told apart; one output each", low=1, high=1000
    )
    classes: int = _setting(2, "clusters that the patches are put into", low=2, high=255)

    @property
    def side_multiple(self) -> int:
        """What the side of a picture must be a multiple of: two blocks halve what the first convolution leaves."""
        return 4 * self.stem_stride


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a model is trained; the defaults are preset `fast`."""

    supervision: str = _setting(
        "ucc", "what the label of a tile is: its unique class count, or its kind", choices=SUPERVISIONS
    )
    learning_rate: float = _setting(5e-4, "step size of Adam", low=0, high=1)
    steps: int = _setting(1000, "most training steps", low=1)
    bag_size: int = _setting(32, "patches of a bag", low=1)
    bags_per_step: int = _setting(20, "bags of a step, balanced over the labels; all processes together", low=1)
    alpha: float = _setting(0.5, "weight of the label's loss against the decoder's; 1 is no decoder", low=0, high=1)
    decode_every: int = _setting(4, "one of so many patches of a bag is decoded; 1 is all, as in the paper", low=1)
    averaging: float = _setting(
        0.98,
        "decay of the running mean of the weights, which is what is judged and kept; 0 is no mean",
        low=0,
        high=0.9999,
    )
    evaluate_every: int = _setting(50, "steps between evaluations on the validation tiles", low=1)
    validation_bags: int = _setting(200, "bags of an evaluation, always the same ones", low=1)
    patience: int = _setting(10, "evaluations without a better validation loss before training stops", low=1)
    min_tissue: float = _setting(0.5, "share of a patch that must be tissue", low=0, high=1)
    augment: bool = _setting(True, "whether patches are flipped, turned and shifted at random")
    stain_jitter: float = _setting(
        0.1, "spread of the random change of each stain, where colours are by slide; 0 is none", low=0, high=1
    )
    crop_px: int = _setting(192, "side of the crops that the Unet is trained on, in pixels", low=8)
    save_every_s: float = _setting(30.0, "seconds between saved states that --resume goes on from", low=0)
    seed: int = _setting(0, "seed of the first weights, the bags and their augmentation")


@dataclass(frozen=True, slots=True)
class SegmentationSettings:
    """How a whole slide is segmented; the model brings its own scale and patch size."""

    stride_px: int = _setting(
        0,
        "side of a pixel of the mask, at the model's scale; below the patch's the patches overlap; 0 is the patch's",
        low=0,
        high=4096,
    )
    min_tissue: float = _setting(
        0.5, "share of a patch that must be tissue; the rest of the mask is background", low=0, high=1
    )
    assign: str = _setting(
        "model",
        "what says the class of a patch: cluster centres, the head, or the better one by validation",
        choices=("model", *ASSIGNMENTS),
    )
    neighbours: int = _setting(1, "patches to each side that the head looks at together with a patch", low=0, high=8)
    refit: str = _setting(
        "none", "how each slide's own patches are clustered anew; none uses the model's clusters", choices=REFITS
    )
    clean_up: str = _setting("none", "what is done about patches unlike those around them", choices=CLEANINGS)
    window_px: int = _setting(
        256, "side of the windows in which the model counts classes, at its scale", low=1, high=65536
    )
    min_class_share: float = _setting(
        0.2, "share of a window's patches that makes a class one of the classes in its mask", low=0, high=1
    )
    inference: str = _setting(
        "auto", "what computes the network; auto is the quickest that is installed", choices=INFERENCES
    )
    batch_size: int = _setting(256, "patches computed at once", low=1, high=65536)
    seed: int = _setting(0, "seed of clustering anew")


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How models are compared with the truth."""

    resamples: int = _setting(2000, "times that images are drawn again, for the intervals", low=100, high=100_000)
    confidence: float = _setting(0.95, "share of those draws that an interval holds", low=0.5, high=0.999)
    pictures: int = _setting(3, "pictures of each sort in a report: best, typical, worst", low=0, high=50)
    kmeans_patches: int = _setting(
        8192, "train patches whose raw pixels are clustered, as the baseline", low=100, high=100_000
    )
    seed: int = _setting(0, "seed of drawing images again and of the baseline's clusters")


TABLES: dict[str, type[Any]] = {
    "tiling": TilingSettings,
    "tissue": TissueSettings,
    "annotation": AnnotationSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
    "segmentation": SegmentationSettings,
    "evaluation": EvaluationSettings,
}
"""The name of each stage's table in a settings file."""

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {"model": ModelSettings(), "training": TrainingSettings()},
    "paper": {
        "model": ModelSettings(width=16, stem_stride=1, normalise=True),
        "training": TrainingSettings(
            learning_rate=1e-4, steps=200_000, decode_every=1, averaging=0.0, evaluate_every=500, patience=20
        ),
    },
}
"""Whole sets of settings for training; the first unless told otherwise. `paper` is the authors' architecture."""

DEFAULT_SPLIT = "train=0.6,val=0.2,test=0.2"
UNANNOTATED = ("error", "normal", "skip")
"""What a slide without an annotation may mean; the first unless told otherwise."""


def from_table(base: S, table: Mapping[str, Any], where: str) -> S:
    """`base` with what a TOML table says; `where` names the table in error messages."""
    hints = get_type_hints(type(base))
    known = {field.name: field for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise SettingsError(f"{where} has no setting {name!r}; it has: {', '.join(sorted(known))}")
        values[name] = _checked(value, hints[name], f"{where} {name}")
    return within_bounds(dataclasses.replace(base, **values), where)  # type: ignore[type-var]


def within_bounds(settings: S, where: str) -> S:
    """The settings themselves; refuses a value that is no choice or beyond its bounds."""
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value, bounds = getattr(settings, field.name), field.metadata
        if bounds["choices"] and value not in bounds["choices"]:
            raise SettingsError(f"{where} {field.name} is {value!r}; it can be {', '.join(bounds['choices'])}")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and not bounds["low"] <= number <= bounds["high"]:
                wanted = f"from {bounds['low']:g} to {bounds['high']:g}"
                if bounds["high"] == math.inf:
                    wanted = f"{bounds['low']:g} or more"
                raise SettingsError(f"{where} {field.name} is {str(number)[:20]}; give {wanted}")
    return settings


def _checked(value: Any, hint: Any, where: str) -> Any:
    if hint in (bool, str) and type(value) is hint:
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) < math.inf or abs(value) > sys.float_info.max:
            raise SettingsError(f"{where} is not a finite number; give one")
        return float(value)
    if hint == tuple[str, ...] and isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if hint == tuple[int, ...] and isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
        return tuple(value)
    wanted = {
        bool: "true or false",
        str: "a string",
        int: "a whole number",
        tuple[str, ...]: "a list of strings",
        tuple[int, ...]: "a list of whole numbers",
    }.get(hint, "a number")
    raise SettingsError(f"{where} is {value!r}; give {wanted}")
