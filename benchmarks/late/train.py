"""Trains the runs of the trial under Trackside's capture, and stores them in `build/late`.

    python -m benchmarks.late.train [--only ramp]

A run that is stored already is not trained again. Statistics may cost what they like (`budget` 1), so that the trial
says the same on every machine; `--budget 0.02` is the default of a run, with another `--root`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import torch

from benchmarks.late.trainings import FAULTY, HEALTHY, Training, train
from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.rules.catalogue import default_request

ROOT = Path("build/late")
LOSSES = "losses.json"


def store(training: Training, root: Path, *, budget: float = 1.0) -> None:
    """Train, and store the run and its losses; what is half done is made again."""
    folder = root / training.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rules = built_in_catalogue().capture_request(default_request())
    request = CaptureRequest(rules.collections, statistics=StatisticsRequest(budget=budget))
    run = str((folder / "run").absolute())
    capture = PyTorchAdapter(CaptureEnvironment(run_uri=run, capture_request=request.to_json(), rank=0, world_size=1))
    capture.install()
    try:
        losses = list(train(training))
    finally:
        capture.uninstall()
    (folder / LOSSES).write_text(json.dumps(losses), encoding="utf-8")


def main() -> int:
    """Train what is not stored, each in a process of its own."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="trainings whose name holds this")
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--budget", type=float, default=1.0, help="share of a step that statistics may cost")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for training in (*HEALTHY, *FAULTY):
        if arguments.only not in training.name or (arguments.root / training.name / LOSSES).exists():
            continue
        began = time.perf_counter()
        child = os.fork()
        if not child:
            status = 1
            try:
                store(training, arguments.root, budget=arguments.budget)
                status = 0
            finally:
                os._exit(status)
        failed += os.waitpid(child, 0)[1] != 0
        print(f"{training.name} {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
