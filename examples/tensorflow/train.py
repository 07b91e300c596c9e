"""Trains a small network on handwritten digits by a loop of its own on TensorFlow: a gradient tape, a compiled step.

    KERAS_BACKEND=tensorflow trackside run -- python examples/tensorflow/train.py
    KERAS_BACKEND=tensorflow trackside run -- python examples/tensorflow/train.py --fault rate

`--fault rate` plants a mistake that people make: a learning rate a thousand times too small.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "rate"], default="none")
    arguments = parser.parse_args()

    keras.utils.set_random_seed(arguments.seed)
    pixels, digits = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels.astype("float32") / 16, digits, test_size=0.25, random_state=arguments.seed, stratify=digits
    )
    batches = tf.data.Dataset.from_tensor_slices((train_pixels, train_digits))
    batches = batches.shuffle(len(train_pixels), seed=arguments.seed).batch(32)
    layers = [keras.layers.Dense(64, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rate = 0.05 if arguments.fault == "none" else 0.00005
    optimizer = keras.optimizers.SGD(rate, momentum=0.9)

    @tf.function
    def step(inputs, answers):
        with tf.GradientTape() as tape:
            loss = loss_of(answers, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for epoch in range(arguments.epochs):
        losses = [float(step(inputs, answers)) for inputs, answers in batches]
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}")
    right = np.mean(np.argmax(model(test_pixels), axis=1) == test_digits)
    print(f"{right:.1%} of the test digits are right")


if __name__ == "__main__":
    main()
