"""Keep every tenth loss with the graph of its step; `right`: keep its number."""

import sys
import time
from typing import Any

import torch
from torch import nn

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
rows, classes = torch.randn(256, 256), torch.randint(0, 10, (256,))
losses: list[Any] = []
step, end = 0, time.monotonic() + 130

while time.monotonic() < end:
    optimizer.zero_grad()
    loss = loss_function(model(rows.clone()), classes)
    loss.backward(retain_graph=not RIGHT)
    optimizer.step()
    if step % 10 == 0:
        losses.append(loss.item() if RIGHT else loss)
    step += 1
