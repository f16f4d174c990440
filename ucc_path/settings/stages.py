"""The settings of each stage, as frozen dataclasses: the only place where a default is written."""

from __future__ import annotations

from dataclasses import dataclass

from ucc_path.settings.checking import setting

NORMS = ("none", "group", "batch")
POOLINGS = ("kde", "average")
COLOURS = ("slide", "light")
ENCODERS = ("lite0", "blocks")
SUPERVISIONS = ("ucc", "kind")
ASSIGNMENTS = ("centroids", "head", "pixels")
REFITS = ("none", "kmeans", "spectral", "merge")
CLEANINGS = ("none", "lone", "median")
INFERENCES = ("auto", "torch", "compiled", "openvino")
PRECISIONS = ("auto", "float32", "bfloat16")
MODELS = ("ucc", "unet", "supervised", "autoencoder")
"""What can be trained; the first unless told otherwise."""
_HIGHEST_SEED = 10**9  # k-means takes no larger ones than four bytes have, and none below 0


@dataclass(frozen=True, slots=True)
class AnnotationSettings:
    """Which names in an annotation mean what; compared without regard to case."""

    tumour_groups: tuple[str, ...] = setting(
        ("_0", "_1", "tumor", "tumour", "metastases", "metastasis"), "groups or classes that outline tumour"
    )
    excluded_groups: tuple[str, ...] = setting(
        ("_2", "exclusion", "none", "normal"), "groups or classes that are cut out of the tumour"
    )
    mask_tumour_values: tuple[int, ...] = setting(
        (), "values of a mask image that are tumour; none given: the one value other than 0 that there is"
    )


@dataclass(frozen=True, slots=True)
class TissueSettings:
    """How tissue is told from glass."""

    mpp: float = setting(8.0, "scale of the thumbnail on which tissue is found, in um/px")
    min_stain_od: float = setting(0.015, "optical density by which tissue absorbs more green than red and blue")
    min_stain_share: float = setting(0.12, "the same as a share of all green absorbed; below it is grey: shadow, pen")
    ink_od: float = setting(0.3, "optical density above which what has no colour of stained tissue is pen or ink")
    ink_margin_um: float = setting(24.0, "width of the blurred edge of pen and ink that is not tissue either, in um")
    close_um: float = setting(16.0, "gaps in tissue up to twice this wide are bridged, as in a mesh of fat, in um")
    max_hole_um2: float = setting(10_000.0, "holes in tissue up to this area are tissue, such as fat cells, in um2")
    min_area_um2: float = setting(5_000.0, "pieces smaller than this are dust, in um2")


