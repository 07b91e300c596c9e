"""Faults and clean twins of XGBoost and Keras, judged by the default rules.

    .venv/bin/python -m benchmarks.frameworks --only xgboost --seeds 3 --write docs/framework-faults.md

Each program is trained twice for each seed, with the fault and without it, and captures what the default rules request.
Keras runs on the backend that KERAS_BACKEND names, torch by default. `--write` replaces the table of each framework
trained, between its marker and the next, and its sums on the page of the rules' quality; words around them stay.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import trackside
from benchmarks.engine.judge import judge
from benchmarks.engine.options import add_rest, parser, rests
from benchmarks.engine.pages import replaced
from benchmarks.engine.usual import usual_capture
from trackside.contracts.verdict import Severity


@dataclass(frozen=True)
class Run:
    """What captures a training, and the seed of its data and its model."""

    hook: Any
    seed: int


Settings = Mapping[str, Any]
QUALITY = Path(__file__).resolve().parents[1] / "docs" / "rule-quality.md"
_PACKAGES = {"xgboost": "xgboost-cpu", "keras": "keras"}


@dataclass(frozen=True)
class Program:
    """A training with a fault that can be left out.

    framework  "xgboost" or "keras"
    fault      the fault, in words
    rules      rules that name it
    faulty     settings of the training with the fault
    right      settings without it, where they are not the usual ones
    both       settings of both
    """

    framework: str
    fault: str
    rules: tuple[str, ...]
    faulty: Settings
    right: Settings = field(default_factory=dict)
    both: Settings = field(default_factory=dict)

    def train(self, run: Run, *, is_faulty: bool) -> None:
        """Train once, captured by a hook."""
        of_framework: Callable[..., None] = _boost if self.framework == "xgboost" else _network
        of_framework(run, **self.both, **(self.faulty if is_faulty else self.right))


def _rows(count: int, *, noise: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, 10))
    score = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + random.normal(scale=noise, size=count)
    return inputs, score


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


def _boost(
    run: Run, *, labels: Callable[[Any], Any] = _classes, count: int = 3000, rounds: int = 150,
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


def _few_positive(score: Any) -> Any:
    return (score > 3.2).astype(float)


_STILL = ("loss-not-decreasing", "stalled-training")
_WILD = ("exploding-tensor", "exploding-gradient", "loss-spike", "loss-not-decreasing", "runaway-updates")
_NUMBERS = {"labels": _scores, "objective": "reg:squarederror"}
_OWN = {**_NUMBERS, "eta": 0.1, "base_score": 0.0}
_SQUARES = {"obj": _squares(1.0)}

BOOSTED = (
    Program("xgboost", "deep trees on few rows", ("overfit",),
            {"count": 200, "max_depth": 10, "eta": 0.3, "min_child_weight": 0}, {"min_child_weight": 1}),
    Program("xgboost", "random labels", ("overfit",), {"labels": _random_classes, "max_depth": 6}),
    Program("xgboost", "a learning rate of 2.5", ("loss-not-decreasing", "exploding-tensor", "loss-spike"),
            {"eta": 2.5}, {"eta": 0.1}, _NUMBERS),
    Program("xgboost", "a learning rate of 0", _STILL, {"eta": 0.0}, {"eta": 0.1}, _NUMBERS),
    Program("xgboost", "gamma that allows no split", _STILL, {"gamma": 1e9}, {"gamma": 0}),
    Program("xgboost", "an objective of its own with the wrong sign", ("loss-not-decreasing", "exploding-tensor"),
            {"obj": _squares(-1.0)}, _SQUARES, {**_OWN, "disable_default_eval_metric": 0}),
    Program("xgboost", "an objective of its own with NaN", ("exploding-tensor", "loss-not-decreasing"),
            {"obj": _broken_squares}, _SQUARES, _OWN),
    Program("xgboost", "one class in a hundred", ("class-imbalance",), {"labels": _few_positive}),
    Program("xgboost", "a thousand rounds after the end of learning", ("overtraining", "overfit"),
            {"rounds": 1500}, both={"max_depth": 2, "eta": 0.3, "gamma": 12}),
    Program("xgboost", "an objective of its own with nothing but NaN", ("exploding-tensor", "loss-not-decreasing"),
            {"obj": _no_squares}, _SQUARES, _OWN),
    Program("xgboost", "an objective of its own with second derivatives a million times too large", _STILL,
            {"obj": _heavy_squares}, _SQUARES, _OWN),
    Program("xgboost", "three hundred deep rounds on noisy rows", ("overfit", "overtraining"),
            {"rounds": 300, "max_depth": 6, "eta": 0.3}, {"rounds": 40, "max_depth": 2, "eta": 0.1}, {"count": 600}),
    Program("xgboost", "validation labels moved by one row", ("overfit",), {"labels_move": 1}),
    Program("xgboost", "validation rows of another scale", ("overfit",), {"validated": lambda rows: rows * 100}),
    Program("xgboost", "the answer among the columns", ("data-leakage",), {"columns": _with_answer}),
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
    initial = {"kernel_initializer": start, "bias_initializer": bias}
    initial = {name: made() if callable(made) else made for name, made in initial.items()}
    layers = [keras.layers.Dense(width, activation=activation, **initial) for _ in range(depth)]
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


NETWORKS = (
    Program("keras", "a learning rate of 100", _WILD, {"rate": 100.0}),
    Program("keras", "a learning rate of 1e-7", (*_STILL, "weight-update-ratio"), {"rate": 1e-7}),
    Program("keras", "ten layers of sigmoid", ("vanishing-gradient", *_STILL, "saturated-activation"),
            {"depth": 10, "activation": "sigmoid"}, {"activation": "tanh"}),
    Program("keras", "weights that begin as zeros", ("poor-weight-initialization", *_STILL), {"start": "zeros"}),
    Program("keras", "weights that begin far too large", ("poor-weight-initialization", *_WILD),
            {"start": partial(_normal, 30.0)}),
    Program("keras", "ReLUs that begin dead", ("dead-relu", *_STILL, "vanishing-gradient"),
            {"bias": partial(_constant, -30.0)}),
    Program("keras", "random labels", ("overfit",),
            {"labels": _random_classes, "count": 500, "width": 256, "epochs": 40}),
    Program("keras", "one class in a hundred", ("class-imbalance",), {"labels": _few_positive}),
    Program("keras", "NaN in one row", ("exploding-tensor", "exploding-gradient", "loss-not-decreasing"),
            {"poison": True}),
    Program("keras", "inputs a thousand times too large", ("unnormalized-inputs", *_WILD), {"scale": 1000.0}),
    Program("keras", "rows sorted by class", ("sorted-batches", "loss-spike"), {"is_sorted": True}),
    Program("keras", "all hidden layers frozen", ("parameters-not-trained",), {"is_frozen": True}),
    Program("keras", "softmax before a loss with from_logits", ("double-softmax",), {"has_softmax": True}),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A program with the findings on its faulty and its clean runs, one of each for a seed."""

    program: Program
    faulty: tuple[dict[str, Severity], ...]
    clean: tuple[dict[str, Severity], ...]

    @property
    def named(self) -> int:
        """The number of faulty runs with an issue of a rule that names the fault."""
        return sum(bool(run.keys() & set(self.program.rules)) for run in self.faulty)


