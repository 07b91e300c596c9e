"""One cell of capture_overhead.py, in a process of its own: its last line of output is what it has measured, as JSON.

capture_overhead_cell.py WORKLOAD KIND BY STEPS BLOCKS
"""

import gc
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
import types
from pathlib import Path

import numpy as np
import torch
from capture_overhead import KINDS, NEVER, Cell, Kind
from capture_workloads import Workload
from torch import nn

SETTLED_LOOKS = 4  # the always-on statistics' intervals have settled when so many looks at them find the same
LOOK_STEPS = 32
MOST_LOOKS = {"mlp": 60, "conv": 8, "gpt": 8}
# Touched and let go before each stretch, bare or not: a virtual machine that has given unused memory back to its host
# pays for each page once more, whoever is the first to need it.
TOUCHED_BYTES = 600 << 20


class Nobody:
    """Bare."""

    mode = "nobody"
    after_backward = None

    def __init__(self, cell, location, workload):
        self.workload = workload

    def flush(self):
        pass

    def close(self):
        pass


class Ours(Nobody):
    """This library, attached as it would be to a script that knows nothing of it."""

    mode = "Trackside"

    def __init__(self, cell, location, workload):
        from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
        from trackside.environment import CaptureEnvironment
        from trackside.frameworks.pytorch import PyTorchAdapter

        super().__init__(cell, location, workload)
        kind = cell.kind
        # From the first step on, so that looking the names up, once, is not within what is measured.
        schedule = Schedule(kind.every, 1 if kind.every == NEVER else 0)
        requests = tuple(CollectionRequest(name, schedule, reductions=kind.reductions) for name in kind.collections)
        request = CaptureRequest(requests, statistics=StatisticsRequest(enabled=kind.name == "always-on"))
        self.capture = PyTorchAdapter(CaptureEnvironment(location, request.to_json(), 0, 1))
        self.capture.install()

    @property
    def intervals(self):
        """How often the always-on statistics are taken now."""
        return self.capture.session.statistics.budget.intervals

    def flush(self):
        self.capture.flush(60)

    def close(self):
        self.capture.uninstall()


class SmDebug(Nobody):
    """The original. Its hooks stay on a model for good: it has a model of its own, and one hook for all stretches."""

    mode = "smdebug 1.0.34"
    one = None

    def __new__(cls, cell, location, workload):
        if cls.one is None:
            cls.one = super().__new__(cls)
            cls.one.begin(cell, location, type(workload)(workload.kind))
        return cls.one

    def __init__(self, cell, location, workload):
        pass

    def begin(self, cell, location, workload):
        # What serves its profiler only, and is not installed.
        for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
            sys.modules.setdefault(absent, types.ModuleType(absent))
        sys.modules["pyinstrument"].Profiler = sys.modules["pyinstrument.renderers"].JSONRenderer = object
        import smdebug
        from smdebug.core.reduction_config import ReductionConfig
        from smdebug.core.save_config import SaveConfig
        from smdebug.pytorch import Hook

        assert smdebug.__version__ == "1.0.34"
        kind = cell.kind
        self.workload = workload
        reductions = ReductionConfig(
            reductions=["mean", "std", "min", "max"], norms=["l1", "l2"], abs_reductions=["max"]
        )
        saves_all = "outputs" in kind.collections
        self.hook = Hook(
            out_dir=location,
            save_config=SaveConfig(save_interval=kind.every),
            include_collections=None if saves_all else list(kind.collections),
            save_all=saves_all,
            reduction_config=reductions if kind.reductions else None,
        )
        self.hook.register_module(workload.model)
        if kind.collections == ("losses",) or saves_all:
            workload.criterion = nn.CrossEntropyLoss()
            self.hook.register_loss(workload.criterion)

    def flush(self):
        self.hook._close_writers()


