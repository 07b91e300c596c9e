"""What capture costs a training, measured in one run: all participants are forked from one process and take turns.

    python -m benchmarks.turns tiny mlp deep gpt --against OTHER/training_lib/src

With `--peers`, smdebug and TensorBoard take part. Set PYTHONPATH=FOLDER after

    pip install --no-deps --target FOLDER smdebug==1.0.34 tensorboard==2.14.1 protobuf==3.20.3 numpy==2.2.6 absl-py six

With `--wandb FOLDER` Weights & Biases takes part, offline, as `pip install --target FOLDER wandb` has it. With
`--traceml FOLDER` TraceML takes part beside what is always on, as it is after

    pip install --no-deps --target FOLDER traceml-ai==0.5.0 psutil rich nvidia-ml-py msgspec pyyaml pygments \
        markdown-it-py mdurl

Each round every participant trains the same number of steps, in the order A B C, then C B A. A figure is the processor
time of all threads of a participant and of the processes that it has started, to the end of what it stores, over that
of the first bare one in the same round: median (middle half). `bare again` is the floor: no figure is finer than its
spread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.engine.pages import put
from benchmarks.processes import descendants, processor_seconds
from benchmarks.workloads import Training
from trackside.environment import inherited

HERE = Path(__file__).resolve().parents[1] / "training_lib" / "src"
REDUCTIONS = ("mean", "std", "min", "max", "l1_norm", "l2_norm", "abs_max")
MODEL = ("weights", "gradients", "biases")
ANSWER_BYTES = 256


class Workload(NamedTuple):
    """One training, the steps of a turn, and what is measured on it."""

    steps: int
    kinds: tuple[str, ...]


class Cell(NamedTuple):
    """A request: collections saved every so many steps, whole or reduced; its target as a ratio, by workload.

    `memory_mb`: as in a capture request.
    """

    collections: tuple[str, ...]
    every: int
    is_reduced: bool
    targets: dict[str, float]
    memory_mb: int = 0


WORKLOADS = {
    "tiny": Workload(3000, ("on", "idle")),  # a second: what is written once a second counts once
    "half": Workload(2000, ("on", "idle")),
    "mlp": Workload(200, ("on", "idle", "loss@1", "wgb@10", "wgb@100", "red@1")),
    "deep": Workload(6, ("on", "idle")),
    "gpt": Workload(10, ("on", "wgb@10", "red@1")),
    "gpt110m": Workload(10, ("on", "wgb@10", "wgb@10 in 64 MiB")),
}
CELLS = {
    "on": Cell((), 0, False, {"tiny": 1.03, "half": 1.02, "mlp": 1.02, "deep": 1.02, "gpt": 1.01}),
    "idle": Cell(("losses",), 10**9, False, {"mlp": 1.005}),
    "loss@1": Cell(("losses",), 1, False, {"mlp": 1.08}),
    "wgb@10": Cell(MODEL, 10, False, {"mlp": 1.07, "gpt": 1.05, "gpt110m": 1.10}),
    "wgb@10 in 64 MiB": Cell(MODEL, 10, False, {}, memory_mb=64),
    "wgb@100": Cell(MODEL, 100, False, {"mlp": 1.01}),
    "red@1": Cell(MODEL, 1, True, {"mlp": 1.15, "gpt": 1.12}),
}


class Participant(NamedTuple):
    """A forked process that trains when it is asked to."""

    name: str
    ask: int
    answer: int


def request_of(kind: str) -> Any:
    """Return the capture of a cell, by the library that is imported."""
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest

    cell = CELLS[kind]
    # From the first step on, so that looking the names up, once, is not within what is measured.
    schedule = Schedule(cell.every or 1, 1 if cell.every > 1000 else 0)
    reductions = REDUCTIONS if cell.is_reduced else ()
    requests = tuple(CollectionRequest(name, schedule, reductions=reductions) for name in cell.collections)
    return CaptureRequest(requests, statistics=StatisticsRequest(enabled=kind == "on"), memory_mb=cell.memory_mb)


class Bare:
    """A training without capture. Others are attached around the making of the model."""

    def __init__(self, kind: str, run: str) -> None:
        self.cell, self.run = CELLS[kind], run

    def attach(self, training: Training) -> None:
        """Take part in a training that exists."""

    def flush(self) -> None:
        """Wait until all is stored."""

    def state(self) -> str:
        """Return what to say about this participant beside its figures."""
        return ""

    def end(self) -> None:
        """End what this participant has started."""


class Ours(Bare):
    """The library in a source folder, attached as to a script that knows nothing of it."""

    def __init__(self, kind: str, run: str, *, source: Path) -> None:
        super().__init__(kind, run)
        sys.path.insert(0, str(source))
        for name in [name for name in sys.modules if name.partition(".")[0] == "trackside"]:
            del sys.modules[name]  # of this tree
        from trackside.environment import CaptureEnvironment
        from trackside.frameworks.pytorch.adapter import PyTorchAdapter

        self.is_on = kind == "on"
        self.capture = PyTorchAdapter(CaptureEnvironment(run, request_of(kind).to_json(), 0, 1))
        self.capture.install()

    def flush(self) -> None:
        self.capture.flush(60)

    def state(self) -> str:
        if not self.is_on:
            return ""
        rest, engine = self.capture.session.rest, self.capture.session.engine
        return f"{self.capture.session.statistics.budget.intervals}, {rest.steps} of {engine.step} steps at rest"


class SmDebug(Bare):
    """The original, 1.0.34."""

    def __init__(self, kind: str, run: str) -> None:
        super().__init__(kind, run)
        for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):  # for its profiler only
            module = sys.modules.setdefault(absent, types.ModuleType(absent))
            module.__spec__ = module.__spec__ or ModuleSpec(absent, None)
            vars(module).setdefault("Profiler", object)
            vars(module).setdefault("JSONRenderer", object)

    def attach(self, training: Training) -> None:
        from smdebug.core.reduction_config import ReductionConfig
        from smdebug.core.save_config import SaveConfig
        from smdebug.pytorch import Hook

        reduced = ReductionConfig(reductions=["mean", "std", "min", "max"], norms=["l1", "l2"], abs_reductions=["max"])
        self.hook = Hook(
            out_dir=self.run,
            save_config=SaveConfig(save_interval=self.cell.every),
            include_collections=list(self.cell.collections),
            reduction_config=reduced if self.cell.is_reduced else None,
        )
        self.hook.register_module(training.model)
        if self.cell.collections == ("losses",):
            training.criterion = nn.CrossEntropyLoss()
            self.hook.register_loss(training.criterion)

    def flush(self) -> None:
        self.hook._close_writers()


class TensorBoard(Bare):
    """PyTorch's writer for TensorBoard: scalars of losses and reductions, histograms of tensors."""

    def attach(self, training: Training) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer, self.step, self.model = SummaryWriter(self.run), 0, training.model
        training.after_backward = self.after_backward

    def after_backward(self, loss: Any) -> None:
        if self.step % self.cell.every == 0:
            if self.cell.collections == ("losses",):
                self.writer.add_scalar("loss", loss.item(), self.step)
            else:
                for name, parameter in self.model.named_parameters():
                    self.writer.add_histogram(name, parameter.detach(), self.step)
                    self.writer.add_histogram(f"gradient/{name}", parameter.grad, self.step)
        self.step += 1

    def flush(self) -> None:
        self.writer.flush()


