"""Trains boosted trees that tell malignant tumours from benign ones. An ordinary CatBoost script.

    trackside run -- python examples/catboost/train.py
    trackside run -- python examples/catboost/train.py --fault memorise

`--fault memorise` plants a mistake that people make: deep trees for the few rows that were kept, and labels that
somebody mixed up, so that the trees learn the rows by heart.
"""

import argparse

import numpy as np
from catboost import CatBoostClassifier
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
    settings = {"depth": 2, "learning_rate": 0.05}
    if arguments.fault == "memorise":
        mixed = np.random.default_rng(arguments.seed).permutation(train_answers[:120])
        train_rows, train_answers = train_rows[:120], mixed
        settings = {"depth": 8, "learning_rate": 0.3, "l2_leaf_reg": 0.1}
    model = CatBoostClassifier(
        iterations=arguments.rounds, random_seed=arguments.seed, thread_count=1, allow_writing_files=False,
        verbose=arguments.rounds // 3, **settings,
    )  # fmt: skip
    model.fit(train_rows, train_answers, eval_set=(test_rows, test_answers))
    right = np.mean(model.predict(test_rows) == test_answers)
    print(f"{right:.1%} of the test rows are right")


if __name__ == "__main__":
    main()
