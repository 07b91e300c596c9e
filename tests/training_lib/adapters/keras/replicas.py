"""Train on two devices of this machine's processor by MirroredStrategy: `fit` or a loop by hand, captured or not.

    python -m tests.training_lib.adapters.keras.replicas fit|hand RUN

prints the weights at the end as JSON. The devices must be set before TensorFlow begins, so it is a program of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import trackside
from tests.training_lib.adapters.keras.test_adapter import examples

SAVE = {"losses": 1, "gradients": 2, "weights": 2, "biases": 2, "labels": 2, "outputs": 2}


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, activation="relu", name="hidden"), keras.layers.Dense(3, name="scores")]
    return keras.Sequential([keras.Input((6,)), *layers])


def fit(strategy: Any, model: keras.Model, optimizer: Any) -> None:
    inputs, labels = examples()
    with strategy.scope():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=optimizer, loss=loss, jit_compile=False)
    model.fit(inputs, labels, batch_size=16, shuffle=False, verbose=0)


def by_hand(strategy: Any, model: keras.Model, optimizer: Any) -> None:
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def on_replica(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(y, model(x, training=True)), global_batch_size=16)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step = tf.function(lambda x, y: strategy.run(on_replica, args=(x, y)))
    rows = tf.data.Dataset.from_tensor_slices(examples()).batch(16)
    for x, y in strategy.experimental_distribute_dataset(rows):
        step(x, y)


def main(way: str, run: str) -> None:
    (processor,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    hook = trackside.KerasHook(run, save=SAVE) if run else None
    if hook is not None:
        hook.begin()
    with strategy.scope():
        model, optimizer = network(), keras.optimizers.SGD(0.1)
    {"fit": fit, "hand": by_hand}[way](strategy, model, optimizer)
    if hook is not None:
        hook.close()
    print(json.dumps([np.asarray(weight).tolist() for weight in model.get_weights()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
