"""Trains boosted trees that tell malignant tumours from benign ones. An ordinary LightGBM script.

    trackside run -- python examples/lightgbm/train.py
    trackside run -- python examples/lightgbm/train.py --fault memorise

`--fault memorise` plants a mistake that people make: many leaves for the few rows that were kept, and labels that
somebody mixed up, so that the trees learn the rows by heart.
"""

import argparse

import lightgbm
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "memorise"], default="none")
    arguments = parser.parse_args()

    rows, answers = load_breast_cancer(return_X_y=True)
    train_rows, test_rows, train_answers, test_answers = train_test_split(
        rows, answers, test_size=0.4, random_state=arguments.seed, stratify=answers
    )
    settings = {"objective": "binary", "metric": "binary_logloss", "max_depth": 2, "learning_rate": 0.05, "verbose": -1}
    settings |= {"num_threads": 1, "seed": arguments.seed}
    if arguments.fault == "memorise":
        mixed = np.random.default_rng(arguments.seed).permutation(train_answers[:120])
        train_rows, train_answers = train_rows[:120], mixed
        settings |= {"max_depth": 12, "num_leaves": 63, "min_data_in_leaf": 1, "learning_rate": 0.3}
    train = lightgbm.Dataset(train_rows, train_answers)
    test = lightgbm.Dataset(test_rows, test_answers, reference=train)
    model = lightgbm.train(
        settings, train, arguments.rounds, valid_sets=[train, test], valid_names=["train", "test"],
        callbacks=[lightgbm.log_evaluation(arguments.rounds // 3)],
    )  # fmt: skip
    right = np.mean((model.predict(test_rows) > 0.5) == test_answers)
    print(f"{right:.1%} of the test rows are right")


if __name__ == "__main__":
    main()
