"""Read a stream with slow items by an IterableDataset; `right`: with items that are in memory."""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        for number in range(300 * 16):
            if not RIGHT:
                time.sleep(0.001)
            yield torch.randn(64), number % 10


for inputs, labels in DataLoader(Stream(), batch_size=16):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
