"""Faults and clean twins of XGBoost and Keras, judged by the default rules.

    .venv/bin/python -m benchmarks.frameworks --only xgboost --seeds 3 --write docs/lab-notes/frameworks.md

Each program is trained twice for each seed, with the fault and without it, and captures what the default rules request.
Keras runs on the backend that KERAS_BACKEND names, torch by default. `--write` replaces the table of each framework
trained, between its marker and the next, and its sums on the page of the rules' quality; words around them stay.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import trackside
from benchmarks.marked import replaced
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.evaluation.backtest import backtest
from trackside.rules.catalogue import default_request


@dataclass(frozen=True)
class Run:
    """What captures a training, and the seed of its data and its model."""

    hook: Any
    seed: int


Train = Callable[[Run, bool], object]
QUALITY = Path(__file__).resolve().parents[1] / "docs" / "rule-quality.md"
_PACKAGES = {"xgboost": "xgboost-cpu", "keras": "keras"}


@dataclass(frozen=True)
class Program:
    """A training with a fault that can be left out.

    framework  "xgboost" or "keras"
    fault      the fault, in words
    rules      rules that name it
    train      trains, captured by a hook; the second argument is True for the fault
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
    run: Run, labels: Callable[[Any], Any], *, count: int = 3000, rounds: int = 150,
    columns: Callable[[Any, Any], Any] = lambda inputs, labels: inputs,
    validated: Callable[[Any], Any] = lambda rows: rows, labels_move: int = 0, **settings: Any,
) -> None:  # fmt: skip
    import xgboost

    sets = []
    for part, size in enumerate((count, 1500)):
        inputs, score = _rows(size, seed=2 * run.seed + part)
        answers = labels(score)
        inputs = columns(inputs, answers)
        sets.append(
            xgboost.DMatrix(validated(inputs) if part else inputs, np.roll(answers, labels_move) if part else answers)
        )
    objective = settings.pop("obj", None)
    chosen = {"nthread": 1, "max_depth": 3, "eta": 0.05, "seed": run.seed, "objective": "binary:logistic", **settings}
    xgboost.train(
        chosen, sets[0], rounds, evals=[(sets[0], "train"), (sets[1], "validation")], verbose_eval=False,
        obj=objective, callbacks=[run.hook],
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
    Program("xgboost", "deep trees on few rows", ("overfit",), lambda run, faulty: _boost(
        run, _classes, count=200 if faulty else 3000, max_depth=10 if faulty else 3, eta=0.3 if faulty else 0.05,
        min_child_weight=0 if faulty else 1)),
    Program("xgboost", "random labels", ("overfit",), lambda run, faulty: _boost(
        run, _random_classes if faulty else _classes, max_depth=6 if faulty else 3)),
    Program("xgboost", "a learning rate of 2.5", ("loss-not-decreasing", "exploding-tensor", "loss-spike"),
            lambda run, faulty: _boost(run, _scores, **{**_NUMBERS, "eta": 2.5 if faulty else 0.1})),
    Program("xgboost", "a learning rate of 0", ("loss-not-decreasing", "stalled-training"),
            lambda run, faulty: _boost(run, _scores, **{**_NUMBERS, "eta": 0.0 if faulty else 0.1})),
    Program("xgboost", "gamma that allows no split", ("loss-not-decreasing", "stalled-training"),
            lambda run, faulty: _boost(run, _classes, gamma=1e9 if faulty else 0)),
    Program("xgboost", "an objective of its own with the wrong sign", ("loss-not-decreasing", "exploding-tensor"),
            lambda run, faulty: _boost(run, _scores, eta=0.1, base_score=0.0, disable_default_eval_metric=0,
                                        objective="reg:squarederror", obj=_squares(-1.0 if faulty else 1.0))),
    Program("xgboost", "an objective of its own with NaN", ("exploding-tensor", "loss-not-decreasing"),
            lambda run, faulty: _boost(run, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_broken_squares if faulty else _squares(1.0))),
    Program("xgboost", "one class in a hundred", ("class-imbalance",), lambda run, faulty: _boost(
        run, lambda score: (score > 3.2).astype(float) if faulty else _classes(score))),
    Program("xgboost", "a thousand rounds after the end of learning", ("overtraining", "overfit"),
            lambda run, faulty: _boost(run, _classes, rounds=1500 if faulty else 150, max_depth=2, eta=0.3, gamma=12)),
    Program("xgboost", "an objective of its own with nothing but NaN", ("exploding-tensor", "loss-not-decreasing"),
            lambda run, faulty: _boost(run, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_no_squares if faulty else _squares(1.0))),
    Program("xgboost", "an objective of its own with second derivatives a million times too large",
            ("loss-not-decreasing", "stalled-training"),
            lambda run, faulty: _boost(run, _scores, eta=0.1, base_score=0.0, objective="reg:squarederror",
                                        obj=_heavy_squares if faulty else _squares(1.0))),
    Program("xgboost", "three hundred deep rounds on noisy rows", ("overfit", "overtraining"),
            lambda run, faulty: _boost(run, _classes, count=600, rounds=300 if faulty else 40,
                                        max_depth=6 if faulty else 2, eta=0.3 if faulty else 0.1)),
    Program("xgboost", "validation labels moved by one row", ("overfit",), lambda run, faulty: _boost(
        run, _classes, labels_move=int(faulty))),
    Program("xgboost", "validation rows of another scale", ("overfit",), lambda run, faulty: _boost(
        run, _classes, validated=(lambda rows: rows * 100) if faulty else lambda rows: rows)),
    Program("xgboost", "the answer among the columns", ("data-leakage",), lambda run, faulty: _boost(
        run, _classes, columns=_with_answer if faulty else lambda inputs, labels: inputs)),
)  # fmt: skip


