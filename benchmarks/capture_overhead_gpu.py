"""What capture costs training on a GPU, eager and compiled: wall time between CUDA events, CPU time, graphs, waits.

    .venv/bin/python benchmarks/capture_overhead_gpu.py [--workloads mlp conv gpt] [--modes eager compiled]
    .venv/bin/python benchmarks/capture_overhead_gpu.py --device cpu --tiny      # a trial of the benchmark itself

As capture_overhead.py: blocks of bare, hooked, hooked, bare stretches of one training; figures are ratios to bare, the
median of the blocks and the middle half of them. Wall time is from one CUDA event to another with all steps between
them, and ends before what the writer still has to store; CPU time is that of all threads to the end of what was stored.
The training asks for no number of its own, so that the CPU runs ahead of the GPU, as in a well-written script; CPU
time in a step is felt only where the GPU has to wait for it. The batches are those of the CPU's benchmark, larger.

Beside the times, in a short training of its own: how many graphs torch.compile has broken off, and made anew after the
second step, beyond those of the bare training; and how often a step waits for the GPU, as CUDA's own check tells.
"""

import argparse
import gc
import itertools
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import torch
from capture_overhead import A_A, KINDS, Cell, quartiles
from capture_overhead_cell import Nobody, Ours, warm_up
from capture_workloads import Workload

CELLS = [A_A, *(Cell(k) for k in KINDS if k.name in {"idle", "loss@1", "wgb@10", "red@1", "always-on"})]
STEPS = {"mlp": 1000, "conv": 200, "gpt": 100}
COUNTED_STEPS = 24


class Device:
    """Its clock. A CPU's is the host's."""

    def __init__(self, name):
        self.name = name
        self.is_cuda = name.startswith("cuda")

    def settle(self):
        if self.is_cuda:
            torch.cuda.synchronize(self.name)

    def mark(self):
        if not self.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin, end):
        if not self.is_cuda:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def description(self):
        return torch.cuda.get_device_name(self.name) if self.is_cuda else "CPU"


def watch(cell, location, workload):
    return (Ours if cell.by == "ours" else Nobody)(cell, location, workload)


def measure(workload, cell, steps, location, device):
    """Wall seconds on the device and CPU seconds of one stretch."""
    gc.collect()
    watcher = watch(cell, location, workload)
    settled = warm_up(watcher, cell, steps)
    watcher.flush()
    device.settle()
    cpu, begin = time.process_time(), device.mark()
    workload.run(steps)
    wall = device.seconds(begin, device.mark())
    watcher.flush()
    cpu = time.process_time() - cpu
    watcher.close()
    return wall, cpu, settled


def graphs():
    """(broken off, made) so far."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]


def counted(make_workload, cell, location, device, is_compiled):
    """(graph breaks, graphs made after the second step, waits a step, graphs made by then) of a training of its own.

    Capture is there before the model is compiled, as in a captured job.
    """
    if is_compiled:
        torch._dynamo.reset()
    broken_before, made_before = graphs() if is_compiled else (0, 0)
    workload = make_workload()
    watcher = watch(cell, location, workload)
    workload.run(2)
    made = graphs()[1] if is_compiled else 0
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        if device.is_cuda:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            workload.run(COUNTED_STEPS)
        finally:
            if device.is_cuda:
                torch.cuda.set_sync_debug_mode("default")
    waits_a_step = sum("synchroniz" in str(w.message) for w in waits) / COUNTED_STEPS
    watcher.close()
    if not is_compiled:
        return 0, 0, waits_a_step, 0
    return graphs()[0] - broken_before, graphs()[1] - made, waits_a_step, made - made_before


def rows(name, mode, arguments, device, folder):
    """The table's rows of one workload in one mode."""
    steps = arguments.steps or (10 if arguments.tiny else STEPS[name])
    locations = (str(folder / f"{name}-{mode}-{place}") for place in itertools.count())

    def make_workload():
        made = Workload(
            name,
            device=arguments.device,
            is_tiny=arguments.tiny,
            batch_times=arguments.batch_times or (16 if device.is_cuda else 1),
            reads_losses=False,
        )
        if mode == "compiled":
            made.compile(arguments.backend)
        return made

    cells = [cell for cell in CELLS if cell is A_A or not arguments.only or cell.name in arguments.only]
    counts = {c.name: counted(make_workload, c, next(locations), device, mode == "compiled") for c in cells}
    workload = make_workload()
    workload.run(steps)
    bare_ms = []
    for cell in cells:
        ratios = []
        for _ in range(arguments.blocks):
            a, b, c, d = (measure(workload, one, steps, next(locations), device) for one in (A_A, cell, cell, A_A))
            ratios.append([(b[place] + c[place]) / (a[place] + d[place]) for place in (0, 1)])
            bare_ms += [each[0] / steps * 1000 for each in (a, d)]
        wall, cpu = zip(*ratios, strict=True)
        breaks, remade, waits, _ = (mine - bare for mine, bare in zip(counts[cell.name], counts[A_A.name], strict=True))
        graph_columns = [breaks, remade] if mode == "compiled" else ["", ""]
        waited = f"{waits:.2f}" if device.is_cuda else ""
        columns = [name, mode, cell.name, quartiles(wall), quartiles(cpu), *graph_columns, waited, c[2]]
        print("|", " | ".join(map(str, columns)), "|", flush=True)
        shutil.rmtree(folder)
        folder.mkdir()
    median = sorted(bare_ms)[len(bare_ms) // 2]
    breaks, remade, waits, made = counts[A_A.name]
    bare = [name, mode, f"bare: {median:.3f} ms a step, {made} graphs", "", "", breaks, remade, f"{waits:.2f}", ""]
    print("|", " | ".join(map(str, bare)), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workloads", nargs="*", default=list(STEPS), choices=STEPS)
    parser.add_argument("--modes", nargs="*", default=["eager", "compiled"], choices=["eager", "compiled"])
    parser.add_argument("--only", nargs="*", default=(), help="cells: idle, loss@1, ...")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of four stretches a cell")
    parser.add_argument("--steps", type=int, help="optimizer steps a stretch")
    parser.add_argument("--batch-times", type=int, help="how many times the batches of the CPU's benchmark (GPU: 16)")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--tiny", action="store_true", help="thin models and short stretches: figures mean nothing")
    arguments = parser.parse_args()
    device = Device(arguments.device)
    if device.is_cuda and not torch.cuda.is_available():
        print("not run: there is no CUDA GPU")
        return
    torch.set_num_threads(1)
    print(f"{device.description()}; torch {torch.__version__}; {time.strftime('%d %b %Y %H:%M')}; ratios to bare")
    print("| training | mode | cell | wall | CPU | graph breaks | graphs remade | waits a step | thinning |")
    print("|---|---|---|---|---|---|---|---|---|")
    folder = Path(tempfile.mkdtemp(prefix="capture-overhead-gpu-"))
    try:
        for name, mode in itertools.product(arguments.workloads, arguments.modes):
            rows(name, mode, arguments, device, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
