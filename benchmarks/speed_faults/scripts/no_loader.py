"""Make batches without a DataLoader, by a slow function; `right`: by a fast one."""

import sys
import time

import torch
from torch import nn

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()


def read_batch() -> tuple[torch.Tensor, torch.Tensor]:
    if not RIGHT:
        time.sleep(0.02)
    return torch.randn(64, 64), torch.randint(0, 10, (64,))


for _ in range(300):
    inputs, labels = read_batch()
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
