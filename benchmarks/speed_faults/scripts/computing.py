"""Compute for nearly all of each step: nothing is wrong here."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(150 * 128, 64), torch.randint(0, 10, (150 * 128,)))

for inputs, labels in DataLoader(data, batch_size=128, shuffle=True):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
