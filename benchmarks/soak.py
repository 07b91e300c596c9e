"""Whether a long training with everything captured grows: memory, threads, open files.

    .venv/bin/python benchmarks/soak.py [--minutes 60] [--interval 5]

A small convolutional network trains and is evaluated now and then; every built-in collection is saved every `interval`
steps into a new folder, with files for TensorBoard and always-on statistics. A sample is taken every 1/60 of the time.
The first third is warm-up. Exit code 1 if the median of the last third of the samples lies above that of the second by
more than 2 % and 8 MiB of memory, or if any thread or file more is open at the end than after the warm-up.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter

SAMPLES = 60
KEPT_STEPS = 20_000  # older steps are removed from the disk, not to fill it


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 16, 10))

    def forward(self, images):
        return self.head(self.body(images))


def sample(started, steps):
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "minutes": (time.monotonic() - started) / 60,
        "steps": steps,
        "rss_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "threads": len(os.listdir("/proc/self/task")),
        "python_threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }


def train_for(minutes):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = torch.randn(64, 8, 1, 8, 8), torch.randint(0, 10, (64, 8))
    started, samples, steps = time.monotonic(), [], 0
    while len(samples) < SAMPLES:
        number = steps % 64
        optimizer.zero_grad()
        functional.cross_entropy(model(images[number]), labels[number]).backward()
        optimizer.step()
        steps += 1
        if steps % 100 == 0:
            model.eval()
            with torch.no_grad():
                functional.cross_entropy(model(images[0]), labels[0])
            model.train()
        if time.monotonic() - started >= (len(samples) + 1) * minutes * 60 / SAMPLES:
            samples.append(sample(started, steps))
            yield samples[-1]


def removed(run, before):
    """Takes old steps off the disk, which a run of an hour would fill; capture never looks back at them."""
    for folder in sorted((run / "debug-output" / "events").glob("*"))[: -KEPT_STEPS // 10]:
        if int(folder.name) < before:
            shutil.rmtree(folder)


def verdict(samples):
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    before, after = (statistics.median(each["rss_mib"] for each in part) for part in (middle, last))
    problems = []
    if after > before * 1.02 + 8:
        problems.append(f"memory grew from {before:.1f} to {after:.1f} MiB")
    grown = (what for what in ("threads", "files") if last[-1][what] > max(each[what] for each in samples[:third]))
    problems += [f"{what} grew to {last[-1][what]}" for what in grown]
    return before, after, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--interval", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        collections = tuple(CollectionRequest(name, Schedule(arguments.interval)) for name in BUILT_IN_COLLECTIONS)
        request = CaptureRequest(collections, tensorboard=str(Path(folder, "tensorboard")))
        capture = PyTorchAdapter(CaptureEnvironment(str(run), request.to_json(), 0, 1))
        capture.install()
        samples = []
        print("minutes    steps  RSS MiB  threads  of Python  files", flush=True)
        for each in train_for(arguments.minutes):
            samples.append(each)
            removed(run, each["steps"] - KEPT_STEPS)
            if len(samples) % 5 == 0:
                print(
                    f"{each['minutes']:7.1f} {each['steps']:8d} {each['rss_mib']:8.1f} {each['threads']:8d} "
                    f"{each['python_threads']:10d} {each['files']:6d}",
                    flush=True,
                )
        capture.uninstall()
        left = threading.active_count()
    before, after, problems = verdict(samples)
    print(f"memory, median of the second third and of the last: {before:.1f} and {after:.1f} MiB")
    if left > 1:
        problems.append(f"{left - 1} threads of Python outlive the capture")
    print("; ".join(problems) or "nothing grew")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
