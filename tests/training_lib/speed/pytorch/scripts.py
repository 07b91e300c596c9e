"""Plain training loops, each slow in one way, and their healthy twin. Nothing in them knows of Trackside."""

from __future__ import annotations

HEAD = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate
torch.manual_seed(0)
width = {width}
model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn({steps} * 8, 64), torch.randint(0, 10, ({steps} * 8,)))
def train(x, y):
    optimizer.zero_grad()
    loss_function(model(x), y).backward()
    optimizer.step()
"""
COLLATE = """
def slow_collate(items):
    time.sleep(0.03)
    return default_collate(items)
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=slow_collate)
for x, y in loader:
    train(x, y)
"""
BY_HAND = """
class Slow(Dataset):
    def __len__(self):
        return {steps} * 8
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.randn(64), i % 10
batches = iter(DataLoader(Slow(), batch_size=8))
for step in range({steps}):
    x, y = next(batches)
    train(x, y)
"""
ITERABLE = """
class Stream(IterableDataset):
    def __iter__(self):
        for i in range({steps} * 8):
            time.sleep(0.004)
            yield torch.randn(64), i % 10
for x, y in DataLoader(Stream(), batch_size=8):
    train(x, y)
"""
NO_LOADER = """
def read_batch():
    time.sleep(0.03)
    return torch.randn(8, 64), torch.randint(0, 10, (8,))
for step in range({steps}):
    x, y = read_batch()
    train(x, y)
"""
GENERATOR = """
def batches():
    for step in range({steps}):
        time.sleep(0.03)
        yield torch.randn(8, 64), torch.randint(0, 10, (8,))
for x, y in batches():
    train(x, y)
"""
READ_AHEAD = """
import queue
import threading
ready = queue.Queue(maxsize=2)
def read():
    for step in range({steps}):
        time.sleep(0.03)
        ready.put((torch.randn(8, 64), torch.randint(0, 10, (8,))))
class Batches:
    def __iter__(self):
        return self
    def __next__(self):
        return ready.get()
threading.Thread(target=read, daemon=True).start()
batches = iter(Batches())
for step in range({steps}):
    x, y = next(batches)
    train(x, y)
"""
_FROM_A_THREAD = """
import queue
import threading
ready = queue.{{kind}}()
def read():
    for step in range({{{{steps}}}}):
        time.sleep({pause})
        ready.put({item})
threading.Thread(target=read, daemon=True).start()
for step in range({{{{steps}}}}):
    batch = ready.get()
    train(torch.randn(8, 64), torch.randint(0, 10, (8,)))
    time.sleep({work})
"""
_BATCH = "(torch.randn(8, 64), torch.randint(0, 10, (8,)))"
QUEUE = _FROM_A_THREAD.format(pause=0.05, item=_BATCH, work=0).format(kind="Queue")
SIMPLE_QUEUE = _FROM_A_THREAD.format(pause=0.05, item=_BATCH, work=0).format(kind="SimpleQueue")
QUICK_QUEUE = _FROM_A_THREAD.format(pause=0, item=_BATCH, work=0.03).format(kind="Queue")
QUICK_SIMPLE_QUEUE = _FROM_A_THREAD.format(pause=0, item=_BATCH, work=0.03).format(kind="SimpleQueue")
NO_BATCHES = _FROM_A_THREAD.format(pause=0.05, item="step", work=0).format(kind="Queue")
PROCESS_QUEUE = """
import multiprocessing
fork = multiprocessing.get_context("fork")
ready = fork.Queue()
def read():
    for step in range({steps}):
        time.sleep(0.05)
        ready.put(torch.randn(8, 64).numpy())
fork.Process(target=read, daemon=True).start()
for step in range({steps}):
    batch = ready.get()
    train(torch.from_numpy(batch), torch.randint(0, 10, (8,)))
"""
SLOW_STEP = """
def batches():
    for step in range({steps}):
        yield torch.randn(8, 64), torch.randint(0, 10, (8,))
def wait():
    time.sleep(0.03)
for x, y in batches():
    train(x, y)
    wait()
"""
SLEEP = """
for x, y in DataLoader(data, batch_size=8):
    train(x, y)
    time.sleep(0.03)
"""
SLOW_EVALUATION = """
def slow_collate(items):
    time.sleep(0.03)
    return default_collate(items)
validation = DataLoader(data, batch_size=8, collate_fn=slow_collate)
for number, (x, y) in enumerate(DataLoader(data, batch_size=8)):
    train(x, y)
    if number % 10 == 5:
        with torch.no_grad():
            for n, (x, y) in enumerate(validation):
                model(x)
                if n == 3:
                    break
"""
PAUSES = """
for number, (x, y) in enumerate(DataLoader(data, batch_size=8)):
    train(x, y)
    if number in (15, 30):
        time.sleep(1.0)
"""
COMPUTE = """
for x, y in DataLoader(data, batch_size=8):
    train(x, y)
"""
WORKERS = """
import multiprocessing.popen_fork as forks
launched = forks.Popen._launch
def slow_launch(self, process):
    time.sleep(0.15)
    return launched(self, process)
forks.Popen._launch = slow_launch
loader = DataLoader(data, batch_size=32, num_workers=2)
for epoch in range(4):
    for x, y in loader:
        train(x, y)
"""
