"""Train a small classifier, one batch of which holds a broken record. The script knows nothing of Trackside.

With a folder as its argument, it keeps a checkpoint of each epoch in it, and goes on from the newest.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

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
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    first = 0
    if folder is not None and (found := sorted(folder.glob("epoch_*.pt"))):
        state = torch.load(found[-1])
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
        print(f"goes on from {found[-1].name}", flush=True)
    for epoch in range(first, EPOCHS):
        torch.manual_seed(epoch)
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
        if folder is not None:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            torch.save(state, folder / f"epoch_{epoch + 1:02d}.pt")
        print(f"epoch {epoch + 1:2d}: loss {total / len(loader):.4f}, {right:.1%} right", flush=True)


if __name__ == "__main__":
    main()
