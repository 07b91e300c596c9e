"""The gate on the time of steps: recorded runs of a busy machine, and made-up ones.

`recorded_steps.npz` has 400 steps each of ten runs of one program, and of ten with 8 % more work, in microseconds: the
step, the training's own part, and the wait for a processor, of shape (runs, 3, steps). A command of
`benchmarks/speed_gate.py` that is gone since recorded them on 23 November 2026, two cores shared with about ten other
programs, which had the processor for most of the time: the median step by the clock differs from run to run by tens of
percent.

`recorded_turns.npz` has six of the twenty pairs of 27 November 2026, 21:49, among them the four worst: 450 steps each
of five turns of the program before, of the same again, and of the one with more work, of shape (pairs x turns, 5,
steps): the three series as above, and the backward and optimizer phase.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.speed.performance.step_time_gate import Gate, GateVerdict, Measure, TimedRun, judge_step_time

RECORDED = np.load(Path(__file__).with_name("recorded_steps.npz"))
TURNS = np.load(Path(__file__).with_name("recorded_turns.npz"))
KINDS = {"before": 0, "equal": 1, "slower": 2}
LIMIT = 0.05
WITHIN, SLOWER, UNDECIDED = GateVerdict.WITHIN, GateVerdict.SLOWER, GateVerdict.UNDECIDED


def recorded(kind: str, numbers: list[int]) -> list[TimedRun]:
    found = []
    for number in numbers:
        seconds, own, waits = RECORDED[kind][number] * 1e-6
        found.append(TimedRun(f"{kind}-{number}", seconds, own, waits))
    return found


HALVES = [([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]), ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9]), ([0, 3, 4, 7, 8], [1, 2, 5, 6, 9])]


@pytest.mark.parametrize(("one", "other"), [*HALVES, *((b, a) for a, b in HALVES)])
def test_five_runs_a_side_of_a_busy_machine(one: list[int], other: list[int]) -> None:
    assert judge_step_time(recorded("plain", one), recorded("plain", other), limit=LIMIT).verdict is WITHIN
    assert judge_step_time(recorded("slower", one), recorded("slower", other), limit=LIMIT).verdict is WITHIN
    found = judge_step_time(recorded("plain", one), recorded("slower", other), limit=LIMIT)
    assert found.verdict is SLOWER
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.08 < found.high


@pytest.mark.parametrize("kind", ["plain", "slower"])
def test_hardly_any_pair_of_a_busy_machine_is_called_slower_wrongly(kind: str) -> None:
    runs = recorded(kind, list(range(10)))
    pairs = [(a, b) for a in runs for b in runs if a is not b]
    verdicts = [judge_step_time([a], [b], limit=LIMIT).verdict for a, b in pairs]
    assert verdicts.count(SLOWER) <= len(pairs) // 40, "1 in 200 is meant; pairs share their runs"


def test_the_clock_alone_would_be_wrong() -> None:
    medians = [float(np.median(run.seconds)) for run in recorded("plain", list(range(10)))]
    assert max(medians) > 1.5 * min(medians), "else these runs prove nothing"


def in_turns(kind: str, pair: int, turns: int, *, has_phases: bool = True) -> list[TimedRun]:
    found = []
    for turn in range(turns):
        place = KINDS[kind] if turn % 2 == 0 else 2 - KINDS[kind]
        seconds, own, waits, backward, optimizer = TURNS[kind][5 * pair + turn] * 1e-6
        phases = {"backward": backward, "optimizer": optimizer} if has_phases else {}
        found.append(TimedRun(f"{kind}-{pair}-{turn}", seconds, own, waits, 3.0 * turn + place, phases))
    return found


@pytest.mark.parametrize("pair", range(6))
def test_turns_of_processes_whose_medians_are_far_apart(pair: int) -> None:
    before, equal, slower = (in_turns(kind, pair, 5) for kind in KINDS)
    assert judge_step_time(before, equal, limit=LIMIT).verdict is WITHIN
    assert judge_step_time(equal, before, limit=LIMIT).verdict is WITHIN
    assert judge_step_time(slower, before, limit=LIMIT).verdict is WITHIN
    assert judge_step_time(before, slower, limit=LIMIT).verdict is SLOWER


def test_the_phases_find_what_whole_steps_do_not_on_a_machine_that_changes_its_pace() -> None:
    before, slower = (in_turns(kind, 4, 5) for kind in ("before", "slower"))
    found = judge_step_time(before, slower, limit=LIMIT)
    assert (found.compared[0].measure, found.compared[0].phase) == (Measure.UNITS, "backward")
    without = [in_turns(kind, 4, 5, has_phases=False) for kind in ("before", "slower")]
    assert judge_step_time(*without, limit=LIMIT).verdict is not SLOWER


def test_medians_alone_would_be_wrong() -> None:
    medians = [
        float(np.median(run.own))
        for kind in ("before", "equal")
        for pair in range(6)
        for run in in_turns(kind, pair, 5)
    ]
    assert max(medians) > 1.5 * min(medians), "else these runs prove nothing"


def steady(name: str, milliseconds: float, *, seed: int, steps: int = 300, wait: float | None = 0.0) -> TimedRun:
    """A run on a machine of its own, or beside work that has the processor for a part of each step."""
    noise = np.random.default_rng(seed).gamma(4.0, 0.01, steps)
    own = milliseconds / 1000 * (1 + noise)
    waits = np.full(steps, np.nan) if wait is None else own * wait / (1 - wait)
    return TimedRun(name, own + np.nan_to_num(waits), own + np.nan_to_num(waits), waits)


def judged(before: list[float], after: list[float], **options: float | None) -> Gate:
    runs = [
        [steady(f"{side}{k}", each, seed=100 * side + k, **options) for k, each in enumerate(group)]  # type: ignore[arg-type]
        for side, group in enumerate((before, after))
    ]
    return judge_step_time(runs[0], runs[1], limit=LIMIT)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        pytest.param([10], [10], WITHIN, id="the-same"),
        pytest.param([10], [9], WITHIN, id="faster"),
        pytest.param([10], [10.4], WITHIN, id="below-the-limit"),
        pytest.param([10], [10.5], UNDECIDED, id="above-it-by-less-than-one-pair-shows"),
        pytest.param([10], [11.5], UNDECIDED, id="above-it-by-more"),
        pytest.param([10], [13.5], SLOWER, id="far-above-it"),
        pytest.param([10] * 3, [10.8] * 3, SLOWER, id="three-pairs-show-more"),
        pytest.param([10, 10, 10, 10], [10.8], SLOWER, id="several-baselines"),
        pytest.param([9, 10, 11, 10], [10.2, 9.3, 11.4, 10.1], WITHIN, id="runs-that-differ-anyway"),
        pytest.param([9, 10, 11, 10], [10.6, 9.9, 12.2, 10.4], UNDECIDED, id="runs-that-differ-by-more"),
        pytest.param([0.3], [0.4], SLOWER, id="short-steps"),
        pytest.param([2000], [2700], SLOWER, id="long-steps"),
    ],
)
def test_verdicts(before: list[float], after: list[float], verdict: GateVerdict) -> None:
    assert judged(before, after).verdict is verdict


def test_more_runs_narrow_the_interval() -> None:
    few, many = judged([10], [10]), judged([10] * 6, [10] * 6)
    assert few.low is not None
    assert few.high is not None
    assert many.low is not None
    assert many.high is not None
    assert many.high - many.low < 0.5 * (few.high - few.low)


def test_other_work_is_left_out_where_no_step_is_calm() -> None:
    quiet, busy = steady("quiet", 10, seed=1), steady("busy", 10, seed=2, wait=0.5)
    found = judge_step_time([quiet], [busy], limit=LIMIT)
    assert found.verdict is WITHIN
    assert [run.is_calm for run in (*found.before, *found.after)] == [False, False]
    assert found.after[0].waiting == pytest.approx(0.5)


def test_unknown_waits_are_none() -> None:
    found = judge_step_time([steady("a", 10, seed=1, wait=None)], [steady("b", 14, seed=2, wait=None)], limit=LIMIT)
    assert found.verdict is SLOWER
    assert found.before[0].waiting is None
    assert not found.before[0].is_calm


@pytest.mark.parametrize("steps", [0, 1, 39])
def test_too_few_steps_are_not_comparable(steps: int) -> None:
    found = judge_step_time([steady("a", 10, seed=1)], [steady("b", 10, seed=2, steps=steps)], limit=LIMIT)
    assert found.verdict is GateVerdict.NOT_COMPARABLE
    assert found.reasons == (f"b has {steps} timed steps; 40 are needed",)
    assert found.change is None


def test_steps_of_no_time_do_not_raise() -> None:
    zeros: NDArray[np.float64] = np.zeros(100)
    run = TimedRun("zero", zeros, zeros, zeros)
    assert judge_step_time([run], [run], limit=LIMIT).verdict is WITHIN


def constant(name: str, logarithm: float, *, at: float) -> TimedRun:
    steps = np.full(60, 0.01 * np.exp(logarithm))
    return TimedRun(name, steps, steps, np.zeros(60), at)


def slower_of(worlds: int, *, runs: int, change: float, deviation: float, is_two_paces: bool, drift: float) -> float:
    """The share of simulated comparisons, in turns, that are called slower.

    Runs differ by a deviation that each has alone (or are of two paces), and by one that neighbours share.
    """
    draw = np.random.default_rng(runs)
    found = 0
    for _ in range(worlds):
        own = draw.choice([0.0, deviation], (2, runs)) if is_two_paces else draw.normal(0, deviation, (2, runs))
        own += draw.normal(0, drift, runs)
        own[1] += np.log1p(change)
        sides = [
            [constant(f"{side}{k}", each, at=2.0 * k + side) for k, each in enumerate(group)]
            for side, group in enumerate(own)
        ]
        found += judge_step_time(sides[0], sides[1], limit=LIMIT).verdict is SLOWER
    return found / worlds


@pytest.mark.parametrize("runs", [3, 4, 5])
@pytest.mark.parametrize(
    ("deviation", "is_two_paces", "drift"),
    [
        pytest.param(0.015, False, 0.0, id="a-calm-machine"),
        pytest.param(0.03, False, 0.0, id="a-busy-machine"),
        pytest.param(0.01, False, 0.3, id="a-machine-that-changes-its-pace"),
        pytest.param(0.13, True, 0.0, id="processes-of-two-paces"),
        pytest.param(0.5, False, 0.0, id="runs-that-differ-by-half"),
    ],
)
def test_equal_programs_are_hardly_ever_called_slower(
    runs: int, deviation: float, is_two_paces: bool, drift: float
) -> None:
    share = slower_of(200, runs=runs, change=0.0, deviation=deviation, is_two_paces=is_two_paces, drift=drift)
    assert share <= 0.02, "1 in 200 is meant"


@pytest.mark.parametrize(
    ("runs", "deviation", "drift"),
    [
        pytest.param(3, 0.01, 0.0, id="three-on-a-calm-machine"),
        pytest.param(4, 0.015, 0.0, id="four"),
        pytest.param(6, 0.02, 0.0, id="six-beside-other-work"),
        pytest.param(5, 0.015, 0.3, id="a-machine-that-changes-its-pace"),
    ],
)
def test_eight_percent_are_found_in_nineteen_of_twenty(runs: int, deviation: float, drift: float) -> None:
    assert slower_of(200, runs=runs, change=0.08, deviation=deviation, is_two_paces=False, drift=drift) >= 0.95


@pytest.mark.parametrize(
    ("wait", "after", "verdict"),
    [
        pytest.param(0.3, 15, SLOWER, id="half-more-beside-other-work"),
        pytest.param(0.5, 15, UNDECIDED, id="half-more-beside-much-of-it"),
        pytest.param(0.5, 35, SLOWER, id="far-more"),
        pytest.param(0.5, 10, WITHIN, id="the-same"),
    ],
)
def test_a_pair_beside_much_other_work_decides_little(wait: float, after: float, verdict: GateVerdict) -> None:
    runs = steady("a", 10, seed=1, wait=wait), steady("b", after, seed=2, wait=wait)
    assert judge_step_time(runs[:1], runs[1:], limit=LIMIT).verdict is verdict


PARTS = {"backward": 0.35, "optimizer": 0.3, "forward": 0.35}


def with_phases(name: str, parts: dict[str, float], *, pace: float = 1.0, seed: int = 0, steps: int = 300) -> TimedRun:
    """A run of steps of 10 ms on a machine of this pace; `forward` is what no phase has."""
    draw = np.random.default_rng(seed)
    times = {part: 0.01 * share * pace * (1 + draw.gamma(4.0, 0.01, steps)) for part, share in parts.items()}
    seconds = sum(times.values(), np.zeros(steps))
    phases = {part: each for part, each in times.items() if part != "forward"}
    return TimedRun(name, seconds, seconds, np.zeros(steps), phases=phases)


def changed(**factors: float) -> dict[str, float]:
    return {part: share * factors.get(part, 1.0) for part, share in PARTS.items()}


@pytest.mark.parametrize(
    ("parts", "pace", "verdict"),
    [
        pytest.param(changed(), 1.0, WITHIN, id="the-same"),
        pytest.param(changed(), 1.15, UNDECIDED, id="the-same-at-another-pace"),
        pytest.param(changed(), 0.85, WITHIN, id="the-same-and-quicker"),
        pytest.param(changed(forward=1.3), 1.0, SLOWER, id="forward"),
        pytest.param(changed(forward=1.3), 1.1, SLOWER, id="forward-at-another-pace"),
        pytest.param(changed(backward=1.3), 1.0, SLOWER, id="backward"),
        pytest.param(changed(optimizer=1.4), 1.0, SLOWER, id="optimizer"),
        pytest.param(changed(forward=1.1), 1.0, WITHIN, id="forward-by-less-than-the-limit"),
        pytest.param(changed(backward=1.1, optimizer=1.1, forward=1.1), 1.0, UNDECIDED, id="all-of-it"),
        pytest.param(changed(backward=0.75, optimizer=0.75), 1.0, WITHIN, id="two-phases-became-quicker"),
        pytest.param(changed(backward=0.7, optimizer=1.4), 1.0, WITHIN, id="one-grew-as-the-other-shrank"),
    ],
)
def test_one_pair_with_phases(parts: dict[str, float], pace: float, verdict: GateVerdict) -> None:
    one, other = with_phases("a", PARTS, seed=1), with_phases("b", parts, pace=pace, seed=2)
    found = judge_step_time([one], [other], limit=LIMIT)
    assert found.verdict is verdict
    assert {way.measure for way in found.compared} == {Measure.QUICK, Measure.UNITS}


@pytest.mark.parametrize(
    "phases",
    [
        pytest.param({"optimizer": 0.3, "forward": 0.7}, id="two-phases"),
        pytest.param({"backward": 0.01, "optimizer": 0.3, "forward": 0.69}, id="a-short-one"),
    ],
)
def test_without_three_long_phases_whole_steps_are_compared(phases: dict[str, float]) -> None:
    runs = with_phases("a", phases, seed=1), with_phases("b", phases, seed=2)
    found = judge_step_time(runs[:1], runs[1:], limit=LIMIT)
    assert [way.measure for way in found.compared] == [Measure.QUICK]


@pytest.mark.parametrize(
    ("every", "longer", "verdict"),
    [
        pytest.param(5, 1.0, WITHIN, id="no-step-is-longer"),
        pytest.param(5, 1.1, WITHIN, id="by-little"),
        pytest.param(5, 2.0, SLOWER, id="every-fifth-is-twice-as-long"),
    ],
)
def test_some_longer_steps_are_seen_by_the_average(every: int, longer: float, verdict: GateVerdict) -> None:
    def run(name: str, seed: int, factor: float) -> TimedRun:
        own = steady(name, 10, seed=seed).own * np.where(np.arange(300) % every == 0, factor, 1.0)
        return TimedRun(name, own, own, np.zeros(300))

    before, after = ([run(f"{f}-{k}", 10 * k + int(f), f) for k in range(5)] for f in (1.0, longer))
    found = judge_step_time(before, after, limit=LIMIT)
    assert found.verdict is verdict
    assert found.compared[0].measure is (Measure.AVERAGE if verdict is SLOWER else Measure.QUICK)


def test_odd_last_batches_do_not_stand_for_a_run() -> None:
    own = np.where(np.arange(300) % 10 == 9, 0.002, steady("a", 10, seed=1).own)
    run = TimedRun("a", own, own, np.zeros(300))
    assert judge_step_time([run], [run], limit=LIMIT).before[0].milliseconds > 9
