"""What does `--rescue` cost a sound training? Blocks of steps with it and without take turns in one process.

    python -m benchmarks.rescue.cost --rounds 20 --write docs/rescue.md

The training is captured in all blocks; only the rescue comes and goes, and keeps what it knows. Times are those of the
processor, of all threads; `benchmarks.engine.blocks` says how.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from benchmarks.engine.blocks import AGAIN, OFF, Round, shown, turns, without
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.engine.usual import usual_capture
from trackside.capture.statistics import rest
from trackside.environment import CaptureEnvironment, RescueEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.rescue.rescue import Rescue, install_around
from trackside.rescue.snapshot import Snapshot

FIRST_STEPS, BLOCK_SECONDS = 800, 1.0
ON = "on"
BEGIN, END = "<!-- cost -->", "<!-- end of cost -->"


def training(width: int, rows: int) -> Callable[[], None]:
    """Return the step of a multilayer perceptron, by AdamW."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
    target, optimizer = nn.Linear(64, 1), torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> None:
        values = torch.randn(rows, 64)
        with torch.no_grad():
            wanted = target(values)
        optimizer.zero_grad()
        nn.functional.mse_loss(net(values), wanted).backward()
        optimizer.step()

    return step


def _seconds(step: Callable[[], None], steps: int) -> float:
    began = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - began) / steps


def _measured(step: Callable[[], None], rescue: Rescue, rounds: int) -> list[Round]:
    """Return the seconds of a step of each block."""
    for _ in range(FIRST_STEPS):
        step()
    steps = max(20, int(BLOCK_SECONDS / _seconds(step, 100)))

    def block(kind: str) -> list[float]:
        if kind == ON:
            rescue.watch_losses()
            rescue.install()
        else:
            rescue.pause()
        return [_seconds(step, steps)]

    return turns([OFF, AGAIN, ON], rounds, block)


def rows(rounds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each training."""
    for width, count in ((256, 64), (1024, 128)):
        with tempfile.TemporaryDirectory() as folder:
            capture = PyTorchAdapter(CaptureEnvironment(folder, usual_capture().to_json(), 0, 1))
            rescue = install_around(capture, RescueEnvironment(is_on=True))
            found = _measured(training(width, count), rescue, rounds)
            copies = [each.size_bytes for each in gc.get_objects() if type(each) is Snapshot and each.size_bytes]
            yield (
                f"width {width}, {count} rows",
                f"{1000 * statistics.median(map(without, found)):.1f} ms",
                shown(found, ON),
                shown(found, AGAIN),
                f"{len(copies)} of {max(copies, default=0) / 2**20:.1f} MiB",
            )
            rescue.remove()
            capture.uninstall()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    rest.FIRST_WATCHED = 50
    heads = "training | step | with `--rescue` | without, again | copies of weights and optimizer"
    lines = [*table(heads, rows(arguments.rounds))]
    lines += [
        "",
        f"Processor time; {arguments.rounds} rounds, load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores.",
    ]
    put(lines, arguments.write, begin=BEGIN, end=END)


if __name__ == "__main__":
    main()
