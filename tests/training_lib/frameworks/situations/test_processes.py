"""Helpers of a training write nothing: spawned and forked processes, pools, loaders, programs that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trackside

ALL = {"losses": 1, "weights": 1, "biases": 1, "gradients": 1}

SCRIPT = """
import multiprocessing, subprocess, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)

class Data(Dataset):
    def __init__(self):
        self.model = nn.Linear(4, 2)

    def __len__(self):
        return 8

    def __getitem__(self, place):
        nn.functional.mse_loss(self.model(torch.ones(1, 4)), torch.zeros(1, 2)).backward()
        return torch.full((4,), float(place))

def look(number):
    # A helper that evaluates, and even computes gradients; what makes a training is an optimizer.
    model = nn.Linear(4, 2)
    model(torch.ones(1, 4)).sum().backward()
    return number

def train():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(look, [1, 2]) == [1, 2]
    for context in ("fork", "spawn"):
        for values in DataLoader(Data(), batch_size=4, num_workers=1, multiprocessing_context=context):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(values), torch.zeros(4, 2)).backward()
            optimizer.step()
    process = multiprocessing.get_context("fork").Process(target=look, args=(3,))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    print("trained")

if __name__ == "__main__":
    train()
"""


def test_only_the_training_itself_writes(script: Any, read: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = script(SCRIPT, run=run, intervals=ALL)
    assert (done.returncode, done.stdout, done.lines) == (0, "trained\n", []), done.stderr
    saved = read(str(run))
    assert list(saved) == [0, 1, 2, 3]
    names = {"Linear_weight", "Linear_bias", "gradient/Linear_weight", "gradient/Linear_bias", "MSELoss_output_0"}
    assert all(tensors.keys() == names for tensors in saved.values())
    trial = trackside.open_trial(str(run))
    assert trial.workers == ("worker_0",)
    assert trial.has_ended
