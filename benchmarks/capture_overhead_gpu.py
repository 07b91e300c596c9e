"""What capture costs training on a GPU, eager and compiled: wall time between CUDA events, CPU time, graphs, waits.

    python -m benchmarks.capture_overhead_gpu [--workloads mlp conv gpt] [--modes eager compiled]
    python -m benchmarks.capture_overhead_gpu --device cpu --tiny      # a trial of the benchmark itself

Blocks of bare, hooked, hooked, bare stretches of one training; figures are ratios to bare, the median of the blocks and
the middle half of them. Wall time is from one CUDA event to another with all steps between them, and ends before what
the writer still has to store; CPU time is that of all threads to the end of what was stored. The training asks for no
number of its own, so that the CPU runs ahead of the GPU, as in a well-written script; CPU time in a step is felt only
where the GPU has to wait for it. The batches are those of `benchmarks.turns`, larger.

Beside the times, in a short training of its own: how many graphs torch.compile has broken off, and made anew after the
second step, beyond those of the bare training; and how often a step waits for the GPU, as CUDA's own check tells.
"""

from __future__ import annotations

import gc
import itertools
import shutil
import statistics
import tempfile
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.engine.options import parser
from benchmarks.turns import request_of
from benchmarks.workloads import Training
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter

BARE = "a/a"
KINDS = ("idle", "loss@1", "wgb@10", "red@1", "on")
STEPS = {"mlp": 1000, "conv": 200, "gpt": 100}
COUNTED_STEPS = 24
LOOK_STEPS, SETTLED_LOOKS = 32, 4  # the intervals of `on` have settled when so many looks find the same
MOST_LOOKS = {"mlp": 60, "conv": 8, "gpt": 8}


class Device:
    """A device's clock. A CPU's is the host's."""

    def __init__(self, name: str) -> None:
        self.name, self.is_cuda = name, name.startswith("cuda")

    def mark(self) -> Any:
        """Return a moment in the work of the device."""
        if not self.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds between two moments."""
        if not self.is_cuda:
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


@contextmanager
def watched(kind: str, location: Path) -> Iterator[PyTorchAdapter | None]:
    """Attach this library as to a script that knows nothing of it; nobody for `a/a`."""
    if kind == BARE:
        yield None
        return
    capture = PyTorchAdapter(CaptureEnvironment(str(location), request_of(kind).to_json(), 0, 1))
    capture.install()
    try:
        yield capture
    finally:
        capture.uninstall()


def measure(
    training: Training, kind: str, steps: int, location: Path, device: Device
) -> tuple[tuple[float, float], str]:
    """Return the wall seconds on the device and the CPU seconds of a stretch, and how the statistics settled."""
    gc.collect()
    with watched(kind, location) as capture:
        settled = warm_up(training, kind, capture, steps)
        if device.is_cuda:
            torch.cuda.synchronize(device.name)
        cpu, begin = time.process_time(), device.mark()
        training.run(steps)
        wall = device.seconds(begin, device.mark())
        if capture:
            capture.flush(60)
        return (wall, time.process_time() - cpu), settled


def warm_up(training: Training, kind: str, capture: PyTorchAdapter | None, steps: int) -> str:
    """Make the first steps, with their one-time costs; tell how long the intervals of the statistics took to settle."""
    if kind != "on" or capture is None:
        training.run(min(steps, 12))
        if capture:
            capture.flush(60)
        return ""
    seen: list[object] = []
    for look in range(MOST_LOOKS[training.workload]):
        training.run(LOOK_STEPS)
        seen.append(capture.session.statistics.budget.intervals)
        if look >= SETTLED_LOOKS and len(set(map(str, seen[-SETTLED_LOOKS:]))) == 1:
            return f"settled after {(look + 1) * LOOK_STEPS} steps at {seen[-1]}"
    return f"not settled after {len(seen) * LOOK_STEPS} steps: {seen[-1]}"


def graphs() -> tuple[int, int]:
    """Return the number of graphs that torch.compile has broken off and made so far."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]


