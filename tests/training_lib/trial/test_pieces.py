"""Numbers read a piece at a time are those of whole columns, and no bucket hides a spike or a NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.recorded import statistic_rows
from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.trial.trial import Trial

NAMES = ("gradient/a", "gradient/b")
Log = tuple[str, int, Mapping[int, tuple[float | None, float | None]]]  # worker, start, numbers of both by step


def trial_of(logs: Sequence[Log], *, saved: Mapping[int, float] | None = None) -> Trial:
    """Return a run with these logs, and with these saved tensors of `gradient/a`."""
    tensors, statistics = MemoryStore(), MemoryStore()
    write_collections(tensors)
    for step, value in (saved or {}).items():
        write_tensors(tensors, step, {NAMES[0]: value})
    for worker, started_ms, numbers in logs:
        log = StatisticsLog(statistics, worker=worker, started_ms=started_ms)
        for step, both in numbers.items():
            row = {(name, "l2"): value for name, value in zip(NAMES, both, strict=True) if value is not None}
            if row:
                log.record(row, step=step, mode="TRAIN", mode_step=step, wall_time=1.8e9 + step)
        log.flush()
    end_run(tensors)
    trial = Trial(tensors, statistics)
    trial.refresh()
    return trial


def assert_pieces_are_columns(trial: Trial, first: int, last: int) -> None:
    edges = edges_of(first, last, 7)
    found = trial.parts.columns.in_buckets(NAMES, "l2", edges, mode="TRAIN")
    for name in NAMES:
        columns = trial.columns(name, "l2", last_step=last, mode="TRAIN")
        expected = {}
        for column in columns:
            inside = (column.steps >= first) & (column.steps <= last)
            if inside.any():
                expected[column.worker] = bucketed(column.steps[inside], column.values[inside], edges)
        assert found.get(name, {}).keys() == expected.keys()
        for worker, buckets in expected.items():
            for field in ("first", "last", "low", "mean", "high", "count", "is_broken"):
                np.testing.assert_allclose(
                    getattr(found[name][worker], field), getattr(buckets, field), rtol=1e-12, err_msg=field
                )


BOTH = {step: (float(step), -float(step)) for step in range(50)}
RUNS = [
    pytest.param([("worker_0", 1000, BOTH)], {}, id="one-process"),
    pytest.param([("worker_0", 1000, BOTH), ("worker_1", 1000, BOTH)], {}, id="two-processes"),
    pytest.param(
        [("worker_0", 1000, dict.fromkeys(range(30), (1000000000.0, 1.0))), ("worker_0", 2000, BOTH)],
        {},
        id="a-restart",
    ),
    pytest.param(
        [
            ("worker_0", 1000, dict.fromkeys(range(20), (1.0, 1.0))),
            ("worker_0", 2000, dict.fromkeys(range(20, 40), (2.0, 2.0))),
        ],
        {},
        id="a-resume",
    ),
    pytest.param([("worker_0", 1000, {s: (1.0 * s, None if s % 3 else 2.0) for s in range(50)})], {}, id="thinned"),
    pytest.param(
        [("worker_0", 1000, {s: (math.nan if s == 7 else 1.0, math.inf) for s in range(50)})], {}, id="broken"
    ),
    pytest.param(
        [("worker_0", 1000, {s: both for s, both in BOTH.items() if s % 5})], {5: 77.0, 6: 78.0}, id="saved-too"
    ),
    pytest.param([], {5: 77.0, 6: 78.0}, id="saved-alone"),
]


@pytest.mark.parametrize(("logs", "saved"), RUNS)
def test_pieces_are_columns(logs: list[Log], saved: Mapping[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistic_rows, "_SLAB_BYTES", 300)
    monkeypatch.setattr(statistic_rows, "MOST_SLABS", 2)
    trial = trial_of(logs, saved=saved)
    for first, last in ((0, 49), (10, 20), (5, 5), (40, 90)):
        assert_pieces_are_columns(trial, first, last)


@given(
    logs=st.lists(
        st.tuples(
            st.sampled_from(["worker_0", "worker_1"]),
            st.dictionaries(
                st.integers(0, 40),
                st.tuples(*[st.none() | st.floats(-1024, 1024, width=32) | st.just(math.nan)] * 2),
                max_size=30,
            ),
        ),
        max_size=3,
    ),
    first=st.integers(0, 40),
    length=st.integers(0, 40),
    slab_bytes=st.sampled_from([60, 300, 1 << 20]),
)
def test_pieces_of_any_run_are_columns(
    logs: list[tuple[str, dict[int, tuple[float | None, float | None]]]], first: int, length: int, slab_bytes: int
) -> None:
    started = [(worker, 1000 + place, dict(sorted(rows.items()))) for place, (worker, rows) in enumerate(logs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistic_rows, "_SLAB_BYTES", slab_bytes)
        trial = trial_of(started)
        assert_pieces_are_columns(trial, first, first + length)
        found = trial.parts.columns.pieces(NAMES, "l2", first=0, last=40, mode="TRAIN")
        newest: dict[str, int] = {}
        for worker, numbers in found:  # each piece after the one before: a reader may add as they come
            assert min(int(steps[0]) for steps, _ in numbers.values()) > newest.get(worker, -1)
            newest[worker] = max(int(steps[-1]) for steps, _ in numbers.values())


@given(at=st.integers(0, 19_999), value=st.sampled_from([1e6, -1e6, math.nan, math.inf]))
def test_one_number_in_twenty_thousand_is_seen(at: int, value: float) -> None:
    steps = np.arange(20_000)
    numbers = np.ones(len(steps))
    numbers[at] = value
    found = bucketed(steps, numbers, edges_of(0, 19_999, 160))
    place = int(np.searchsorted(found.first, at, side="right")) - 1
    assert found.is_broken.tolist() == [bool(place == p and not math.isfinite(value)) for p in range(len(found.first))]
    if math.isfinite(value):
        assert value in {found.low[place], found.high[place]}


def test_what_is_kept_of_a_long_run_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.trial.recorded.recorded.KEPT_BYTES", 100)
    trial = trial_of([("worker_0", 1000, BOTH)])
    before = trial.columns(NAMES[0], "l2", last_step=49, mode="TRAIN")[0].values.tolist()
    trial.parts.columns.trim()
    assert trial.columns(NAMES[0], "l2", last_step=49, mode="TRAIN")[0].values.tolist() == before
