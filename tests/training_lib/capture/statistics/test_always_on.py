"""Which tier a step takes, what is unusual, and rows that come late; with rows read back from the store."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trackside.capture.ground.values import Here, Numbers
from trackside.capture.statistics.always_on import MOST_WAITING, AlwaysOn, Jumps, TierSchedule
from trackside.capture.statistics.budget import Intervals, OverheadBudget
from trackside.capture.statistics.statistic_rows import MOST_TENSORS_A_ROW, Reading, Watched
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.steps.loss_parts import MOST_LOSSES_A_STEP, Part
from trackside.contracts.capture_request import StatisticsRequest
from trackside.storage.memory import MemoryStore
from trackside.trial.recorded.recorded_statistics import RecordedStatistics

NET = Watched(("Net_a.weight", "Net_b.weight"), ("hyperparameters/SGD/group_0/lr",), (False, True))
LAST = 10**9


class Late:
    """Numbers that come when they are told to."""

    def __init__(self, *numbers: float) -> None:
        self.numbers, self.has_come = numbers, False

    def is_here(self) -> bool:
        return self.has_come

    def get(self) -> Numbers:
        assert self.has_come
        return np.array(self.numbers)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def _refuse(error: Exception) -> None:
    raise error


class Run:
    """Statistics of a training, and what a reader finds."""

    def __init__(self, **request: Any) -> None:
        self.store = MemoryStore()
        self.log = StatisticsLog(self.store, worker="worker_0", started_ms=1_763_700_000_000)
        self.request = StatisticsRequest(**request)
        self.clock = Clock()
        budget = OverheadBudget(
            1.0,
            densest=Intervals(1, self.request.dear_interval),
            wall_clock=self.clock,
            thread_clock=self.clock,
            process_clock=None,
        )
        self.statistics = AlwaysOn(self.request, budget=budget, clock=Clock())
        self.statistics.connect(self.log)

    def step(self, number: int, *, loss: Any = 1.0, norms: Any = (3.0, 4.0), mode: str = "TRAIN", **more: Any) -> None:
        self.statistics.add_loss("Loss", loss, mode=mode)
        if mode == "TRAIN":
            values = norms if isinstance(norms, Late) else Here(np.array(norms))
            total = None if isinstance(norms, Late) else math.hypot(*norms)
            self.statistics.add(Reading(NET, [0.1], values, total=total, **more))
        self.statistics.end_step(step=number, mode=mode, mode_step=number)

    def read(self) -> RecordedStatistics:
        self.statistics.drain()
        self.log.flush()
        recorded = RecordedStatistics(self.store, report=_refuse)
        recorded.refresh()
        return recorded

    def column(self, tensor: str, statistic: str, mode: str | None = None) -> dict[int, float]:
        columns = self.read().columns(tensor, statistic, last_step=LAST, mode=mode)
        return dict(zip(columns[0].steps.tolist(), columns[0].values.tolist(), strict=True)) if columns else {}


def test_a_row_holds_what_the_step_told() -> None:
    run = Run()
    run.step(0)
    run.step(1, loss=0.5, has_gradient=np.array([True, False]))
    assert run.column("Loss_output_0", "mean") == {0: 1.0, 1: 0.5}
    assert run.column("hyperparameters/SGD/group_0/lr", "mean") == {0: 0.1, 1: 0.1}
    assert run.column("gradient/Net_a.weight", "l2") == {0: 3.0, 1: 3.0}
    assert run.column("gradient/Net_b.weight", "l2") == {0: 4.0}
    assert run.column("gradient/Net_b.weight", "is_present") == {0: 1.0, 1: 0.0}
    assert run.column("gradient/Net_b.weight", "is_sharded") == {0: 1.0, 1: 1.0}
    assert run.column("gradient/Net_a.weight", "is_sharded") == {}
    assert list(run.column("trackside/overhead_share", "mean")) == [1]


@pytest.mark.parametrize("broken", [pytest.param(math.nan, id="nan"), pytest.param(math.inf, id="infinity")])
def test_what_is_not_finite_is_flagged_and_then_no_more(broken: float) -> None:
    run = Run()
    run.step(0)
    run.step(1, loss=broken, norms=(1.0, broken))
    run.step(2)
    assert run.column("Loss_output_0", "nonfinite_count") == {0: 0.0, 1: 1.0, 2: 0.0}
    assert run.column("gradient/Net_a.weight", "nonfinite_count") == {0: 0.0, 1: 0.0, 2: 0.0}
    assert run.column("gradient/Net_b.weight", "nonfinite_count") == {0: 0.0, 1: 1.0, 2: 0.0}


def test_exact_counts_replace_flags() -> None:
    run = Run()
    run.step(0, norms=(1.0, math.nan), counts={("gradient/Net_b.weight", "nonfinite_count"): 7})
    assert run.column("gradient/Net_b.weight", "nonfinite_count") == {0: 7.0}


def test_late_numbers_keep_their_step_and_order() -> None:
    run = Run()
    first, second = Late(1.0, 2.0), Late(0.25)
    run.step(0, norms=first)
    run.step(1, loss=second)
    run.step(2)
    assert run.column("Loss_output_0", "mean") == {}
    assert run.statistics.recorded_through(2) == -1
    second.has_come = True
    run.statistics.drain()
    assert run.column("Loss_output_0", "mean") == {}
    assert run.statistics.recorded_through(2) == -1  # the log has not got the first
    first.has_come = True
    run.statistics.drain()
    assert run.statistics.recorded_through(2) == 2
    assert run.column("Loss_output_0", "mean") == {0: 1.0, 1: 0.25, 2: 1.0}
    assert run.column("gradient/Net_b.weight", "l2") == {0: 2.0, 1: 4.0, 2: 4.0}


def test_what_never_comes_is_bounded() -> None:
    run = Run()
    lost = Late(1.0)
    run.step(0, loss=lost)
    for number in range(1, MOST_WAITING + 3):
        run.step(number)
    assert sorted(run.column("Loss_output_0", "mean")) == list(range(1, MOST_WAITING + 3))


def test_steps_that_ended_before_the_run_began_are_kept() -> None:
    statistics = AlwaysOn(StatisticsRequest(), clock=Clock())
    statistics.add_loss("Loss", 2.0, mode="EVAL")
    statistics.end_step(step=0, mode="EVAL", mode_step=0)
    run = Run()
    run.statistics = statistics
    statistics.connect(run.log)
    run.step(1)
    assert run.column("Loss_output_0", "mean", "EVAL") == {0: 2.0}
    assert run.column("Loss_output_0", "mean", "TRAIN") == {1: 1.0}


def test_losses_of_an_evaluation_leave_the_open_training_step_alone() -> None:
    run = Run()
    run.statistics.add_loss("Loss", 9.0)
    run.step(0, loss=5.0, mode="EVAL")
    run.step(1)
    assert run.column("Loss_output_0", "mean", "EVAL") == {0: 5.0}
    assert run.column("Loss_output_0", "mean", "TRAIN") == {1: 9.0}
    assert run.column("Loss_output_1", "mean", "TRAIN") == {1: 1.0}


def test_unsettled_losses_are_the_next_steps() -> None:
    run = Run()
    run.statistics.add_loss("Loss", 1.0)
    run.statistics.settle()
    run.statistics.add_loss("Loss", 2.0)
    run.statistics.end_step(step=0, mode_step=0, keep_unsettled=True)
    run.statistics.end_step(step=1, mode_step=1)
    assert run.column("Loss_output_0", "mean") == {0: 1.0, 1: 2.0}


def test_parts_of_a_loss_that_is_the_next_steps_are_one() -> None:
    """As where the end of a step shows in the next step of the optimizer, whose closure computes the last part."""
    run = Run()
    run.statistics.parts.add("Loss", 1.0, Part.AVERAGED, weight=0.5, mode="TRAIN")
    run.statistics.settle()
    run.statistics.parts.add("Loss", 2.0, Part.AVERAGED, weight=0.5, mode="TRAIN")
    run.statistics.end_step(step=0, mode_step=0, keep_unsettled=True)
    run.statistics.parts.add("Loss", 4.0, Part.AVERAGED, weight=0.5, mode="TRAIN")
    run.statistics.end_step(step=1, mode_step=1)
    assert run.column("Loss_output_0", "mean") == {0: 1.0, 1: 3.0}
    assert run.column("Loss_output_1", "mean") == {}


def test_losses_without_a_step_are_bounded() -> None:
    run = Run()
    for _ in range(1000):
        run.statistics.add_loss("Loss", 1.0)
    run.statistics.end_step(step=0, mode_step=0)
    assert run.column(f"Loss_output_{MOST_LOSSES_A_STEP - 1}", "mean") == {0: 1.0}
    assert run.column(f"Loss_output_{MOST_LOSSES_A_STEP}", "mean") == {}


def test_losses_that_are_never_as_many_cost_a_bounded_number_of_tables() -> None:
    run = Run()
    for number in range(200):
        for _ in range(number % 40):
            run.statistics.add_loss("Loss", float(number))
        run.step(number)
    found = run.column("Loss_output_0", "mean")
    assert found == {number: float(number) if number % 40 else 1.0 for number in range(200)}


def test_without_norms_a_row_has_losses_and_rates() -> None:
    run = Run()
    run.step(0)
    run.statistics.add_loss("Loss", 3.0)
    run.statistics.add(Reading(NET, [0.2]))
    run.statistics.end_step(step=1, mode_step=1)
    assert run.column("Loss_output_0", "mean") == {0: 1.0, 1: 3.0}
    assert run.column("hyperparameters/SGD/group_0/lr", "mean") == {0: 0.1, 1: 0.2}
    assert run.column("gradient/Net_a.weight", "l2") == {0: 3.0}


def test_the_dear_tier_is_dense_at_the_start_and_after_a_jump() -> None:
    run = Run(dense_start_steps=4, dense_after_steps=3, dear_interval=50)
    taken = []
    for number in range(140):
        if run.statistics.takes_dear:
            taken.append(number)
        assert run.statistics.takes_norms
        run.step(number, loss=1000.0 if number == 70 else 1.0)
    assert taken == [0, 1, 2, 3, 71, 72, 73, 80, 111]  # one of each 50, at irregular places


def test_bursts_are_rare_however_often_something_is_unusual() -> None:
    schedule = TierSchedule(StatisticsRequest(dense_start_steps=0, dense_after_steps=10))
    dense = 0
    for step in range(10_000):
        schedule.densify(step, dear_interval=100)
        dense += step < schedule.dense_until
    assert dense <= 10_000 / 100 + 10


@pytest.mark.parametrize(
    ("values", "unusual"),
    [
        pytest.param([1.0] * 40, [], id="constant"),
        pytest.param([1.0 + 0.3 * (-1) ** k for k in range(60)], [], id="noise"),
        pytest.param([5.0 * 0.9**k for k in range(60)], [], id="falls"),
        pytest.param([1.0, 50.0, 1.0, 1.0], [], id="at-the-very-start"),
        pytest.param([1.0] * 30 + [1.5] + [1.0] * 5, [], id="a-little-more"),
        pytest.param([1.0] * 30 + [9.0] + [1.0] * 5, [30], id="jump"),
        pytest.param([1.0] * 30 + [9.0] * 40, list(range(30, 43)), id="new-level-until-it-is-usual"),
        pytest.param([1.0] * 3 + [math.nan] * 5, [3], id="nan-at-its-onset"),
        pytest.param([1.0] * 3 + [math.inf, 1.0, math.inf], [3, 5], id="infinity-comes-and-goes"),
    ],
)
def test_what_is_unusual(values: list[float], unusual: list[int]) -> None:
    jumps = Jumps()
    found = [place for place, value in enumerate(values) if jumps.sees(value)]
    assert found[:1] == unusual[:1]
    assert set(found) <= set(unusual)


THINNED = (Intervals(2, 64), Intervals(4, 64), Intervals(1, 8))


def test_thinned_norms_are_recorded_in_the_run_and_logged_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """They are a matter of our own budget: `trackside doctor RUN` shows them."""
    run = Run(dear_interval=1)
    run.step(0)
    for number, intervals in enumerate(THINNED, start=1):
        run.statistics.budget.intervals = intervals
        run.clock.now += 10.0
        run.step(number)
    assert not caplog.records
    assert run.column("trackside/norms_interval", "mean") == {1: 2.0, 2: 4.0, 3: 1.0}
    assert run.column("trackside/dear_interval", "mean") == {1: 64.0, 2: 64.0, 3: 8.0}


@pytest.mark.parametrize(
    ("count", "prefix"),
    [
        pytest.param(16, "Net_{}.weight", id="small"),
        pytest.param(MOST_TENSORS_A_ROW, "Net_{}.weight", id="widest-without-groups"),
        pytest.param(MOST_TENSORS_A_ROW + 1, "Net_{}.weight", id="groups"),
        pytest.param(1000, "Net_blocks.{}.weight", id="groups-with-a-flag-each"),
        pytest.param(5000, "Net_blocks.{}.weight", id="flags-of-groups"),
        pytest.param(300, "Parameters_{}.weight", id="no-modules"),
    ],
)
def test_a_step_takes_at_most_a_kilobyte(count: int, prefix: str) -> None:
    watched = Watched(tuple(prefix.format(k) for k in range(count)), ("hyperparameters/SGD/group_0/lr",))
    run = Run()
    for number in range(3):
        run.statistics.add_loss("Loss", 1.0)
        has_gradient = None if number else np.arange(count) % 2 == 0
        run.statistics.add(Reading(watched, [0.1], Here(np.full(count, 2.0)), has_gradient))
        run.statistics.end_step(step=number, mode_step=number)
    run.statistics.drain()
    schemas = [table.schema for table in run.log._tables]
    block = 40
    assert max(schema.row_bytes(has_holes=True) for schema in schemas) + block <= 1024
    stored = run.read()
    groups = list(watched.groups or watched.gradients)
    norms = [stored.columns(name, "l2", last_step=LAST, mode=None)[0].values[-1] for name in groups]
    assert sum(norm**2 for norm in norms) == pytest.approx(4.0 * count, rel=1e-4)
