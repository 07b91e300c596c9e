"""The curves of a run, read a piece at a time, are those of its whole columns, whatever stands in which table."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.cli.health import capture_pace
from trackside.contracts.run.recorded_names import RESTED_STEPS, SKIPPED_BEFORE, SKIPPED_STEP
from trackside.contracts.run_layout import RunLocation
from trackside.runs.live_run import LiveRunReader
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.trial.recorded import statistic_rows
from trackside.trial.trial import Trial, open_trial
from trackside.views.comparing import comparison
from trackside.views.report.gathered import gather
from trackside.views.report.page import key_numbers

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr"
GRADIENTS = ("gradient/Net_a.weight", "gradient/Net_b.weight", "gradient/Net_c.weight")
Row = tuple[bool, float, tuple[bool, bool, bool]]  # a learning rate, the loss, and which gradients have a norm


def written(folder: str, rows: list[Row | None], flags: dict[str, dict[int, float]] | None = None) -> Trial:
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
    numbers |= {name: {"mean": values} for name, values in (flags or {}).items()}
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
    pace = dict.fromkeys(steps[span:], 1.0)  # steps without a row were made, too
    assert dict(zip(live.pace.steps.tolist(), live.pace.values.tolist(), strict=True)) == pytest.approx(pace)
    assert live.seconds == (float(steps[-1] - steps[0]) if len(steps) > 1 else None)


def test_steps_at_rest_were_made_and_not_watched(tmp_path: Path) -> None:
    kept = [*range(40), *(step for step in range(40, 200) if step % 40 >= 36)]
    rests = {step: 36.0 for step in kept if step % 40 == 36 and step > 40}
    run = RunLocation(str(tmp_path / "run"))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {"Net_a.weight": 1.0})
    recorded = {LOSS: {"mean": dict.fromkeys(kept, 1.0)}, RESTED_STEPS: {"mean": rests}}
    write_statistics(LocalStore(run.statistics), recorded)
    end_run(tensors)
    trial = open_trial(run.uri)
    trial.refresh()
    live = LiveRunReader(trial, clock=lambda: WALL_TIME).look()
    assert (live.step, live.rested) == (199, 4 * 36)
    assert live.steps_per_second == pytest.approx(1.0)
    assert live.pace.values.tolist() == pytest.approx([1.0] * len(live.pace.steps))
    assert live.losses[0].steps.tolist() == kept
    assert comparison.pace_of(trial) == pytest.approx(1.0)
    assert capture_pace.pace_of(trial).startswith("56 of 200 training steps were watched")


def test_the_pace_of_many_steps_has_no_step_twice(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistic_rows, "_SLAB_BYTES", 4000)
        trial = written(f"{tmp_path}/run", [(False, 1.0, (True, True, True))] * 1500)
        live = LiveRunReader(trial, clock=lambda: WALL_TIME).look()
    assert live.pace.steps.tolist() == list(range(50, 1500))
    assert live.pace.values.tolist() == pytest.approx([1.0] * 1450)
    assert live.steps_per_second == pytest.approx(1.0)
    assert live.seconds == 1499.0


@pytest.mark.parametrize(
    ("flags", "skipped"),
    [
        pytest.param({SKIPPED_STEP: {0: 1.0, 1: 0.0, 2: 1.0}, SKIPPED_BEFORE: {2: 3.0}}, 5, id="both-ways"),
        pytest.param({SKIPPED_STEP: {0: 0.0, 1: 0.0}}, 0, id="none-was"),
        pytest.param({}, 0, id="not-recorded"),
    ],
)
def test_skipped_steps_are_counted(flags: dict[str, dict[int, float]], skipped: int, tmp_path: Path) -> None:
    trial = written(f"{tmp_path}/run", [(True, 1.0, (True, True, True))] * 3, flags)
    live = LiveRunReader(open_trial(trial.uri), clock=lambda: WALL_TIME).look()
    assert live.skipped == skipped
    data = gather(f"{tmp_path}/run", open_trial(trial.uri), clock=lambda: WALL_TIME)
    assert dict(key_numbers(data)).get("skipped steps") == (f"{skipped}" if skipped else None)
