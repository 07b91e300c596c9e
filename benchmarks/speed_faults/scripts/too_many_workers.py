"""Start 24 workers in each short epoch; `right`: none, for the items are in memory."""

import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(20 * 128, 64), torch.randint(0, 10, (20 * 128,)))
workers: dict[str, Any] = {} if RIGHT else {"num_workers": 24}
loader = DataLoader(data, batch_size=128, shuffle=True, **workers)

for _ in range(12):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss_function(model(inputs), labels).backward()
        optimizer.step()
