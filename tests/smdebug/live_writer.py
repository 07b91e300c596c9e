"""Writes a run as it is told: `python stand_ins.py live_writer.py RUN`, with a JSON list in each line of the input.

["collections", worker], ["step", step, worker], ["begin", step, worker], ["end"]. Each is answered by a line once it is
done. What "begin" began stays open. Runs under either package.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from smdebug import modes
from smdebug.core.access_layer import training_has_ended
from smdebug.core.collection import Collection
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.writer import FileWriter

run = sys.argv[1]
WORKERS = 2


def write_collections(worker: str) -> None:
    manager = CollectionManager()
    manager.set_num_workers(WORKERS)
    manager.add(Collection("losses", include_regex=["loss"]))
    manager.export(run, f"{worker}_collections.json")


def begin(step: int, worker: str) -> FileWriter:
    writer = FileWriter(run, worker, step)
    writer.write_tensor(np.array([step + 0.5], "f4"), "loss", mode=modes.TRAIN, mode_step=step)
    writer.write_tensor(np.full((64, 64), step, "f4"), "weight", mode=modes.TRAIN, mode_step=step)
    return writer


still_open = []
for line in sys.stdin:
    order, *arguments = json.loads(line)
    if order == "collections":
        write_collections(*arguments)
    elif order == "step":
        begin(*arguments).close()
    elif order == "begin":
        still_open.append(begin(*arguments))
        still_open[-1].flush()
    elif order == "end":
        training_has_ended(run)
    print("done", flush=True)
