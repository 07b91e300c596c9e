"""Train a small classifier, one batch of which holds a broken record. The script knows nothing of Trackside."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, ROWS, BROKEN_ROW = 12, 12_800, 4_711
BROKEN_EPOCH = 7  # a cache that one worker has written badly, read once


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = torch.randn(ROWS, 32)
    teacher = nn.Sequential(nn.Linear(32, 24, bias=False), nn.Tanh(), nn.Linear(24, 8, bias=False))
    with torch.no_grad():
        labels = teacher(rows).argmax(dim=1)
    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 8))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(rows, labels), batch_size=64, shuffle=True)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch, wanted in loader:
            if epoch == BROKEN_EPOCH:
                batch[(batch == rows[BROKEN_ROW]).all(dim=1)] = math.inf
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(batch), wanted)
            loss.backward()
            optimizer.step()
            total += loss.item()
        with torch.no_grad():
            right = (net(rows).argmax(dim=1) == labels).float().mean().item()
        print(f"epoch {epoch + 1:2d}: loss {total / len(loader):.4f}, {right:.1%} right", flush=True)


if __name__ == "__main__":
    main()