@dataclass(frozen=True, slots=True)
class TilingSettings:
    """Which tiles are cropped and how they are labelled."""

    tile_px: int = setting(512, "side of a tile in pixels")
    mpp: float = setting(1.0, "scale of the tiles in um/px; 0 (--mpp native) is each slide's level 0")
    per_slide: int = setting(20, "tiles of each kind taken from a slide")
    normal_below: float = setting(0.2, "a tile with less tumour than this share is normal, ucc 1")
    metastases_above: float = setting(0.8, "a tile with more tumour than this share is metastases, ucc 1")
    mixture_above: float = setting(0.3, "a mixture, ucc 2, has more tumour than this share")
    mixture_below: float = setting(0.7, "a mixture, ucc 2, has less tumour than this share")
    min_tissue: float = setting(0.75, "share of a tile that must be tissue")
    max_overlap: float = setting(0.0, "share of a tile that another tile of the same slide may cover")
    seed: int = setting(0, "seed of the random choice of tiles and splits")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The shape of the networks; the defaults are preset `fast`."""

    patch_px: int = setting(32, "side of a patch in pixels", low=4, high=4096)
    channels: int = setting(3, "colour channels of a patch", low=1, high=64)
    colours: str = setting(
        "slide", "what is looked at: optical density made alike from slide to slide, or light as it is", choices=COLOURS
    )
    width: int = setting(
        8, "filters of the first convolution; the blocks have 2, 4 and 8 times as many", low=1, high=1024
    )
    stem_stride: int = setting(
        2, "stride of the first convolution; 2 makes everything after it four times cheaper", low=1, high=8
    )
    norm: str = setting("none", "norm before each activation; batch depends on the rest of the batch", choices=NORMS)
    encoder: str = setting(
        "lite0",
        "what a network of pixels (the second round, the Unet) sees with: EfficientNet-Lite0, which has learnt from "
        "photographs, or blocks as of the extractor, which have not",
        choices=ENCODERS,
    )
    features: int = setting(16, "features of a patch, J in the paper", low=1, high=4096)
    pooling: str = setting("kde", "how the features of a bag become one vector", choices=POOLINGS)
    bins: int = setting(11, "places on [0, 1] where a feature's density is sampled", low=2, high=1024)
    sigma: float = setting(0.1, "width of the Gaussian kernel", low=0.0001, high=100)
    normalise: bool = setting(False, "whether a feature's densities are divided by their sum")
    hidden: tuple[int, ...] = setting(
        (384, 192), "units of the hidden layers that predict the count", low=1, high=65536
    )
    ucc_labels: tuple[int, ...] = setting(
        (1, 2), "the unique class counts told apart; one output each", low=1, high=1000
    )
    classes: int = setting(2, "clusters that the patches are put into", low=2, high=255)

    @property
    def side_multiple(self) -> int:
        """What the side of a patch must be a multiple of: two blocks halve what the first convolution leaves."""
        return 4 * self.stem_stride

    @property
    def picture_multiple(self) -> int:
        """What the side of a picture must be a multiple of, for a network of pixels; lite0 halves it four times."""
        return 16 if self.encoder == "lite0" else self.side_multiple


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a model is trained; the defaults are preset `fast`."""

    supervision: str = setting(
        "ucc", "what the label of a tile is: its unique class count, or its kind", choices=SUPERVISIONS
    )
    learning_rate: float = setting(5e-4, "step size of Adam", low=0, high=1)
    warm_up: int = setting(0, "first steps, over which the step size rises to its height", low=0)
    decay: float = setting(
        0.0, "share of the steps, the last ones, over which the step size falls to nothing", low=0, high=1
    )
    steps: int = setting(1000, "most training steps", low=1)
    bag_size: int = setting(32, "patches of a bag", low=1)
    bags_per_step: int = setting(20, "bags of a step, balanced over the labels; all processes together", low=1)
    alpha: float = setting(0.5, "weight of the label's loss against the decoder's; 1 is no decoder", low=0, high=1)
    decode_every: int = setting(4, "one of so many patches of a bag is decoded; 1 is all, as in the paper", low=1)
    averaging: float = setting(
        0.98,
        "decay of the running mean of the weights, which is what is judged and kept; 0 is no mean",
        low=0,
        high=0.9999,
    )
    evaluate_every: int = setting(50, "steps between evaluations on the validation tiles", low=1)
    validation_bags: int = setting(200, "bags of an evaluation, always the same ones", low=1)
    patience: int = setting(10, "evaluations without a better validation loss before training stops", low=1)
    min_tissue: float = setting(0.5, "share of a patch that must be tissue", low=0, high=1)
    augment: bool = setting(True, "whether patches are flipped, turned and shifted at random")
    stain_jitter: float = setting(
        0.1, "spread of the random change of each stain, where colours are by slide; 0 is none", low=0, high=1
    )
    blur: float = setting(
        0.3,
        "share of the pictures that a network of pixels learns from which are put out of focus, by up to 2 px",
        low=0,
        high=1,
    )
    refine: float = setting(
        0.2,
        "steps of the second round, in which a network of pixels learns from the same labels, as a share of steps; "
        "0 is none",
        low=0,
        high=100,
    )
    sure_pure: float = setting(
        0.8,
        "share of the tissue of a metastases tile, the likeliest, that the second round calls that",
        low=0,
        high=1,
    )
    sure_mixed: float = setting(
        0.5, "share of the tissue of a mixture, the likeliest, that the second round calls metastases", low=0, high=1
    )
    sure_rest: float = setting(
        0.4, "share of the tissue of a mixture, the least likely, that the second round calls normal", low=0, high=1
    )
    graft: float = setting(
        0.5,
        "share of pure tiles that exchange a part with one of the other class in the second round",
        low=0,
        high=1,
    )
    small_clusters: int = setting(
        14,
        "small clusters that are joined to classes by the counts of tiles, where no kinds are taught",
        low=2,
        high=16,
    )
    crop_px: int = setting(192, "side of the crops that the Unet is trained on, in pixels", low=8)
    precision: str = setting(
        "auto",
        "numbers that a network learns in; bfloat16 is up to twice as quick where a device computes in it; auto is "
        "that on a GPU, and float32 on a CPU",
        choices=PRECISIONS,
    )
    save_every_s: float = setting(30.0, "seconds between saved states that --resume goes on from", low=0)
    seed: int = setting(0, "seed of the first weights, the bags and their augmentation", low=0, high=_HIGHEST_SEED)


