"""What capture costs a training of Keras or XGBoost: it takes turns with no capture, within one training.

    .venv/bin/python -m benchmarks.framework_cost xgboost
    .venv/bin/python -m benchmarks.framework_cost keras --milliseconds 4 --steps 300    # so quick that it rests
    .venv/bin/python -m benchmarks.framework_cost smdebug
    .venv/bin/python -m benchmarks.framework_cost keras --python .venv/keras-backends/bin/python --backend tensorflow

`benchmarks.engine.blocks` says how. Between blocks the adapter begins to listen to the framework, or leaves it as it
was.

*Thread* is the processor time of the training's own thread, *all threads* that of the process: the threads that
compute, and those that store, are in it. Ours is measured besides: the hook's own calls on the training's thread, and
its other threads. A save at one step of the block is counted as one in 500. The beginning and the end of a run are not
in it.

`--write` puts the table into docs/frameworks.md. `smdebug` is the original's hook of XGBoost on the same data, with an
XGBoost that still has callbacks of its kind (1.5.2), in an environment that is built once, in `.venv/smdebug-xgboost`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.blocks import (
    ALWAYS,
    OFF,
    PLANTED_SHARE,
    Blocks,
    Round,
    answer,
    answer_of,
    shown,
)
from benchmarks.engine.pages import put, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
INTERVAL = 500
IDLE, BARE_IDLE = "idle", "idle, without statistics"
SAVED, BOOSTED = f"saved every {INTERVAL}", "metrics and importances every round"
WATCHED = "as `trackside run` asks for"
ORIGINALS = f"smdebug 1.0.34, {BOOSTED}"
KINDS = {
    "keras": (*ALWAYS, BARE_IDLE, IDLE, SAVED),
    "xgboost": (*ALWAYS, WATCHED, BOOSTED),
    "smdebug": (*ALWAYS, ORIGINALS),
}
MILLISECONDS = {"keras": 30.0, "xgboost": 20.0, "smdebug": 20.0}
GOALS = {IDLE: 2.0, BARE_IDLE: 1.0, SAVED: 2.0, WATCHED: 2.0, BOOSTED: 2.0}
ORIGINAL = ROOT / ".venv" / "smdebug-xgboost"
# smdebug alone without its dependencies: it pins a pyinstrument that no longer builds. It imports the others.
ORIGINAL_ALONE = ("smdebug==1.0.34",)
BESIDE_IT = (
    *("xgboost==1.5.2", "scipy", "numpy==1.23.5", "pandas<2", "protobuf==3.20.3"),
    *("boto3", "requests", "six", "packaging", "psutil", "pyinstrument"),
)
CLOCKS = ("clock", "thread", "all threads")
FOREVER = 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.framework_cost", description=__doc__)
    parser.add_argument("framework", choices=tuple(KINDS))
    parser.add_argument("--backend", default="torch", help="of Keras")
    parser.add_argument("--python", help="interpreter of the training")
    parser.add_argument("--rounds", type=int, default=24, help="of one block of each kind (%(default)s)")
    parser.add_argument("--steps", type=int, default=25, help="of a block (%(default)s)")
    parser.add_argument("--milliseconds", type=float, help="of a step (default: 30 of Keras, 20 of a round)")
    parser.add_argument("--kinds", nargs="+", help="some of the kinds; off, off again and planted are always measured")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--training", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.milliseconds = options.milliseconds or MILLISECONDS[options.framework]
    options.kinds = [k for k in KINDS[options.framework] if k in ALWAYS or not options.kinds or k in options.kinds]
    if options.training is not None:
        {"keras": _keras, "xgboost": _xgboost, "smdebug": _smdebug}[options.framework](options)
        return 0
    options.python = options.python or (_with_smdebug() if options.framework == "smdebug" else sys.executable)
    began = os.getloadavg()[0]
    measured = _trained(options)
    lines = [*_lines(options, measured, [began, os.getloadavg()[0]])]
    name = f"keras on {options.backend}" if options.framework == "keras" else options.framework
    put(lines, PAGE if options.write else None, begin=f"<!-- cost of {name} -->", end="<!-- end -->")
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


def _trained(options: argparse.Namespace) -> list[Round]:
    """Train in a process of its own. Return what each block took: by each clock, in our calls, in our threads."""
    one = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "SMDEBUG_LOG_LEVEL": "error", "KERAS_BACKEND": options.backend}
    with tempfile.TemporaryDirectory() as folder:
        command = [options.python, "-W", "ignore", "-m", "benchmarks.framework_cost", options.framework]
        sizes = ["--rounds", str(options.rounds), "--steps", str(options.steps), "--backend", options.backend]
        sizes += ["--milliseconds", str(options.milliseconds), "--training", folder, "--kinds", *options.kinds]
        found: list[Round] = answer_of([*command, *sizes], cwd=ROOT, env={**os.environ, **one, **quiet})  # noqa: TID251
    return found


def _lines(options: argparse.Namespace, rounds: list[Round], loads: Sequence[float]) -> Iterator[str]:
    name = f"keras on {options.backend}" if options.framework == "keras" else options.framework
    clock, _, processor = (1000 * statistics.median(r[OFF][k] for r in rounds) / options.steps for k in range(3))
    cost = f"a step of {processor:.1f} ms of processor, {clock:.1f} ms by the clock"
    turns = f"{len(rounds)} rounds with a block of {options.steps} steps of each kind"
    load = f"load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores"
    yield f"{time.strftime('%d %B %Y, %H:%M', time.gmtime())} UTC, {name}: {cost}; {turns}; {load}."
    yield ""
    rounds = [_with_rare_saves(each, options.steps) for each in rounds]
    rows = []
    for kind in options.kinds[1:]:
        cells = [shown(rounds, kind, k) for k in range(len(CLOCKS))]
        for k in range(len(CLOCKS), len(rounds[0][kind])):
            microseconds = statistics.fmean(each[kind][k] / options.steps * 1e6 for each in rounds)
            share = microseconds / (10 * options.milliseconds)
            cells.append(f"{microseconds:.0f} us, {share:.2f} %" if microseconds else "")
        rows.append((kind, *cells, f"below {GOALS[kind]:g} %" if kind in GOALS else ""))
    yield from table(f" | {' | '.join(CLOCKS)} | its own calls, of a step | its other threads | goal", rows)


def _with_rare_saves(each: Round, steps: int) -> Round:
    """Return a round in which a save at one step of the block counts as one in 500."""
    if SAVED not in each:
        return each
    pairs = zip(each[IDLE], each[SAVED], strict=True)
    return {**each, SAVED: [idle + (saved - idle) * steps / INTERVAL for idle, saved in pairs]}


class _Clocks:
    """The clock, this thread's, that of all threads, that of our own calls, and that of threads that came later."""

    def __init__(self) -> None:
        self.calls = _Calls()
        self._threads = _other_threads()

    def __call__(self) -> list[float]:
        others = sum(_seconds_of(thread) for thread in _other_threads() - self._threads)
        return [time.perf_counter(), time.thread_time(), time.process_time(), self.calls.seconds, others]


