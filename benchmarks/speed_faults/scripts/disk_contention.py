"""Read items past the page cache, while two other programs write to the same disk; `right`: read them from memory."""

import mmap
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RIGHT = "right" in sys.argv
ITEM_BYTES, ITEMS = 1 << 18, 2048
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
folder = tempfile.TemporaryDirectory(dir=".")
path = os.path.join(folder.name, "items")
with open(path, "wb") as file:
    for _ in range(ITEMS):
        file.write(os.urandom(ITEM_BYTES))
    os.fsync(file.fileno())
descriptor = os.open(path, os.O_RDONLY if RIGHT else os.O_RDONLY | os.O_DIRECT)
space = mmap.mmap(-1, ITEM_BYTES)


class Stored(Dataset[Any]):
    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, number: int) -> Any:
        os.preadv(descriptor, [space], (number * 997 % ITEMS) * ITEM_BYTES)
        return torch.frombuffer(space, dtype=torch.uint8, count=64).float() / 255, number % 10


writers = [
    subprocess.Popen(
        ["dd", "if=/dev/zero", f"of={folder.name}/other{n}", "bs=1M", "count=400", "oflag=direct"],
        stderr=subprocess.DEVNULL,
    )
    for n in range(0 if RIGHT else 2)
]
end = time.monotonic() + 35
try:
    for inputs, labels in DataLoader(Stored(), batch_size=8):
        optimizer.zero_grad()
        loss_function(model(inputs), labels).backward()
        optimizer.step()
        for n, writer in enumerate(writers):
            if writer.poll() is not None:
                writers[n] = subprocess.Popen(writer.args, stderr=subprocess.DEVNULL)
        if time.monotonic() > end:
            break
finally:
    for writer in writers:
        writer.kill()
        writer.wait()
    folder.cleanup()