@dataclass(frozen=True, slots=True)
class SegmentationSettings:
    """How a whole slide is segmented; the model brings its own scale and patch size."""

    stride_px: int = setting(
        0,
        "side of a pixel of the mask, at the model's scale; below the patch's the patches overlap; 0 is the patch's",
        low=0,
        high=4096,
    )
    min_tissue: float = setting(
        0.5, "share of a patch that must be tissue; the rest of the mask is background", low=0, high=1
    )
    assign: str = setting(
        "model",
        "what says the class of a patch: cluster centres, the head, the network of pixels, or the model's choice",
        choices=("model", *ASSIGNMENTS),
    )
    smooth_px: float = setting(
        64.0,
        "how far around a place the probabilities of a network of pixels that labels of tiles have taught are averaged "
        "over what looks like it, at the model's scale; 0 is not at all",
        low=0,
        high=128,
    )
    adapt: float = setting(
        0.5,
        "how far a slide's threshold goes along with how sure a network of pixels is of what it calls normal there; "
        "0 is one half for every slide",
        low=0,
        high=2,
    )
    neighbours: int = setting(1, "patches to each side that the head looks at together with a patch", low=0, high=8)
    refit: str = setting(
        "none", "how each slide's own patches are clustered anew; none uses the model's clusters", choices=REFITS
    )
    clean_up: str = setting("none", "what is done about patches unlike those around them", choices=CLEANINGS)
    window_px: int = setting(
        256, "side of the windows in which the model counts classes, at its scale", low=1, high=65536
    )
    min_class_share: float = setting(
        0.2, "share of a window's patches that makes a class one of the classes in its mask", low=0, high=1
    )
    inference: str = setting(
        "auto", "what computes the network; auto is the quickest that is installed", choices=INFERENCES
    )
    batch_size: int = setting(256, "patches computed at once", low=1, high=65536)
    seed: int = setting(0, "seed of clustering anew", low=0, high=_HIGHEST_SEED)


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How models are compared with the truth."""

    resamples: int = setting(2000, "times that images are drawn again, for the intervals", low=100, high=100_000)
    confidence: float = setting(0.95, "share of those draws that an interval holds", low=0.5, high=0.999)
    pictures: int = setting(3, "pictures of each sort in a report: best, typical, worst", low=0, high=50)
    kmeans_patches: int = setting(
        8192, "train patches whose raw pixels are clustered, as the baseline", low=100, high=100_000
    )
    seed: int = setting(0, "seed of drawing images again and of the baseline's clusters", low=0, high=_HIGHEST_SEED)


@dataclass(frozen=True, slots=True)
class ReproductionSettings:
    """How bags are made of labelled images, and how what was learnt from them is judged; preset `fast` on digits."""

    min_share: float = setting(
        0.125, "least share of a bag that each of its classes has while learning; 1 is even shares", low=0, high=1
    )
    shift_px: int = setting(2, "pixels that images are shifted at random while learning, at most", low=0, high=64)
    mirror: bool = setting(False, "whether images are mirrored at random while learning; not for digits")
    test_bags: int = setting(1000, "test bags of each count, with even shares, for the ucc accuracy", low=1)
    first_clusters: int = setting(
        10, "small clusters, for each class, that merging by the count starts from", low=1, high=1000
    )
    curve_images: int = setting(2000, "val images that are clustered at each evaluation, for the curve", low=0)
