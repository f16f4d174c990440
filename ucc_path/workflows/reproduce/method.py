"""What a report of `reproduce` says of how its figures are made, and what the classes are called."""

from __future__ import annotations

TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100, 20 classes"}
NAMES_OF_CLASSES: dict[str, tuple[str, ...]] = {
    "mnist": tuple(map(str, range(10))),
    "cifar10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "cifar100": (
        "aquatic mammals",
        "fish",
        "flowers",
        "food containers",
        "fruit and vegetables",
        "household electrical devices",
        "household furniture",
        "insects",
        "large carnivores",
        "large man-made outdoor things",
        "large natural outdoor scenes",
        "large omnivores and herbivores",
        "medium-sized mammals",
        "non-insect invertebrates",
        "people",
        "reptiles",
        "small mammals",
        "trees",
        "vehicles 1",
        "vehicles 2",
    ),
}
METHOD = (
    "ucc, ucc2+: taught by the unique class counts of bags, ucc2+ by none that is pure; alpha1: without a decoder. "
    "autoencoder: taught by images alone. supervised: by the class of every image. All have the same extractor. kmeans "
    "and spectral: clusters of the raw pixels.",
    "The weights are those with the lowest validation loss. 10,000 of the training images, chosen by the seed, are for "
    "validation; a run looks at the test images once, at its end.",
    "ucc accuracy: of test bags with even shares of their classes, as many of each count.",
    "Clustering accuracy: the features of the test images themselves are clustered, as in the paper, into as many "
    "clusters as there are classes; each cluster stands for one class, matched so that most images are right.",
    "merging: many small clusters by k-means, of which those two become one whose union most surely holds one class, "
    "by the model's own count, until as many are left as there are classes.",
    "Divergence: of each feature by itself, its kernel density at the model's bins over all test images of a class, "
    "divided by its sum; Jensen-Shannon with the natural logarithm; mean over features. The paper does not say how its "
    "figures were taken.",
    "The bags of a step are drawn from one pool of images and share their features, so that many bags cost little.",
)