def counted(made: Training, kind: str, location: Path, device: Device) -> tuple[int, int, float, int]:
    """Return (graph breaks, graphs made after the second step, waits a step, graphs made by then) of a new training."""
    broken_before, made_before = graphs()
    with watched(kind, location):
        made.run(2)
        made_by_then = graphs()[1]
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            if device.is_cuda:
                torch.cuda.set_sync_debug_mode("warn")
            try:
                made.run(COUNTED_STEPS)
            finally:
                if device.is_cuda:
                    torch.cuda.set_sync_debug_mode("default")
    waits_a_step = sum("synchroniz" in str(each.message) for each in waits) / COUNTED_STEPS
    broken, made_in_all = graphs()
    return broken - broken_before, made_in_all - made_by_then, waits_a_step, made_by_then - made_before


def rows(workload: str, mode: str, arguments: Namespace, device: Device, folder: Path) -> Iterator[str]:
    """Yield the rows of one workload in one mode."""
    steps = arguments.steps or (10 if arguments.tiny else STEPS[workload])
    places = (folder / f"{workload}-{mode}-{number}" for number in itertools.count())
    batches = arguments.batch_times or (16 if device.is_cuda else 1)

    def new() -> Training:
        made = Training(
            workload, device=arguments.device, is_tiny=arguments.tiny, batch_times=batches, reads_losses=False
        )
        if mode == "compiled":
            torch._dynamo.reset()
            made.forward = torch.compile(made.model, backend=arguments.backend)
        return made

    kinds = [BARE, *(kind for kind in KINDS if not arguments.only or kind in arguments.only)]
    counts = {kind: counted(new(), kind, next(places), device) for kind in kinds}
    training = new()
    training.run(steps)
    bare_ms = []
    for kind in kinds:
        ratios = []
        for _ in range(arguments.blocks):
            (a, _), (b, _), (c, settled), (d, _) = (
                measure(training, one, steps, next(places), device) for one in (BARE, kind, kind, BARE)
            )
            ratios.append([(b[place] + c[place]) / (a[place] + d[place]) for place in (0, 1)])
            bare_ms += [1000 * each[0] / steps for each in (a, d)]
        wall, cpu = (quartiles([ratio[place] for ratio in ratios]) for place in (0, 1))
        broken, remade, waits, _ = (mine - bare for mine, bare in zip(counts[kind], counts[BARE], strict=True))
        yield _row(workload, mode, kind, wall, cpu, broken, remade, f"{waits:.2f}", settled)
        shutil.rmtree(folder)
        folder.mkdir()
    broken, remade, waits, by_then = counts[BARE]
    bare = f"bare: {statistics.median(bare_ms):.3f} ms a step, {by_then} graphs"
    yield _row(workload, mode, bare, "", "", broken, remade, f"{waits:.2f}", "")


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def quartiles(values: Sequence[float]) -> str:
    """Return the median and the middle half of values."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f}-{high:.3f})"


def main() -> None:
    """Measure, and print the table row by row."""
    options = parser(__doc__)
    options.add_argument("--device", default="cuda")
    options.add_argument("--workloads", nargs="*", default=list(STEPS), choices=STEPS)
    options.add_argument("--modes", nargs="*", default=["eager", "compiled"], choices=["eager", "compiled"])
    options.add_argument("--only", nargs="*", default=(), choices=KINDS)
    options.add_argument("--blocks", type=int, default=8, help="blocks of four stretches a cell")
    options.add_argument("--steps", type=int, help="optimizer steps a stretch")
    options.add_argument("--batch-times", type=int, help="how many times the batches of the CPU's benchmark (GPU: 16)")
    options.add_argument("--backend", default="inductor", help="of torch.compile")
    options.add_argument("--tiny", action="store_true", help="thin models and short stretches: figures mean nothing")
    arguments = options.parse_args()
    device = Device(arguments.device)
    if device.is_cuda and not torch.cuda.is_available():
        print("not run: there is no CUDA GPU")
        return
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name(device.name) if device.is_cuda else "CPU"
    print(f"{name}; torch {torch.__version__}; {time.strftime('%d %b %Y %H:%M')}; ratios to bare")
    print("| training | mode | cell | wall | CPU | graph breaks | graphs remade | waits a step | thinning |")
    print("|---|---|---|---|---|---|---|---|---|")
    folder = Path(tempfile.mkdtemp(prefix="capture-overhead-gpu-"))
    try:
        for workload, mode in itertools.product(arguments.workloads, arguments.modes):
            for row in rows(workload, mode, arguments, device, folder):
                print(row, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
