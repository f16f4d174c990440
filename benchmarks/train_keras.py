"""The paper's network in Keras, for benchmarks/train.py: bags a second of `train_on_batch` on data in memory.

    python benchmarks/train_keras.py together|apart [--steps 10] [--threads 2]

`together`: all patches of a step go through the extractor as one batch, the best that Keras can do. `apart`: the model
has one input for each patch of a bag and applies the shared extractor to each, the usual way to write a bag in Keras.
Needs a Python with TensorFlow, which ucc-path does not install.
"""

from __future__ import annotations

import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

PATCHES, BAGS, FEATURES, BINS, SIGMA = 32, 20, 16, 11, 0.1


def block(x: keras.KerasTensor, filters: int, stride: int = 1) -> keras.KerasTensor:
    active = layers.ReLU()(x)
    inner = layers.Conv2D(filters, 3, strides=stride, padding="same")(active)
    inner = layers.Conv2D(filters, 3, padding="same")(layers.ReLU()(inner))
    return layers.Add()([inner, layers.Conv2D(filters, 1, strides=stride)(active)])


def extractor() -> keras.Model:
    patch = x = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same")(x)
    for filters, stride in ((32, 1), (64, 2), (128, 2)):
        x = block(x, filters, stride)
    x = layers.Dense(FEATURES, use_bias=False, activation="sigmoid")(layers.Flatten()(layers.ReLU()(x)))
    return keras.Model(patch, x)


def decoder() -> keras.Model:
    features = keras.Input((FEATURES,))
    x = layers.Reshape((8, 8, 128))(layers.Dense(8 * 8 * 128)(features))
    for filters, is_larger in ((64, True), (32, True), (16, False)):
        x = block(layers.UpSampling2D()(x) if is_larger else x, filters)
    return keras.Model(features, layers.Conv2D(3, 3, padding="same")(layers.ReLU()(x)))


class Density(layers.Layer):
    """(bags, patches, features) -> (bags, features * bins)."""

    def call(self, features: tf.Tensor) -> tf.Tensor:
        distance = features[..., None] - ops.linspace(0.0, 1.0, BINS)
        density = ops.mean(ops.exp(-(distance**2) / (2 * SIGMA**2)), axis=1)
        return ops.reshape(density / ops.sum(density, axis=-1, keepdims=True), (-1, FEATURES * BINS))


class Folded(layers.Layer):
    """The first two axes as one, or one as two."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def call(self, values: tf.Tensor) -> tf.Tensor:
        return ops.reshape(values, self.shape)


def together() -> keras.Model:
    bags = keras.Input((PATCHES, 32, 32, 3), batch_size=BAGS)
    features = extractor()(Folded((-1, 32, 32, 3))(bags))
    drawn = Folded((-1, PATCHES, 32, 32, 3))(decoder()(features))
    return _model(bags, Folded((-1, PATCHES, FEATURES))(features), drawn)


def apart() -> keras.Model:
    bag = [keras.Input((32, 32, 3), batch_size=BAGS) for _ in range(PATCHES)]
    shared, mirror = extractor(), decoder()
    each = [shared(patch) for patch in bag]
    drawn = Folded((-1, PATCHES, 32, 32, 3))(layers.Concatenate(axis=1)([mirror(features) for features in each]))
    return _model(bag, Folded((-1, PATCHES, FEATURES))(layers.Concatenate(axis=1)(each)), drawn)


def _model(inputs: object, features: keras.KerasTensor, drawn: keras.KerasTensor) -> keras.Model:
    x = Density()(features)
    for units in (384, 192):
        x = layers.Dense(units, activation="relu")(x)
    model = keras.Model(inputs, [layers.Dense(2, activation="softmax")(x), drawn])
    model.compile(keras.optimizers.Adam(1e-4), ["sparse_categorical_crossentropy", "mse"], loss_weights=[0.5, 0.5])
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("together", "apart"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    patches = np.random.default_rng(0).random((BAGS, PATCHES, 32, 32, 3), np.float32)
    is_together = arguments.way == "together"
    model = together() if is_together else apart()
    inputs = patches if is_together else [patches[:, number] for number in range(PATCHES)]
    targets = [np.arange(BAGS) % 2, patches]
    model.train_on_batch(inputs, targets)  # builds the graph
    began = time.perf_counter()
    for _ in range(arguments.steps):
        model.train_on_batch(inputs, targets)
    print(f"{arguments.steps * BAGS / (time.perf_counter() - began):.3f} bags/s")


if __name__ == "__main__":
    main()