def _other_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.current_thread()}


def _seconds_of(thread: threading.Thread) -> float:
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
    except OSError:  # it has just ended
        return 0.0


class _Calls:
    """The time of the hook's own calls on the training's thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_within = False

    def of(self, owner: Any, *names: str) -> None:
        """Time methods from now on; one that another one calls is a part of that."""
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            if self._is_within:
                return method(*args, **named)
            self._is_within, began = True, time.thread_time()
            try:
                return method(*args, **named)
            finally:
                self.seconds += time.thread_time() - began
                self._is_within = False

        return timed


def _blocks(options: argparse.Namespace, switches: Mapping[str, Callable[[], Any]], clocks: _Clocks) -> Blocks:
    return Blocks(options.kinds, switches, rounds=options.rounds, steps=options.steps, now=clocks)


def _calibrated(step_seconds: Callable[[int], float], size: int, milliseconds: float) -> int:
    """Return the size with steps of about that time."""
    for _ in range(3):
        size = max(1, round(size * milliseconds / 1000 / step_seconds(size)))
    return size


def _network() -> Any:
    import keras

    if keras.backend.backend() == "torch":
        sys.modules["torch"].set_num_threads(1)
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(size, activation="relu") for size in (512, 512, 512)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


def _keras(options: argparse.Namespace) -> None:
    import keras
    import numpy as np

    from trackside.adapters.keras.adapter import KerasAdapter
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
    from trackside.environment import CaptureEnvironment

    class Steps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        """The callback that counts the steps of a block."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            blocks.step_ended()

    def adapter(kind: str) -> KerasAdapter:
        names = ("losses", "weights", "gradients") if kind == SAVED else ("losses",)
        schedule = Schedule(blocks.steps, blocks.steps // 2) if kind == SAVED else Schedule(FOREVER, 1)
        statistics_ = StatisticsRequest(enabled=kind != BARE_IDLE)
        request = CaptureRequest(tuple(CollectionRequest(name, schedule) for name in names), statistics=statistics_)
        made = KerasAdapter(CaptureEnvironment(f"{options.training}/{kind}", request.to_json(), 0, 1))
        clocks.calls.of(made, "batch_begins", "batch_ended", "loop_began", "loss_computed", "layer_called")
        clocks.calls.of(made, "_before", "_after")
        return made

    def listening(kind: str) -> Callable[[], object]:
        undo = adapters[kind].listen()

        def leave() -> None:
            undo()
            own = model.train_function  # on JAX, the adapter's, which calls Keras's own
            model.train_function = getattr(own, "compiled", own)

        return leave

    def fit(rows: int, callbacks: Sequence[Any], steps: int) -> None:
        count = rows * steps
        model.fit(inputs[:count], labels[:count], batch_size=rows, verbose=0, callbacks=list(callbacks))

    def step_seconds(rows: int) -> float:
        fit(rows, (), 5)
        began = time.process_time()
        fit(rows, (), 20)
        return (time.process_time() - began) / 20

    model = _network()
    numbers = np.random.default_rng(0)
    inputs = numbers.normal(size=(100_000, 64)).astype(np.float32)
    labels = numbers.integers(0, 10, len(inputs))
    adapters: dict[str, KerasAdapter] = {}
    watched = [kind for kind in options.kinds if kind in (BARE_IDLE, IDLE, SAVED)]
    clocks = _Clocks()
    blocks = _blocks(options, {kind: functools.partial(listening, kind) for kind in watched}, clocks)
    adapters.update((kind, adapter(kind)) for kind in watched)
    rows = _calibrated(step_seconds, 256, options.milliseconds)
    blocks.planted_seconds = PLANTED_SHARE * step_seconds(rows)
    for kind in watched:  # each run begins, and has its first dense steps, before it is measured
        undo = listening(kind)
        fit(rows, (), 2 * blocks.steps)
        undo()
    gc.collect()
    gc.freeze()
    while blocks.begin():
        fit(rows, [Steps()], blocks.steps)
    answer(blocks.rounds)


def _xgboost(options: argparse.Namespace) -> None:
    from trackside.adapters.xgboost.adapter import XGBoostAdapter
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
    from trackside.contracts.rule_catalogue import built_in_catalogue
    from trackside.environment import CaptureEnvironment
    from trackside.rules.catalogue import default_request

    def listening(kind: str, request: CaptureRequest) -> Callable[[], Callable[[], object]]:
        adapter = XGBoostAdapter(
            CaptureEnvironment(f"{options.training}/{KINDS['xgboost'].index(kind)}", request.to_json(), 0, 1)
        )
        calls[kind] = adapter
        return adapter.listen

    names = ("losses", "metrics", "feature_importance")
    requests = {
        WATCHED: built_in_catalogue().capture_request(default_request()),
        BOOSTED: CaptureRequest(tuple(CollectionRequest(name, Schedule(1)) for name in names)),
    }
    calls: dict[str, Any] = {}
    clocks = _Clocks()
    switches = {kind: listening(kind, requests[kind]) for kind in requests if kind in options.kinds}
    blocks = _blocks(options, switches, clocks)
    for adapter in calls.values():
        clocks.calls.of(adapter, "round_ended")
    _boost(blocks, [], options.milliseconds)


def _smdebug(options: argparse.Namespace) -> None:
    import smdebug.xgboost as smd

    collections = ["losses", "metrics", "feature_importance"]
    every_round = smd.SaveConfig(save_interval=1)
    hook = smd.Hook(f"{options.training}/run", save_config=every_round, include_collections=collections)
    watched = set[str]()
    after_iteration = hook.after_iteration
    hook.after_iteration = lambda *given: after_iteration(*given) if watched else False

    def listen() -> Callable[[], object]:
        watched.add(ORIGINALS)
        return watched.clear

    clocks = _Clocks()
    blocks = _blocks(options, {ORIGINALS: listen}, clocks)
    clocks.calls.of(hook, "after_iteration")
    _boost(blocks, [hook], options.milliseconds)


def _boost(blocks: Blocks, hooks: list[Any], milliseconds: float) -> None:
    import numpy as np
    import xgboost

    class Turns(xgboost.callback.TrainingCallback):
        """The callback that counts the rounds of a block, and begins the next one."""

        def __init__(self) -> None:
            self.is_between = True

        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if self.is_between and not blocks.begin():
                answer(blocks.rounds)
            self.is_between = False
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self.is_between = blocks.step_ended()
            return False

    def train(rows: int, rounds: int, callbacks: list[Any]) -> None:
        numbers = np.random.default_rng(0)
        inputs = numbers.normal(size=(rows, 30))
        answers = inputs @ numbers.normal(size=30) + numbers.normal(size=rows)
        seen, held_back = xgboost.DMatrix(inputs, answers), xgboost.DMatrix(inputs[:1000], answers[:1000])
        settings = {"max_depth": 6, "eta": 0.01, "nthread": 1, "eval_metric": "rmse"}
        sets = [(seen, "train"), (held_back, "test")]
        xgboost.train(settings, seen, rounds, evals=sets, callbacks=callbacks, verbose_eval=False)

    def round_seconds(rows: int) -> float:
        times = list[float]()

        class Times(xgboost.callback.TrainingCallback):
            """The callback that notes the time of each round."""

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                times.append(time.process_time())
                return False

        train(rows, 40, [Times()])
        return statistics.median(after - before for before, after in itertools.pairwise(times[4:]))

    rows = _calibrated(round_seconds, 20_000, milliseconds)
    blocks.planted_seconds = PLANTED_SHARE * round_seconds(rows)
    train(rows, FOREVER, [Turns(), *hooks])


if __name__ == "__main__":
    sys.exit(main())
