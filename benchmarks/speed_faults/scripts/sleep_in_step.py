"""Sleep for 20 ms in each step, as a limit of a rate does; `right`: do not."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(300 * 64, 64), torch.randint(0, 10, (300 * 64,)))

for inputs, labels in DataLoader(data, batch_size=64, shuffle=True):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
    if not RIGHT:
        time.sleep(0.02)
