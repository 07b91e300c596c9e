"""Steps at which Lightning's SpikeDetection alarms on stored losses; run by an environment that has Lightning.

    ENV/bin/python benchmarks/late/lightning_alarm.py build/late     # prints JSON: name -> step or null

The callback is used as it comes, with a Fabric on one CPU process. It raises at its first alarm.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.spike import SpikeDetection, TrainingSpikeException


def first_alarm(fabric: Fabric, losses: Sequence[float]) -> int | None:
    """The step of the first alarm, or None."""
    with tempfile.TemporaryDirectory() as folder:
        detection = SpikeDetection(exclude_batches_path=folder)
        for step, loss in enumerate(losses):
            try:
                detection.on_train_batch_end(fabric, torch.tensor(loss), None, step)
            except TrainingSpikeException:
                return step
    return None


if __name__ == "__main__":
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    stored = sorted(Path(sys.argv[1]).glob("*/losses.json"))
    print(json.dumps({path.parent.name: first_alarm(fabric, json.loads(path.read_text())) for path in stored}))
