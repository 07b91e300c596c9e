"""Train on two ranks, of which one reads slowly; `right`: both read alike."""

import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
rows = torch.randn(64, 64)


class Shard(Dataset[Any]):
    def __len__(self) -> int:
        return 250 * 16

    def __getitem__(self, number: int) -> Any:
        if rank and not RIGHT and number % 16 == 0:
            time.sleep(0.04)
        return rows[number % 64], number % 10


for inputs, labels in DataLoader(Shard(), batch_size=16):
    optimizer.zero_grad()
    loss_function(model(inputs), labels).backward()
    optimizer.step()
dist.destroy_process_group()
