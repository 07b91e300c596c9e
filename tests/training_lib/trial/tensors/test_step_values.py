"""Many tensors at one step, and side by side: what each tensor's own columns say, however the run grew."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import encode_block
from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Schema,
    StatisticColumn,
    encode_header,
    encode_rows,
    encode_schema,
)
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.window import Panel, StepValues, newest_values, step_values

TENSORS = ("Loss_output_0", "Net_a.weight", "Net_b.bias", "gradient/Net_a.weight", "gradient/Net_b.bias")
STATISTICS = ("mean", "l2", "abs_mean", "nonfinite_count")
SCHEMA = Schema(tuple(StatisticColumn(name, statistic) for name in TENSORS for statistic in STATISTICS))
COUNT = len(SCHEMA.columns)


class Log:
    """The statistics of one process of one worker, a block at a time."""

    def __init__(self, store: MemoryStore, worker: str, started_ms: int) -> None:
        self._store, self._key, self._number = store, SegmentName(worker, started_ms, 0, None).key, 0
        store.append(self._key, encode_header(worker, number=0))
        store.append(self._key, encode_block(SCHEMA_KIND, encode_schema(0, SCHEMA), number=0))

    def add(self, steps: Sequence[int], modes: Sequence[str], *, seed: int) -> None:
        chance = np.random.default_rng(seed)
        values = chance.choice([0.0, 1.0, 1e-9, 3.5, np.nan, np.inf], (len(steps), COUNT)).astype(np.float32)
        # Tiers: a row measured all, or some columns that many rows have in common.
        tiers = np.array(
            [[True] * COUNT, [place % 2 == 0 for place in range(COUNT)], [place < 4 for place in range(COUNT)]]
        )
        payload = encode_rows(
            0,
            SCHEMA,
            steps=list(steps),
            mode_steps=list(steps),
            wall_times=[float(step) for step in steps],
            modes=[MODE_NUMBERS[mode] for mode in modes],
            values=values,
            measured=tiers[chance.integers(0, 3, len(steps))],
        )
        self._store.append(self._key, encode_block(ROWS_KIND, payload, number=self._number))
        self._number += 1


Blocks = list[tuple[int, bool, list[str], bool]]
BLOCKS = st.lists(
    st.tuples(
        st.integers(0, 1),  # worker
        st.booleans(),  # a process that was started again begins with this block, a few steps back
        st.lists(st.sampled_from(["TRAIN", "TRAIN", "TRAIN", "EVAL"]), min_size=1, max_size=12),
        st.booleans(),  # the last step is saved as well
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12, deadline=None)
@given(BLOCKS, st.integers(0, 1000))
def test_all_tensors_at_once_are_what_each_of_them_is_alone(blocks: Blocks, seed: int) -> None:
    check_as_it_grows(blocks, seed=seed)


def test_a_step_that_is_saved_again_in_another_mode_has_the_newer_one() -> None:
    of_training = (0, True, ["TRAIN"] * 12, False)
    again = [(0, False, ["TRAIN"] * 5 + ["EVAL"], True), (0, True, ["TRAIN"] * 3, True)]
    check_as_it_grows([(0, True, ["TRAIN"], False), (0, False, ["TRAIN"] * 3, True), of_training, of_training, *again])


def check_as_it_grows(blocks: Blocks, *, seed: int = 0) -> None:
    tensors, statistics = MemoryStore(), MemoryStore()
    write_collections(tensors, workers=("worker_0", "worker_1"))
    logs: dict[int, Log] = {}
    ends = {0: 0, 1: 0}
    growing = Trial(tensors, statistics)
    for number, (worker, is_restart, modes, is_saved) in enumerate(blocks):
        if worker not in logs or is_restart:
            logs[worker] = Log(statistics, f"worker_{worker}", 1_700_000_000_000 + number)
            ends[worker] = max(0, ends[worker] - 3)
        steps = range(ends[worker], ends[worker] + len(modes))
        ends[worker] = steps.stop
        logs[worker].add(steps, modes, seed=seed + number)
        if is_saved:
            saved = {name: np.full(3, steps[-1] % 5, np.float32) for name in TENSORS}
            write_tensors(tensors, steps[-1], saved, worker=f"worker_{worker}", mode=modes[-1])
        growing.refresh()
        for mode in ("TRAIN", None):
            for statistic in STATISTICS:
                for step in (steps[0], steps[-1], steps.stop):
                    # Another trial that has looked at nothing else, so that no table of its own is asked.
                    check_against_columns(growing, Trial(tensors, statistics), statistic, step=step, mode=mode)


def check_against_columns(trial: Trial, plain: Trial, statistic: str, *, step: int, mode: str | None) -> None:
    plain.refresh()
    columns_of = partial(plain.columns, statistic=statistic, last_step=step, mode=mode)
    found = trial.at_step(TENSORS, statistic, step=step, mode=mode)
    expected = step_values(TENSORS, columns_of, step=step)
    assert as_mapping(found) == as_mapping(expected)
    assert set(found.unknown) == set(expected.unknown)
    for last in (1, 3, 64, 100):
        panels = trial.newest(TENSORS, statistic, last=last, last_step=step, mode=mode)
        assert as_rows(panels) == as_rows(newest_values(TENSORS, columns_of, last=last))


def as_mapping(found: StepValues) -> Mapping[tuple[str, str], bytes]:
    return {
        (tensor, worker): struct.pack("d", value)
        for tensor, worker, value in zip(found.tensors, found.workers, found.values, strict=True)
    }


def as_rows(panels: Sequence[Panel]) -> Mapping[tuple[str, str], tuple[int, bytes, bytes]]:
    return {
        (tensor, worker): (panel.count, panel.oldest[row].tobytes(), panel.newest[row].tobytes())
        for panel in panels
        for row, (tensor, worker) in enumerate(zip(panel.tensors, panel.workers, strict=True))
    }


def test_a_table_is_made_once_for_many_steps_and_anew_when_the_run_has_grown() -> None:
    statistics = MemoryStore()
    log = Log(statistics, "worker_0", 1_700_000_000_000)
    log.add(range(10), ["TRAIN"] * 10, seed=1)
    trial = Trial(MemoryStore(), statistics)
    trial.refresh()
    step = trial.columns(TENSORS[0], "mean", last_step=9, mode="TRAIN")[0].steps[0].item()
    first = trial.at_step(TENSORS[:1], "mean", step=step, mode="TRAIN").values
    assert np.shares_memory(first, trial.at_step(TENSORS[:1], "mean", step=step, mode="TRAIN").values)
    log.add(range(10, 20), ["TRAIN"] * 10, seed=2)
    trial.refresh()
    again = trial.at_step(TENSORS[:1], "mean", step=step, mode="TRAIN").values
    assert not np.shares_memory(first, again)
    assert np.array_equal(first, again, equal_nan=True)


def test_a_panel_can_be_taken_apart_by_worker() -> None:
    values = np.arange(4.0).reshape(4, 1)
    panel = Panel(("a", "b", "a", "b"), ("w0", "w0", "w1", "w1"), 1, values, values)
    assert panel.of_worker("w1").tensors == ("a", "b")
    assert panel.of_worker("w1").newest.tolist() == [[2.0], [3.0]]
    alone = panel.of_worker("w1")
    assert alone.of_worker("w1") is alone
