"""Reading a statistic of all tensors is work for each tensor once, and not for each pair of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.work import bytecodes
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.tensors.buckets import edges_of
from trackside.trial.trial import Trial

STEPS, FEW, MANY = 12, 100, 200
LOSS = "Loss_output_0"


def run_of(kind: str, count: int) -> Trial:
    """Return a run of `count` tensors that were recorded, saved, or both, at twelve steps."""
    saved, statistics = MemoryStore(), MemoryStore()
    prefix = "x" if kind == "saved-in-no-collection" else "gradient/"
    names = [f"{prefix}{place:04d}" for place in range(count)]
    write_collections(saved)
    is_recorded, is_saved = kind.startswith("recorded"), kind != "recorded"
    for step in range(STEPS):
        write_tensors(saved, step, {LOSS: 1.0, **(dict.fromkeys(names, float(step)) if is_saved else {})})
    if is_recorded:
        write_statistics(statistics, {name: {"l2": dict.fromkeys(range(0, STEPS, 2), 1.0)} for name in names})
    end_run(saved)
    trial = Trial(saved, statistics=statistics)
    trial.refresh()
    return trial


def work_of(kind: str, count: int) -> int:
    trial = run_of(kind, count)
    names = [name for name in trial.names if name != LOSS]
    assert len(names) == count
    trial.columns(LOSS, "mean", last_step=STEPS, mode=None)
    found = {}
    work = bytecodes(
        lambda: found.update(trial.parts.columns.in_buckets(names, "l2", edges_of(0, STEPS - 1, 4), mode=None))
    )
    assert all(np.isfinite(found[name]["worker_0"].mean).all() for name in names)
    return work


@pytest.mark.parametrize("kind", ["recorded", "saved", "recorded-and-saved", "saved-in-no-collection"])
def test_twice_the_tensors_are_twice_the_work(kind: str) -> None:
    work_of(kind, FEW)  # from Python 3.12 on code counts only from its second run on
    few, many = work_of(kind, FEW), work_of(kind, MANY)
    assert many < 2.05 * few, f"{few:,} bytecodes for {FEW} tensors, {many:,} for {MANY}"