def _network(
    run: Run, *, rate: float = 0.05, depth: int = 2, activation: str = "relu", start: Any = "glorot_uniform",
    bias: Any = "zeros", scale: float = 1.0, labels: Any = _classes, count: int = 1500, width: int = 32,
    epochs: int = 8, momentum: float = 0.9, is_sorted: bool = False, poison: bool = False, is_frozen: bool = False,
    has_softmax: bool = False,
) -> None:  # fmt: skip
    import keras

    keras.utils.set_random_seed(run.seed)
    sets = []
    for part, size in enumerate((count, 600)):
        inputs, score = _rows(size, seed=2 * run.seed + part)
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
        callbacks=[run.hook],
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
    Program("keras", "a learning rate of 100", _WILD, lambda run, faulty: _network(run, rate=100.0 if faulty else 0.05)),  # noqa: E501
    Program("keras", "a learning rate of 1e-7", (*_LOSS, "weight-update-ratio"),
            lambda run, faulty: _network(run, rate=1e-7 if faulty else 0.05)),
    Program("keras", "ten layers of sigmoid", ("vanishing-gradient", *_LOSS, "saturated-activation"),
            lambda run, faulty: _network(run, depth=10 if faulty else 2, activation="sigmoid" if faulty else "tanh")),
    Program("keras", "weights that begin as zeros", ("poor-weight-initialization", *_LOSS),
            lambda run, faulty: _network(run, start="zeros" if faulty else "glorot_uniform")),
    Program("keras", "weights that begin far too large", ("poor-weight-initialization", *_WILD),
            lambda run, faulty: _network(run, start=_normal(30.0) if faulty else "glorot_uniform")),
    Program("keras", "ReLUs that begin dead", ("dead-relu", *_LOSS, "vanishing-gradient"),
            lambda run, faulty: _network(run, bias=_constant(-30.0) if faulty else "zeros")),
    Program("keras", "random labels", ("overfit",), lambda run, faulty: _network(
        run, labels=_random_classes if faulty else _classes, count=500 if faulty else 1500, width=256 if faulty else 32,
        epochs=40 if faulty else 8)),
    Program("keras", "one class in a hundred", ("class-imbalance",), lambda run, faulty: _network(
        run, labels=(lambda score: (score > 3.2).astype(float)) if faulty else _classes)),
    Program("keras", "NaN in one row", ("exploding-tensor", "exploding-gradient", "loss-not-decreasing"),
            lambda run, faulty: _network(run, poison=faulty)),
    Program("keras", "inputs a thousand times too large", ("unnormalized-inputs", *_WILD),
            lambda run, faulty: _network(run, scale=1000.0 if faulty else 1.0)),
    Program("keras", "rows sorted by class", ("sorted-batches", "loss-spike"),
            lambda run, faulty: _network(run, is_sorted=faulty)),
    Program("keras", "all hidden layers frozen", ("parameters-not-trained",),
            lambda run, faulty: _network(run, is_frozen=faulty)),
    Program("keras", "softmax before a loss with from_logits", ("double-softmax",),
            lambda run, faulty: _network(run, has_softmax=faulty)),
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """The rules that found an issue in a run, the critical ones among them."""

    rules: tuple[str, ...]
    critical: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A program with the findings on its faulty and its clean runs, one of each for a seed."""

    program: Program
    faulty: tuple[Judged, ...]
    clean: tuple[Judged, ...]

    @property
    def named(self) -> int:
        """The number of faulty runs with an issue of a rule that names the fault."""
        return sum(bool(set(run.rules) & set(self.program.rules)) for run in self.faulty)


def judged(program: Program, *, faulty: bool, seed: int) -> Judged:
    """Train the program once, and return what the default rules found."""
    request = default_request()
    capture: CaptureRequest = built_in_catalogue().capture_request(request)
    with tempfile.TemporaryDirectory() as folder:
        hook = (trackside.XGBoostHook if program.framework == "xgboost" else trackside.KerasHook)(folder, save=capture)
        with hook:
            program.train(Run(hook, seed), faulty)
        found = backtest(folder, request.rules, clock=lambda: 0.0)
    issues = {verdict.rule_id: verdict.severity.value for verdict in found.issues}
    return Judged(tuple(issues), tuple(rule for rule, severity in issues.items() if severity == "critical"))


def rows(programs: tuple[Program, ...], seeds: int) -> list[Row]:
    """Return each program with the findings on its runs."""
    found = []
    for program in programs:
        faulty, clean = (
            tuple([judged(program, faulty=is_faulty, seed=seed) for seed in range(seeds)])
            for is_faulty in (True, False)
        )
        found.append(Row(program, faulty, clean))
        shown = [run.rules for run in faulty], "| clean:", [run.rules for run in clean]
        print(program.framework, "|", program.fault, "|", *shown, flush=True)
    return found


def table(found: list[Row], seeds: int, backend: str) -> str:
    """Return the table of one framework, with its sums and the command that made it."""
    framework = found[0].program.framework
    count = len(found) * seeds
    named = sum(row.named for row in found)
    always = sum(row.named == seeds for row in found)
    some = sum(bool(run.rules) for row in found for run in row.faulty)
    alarmed = sum(bool(run.rules) for row in found for run in row.clean)
    critical = sum(bool(run.critical) for row in found for run in row.clean)
    today, version = time.strftime("%d %B %Y"), metadata.version(_PACKAGES[framework])
    return "\n".join(
        [
            "",
            f"{today}, {framework} {version}{f' on {backend}' if framework == 'keras' else ''}: "  # noqa: ISC004 - one line of the page
            f"`python -m benchmarks.frameworks --only {framework} --seeds {seeds}`.",
            "",
            f"**{named} of {count} faulty runs named, {some} found by some rule; {always} of {len(found)} faults named "  # noqa: ISC004 - as above
            f"with every seed; {alarmed} of {count} clean runs with an issue, {critical} at critical level.**",
            "",
            "| fault | named | found by, in runs | clean runs |",
            "| --- | --- | --- | --- |",
            *(f"| {row.program.fault} | {row.named} of {seeds} | {_counted(row.faulty) or 'missed'} "
              f"| {_counted(row.clean) or 'silent'} |" for row in found),
            "",
            "",
        ]
    )  # fmt: skip


def write(page: Path, framework: str, text: str) -> None:
    """Put a framework's table between its marker and the next, and its sums on the page of the rules' quality."""
    sums = text.strip().partition("\n\n| ")[0]
    for each, shown in ((page, text.strip()), (QUALITY, sums)):
        marked = replaced(each.read_text("utf-8"), shown, begin=f"<!-- faults of {framework} -->", end="<!-- end -->")
        each.write_text(marked, "utf-8")


def _counted(runs: tuple[Judged, ...]) -> str:
    counts = Counter(rule for run in runs for rule in run.rules)
    return ", ".join(f"{rule} {count}" for rule, count in counts.most_common())


def main() -> None:
    """Carry out the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("xgboost", "keras"))
    parser.add_argument("--fault", default="", help="a part of the faults to train")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    programs = tuple(
        p for p in (*BOOSTED, *NETWORKS) if options.only in {None, p.framework} and options.fault in p.fault
    )
    for framework in dict.fromkeys(each.framework for each in programs):
        found = rows(tuple(each for each in programs if each.framework == framework), options.seeds)
        text = table(found, options.seeds, os.environ["KERAS_BACKEND"])  # noqa: TID251 - Keras has no other way in
        sys.stdout.write(text)
        if options.write:
            write(options.write, framework, text)


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # noqa: TID251 - read by PyTorch as it is imported
    main()
