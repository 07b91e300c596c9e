"""Read images of 640 pixels for a model that takes 32; `right`: store them with 32 pixels."""

import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
pixels = 32 if RIGHT else 640
images = np.random.default_rng(0).integers(0, 255, (8, 3, pixels, pixels), dtype=np.uint8)


class Images(Dataset[Any]):
    def __len__(self) -> int:
        return 80 * 16

    def __getitem__(self, number: int) -> Any:
        return torch.from_numpy(images[number % 8]).float() / 255, number % 10


model = nn.Sequential(
    nn.AdaptiveAvgPool2d(32), nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(),
    nn.Linear(32 * 30 * 30, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()

for inputs, labels in DataLoader(Images(), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
