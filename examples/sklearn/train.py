"""Trains a small network on handwritten digits with scikit-learn. An ordinary script.

    trackside run -- python examples/sklearn/train.py
    trackside run -- python examples/sklearn/train.py --fault unscaled

`--fault unscaled` plants a mistake that people make: a learning rate and plain SGD that need inputs about as large as
1, on inputs that nobody scaled.
"""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "unscaled"], default="none")
    arguments = parser.parse_args()

    pixels, digits = load_digits(return_X_y=True)
    pixels = pixels * 16 if arguments.fault == "unscaled" else pixels / 16
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels, digits, test_size=0.25, random_state=arguments.seed, stratify=digits
    )
    model = MLPClassifier(
        (64,), solver="sgd", learning_rate_init=0.02, batch_size=32, n_iter_no_change=arguments.epochs,
        max_iter=arguments.epochs, random_state=arguments.seed,
    )  # fmt: skip
    model.fit(train_pixels, train_digits)
    print(f"{model.score(test_pixels, test_digits):.1%} of the test digits are right")


if __name__ == "__main__":
    main()
