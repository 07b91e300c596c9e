"""Faults and clean twins of XGBoost and Keras, judged by the default rules.

    .venv/bin/python -m benchmarks.frameworks --write docs/lab-notes/frameworks.md

Each program is trained twice, with the fault and without it, and captures what the default rules request. Keras runs on
the backend that KERAS_BACKEND names, torch by default.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trackside
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.evaluation.backtest import backtest
from trackside.rules.catalogue import default_request

Train = Callable[[Any, bool], object]


@dataclass(frozen=True)
class Program:
    """A training with a fault that can be left out.

    framework  "xgboost" or "keras"
    fault      the fault, in words
    rules      rules that name it
    train      trains with a hook; the second argument is True for the fault
    """

    framework: str
    fault: str
    rules: tuple[str, ...]
    train: Train


def _rows(count: int, *, noise: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, 10))
    score = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + random.normal(scale=noise, size=count)
    return inputs, score


def _boost(
    hook: Any, labels: Callable[[Any], Any], *, count: int = 3000, rounds: int = 150,
    columns: Callable[[Any, Any], Any] = lambda inputs, labels: inputs,
    validated: Callable[[Any], Any] = lambda rows: rows, labels_move: int = 0, **settings: Any,
) -> None:  # fmt: skip
    import xgboost

    sets = []
    for seed, size in ((0, count), (1, 1500)):
        inputs, score = _rows(size, seed=seed)
        answers = labels(score)
        inputs = columns(inputs, answers)
        sets.append(
            xgboost.DMatrix(validated(inputs) if seed else inputs, np.roll(answers, labels_move) if seed else answers)
        )
    objective = settings.pop("obj", None)
    chosen = {"nthread": 1, "max_depth": 3, "eta": 0.05, "objective": "binary:logistic", **settings}
    xgboost.train(
        chosen, sets[0], rounds, evals=[(sets[0], "train"), (sets[1], "validation")], verbose_eval=False,
        obj=objective, callbacks=[hook],
    )  # fmt: skip


def _classes(score: Any) -> Any:
    return (score > 0).astype(float)


def _random_classes(score: Any) -> Any:
    return np.random.default_rng(len(score)).integers(0, 2, len(score)).astype(float)


def _squares(factor: float) -> Callable[[Any, Any], tuple[Any, Any]]:
    def objective(predictions: Any, data: Any) -> tuple[Any, Any]:
        return factor * (predictions - data.get_label()), np.ones_like(predictions)

    return objective


def _broken_squares(predictions: Any, data: Any) -> tuple[Any, Any]:
    gradients = predictions - data.get_label()
    gradients[0] = np.nan
    return gradients, np.ones_like(predictions)


def _no_squares(predictions: Any, data: Any) -> tuple[Any, Any]:
    return np.full_like(predictions, np.nan), np.ones_like(predictions)


def _heavy_squares(predictions: Any, data: Any) -> tuple[Any, Any]:
    return predictions - data.get_label(), np.full_like(predictions, 1e6)


def _with_answer(inputs: Any, labels: Any) -> Any:
    return np.column_stack([inputs, labels])


def _scores(score: Any) -> Any:
    return score


_NUMBERS: dict[str, Any] = {"objective": "reg:squarederror", "eta": 0.1}

BOOSTED = (
    Program("xgboost", "deep trees on few rows", ("overfit",), lambda hook, faulty: _boost(
        hook, _classes, count=200 if faulty else 3000, max_depth=10 if faulty else 3, eta=0.3 if faulty else 0.05,
        min_child_weight=0 if faulty else 1)),
    Program("xgboost", "random labels", ("overfit",), lambda hook, faulty: _boost(
        hook, _random_classes if faulty else _classes, max_depth=6 if faulty else 3)),
    Program("xgboost", "a learning rate of 2.5", ("loss-not-decreasing", "exploding-tensor", "loss-spike"),
            lambda hook, faulty: _boost(hook, _scores, **{**_NUMBERS, "eta": 2.5 if faulty else 0.1})),
    Program("xgboost", "a learning rate of 0", ("loss-not-decreasing", "stalled-training"),
            lambda hook, faulty: _boost(hook, _scores, **{**_NUMBERS, "eta": 0.0 if faulty else 0.1})),
    Program("xgboost", "gamma that allows no split", ("loss-not-decreasing", "stalled-training"),
            lambda hook, faulty: _boost(hook, _classes, gamma=1e9 if faulty else 0)),
    Program("xgboost", "an objective of its own with the wrong sign", ("loss-not-decreasing", "exploding-tensor"),
            lambda hook, faulty: _boost(hook, _scores, eta=0.1, base_score=0.0, disable_default_eval_metric=0,
                                        objective="reg:squarederror", obj=_squares(-1.0 if faulty else 1.0))),
    Program("xgboost", "an objective of its own with NaN", ("exploding-tensor", "loss-not-decreasing"),
            lambda hook, faulty: _boost(hook, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_broken_squares if faulty else _squares(1.0))),
    Program("xgboost", "one class in a hundred", ("class-imbalance",), lambda hook, faulty: _boost(
        hook, lambda score: (score > 3.2).astype(float) if faulty else _classes(score))),
    Program("xgboost", "a thousand rounds after the end of learning", ("overtraining", "overfit"),
            lambda hook, faulty: _boost(hook, _classes, rounds=1500 if faulty else 150, count=6000, max_depth=2,
                                        eta=0.3 if faulty else 0.05, min_child_weight=200 if faulty else 1)),
    Program("xgboost", "an objective of its own with nothing but NaN", ("exploding-tensor", "loss-not-decreasing"),
            lambda hook, faulty: _boost(hook, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_no_squares if faulty else _squares(1.0))),
    Program("xgboost", "an objective of its own with second derivatives a million times too large",
            ("loss-not-decreasing", "stalled-training"),
            lambda hook, faulty: _boost(hook, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_heavy_squares if faulty else _squares(1.0))),
    Program("xgboost", "three hundred deep rounds on noisy rows", ("overfit", "overtraining"),
            lambda hook, faulty: _boost(hook, _classes, count=600, rounds=300 if faulty else 40,
                                        max_depth=6 if faulty else 2, eta=0.3 if faulty else 0.1)),
    Program("xgboost", "validation labels moved by one row", ("overfit",), lambda hook, faulty: _boost(
        hook, _classes, labels_move=int(faulty))),
    Program("xgboost", "validation rows of another scale", ("overfit",), lambda hook, faulty: _boost(
        hook, _classes, validated=(lambda rows: rows * 100) if faulty else lambda rows: rows)),
    Program("xgboost", "the answer among the columns", ("data-leakage",), lambda hook, faulty: _boost(
        hook, _classes, columns=_with_answer if faulty else lambda inputs, labels: inputs)),
)  # fmt: skip


def _network(
    hook: Any, *, rate: float = 0.05, depth: int = 2, activation: str = "relu", start: Any = "glorot_uniform",
    bias: Any = "zeros", scale: float = 1.0, labels: Any = _classes, count: int = 1500, width: int = 32,
    epochs: int = 8, momentum: float = 0.9, is_sorted: bool = False, poison: bool = False, is_frozen: bool = False,
    has_softmax: bool = False,
) -> None:  # fmt: skip
    import keras

    keras.utils.set_random_seed(0)
    sets = []
    for seed, size in ((0, count), (1, 600)):
        inputs, score = _rows(size, seed=seed)
        sets.append((inputs.astype(np.float32) * scale, labels(score).astype(np.int64)))
    (inputs, classes), validation = sets
    if is_sorted:
        order = np.argsort(classes, kind="stable")
        inputs, classes = inputs[order], classes[order]
    if poison:
        inputs[700, 3] = np.nan
    layers = [
        keras.layers.Dense(width, activation=activation, kernel_initializer=start, bias_initializer=bias)
        for _ in range(depth)
    ]
    last = keras.layers.Dense(2, activation="softmax" if has_softmax else None)
    model = keras.Sequential([keras.Input((10,)), *layers, last])
    for layer in layers if is_frozen else ():
        layer.trainable = False
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(rate, momentum), loss)
    model.fit(
        inputs, classes, batch_size=50, epochs=epochs, verbose=0, shuffle=not is_sorted, validation_data=validation,
        callbacks=[hook],
    )  # fmt: skip


def _normal(deviation: float) -> Any:
    import keras

    return keras.initializers.RandomNormal(stddev=deviation, seed=1)


def _constant(value: float) -> Any:
    import keras

    return keras.initializers.Constant(value)


_LOSS = ("loss-not-decreasing", "stalled-training")
_WILD = ("exploding-tensor", "exploding-gradient", "loss-spike", "loss-not-decreasing", "runaway-updates")

NETWORKS = (
    Program("keras", "a learning rate of 100", _WILD, lambda hook, faulty: _network(hook, rate=100.0 if faulty else 0.05)),  # noqa: E501
    Program("keras", "a learning rate of 1e-7", (*_LOSS, "weight-update-ratio"),
            lambda hook, faulty: _network(hook, rate=1e-7 if faulty else 0.05)),
    Program("keras", "ten layers of sigmoid", ("vanishing-gradient", *_LOSS, "saturated-activation"),
            lambda hook, faulty: _network(hook, depth=10 if faulty else 2, activation="sigmoid" if faulty else "tanh")),
    Program("keras", "weights that begin as zeros", ("poor-weight-initialization", *_LOSS),
            lambda hook, faulty: _network(hook, start="zeros" if faulty else "glorot_uniform")),
    Program("keras", "weights that begin far too large", ("poor-weight-initialization", *_WILD),
            lambda hook, faulty: _network(hook, start=_normal(30.0) if faulty else "glorot_uniform")),
    Program("keras", "ReLUs that begin dead", ("dead-relu", *_LOSS, "vanishing-gradient"),
            lambda hook, faulty: _network(hook, bias=_constant(-30.0) if faulty else "zeros")),
    Program("keras", "random labels", ("overfit",), lambda hook, faulty: _network(
        hook, labels=_random_classes if faulty else _classes, count=500 if faulty else 1500, width=256 if faulty else 32,  # noqa: E501
        epochs=40 if faulty else 8)),
    Program("keras", "one class in a hundred", ("class-imbalance",), lambda hook, faulty: _network(
        hook, labels=(lambda score: (score > 3.2).astype(float)) if faulty else _classes)),
    Program("keras", "NaN in one row", ("exploding-tensor", "exploding-gradient", "loss-not-decreasing"),
            lambda hook, faulty: _network(hook, poison=faulty)),
    Program("keras", "inputs a thousand times too large", ("unnormalized-inputs", *_WILD),
            lambda hook, faulty: _network(hook, scale=1000.0 if faulty else 1.0)),
    Program("keras", "rows sorted by class", ("sorted-batches", "loss-spike"),
            lambda hook, faulty: _network(hook, is_sorted=faulty)),
    Program("keras", "all hidden layers frozen", ("parameters-not-trained",),
            lambda hook, faulty: _network(hook, is_frozen=faulty)),
    Program("keras", "softmax before a loss with from_logits", ("double-softmax",),
            lambda hook, faulty: _network(hook, has_softmax=faulty)),
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """The rules that found an issue in a run, the critical ones among them."""

    rules: tuple[str, ...]
    critical: tuple[str, ...]


def judged(program: Program, *, faulty: bool) -> Judged:
    """Train the program once, and return what the default rules found."""
    request = default_request()
    capture: CaptureRequest = built_in_catalogue().capture_request(request)
    with tempfile.TemporaryDirectory() as run:
        hook = (trackside.XGBoostHook if program.framework == "xgboost" else trackside.KerasHook)(run, save=capture)
        with hook:
            program.train(hook, faulty)
        found = backtest(run, request.rules, clock=lambda: 0.0)
    issues = {verdict.rule_id: verdict.severity.value for verdict in found.issues}
    return Judged(tuple(issues), tuple(rule for rule, severity in issues.items() if severity == "critical"))


def rows(programs: tuple[Program, ...]) -> list[tuple[Program, Judged, Judged]]:
    """Return each program with the findings on its faulty and its clean run."""
    found = []
    for program in programs:
        found.append((program, judged(program, faulty=True), judged(program, faulty=False)))
        print(
            program.framework, "|", program.fault, "|", found[-1][1].rules, "| clean:", found[-1][2].rules, flush=True
        )
    return found


def page(found: list[tuple[Program, Judged, Judged]]) -> str:
    """Return the page."""
    lines = [
        "# Faults of XGBoost and Keras",
        "",
        "    .venv/bin/python -m benchmarks.frameworks --write docs/lab-notes/frameworks.md",
        "",
        "trains programs with a planted fault and without it, one seed each, and judges both by default rules.",
        "A fault counts as named if one of the rules written for it found an issue. Nothing was tuned on these programs,",  # noqa: E501
        "and one seed of one program is an example, no rate.",
        "",
    ]
    for framework in dict.fromkeys(program.framework for program, _, _ in found):
        own = [row for row in found if row[0].framework == framework]
        named = sum(bool(set(fault.rules) & set(program.rules)) for program, fault, _ in own)
        some = sum(bool(fault.rules) for _, fault, _ in own)
        alarmed, critical = sum(bool(clean.rules) for *_, clean in own), sum(bool(clean.critical) for *_, clean in own)
        lines += [
            f"## {framework}",
            "",
            f"**{named} of {len(own)} faults named, {some} found by some rule; "  # noqa: ISC004 - one line of the page
            f"{alarmed} of {len(own)} clean twins with an issue, {critical} at critical level.**",
            "",
            "| fault | found by | named | clean twin |",
            "| --- | --- | --- | --- |",
        ]
        for program, fault, clean in own:
            is_named = bool(set(fault.rules) & set(program.rules))
            lines.append(
                f"| {program.fault} | {', '.join(fault.rules) or 'missed'} | {'yes' if is_named else 'no'} "
                f"| {', '.join(clean.rules) or 'silent'} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Carry out the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("xgboost", "keras"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    programs = tuple(p for p in (*BOOSTED, *NETWORKS) if options.only in {None, p.framework})
    text = page(rows(programs))
    if options.write:
        options.write.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in
    main()