class ByHand(Nobody):
    """What a script would do itself, in its loop."""

    def __init__(self, cell, location, workload):
        super().__init__(cell, location, workload)
        self.kind, self.location, self.model = cell.kind, location, workload.model
        self.saves = 0
        self.slabs = {}
        self.activations = {}
        self.is_due = True
        self.handles = []
        if "outputs" in self.kind.collections:
            for name, module in self.model.named_modules():
                self.handles.append(module.register_forward_hook(self.keeping(name)))
        os.makedirs(location)

    def keeping(self, name):
        def keep(_module, inputs, output):
            if self.is_due:
                self.activations[f"{name}_input"], self.activations[f"{name}_output"] = (
                    inputs[0].detach(),
                    output.detach(),
                )

        return keep

    def tensors(self, loss):
        if self.kind.collections == ("losses",):
            return {"loss": loss.detach()}
        tensors = {"loss": loss.detach()} if "losses" in self.kind.collections else {}
        for name, parameter in self.model.named_parameters():
            tensors[name] = parameter.detach()
            tensors[f"gradient/{name}"] = parameter.grad
        return tensors | self.activations

    def after_backward(self, step, loss):
        if step % self.kind.every == 0:
            tensors = self.tensors(loss)
            self.save(self.reduced(tensors) if self.kind.reductions else tensors)
            self.saves += 1
            self.activations = {}
        self.is_due = (step + 1) % self.kind.every == 0

    def flush(self):
        self.is_due = True  # the steps of the next stretch begin at 0

    def reduced(self, tensors):
        """The seven reductions of each, by NumPy, which takes half as long as PyTorch for it."""
        found = {}
        for name, tensor in tensors.items():
            values = tensor.numpy()
            sizes = np.abs(values)
            numbers = (
                values.mean(), values.std(), values.min(), values.max(), sizes.sum(),
                np.sqrt(np.square(values).sum()), sizes.max(),
            )  # fmt: skip
            found |= {f"{name}/{key}": value for key, value in zip(self.kind.reductions, numbers, strict=True)}
        return found

    def close(self):
        for handle in self.handles:
            handle.remove()


class Copy(ByHand):
    """The bound: a copy into warm memory, and nothing done with it. Of reductions, the tensors that they are of."""

    mode = "copy only"

    def reduced(self, tensors):
        return tensors

    def save(self, tensors):
        if not self.slabs:
            self.slabs = [torch.empty_like(value) for value in tensors.values()]
        torch._foreach_copy_(self.slabs, list(tensors.values()))


class Raw(ByHand):
    """The bound of all that write: the bytes of a step in one file, without names or checksums."""

    mode = "raw write"

    def save(self, tensors):
        data = b"".join(np.ascontiguousarray(value).tobytes() for value in tensors.values())
        descriptor = os.open(f"{self.location}/{self.saves}", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, data)
        os.close(descriptor)


class NumpySave(ByHand):
    """A file for each tensor."""

    mode = f"np.save {np.__version__}"

    def save(self, tensors):
        for name, value in tensors.items():
            np.save(f"{self.location}/{self.saves}-{name.replace('/', '-')}.npy", value.numpy())


class TensorBoard(ByHand):
    """Scalars of losses and reductions, histograms of all else, as its users do."""

    def __init__(self, cell, location, workload):
        import tensorboard
        from torch.utils.tensorboard import SummaryWriter

        super().__init__(cell, location, workload)
        self.mode = f"tensorboard {tensorboard.__version__}"
        self.writer = SummaryWriter(location)

    def save(self, tensors):
        for name, value in tensors.items():
            if value.ndim:
                self.writer.add_histogram(name, value, self.saves)
            else:
                self.writer.add_scalar(name, value, self.saves)

    def flush(self):
        super().flush()
        self.writer.flush()

    def close(self):
        super().close()
        self.writer.close()


