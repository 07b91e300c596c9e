"""The run that the scripts in `topics` read. `python stand_ins.py topics_run.py RUN` writes it with the real smdebug.

Two epochs of four steps of training and two of evaluation, by two workers; the second one is lost before the last step.
Weights are saved at every second step of a mode, one tensor as reductions only. All numbers are exact.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

WORKERS = ("worker_0", "worker_1")
LAST = 11  # worker_1 did not save it
# Name -> regular expressions, names, interval of saving
COLLECTIONS: dict[str, tuple[list[str], list[str], int]] = {
    "losses": (["[Ll]oss_(?!input).*output"], [], 1),
    "weights": (["^(?!gradient).*weight"], [], 2),
    "gradients": (["^gradient"], [], 2),
    "relu": ([], ["relu_output_0"], 1),
}


def places() -> Iterator[tuple[int, str, int, str]]:
    """(step, mode, the mode's step, worker) of each file."""
    in_modes = [*(("TRAIN", n) for n in range(4)), ("EVAL", 0), ("EVAL", 1)]
    in_modes += [*(("TRAIN", n) for n in range(4, 8)), ("EVAL", 2), ("EVAL", 3)]
    for step, (mode, mode_step) in enumerate(in_modes):
        for worker in WORKERS if step < LAST else WORKERS[:1]:
            yield step, mode, mode_step, worker


def tensors(step: int, mode: str, mode_step: int, worker: str) -> list[tuple[str, Any]]:
    rank = WORKERS.index(worker)
    found = [
        ("CrossEntropyLoss_output_0", np.array(4 - step / 4 + rank / 8, "f4")),
        ("relu_output_0", np.maximum(np.arange(-2, 4, dtype="f4") + step, 0)),
    ]
    if mode_step % 2 == 0:
        found.append(("Net_fc.weight", np.full((2, 3), step + rank / 2, "f4")))
        found.append(("smdebug/reductions/abs_max/Net_large.weight", np.array([step + 0.5], "f4")))
        if mode == "TRAIN":
            found.append(("gradient/Net_fc.weight", np.array([[step, -step, 0], [1, 2, 3 + rank]], "f4")))
    return found


def write(run: str) -> None:
    from smdebug import SaveConfig, modes
    from smdebug.core.access_layer import training_has_ended
    from smdebug.core.collection import Collection
    from smdebug.core.collection_manager import CollectionManager
    from smdebug.core.writer import FileWriter

    for step, mode, mode_step, worker in places():
        with FileWriter(run, worker, step) as writer:
            for name, value in tensors(step, mode, mode_step, worker):
                writer.write_tensor(value, name, mode=modes[mode], mode_step=mode_step, timestamp=1.5)
    for worker in WORKERS:
        manager = CollectionManager()
        manager.set_num_workers(len(WORKERS))
        for name, (regexes, names, interval) in COLLECTIONS.items():
            configuration = SaveConfig(save_interval=interval)
            manager.add(Collection(name, include_regex=regexes, tensor_names=names, save_config=configuration))
        manager.export(run, f"{worker}_collections.json")
    training_has_ended(run)


if __name__ == "__main__":
    write(sys.argv[1])
