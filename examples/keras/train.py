"""Trains a small network on handwritten digits with Keras. An ordinary script, on any of Keras's backends.

    KERAS_BACKEND=torch trackside run -- python examples/keras/train.py
    KERAS_BACKEND=torch trackside run -- python examples/keras/train.py --fault vanishing

`--fault vanishing` plants a mistake that people make: a stack of sigmoids far too deep to carry a gradient back to its
first layers.
"""

import argparse

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "vanishing"], default="none")
    arguments = parser.parse_args()

    keras.utils.set_random_seed(arguments.seed)
    pixels, digits = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels.astype("float32") / 16, digits, test_size=0.25, random_state=arguments.seed, stratify=digits
    )
    depth, activation = (12, "sigmoid") if arguments.fault == "vanishing" else (2, "relu")
    hidden = [keras.layers.Dense(64, activation=activation) for _ in range(depth)]
    model = keras.Sequential([keras.Input((64,)), *hidden, keras.layers.Dense(10)])
    model.compile(
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train_pixels, train_digits, batch_size=32, epochs=arguments.epochs, validation_data=(test_pixels, test_digits),
        verbose=2,
    )  # fmt: skip
    _, right = model.evaluate(test_pixels, test_digits, verbose=0)
    print(f"{right:.1%} of the test digits are right")


if __name__ == "__main__":
    main()
