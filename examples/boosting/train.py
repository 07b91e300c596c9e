"""Trains boosted trees that tell malignant tumours from benign ones. An ordinary XGBoost script.

    trackside run -- python examples/boosting/train.py
    trackside run -- python examples/boosting/train.py --fault memorise

`--fault memorise` plants a mistake that people make: trees far too deep for the few rows that were kept, and labels
that somebody mixed up, so that they learn the rows by heart.
"""

import argparse

import numpy as np
import xgboost
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
    settings = {"objective": "binary:logistic", "eval_metric": "logloss", "max_depth": 2, "eta": 0.05, "nthread": 1}
    settings |= {"subsample": 0.7, "seed": arguments.seed}
    if arguments.fault == "memorise":
        train_rows, train_answers = (
            train_rows[:120],
            np.random.default_rng(arguments.seed).permutation(train_answers[:120]),
        )
        settings |= {"max_depth": 12, "eta": 0.3, "min_child_weight": 0}
    train, test = xgboost.DMatrix(train_rows, train_answers), xgboost.DMatrix(test_rows, test_answers)
    model = xgboost.train(
        settings, train, arguments.rounds, evals=[(train, "train"), (test, "test")], verbose_eval=arguments.rounds // 3
    )
    right = np.mean((model.predict(test) > 0.5) == test_answers)
    print(f"{right:.1%} of the test rows are right")


if __name__ == "__main__":
    main()
