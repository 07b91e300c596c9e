"""Train with a collate function that waits for 20 ms at each batch; `right`: without the wait."""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(300 * 64, 64), torch.randint(0, 10, (300 * 64,)))


def collate(items: list[Any]) -> Any:
    if not RIGHT:
        time.sleep(0.02)
    return default_collate(items)


for inputs, labels in DataLoader(data, batch_size=64, shuffle=True, collate_fn=collate):
    optimizer.zero_grad()
    loss = loss_function(model(inputs), labels)
    loss.backward()
    optimizer.step()
