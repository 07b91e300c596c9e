"""What capture costs a training of Keras or XGBoost: participants take turns within one long training each.

    .venv/bin/python -m benchmarks.framework_cost xgboost
    .venv/bin/python -m benchmarks.framework_cost smdebug
    .venv/bin/python -m benchmarks.framework_cost keras --python .venv/keras-backends/bin/python --backend tensorflow

Each participant is a process with one training, which a callback stops between turns. In a round every participant
makes the same number of steps, in the order A B C, then C B A. A figure is the time of a turn over that of the first
bare participant in the same round, median (lowest to highest): of the clock, of the training's own thread, and of the
processor for all threads, those that store with it. `bare again` is the floor: no figure is finer than its spread. Of
boosting, the hook's own calls are timed too, on the training's thread: finer than a difference of two trainings, but
without what they cost the library's caches. The beginning and the end of a run are not in it. `--write` puts the table
into docs/frameworks.md. `smdebug` is the original's hook of XGBoost on the same data, with an XGBoost that still has
callbacks of its kind (1.5.2), in an environment that is built once, in `.venv/smdebug-xgboost`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.marked import replaced

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
INTERVAL = 500
KINDS = {
    "keras": ("bare", "bare again", "idle", f"saved every {INTERVAL}"),
    "xgboost": ("bare", "bare again", "metrics and importances every round"),
    "smdebug": ("bare", "bare again", "smdebug 1.0.34, metrics and importances every round"),
}
MILLISECONDS = {"keras": 30.0, "xgboost": 20.0, "smdebug": 20.0}
GOALS = {"idle": 1.0, f"saved every {INTERVAL}": 1.0, "metrics and importances every round": 2.0}
ORIGINAL = ROOT / ".venv" / "smdebug-xgboost"
# smdebug alone without its dependencies: it pins a pyinstrument that no longer builds. It imports the others.
ORIGINAL_ALONE = ("smdebug==1.0.34",)
BESIDE_IT = (
    *("xgboost==1.5.2", "scipy", "numpy==1.23.5", "pandas<2", "protobuf==3.20.3"),
    *("boto3", "requests", "six", "packaging", "psutil", "pyinstrument"),
)
CLOCKS = ("clock", "training's thread", "all threads")
WARM_UP = 10
FOREVER = 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.framework_cost", description=__doc__)
    parser.add_argument("framework", choices=tuple(KINDS))
    parser.add_argument("--backend", default="torch", help="of Keras")
    parser.add_argument("--python", help="interpreter of the participants")
    parser.add_argument("--rounds", type=int, help="by default 5, and 25 of boosting")
    parser.add_argument("--steps", type=int, help=f"of each turn, by default {INTERVAL}, and 100 of boosting")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--participant", nargs=3, metavar=("KIND", "FOLDER", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.participant is not None:
        kind, folder, size = options.participant
        {"keras": _keras, "xgboost": _xgboost, "smdebug": _smdebug}[options.framework](kind, folder, int(size))
        return 0
    is_boosting = options.framework != "keras"  # every round costs the same, and short turns are alike
    options.rounds = options.rounds or (25 if is_boosting else 5)
    options.steps = options.steps or (100 if is_boosting else INTERVAL)
    options.python = options.python or (_with_smdebug() if options.framework == "smdebug" else sys.executable)
    table = _measured(options)
    sys.stdout.write(table + "\n")
    if options.write:
        _write(PAGE, f"cost of {_name(options)}", table)
    return 0


def _with_smdebug() -> str:
    """Return the interpreter of an environment with the original and an XGBoost that it knows; build it if missing."""
    ready, python = ORIGINAL / "ready", ORIGINAL / "bin" / "python"
    if not ready.exists():
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ORIGINAL)], check=True)
        subprocess.run([*install, "--no-deps", *ORIGINAL_ALONE], check=True)
        subprocess.run([*install, *BESIDE_IT], check=True)
        ready.touch()
    return str(python)


def _name(options: argparse.Namespace) -> str:
    return f"keras on {options.backend}" if options.framework == "keras" else str(options.framework)


class Participant:
    """A process with a training that goes on when it gets a number of steps."""

    def __init__(self, options: argparse.Namespace, kind: str, folder: str, size: int) -> None:
        command = [options.python, "-W", "ignore", "-m", "benchmarks.framework_cost", options.framework]
        one = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "SMDEBUG_LOG_LEVEL": "error"}
        self._process = subprocess.Popen(
            [*command, "--participant", kind, folder, str(size)],
            cwd=ROOT,
            env={**os.environ, **one, **quiet, "KERAS_BACKEND": options.backend},  # noqa: TID251
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.turn(WARM_UP)

    def turn(self, steps: int) -> list[float]:
        """Let it make some steps. Return the seconds of each clock in `CLOCKS`, and of the hook's own calls."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return [float(each) for each in self._process.stdout.readline().split()]

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _measured(options: argparse.Namespace) -> str:
    wanted = MILLISECONDS[options.framework]
    size = _calibrated(options, wanted)
    kinds = KINDS[options.framework]
    with tempfile.TemporaryDirectory() as folder:
        all_of_them = {kind: Participant(options, kind, f"{folder}/{kind}", size) for kind in kinds}
        found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
        loads = []
        for number in range(options.rounds):
            loads.append(os.getloadavg()[0])
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                found[kind].append(all_of_them[kind].turn(options.steps))
            sys.stderr.write(f"round {number + 1} of {options.rounds}\n")
        for each in all_of_them.values():
            each.end()
    clock, _, processor = (
        1000 * statistics.median(turn[k] for turn in found["bare"]) / options.steps for k in range(3)
    )
    cost = f"a step of {processor:.0f} ms of processor, {clock:.0f} ms by the clock"
    turns = f"{options.rounds} rounds of {options.steps} steps"
    load = f"{min(loads):.1f} to {max(loads):.1f}"
    has_calls = options.framework != "keras"
    titles = [*CLOCKS, *(["its own calls, of a round"] if has_calls else []), "goal"]
    lines = [
        f"{time.strftime('%d %B %Y')}, {_name(options)}: {cost}; {turns}; load {load} on {os.cpu_count()} cores.",
        "",
        f"| | {' | '.join(titles)} |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for kind in kinds[1:]:
        pairs = list(zip(found[kind], found["bare"], strict=True))
        cells = [_shown([100 * (own[k] / bare[k] - 1) for own, bare in pairs]) for k in range(len(CLOCKS))]
        if has_calls:
            seconds = statistics.median(turn[-1] for turn in found[kind]) / options.steps
            of_round = 100_000 * seconds / MILLISECONDS[options.framework]
            cells.append(f"{1000 * seconds:.2f} ms, {of_round:.1f} % of 20 ms" if seconds else "")
        goal = f"below {GOALS[kind]:g} %" if kind in GOALS else ""
        lines.append(f"| {kind} | {' | '.join(cells)} | {goal} |")
    return "\n".join(lines)


def _shown(shares: list[float]) -> str:
    return f"{statistics.median(shares):+.2f} % ({min(shares):+.2f} to {max(shares):+.2f})"


def _calibrated(options: argparse.Namespace, milliseconds: float) -> int:
    """Return the size with steps of about that time."""
    size = 256 if options.framework == "keras" else 20_000
    for _ in range(3):
        trial = Participant(options, "bare", "", size)
        processor = trial.turn(30)[2]
        trial.end()
        size = max(1, round(size * milliseconds / (1000 * processor / 30)))
    return size


def _now() -> list[float]:
    return [time.perf_counter(), time.thread_time(), time.process_time(), _calls.seconds]


class _Calls:
    """The time of the hook's own calls on the training's thread."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def of(self, owner: Any, name: str) -> None:
        """Time a method from now on."""
        method = getattr(owner, name)

        def timed(*args: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return method(*args, **named)
            finally:
                self.seconds += time.thread_time() - began

        setattr(owner, name, timed)


_calls = _Calls()


def _turns() -> Callable[[], None]:
    """Return the function to call after each step: it waits for the next turn, and answers at its end."""
    left, began = 0, list[float]()

    def step_ended() -> None:
        nonlocal left, began
        left -= 1
        if left > 0:
            return
        if left == 0:
            took = [now - before for now, before in zip(_now(), began, strict=True)]
            sys.stdout.write(" ".join(map(str, took)) + "\n")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        left, began = int(line), _now()

    return step_ended


def _keras(kind: str, folder: str, rows: int) -> None:
    import keras
    import numpy as np

    import trackside
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule

    class Turns(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        """The callback that stops the training between turns."""

        def __init__(self) -> None:
            super().__init__()
            self._step_ended = _turns()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self._step_ended()

    if keras.backend.backend() == "torch":
        sys.modules["torch"].set_num_threads(1)
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(size, activation="relu") for size in (512, 512, 512)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(rows * 100, 64)).astype(np.float32)
    callbacks: list[Any] = [Turns()]
    if not kind.startswith("bare"):
        names = ("losses",) if kind == "idle" else ("losses", "weights", "gradients")
        interval = FOREVER if kind == "idle" else INTERVAL
        request = CaptureRequest(tuple(CollectionRequest(name, Schedule(interval, 1)) for name in names))
        callbacks.append(trackside.KerasHook(folder, save=request))
    labels = random.integers(0, 10, len(inputs))
    model.fit(inputs, labels, batch_size=rows, epochs=FOREVER, verbose=0, callbacks=callbacks)


def _xgboost(kind: str, folder: str, rows: int) -> None:
    hooks: list[Any] = []
    if not kind.startswith("bare"):
        import trackside
        from trackside.frameworks.xgboost.adapter import XGBoostAdapter

        _calls.of(XGBoostAdapter, "_round_ended")
        hooks = [trackside.XGBoostHook(folder, save={"losses": 1, "metrics": 1, "feature_importance": 1})]
    _boost(rows, hooks)


def _smdebug(kind: str, folder: str, rows: int) -> None:
    hooks: list[Any] = []
    if not kind.startswith("bare"):
        import smdebug.xgboost as smd

        _calls.of(smd.Hook, "after_iteration")
        collections = ["losses", "metrics", "feature_importance"]
        every_round = smd.SaveConfig(save_interval=1)
        hooks = [smd.Hook(folder, save_config=every_round, include_collections=collections)]
    _boost(rows, hooks)


def _boost(rows: int, hooks: list[Any]) -> None:
    import numpy as np
    import xgboost

    class Turns(xgboost.callback.TrainingCallback):
        """The callback that stops the training between turns."""

        def __init__(self) -> None:
            self._step_ended = _turns()

        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self._step_ended()
            return False

    random = np.random.default_rng(0)
    inputs = random.normal(size=(rows, 30))
    answers = inputs @ random.normal(size=30) + random.normal(size=rows)
    seen, held_back = xgboost.DMatrix(inputs, answers), xgboost.DMatrix(inputs[:1000], answers[:1000])
    settings = {"max_depth": 6, "eta": 0.01, "nthread": 1, "eval_metric": "rmse"}
    xgboost.train(
        settings,
        seen,
        100_000,
        evals=[(seen, "train"), (held_back, "test")],
        callbacks=[Turns(), *hooks],
        verbose_eval=False,
    )


def _write(page: Path, name: str, table: str) -> None:
    text = replaced(page.read_text("utf-8"), table, begin=f"<!-- {name} -->", end="<!-- end -->")
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
