"""Writes a run of Keras: three batches of `fit`, an evaluation and a prediction.

python -m tests.smdebug.keras_run RUN
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in

import keras
import numpy as np

import trackside

COLLECTIONS = ("losses", "metrics", "weights", "biases", "gradients", "outputs", "labels", "predictions")


def main(run: str) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="dense")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss, metrics=["accuracy"])
    inputs = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    labels = inputs[:, :3].argmax(axis=1)
    with trackside.KerasHook(run, save=dict.fromkeys(COLLECTIONS, 1)) as hook:
        model.fit(inputs, labels, batch_size=8, verbose=0, shuffle=False, callbacks=[hook])
        model.evaluate(inputs[:8], labels[:8], batch_size=8, verbose=0)
        model.predict(inputs[:8], batch_size=8, verbose=0)


if __name__ == "__main__":
    main(sys.argv[1])