class WandB(ByHand):
    """The same, offline."""

    def __init__(self, cell, location, workload):
        import wandb

        super().__init__(cell, location, workload)
        self.mode = f"wandb {wandb.__version__}, offline"
        self.wandb = wandb
        self.run = wandb.init(mode="offline", dir=location, project="overhead", reinit="finish_previous")

    def save(self, tensors):
        histogram = self.wandb.Histogram
        self.run.log(
            {name: histogram(value.numpy()) if value.ndim else float(value) for name, value in tensors.items()}
        )

    def flush(self):
        """Until the process that it has started has nothing more to do, at most 5 seconds."""
        super().flush()
        before, end = -1.0, time.monotonic() + 5
        while before < (now := cpu_seconds() - time.process_time()) and time.monotonic() < end:
            before = now
            time.sleep(0.05)

    def close(self):
        super().close()
        self.run.finish()


BY = {
    "nobody": Nobody, "ours": Ours, "smdebug": SmDebug, "copy": Copy, "raw": Raw, "np.save": NumpySave,
    "tensorboard": TensorBoard, "wandb": WandB,
}  # fmt: skip


def cpu_seconds():
    """Of this process and of those that it has started; theirs only to a hundredth of a second."""
    return time.process_time() + sum(map(cpu_seconds_below, children(os.getpid())))


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def cpu_seconds_below(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return own + sum(map(cpu_seconds_below, children(pid)))
    except OSError:  # it has ended
        return 0.0


def warm_up(watcher, cell, steps):
    """The first step and its one-time costs: naming, the thread, the folders. Says how long the thinning took."""
    workload = watcher.workload
    if cell.kind.name != "always-on" or cell.by != "ours":
        workload.run(min(steps, 12), watcher.after_backward)
        return ""
    seen = []
    for look in range(MOST_LOOKS[workload.kind]):
        workload.run(LOOK_STEPS, watcher.after_backward)
        seen.append(watcher.intervals)
        if len(set(seen[-SETTLED_LOOKS:])) == 1 and look >= SETTLED_LOOKS:
            return f"settled after {(look + 1) * LOOK_STEPS} steps at {seen[-1]}"
    return f"not settled after {len(seen) * LOOK_STEPS} steps: {seen[-1]}"


def measure(workload, cell, steps, location):
    """CPU and wall seconds of one stretch, by whom, and how the thinning settled."""
    gc.collect()
    watcher = BY[cell.by](cell, location, workload)
    settled = warm_up(watcher, cell, steps)
    watcher.flush()
    np.ones(TOUCHED_BYTES, np.uint8)
    cpu, wall = cpu_seconds(), time.perf_counter()
    watcher.workload.run(steps, watcher.after_backward)
    wall = time.perf_counter() - wall
    watcher.flush()
    cpu = cpu_seconds() - cpu
    watcher.close()
    return cpu, wall, watcher.mode, settled


def main():
    kind, name, by, steps, blocks = sys.argv[1:]
    steps, blocks = int(steps), int(blocks)
    torch.set_num_threads(1)
    bare = Cell(Kind("a/a"), "nobody")
    cell = next((Cell(each, by) for each in KINDS if each.name == name), bare)
    workload = Workload(kind)
    workload.run(steps)
    found = {"cpu": [], "wall": [], "bare_ms": [], "torch": torch.__version__}
    folder = Path(tempfile.mkdtemp(prefix="capture-overhead-"))
    try:
        locations = (str(folder / f"run{place}") for place in itertools.count())
        for _ in range(blocks):
            a, b, c, d = (measure(workload, one, steps, next(locations)) for one in (bare, cell, cell, bare))
            for place, key in enumerate(("cpu", "wall")):
                found[key].append((b[place] + c[place]) / (a[place] + d[place]))
            found["bare_ms"] += [a[0] / steps * 1000, d[0] / steps * 1000]
            found |= {"by": b[2], "settled": c[3]}
            if kind != "mlp" and by != "smdebug":
                # Large runs would fill the disk. Small ones stay: ext4 makes new files slowly for seconds after
                # others were removed.
                shutil.rmtree(folder)
                folder.mkdir()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
