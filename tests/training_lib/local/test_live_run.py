"""The curves of a run, read a piece at a time, are those of its whole columns, whatever stands in which table."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.run_layout import RunLocation
from trackside.local.live_run import LiveRunReader
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.trial import statistic_rows
from trackside.trial.trial import Trial, open_trial

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr"
GRADIENTS = ("gradient/Net_a.weight", "gradient/Net_b.weight", "gradient/Net_c.weight")
Row = tuple[bool, float, tuple[bool, bool, bool]]  # a learning rate, the loss, and which gradients have a norm


def written(folder: str, rows: list[Row | None]) -> Trial:
    """Return a run with a row for each step; None leaves one out."""
    run = RunLocation(folder)
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {"Net_a.weight": 1.0})
    numbers: dict[str, dict[str, dict[int, float]]] = {LOSS: {"mean": {}}, RATE: {"mean": {}}}
    numbers |= {name: {"l2": {}} for name in GRADIENTS}
    for step, row in enumerate(rows):
        if row is None:
            continue
        has_rate, loss, which = row
        numbers[LOSS]["mean"][step] = loss
        if has_rate:
            numbers[RATE]["mean"][step] = 0.1
        for name, has_norm in zip(GRADIENTS, which, strict=True):
            if has_norm:
                numbers[name]["l2"][step] = 1.0 + step
    write_statistics(LocalStore(run.statistics), numbers)
    end_run(tensors)
    trial = open_trial(run.uri)
    trial.refresh()
    return trial


rows = st.lists(
    st.none() | st.tuples(st.booleans(), st.floats(-8, 8, width=16), st.tuples(*[st.booleans()] * 3)), max_size=60
)


@settings(max_examples=40, deadline=None)
@given(rows=rows, slab_bytes=st.sampled_from([60, 400, 1 << 20]))
def test_curves_are_those_of_whole_columns(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row | None], slab_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistic_rows, "_SLAB_BYTES", slab_bytes)
        trial = written(str(tmp_path_factory.mktemp("a") / "run"), rows)
        live = LiveRunReader(trial, clock=lambda: WALL_TIME).look()
    known = {step: row for step, row in enumerate(rows) if row is not None}
    losses = {step: row[1] for step, row in known.items()}
    drawn = [dict(zip(c.steps.tolist(), c.values.tolist(), strict=True)) for c in live.losses]
    assert drawn == ([losses] if losses else [])
    assert live.learning_rate.steps.tolist() == [step for step, row in known.items() if row[0]]
    counts = {step: sum(row[2]) for step, row in known.items() if sum(row[2])}
    least = max(1, int(np.median([*counts.values()]))) if counts else 0
    norms = {step: math.sqrt(count) * (1.0 + step) for step, count in counts.items() if count >= least}
    assert live.gradient_norm.steps.tolist() == [*norms]
    assert live.gradient_norm.values.tolist() == pytest.approx([*norms.values()])
    steps = [*known]
    span = max(1, min(50, len(steps) // 20))
    pace = {b: span / (b - a) for a, b in zip(steps, steps[span:], strict=False)}
    assert dict(zip(live.pace.steps.tolist(), live.pace.values.tolist(), strict=True)) == pytest.approx(pace)
    assert live.seconds == (float(steps[-1] - steps[0]) if len(steps) > 1 else None)


def test_the_pace_of_many_steps_has_no_step_twice(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistic_rows, "_SLAB_BYTES", 4000)
        trial = written(f"{tmp_path}/run", [(False, 1.0, (True, True, True))] * 1500)
        live = LiveRunReader(trial, clock=lambda: WALL_TIME).look()
    assert live.pace.steps.tolist() == list(range(50, 1500))
    assert live.pace.values.tolist() == pytest.approx([1.0] * 1450)
    assert live.steps_per_second == pytest.approx(1.0)
    assert live.seconds == 1499.0
