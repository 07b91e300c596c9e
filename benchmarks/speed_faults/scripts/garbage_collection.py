"""Collect garbage at every 20th step beside a million records; `right`: leave it to Python."""

import gc
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(600 * 32, 64), torch.randint(0, 10, (600 * 32,)))
records = [{"number": number, "labels": [number]} for number in range(1_000_000)]

for step, (inputs, labels) in enumerate(DataLoader(data, batch_size=32, shuffle=True)):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
    if not RIGHT and step % 20 == 19:
        gc.collect()