def judged(program: Program, *, faulty: bool, seed: int) -> dict[str, Severity]:
    """Train the program once, and return the rules that found an issue."""
    with tempfile.TemporaryDirectory() as folder:
        hooks = {"xgboost": trackside.XGBoostHook, "keras": trackside.KerasHook}
        hook: Any = hooks[program.framework](folder, save=usual_capture())
        with hook:
            program.train(Run(hook, seed), is_faulty=faulty)
        return {alarm.rule: alarm.severity for alarm in judge(Path(folder)).alarms}


def rows(programs: tuple[Program, ...], seeds: int) -> list[Row]:
    """Return each program with the findings on its runs."""
    found = []
    for program in programs:
        faulty, clean = (
            tuple([judged(program, faulty=is_faulty, seed=seed) for seed in range(seeds)])
            for is_faulty in (True, False)
        )
        found.append(Row(program, faulty, clean))
        shown = [tuple(run) for run in faulty], "| clean:", [tuple(run) for run in clean]
        print(program.framework, "|", program.fault, "|", *shown, flush=True)
    return found


def table(found: list[Row], seeds: int, backend: str) -> str:
    """Return the table of one framework, with its sums and the command that made it."""
    framework = found[0].program.framework
    count = len(found) * seeds
    named = sum(row.named for row in found)
    always = sum(row.named == seeds for row in found)
    some = sum(bool(run) for row in found for run in row.faulty)
    alarmed = sum(bool(run) for row in found for run in row.clean)
    critical = sum(Severity.CRITICAL in run.values() for row in found for run in row.clean)
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


def _counted(runs: tuple[dict[str, Severity], ...]) -> str:
    counts = Counter(rule for run in runs for rule in run)
    return ", ".join(f"{rule} {count}" for rule, count in counts.most_common())


def main() -> None:
    """Carry out the command."""
    options = parser(__doc__)
    options.add_argument("--only", choices=("xgboost", "keras"))
    options.add_argument("--fault", default="", help="a part of the faults to train")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--write", type=Path)
    add_rest(options)
    arguments = options.parse_args()
    rests(arguments)
    programs = tuple(
        p for p in (*BOOSTED, *NETWORKS) if arguments.only in {None, p.framework} and arguments.fault in p.fault
    )
    for framework in dict.fromkeys(each.framework for each in programs):
        found = rows(tuple(each for each in programs if each.framework == framework), arguments.seeds)
        text = table(found, arguments.seeds, os.environ["KERAS_BACKEND"])  # noqa: TID251 - Keras has no other way in
        sys.stdout.write(text)
        if arguments.write:
            write(arguments.write, framework, text)


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # noqa: TID251 - read by PyTorch as it is imported
    main()
