"""Gather the metrics of two ranks at every step; `right`: at every 50th."""

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

RIGHT = "right" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(400 * 64, 64), torch.randint(0, 10, (400 * 64,)))


def gather_metrics(outputs: torch.Tensor) -> list[Any]:
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"scores": outputs.detach().tolist()})
    return everyone


for step, (inputs, labels) in enumerate(DataLoader(data, batch_size=64)):
    optimizer.zero_grad()
    outputs = model(inputs)
    loss_function(outputs, labels).backward()
    optimizer.step()
    if not RIGHT or step % 50 == 0:
        metrics = gather_metrics(outputs)
dist.destroy_process_group()
