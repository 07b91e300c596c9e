"""Fetch batches by hand from a data set with slow items; `right`: with items that are in memory."""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return 300 * 16

    def __getitem__(self, number: int) -> Any:
        if not RIGHT:
            time.sleep(0.001)
        return torch.randn(64), number % 10


batches = iter(DataLoader(Items(), batch_size=16))
for _ in range(300):
    inputs, labels = next(batches)
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
