"""The trial that users open draws; the one that judges reads does not, and both read the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import trackside
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial import trial as reading

NAME = "Net_fc.weight"


def test_the_public_trial_reads_as_the_one_that_is_judged_and_draws(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for step in (0, 1):
        write_tensors(store, step, {NAME: np.full((2, 2), step + 1.0)})
    write_collections(store)
    end_run(store)
    trial = trackside.open_trial(str(tmp_path))
    assert type(trial) is trackside.Trial
    assert trial.steps() == reading.open_trial(str(tmp_path)).steps() == (0, 1)
    assert trial.difference(0, 1).found[0].change == 1.0
    assert not hasattr(reading.Trial, "heatmap")
