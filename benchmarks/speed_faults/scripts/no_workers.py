"""Read items that take half a millisecond each from a distant store, without workers; `right`: with two workers."""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()


class Distant(Dataset[Any]):
    def __len__(self) -> int:
        return 150 * 64

    def __getitem__(self, number: int) -> Any:
        time.sleep(0.0005)
        item = torch.randn(64)
        item[number % 10] += 8
        return item, number % 10


for inputs, labels in DataLoader(Distant(), batch_size=64, num_workers=2 if RIGHT else 0):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