class WeightsAndBiases(Bare):
    """Weights & Biases, offline: `log` of the loss, or `watch` of the model. Its own process writes, and counts too."""

    def __init__(self, kind: str, run: str, *, folder: Path) -> None:
        super().__init__(kind, run)
        sys.path.insert(0, str(folder))

    def attach(self, training: Training) -> None:
        import wandb

        os.makedirs(self.run)
        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True)
        self.logged = wandb.init(mode="offline", dir=self.run, settings=settings)
        self.step = 0
        if self.cell.collections != ("losses",):
            wandb.watch(training.model, log="all", log_freq=self.cell.every)
        training.after_backward = self.after_backward

    def after_backward(self, loss: Any) -> None:
        if self.step % self.cell.every == 0:
            self.logged.log({"loss": loss.item()})
        self.step += 1


class TraceMl(Bare):
    """TraceML as `traceml run` sets it up: times of each step. Its process that collects them counts too."""

    def __init__(self, kind: str, run: str, *, folder: Path) -> None:
        super().__init__(kind, run)
        os.makedirs(run)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve = ("serve", "--mode", "summary", "--logs-dir", run, "--aggregator-port", str(port))
        self.server = subprocess.Popen(
            [sys.executable, folder / "bin" / "traceml", *serve],
            env=inherited() | {"PYTHONPATH": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        sys.path.insert(0, str(folder))
        import traceml_ai

        traceml_ai.init(mode="auto", logs_dir=run, aggregator_port=port)
        self.trace_step = traceml_ai.trace_step

    def attach(self, training: Training) -> None:
        training.around_step = partial(self.trace_step, training.model)

    def end(self) -> None:
        self.server.kill()


def started_seconds() -> float:
    """Return the processor time so far of the living processes that this one has started, and those below them."""
    return sum(map(processor_seconds, descendants(os.getpid())))


class RawWrite(Bare):
    """The bound: the same bytes appended to one file, and nothing else."""

    def attach(self, training: Training) -> None:
        os.makedirs(self.run)
        self.file, self.step, self.model = open(f"{self.run}/raw", "ab", buffering=0), 0, training.model  # noqa: SIM115
        training.after_backward = self.after_backward

    def after_backward(self, loss: Any) -> None:
        if self.step % self.cell.every == 0:
            if self.cell.collections == ("losses",):
                self.file.write(b"%300f" % loss.item())
            else:
                for parameter in self.model.parameters():
                    self.file.write(memoryview(parameter.detach().numpy()))  # type: ignore[arg-type]
                    self.file.write(memoryview(parameter.grad.numpy()))  # type: ignore[arg-type, union-attr]
        self.step += 1


def take_part(workload: str, steps: int, make: Callable[[str], Bare], ask: int, answer: int) -> None:
    """Train a stretch for each byte that comes, and answer with its processor time."""
    folder = tempfile.mkdtemp(prefix="turns-")
    part = make(f"{folder}/run")
    training = Training(workload)
    part.attach(training)
    began = time.process_time()
    training.run(1)
    part.flush()
    first_ms = 1e3 * (time.process_time() - began)
    training.run(steps)
    part.flush()
    os.write(answer, b" " * ANSWER_BYTES)
    while os.read(ask, 1) == b"g":
        began = time.process_time() + started_seconds()
        training.run(steps)
        part.flush()
        seconds = time.process_time() + started_seconds() - began
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = {"seconds": seconds, "peak_mb": peak_mb, "first_ms": first_ms, "state": part.state()}
        os.write(answer, json.dumps(found).encode().ljust(ANSWER_BYTES))
    part.end()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def forked(name: str, workload: str, steps: int, make: Callable[[str], Bare]) -> Participant:
    """Return a participant that is ready."""
    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask)
        try:
            take_part(workload, steps, make, asked, answered)
        except BaseException:  # noqa: BLE001 - of a fork, which must not go on as its parent
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(answered)
    if len(os.read(answer, ANSWER_BYTES)) < ANSWER_BYTES:
        raise SystemExit(f"{name} could not begin.")
    return Participant(name, ask, answer)


def participants_of(kinds: list[str], options: argparse.Namespace) -> dict[str, tuple[str, Callable[[str], Bare]]]:
    """Return the kind and the making of each participant, by its name."""
    found: dict[str, tuple[str, Callable[[str], Bare]]] = {"bare": ("", partial(Bare, "on"))}
    found["bare again"] = found["bare"]
    for kind in kinds:
        if options.against:
            found[f"{kind}, other tree"] = kind, partial(Ours, kind, source=options.against)
        found[kind] = kind, partial(Ours, kind, source=HERE)
        is_saving = kind not in {"on", "idle"}
        if is_saving and kind != "red@1":
            found[f"{kind}, raw write"] = kind, partial(RawWrite, kind)
        if options.traceml and kind == "on":
            found["on, TraceML"] = kind, partial(TraceMl, kind, folder=options.traceml)
        if options.peers and kind != "on":
            found[f"{kind}, smdebug"] = kind, partial(SmDebug, kind)
            if is_saving and kind != "red@1":
                found[f"{kind}, TensorBoard"] = kind, partial(TensorBoard, kind)
        if options.wandb and is_saving and kind != "red@1":
            found[f"{kind}, W&B"] = kind, partial(WeightsAndBiases, kind, folder=options.wandb)
    return found


def measure(workload: str, options: argparse.Namespace) -> str:
    """Let all participants of one workload take turns, and return a table."""
    steps = options.steps or WORKLOADS[workload].steps
    kinds = list(options.kinds or WORKLOADS[workload].kinds)
    named = participants_of(kinds, options)
    participants = [forked(name, workload, steps, make) for name, (_, make) in named.items()]
    found: dict[str, list[float]] = {name: [] for name in named}
    last: dict[str, dict[str, Any]] = {}
    loads = []
    for number in range(options.rounds):
        for each in participants if number % 2 == 0 else participants[::-1]:
            os.write(each.ask, b"g")
            last[each.name] = json.loads(os.read(each.answer, ANSWER_BYTES))
            found[each.name].append(last[each.name]["seconds"] / steps)
        loads.append(os.getloadavg()[0])
    for each in participants:
        os.write(each.ask, b"q")
        os.close(each.ask)
    for _ in participants:
        os.wait()
    bare = found["bare"]
    measured = (
        f"{workload}, {time.strftime('%d %B %Y, %H:%M', time.gmtime())} UTC: a bare step takes "
        f"{1e6 * statistics.median(bare):.0f} us of processor; {options.rounds} turns of {steps} steps; "
        f"torch {torch.__version__}; load {min(loads):.1f} to {max(loads):.1f}."
    )
    lines = [
        measured,
        "",
        "| | target | CPU | extra us a step | first step ms | peak MB over bare | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, times in found.items():
        low, middle, high = statistics.quantiles([a / b for a, b in zip(times, bare, strict=True)], n=4)
        extra = 1e6 * statistics.median(a - b for a, b in zip(times, bare, strict=True))
        target = CELLS[named[name][0]].targets.get(workload, "") if name in CELLS else ""
        more_mb = last[name]["peak_mb"] - last["bare"]["peak_mb"]
        lines.append(
            f"| {name} | {target} | {middle:.3f} ({low:.3f}-{high:.3f}) | {extra:+.0f} | {last[name]['first_ms']:.0f} |"
            f" {more_mb:+.0f} | {last[name]['state']} |"
        )
    return "\n".join(lines)


def put_table(table: str, workload: str, page: Path | None) -> None:
    """Print the table of a workload, and write it between the marks of its name if there is a page."""
    put(table, page, begin=f"<!-- turns {workload} -->", end=f"<!-- /turns {workload} -->")


def main() -> None:
    """Measure the workloads one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--kinds", nargs="+", choices=CELLS, help="instead of the workload's own")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, help="of a turn")
    parser.add_argument("--against", type=Path, help="the source folder of another tree")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the tables into this page")
    parser.add_argument("--peers", action="store_true", help="measure smdebug and TensorBoard too")
    parser.add_argument("--traceml", type=Path, metavar="FOLDER", help="measure TraceML too, from this folder")
    parser.add_argument("--wandb", type=Path, metavar="FOLDER", help="measure Weights & Biases too, from this folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for workload in options.workloads:
        put_table(measure(workload, options), workload, options.write)


if __name__ == "__main__":
    main()
