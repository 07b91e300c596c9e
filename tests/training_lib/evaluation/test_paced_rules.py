"""Rules that look back: asked now and then; live and afterwards about the same steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run_layout import END_MARKER_KEY, INDEX_PREFIX, STATISTICS, TENSORS, WATERMARKS
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.evaluation import backtest as backtesting
from trackside.evaluation.backtest import Backtest, backtest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.records.watermark import Watermark
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import FoldingRule, Rule, is_paced_step, parameter
from trackside.rules.tensors.exploding_tensor import ExplodingTensor
from trackside.rules.tensors.stalled_training import StalledTraining
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors, write_watermark
from trackside.trial.trial import Trial
from trackside.trial.window import Window

LOSS, G, W = "Loss_output_0", "gradient/Net_fc.weight", "Net_fc.weight"
STARTED_MS = 1_700_000_000_000


def found(window: Window, subject: str, observed: float, since: int) -> Finding:
    return Finding(
        subject=subject,
        step=window.step,
        since_step=since,
        measure="size",
        observed=observed,
        relation=">",
        threshold=5.0,
    )


@dataclass(frozen=True)
class LossLarge(Rule):
    """The loss is large."""

    rule_id = "loss-large"
    watches = ("losses",)
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ()

    def check(self, window: Window) -> Iterable[Finding]:
        for column in window.statistic(LOSS, "mean"):
            newest = column.values[-3:]
            if (newest > 5).all() and len(newest) == 3:
                yield found(window, LOSS, float(newest.sum()), int(column.steps[-3]))


@dataclass(frozen=True)
class LossLargeForLong(LossLarge):
    """The loss stays large."""

    rule_id = "loss-large-for-long"
    patience = 2


@dataclass(frozen=True)
class JudgedSteps:
    """The steps that a rule was asked about."""

    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Remembers(FoldingRule):
    """Tells at which steps it was asked, from the fifth on."""

    rule_id = "remembers"
    watches = ("losses",)
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    what_to_do = ()

    def start(self) -> JudgedSteps:
        return JudgedSteps()

    def fold(self, state: JudgedSteps, window: Window) -> tuple[JudgedSteps, Iterable[Finding]]:
        after = JudgedSteps((*state.steps, window.step))
        subject = " ".join(map(str, after.steps))
        return after, [found(window, subject, 6.0, 0)] if len(after.steps) == 5 else []


@dataclass(frozen=True)
class SavedGradientLarge(Rule):
    """A saved gradient is large."""

    rule_id = "saved-gradient-large"
    watches = ("gradients",)
    save_interval = 10
    severity = Severity.WARNING
    since = "0.1"
    what_to_do = ()

    def check(self, window: Window) -> Iterable[Finding]:
        for name in window.tensors("gradients"):
            if float(window.value(name, worker="worker_0")[0]) > 5:
                yield found(window, name, 6.0, window.step)


@dataclass(frozen=True)
class AtTheEnd(Rule):
    """The run has ended."""

    rule_id = "at-the-end"
    watches = ("losses",)
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    what_to_do = ()

    def check(self, window: Window) -> Iterable[Finding]:
        return [found(window, LOSS, 6.0, window.step)] if window.is_last else []


RULES: tuple[Rule, ...] = (LossLarge(), LossLargeForLong(), Remembers(), SavedGradientLarge())


class World:
    """A run that grows in two ways, and a clock that only we move."""

    def __init__(self, *rules: Rule) -> None:
        self.stores = {f"/run/{name}": MemoryStore() for name in (TENSORS, STATISTICS, WATERMARKS)}
        self.tensors, statistics, self.marks = self.stores.values()
        self.progress = MemoryStore()
        self.now = 1000.0
        self.rules = [ConfiguredRule(RuleConfiguration(rule.rule_id), rule) for rule in rules]
        write_collections(self.tensors)
        self.log = StatisticsLog(statistics, worker="worker_0", started_ms=STARTED_MS)
        self.evaluator = self.start()
        self.mark(-1)

    def start(self) -> Evaluator:
        trial = Trial(*self.stores.values(), clock=lambda: self.now)
        return Evaluator(trial, self.rules, [], ProgressFile(self.progress), run="run", clock=lambda: self.now)

    def record(self, losses: Iterable[float], *, start: int = 0, mark: bool = True) -> None:
        """Records the losses, and says that they are all there is of these steps."""
        step = start - 1
        for step, loss in enumerate(losses, start):
            self.log.record({(LOSS, "mean"): loss}, step=step, mode="TRAIN", mode_step=step, wall_time=1.7e9 + step)
        self.log.flush()
        if mark:
            self.mark(step)

    def mark(self, through: int) -> None:
        """Everything of this step and of those before it is stored."""
        saved = sum(1 for _ in self.tensors.list(INDEX_PREFIX))
        segments = tuple(self.log.newest_segments)
        mark = Watermark("worker_0", started_ms=STARTED_MS, through=through, saved_steps=saved, segments=segments)
        write_watermark(self.marks, mark)

    def save(self, steps: Iterable[int], *, value: float = 1.0) -> None:
        for step in steps:
            write_tensors(self.tensors, step, {G: value})

    def poll(self, *, after: float = 0.0) -> tuple[Verdict, ...]:
        self.now += after
        self.evaluator.poll()
        return self.evaluator.summary().verdicts

    def end(self) -> tuple[Verdict, ...]:
        end_run(self.tensors)
        return self.poll()

    def judged_steps(self) -> tuple[int, ...]:
        memory = ProgressFile(self.progress).load().rules["remembers"].memory
        return tuple(Remembers().load(memory).steps)

    def backtested(self, monkeypatch: pytest.MonkeyPatch) -> Backtest:
        """What `backtest` says of these rules, which are in no catalogue."""
        monkeypatch.setattr(backtesting, "build_rules", lambda _: self.rules)
        return backtest("/run", (), clock=lambda: self.now, stores={**self.stores, "/run": MemoryStore()}.__getitem__)


def plain(verdicts: Iterable[Verdict]) -> list[str]:
    """Without what must differ: when it was said."""
    return [replace(verdict, detected_at=0.0).to_json() for verdict in verdicts]


@given(
    levels=st.lists(st.tuples(st.sampled_from([1.0, 9.0]), st.integers(1, 40)), min_size=1, max_size=6),
    interval=st.sampled_from([7, 10, 25]),
    portions=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2), st.booleans()), max_size=15),
)
@settings(max_examples=40, deadline=None)
def test_a_run_is_judged_alike_while_it_grows_and_afterwards(
    levels: list[tuple[float, int]], interval: int, portions: list[tuple[int, int, bool]]
) -> None:
    losses = [level for level, count in levels for _ in range(count)]
    world, made, recorded = World(*RULES), 0, 0
    for length, late, restarts in [*portions, (len(losses), 0, False)]:
        before, made = made, min(len(losses), made + length)
        for step in range(before, made):
            if step % interval == 0:
                world.save([step], value=losses[step])
        through = max(recorded, made - late)  # statistics come a little later than tensors
        world.record(losses[recorded:through], start=recorded)
        recorded = through
        world.poll(after=0.2)
        if restarts:
            world.evaluator = world.start()
    live = world.end()
    with pytest.MonkeyPatch.context() as monkeypatch:
        afterwards = world.backtested(monkeypatch)
    assert plain(live) == plain(afterwards.verdicts)
    assert dict(world.evaluator.summary().judged) == afterwards.judged
    assert afterwards.last_step == len(losses) - 1


def test_it_is_asked_at_every_tenth_step_and_at_the_last() -> None:
    world = World(Remembers())
    world.save([0])
    for start in range(0, 36, 4):
        world.record([1.0] * 4, start=start)
        world.poll(after=0.1)
    assert world.judged_steps() == (0, 10, 20, 30)
    world.end()
    assert world.judged_steps() == (0, 10, 20, 30, 35)


@pytest.mark.parametrize("count", [36, 41], ids=["between-two-steps-of-its-own", "at-one-of-them"])
def test_a_run_read_afterwards_tells_its_end(count: int) -> None:
    world = World(AtTheEnd())
    world.record([1.0] * count)
    assert [verdict.step for verdict in world.end()] == [count - 1]


def test_a_step_of_a_thinned_run_is_asked_where_its_ten_have_begun() -> None:
    world = World(Remembers())
    for step in (0, 7, 13, 18, 19, 41, 44):
        world.record([1.0], start=step)
    world.end()
    assert world.judged_steps() == (0, 13, 41, 44)


def test_a_saved_step_waits_for_the_watermark() -> None:
    world = World(Remembers(), SavedGradientLarge())
    world.save([0], value=9.0)
    world.record([1.0], mark=False)
    assert world.poll() == ()
    world.mark(0)
    assert [v.configuration_name for v in world.poll()] == ["saved-gradient-large"]
    assert world.judged_steps() == (0,)
    world.save([10], value=9.0)
    world.record([1.0] * 10, start=1)
    world.poll()
    assert world.judged_steps() == (0, 10)
    world.save([20], value=9.0)
    world.record([1.0] * 9, start=11)
    world.poll(after=1000.0)
    assert world.judged_steps() == (0, 10)  # however long it takes
    world.record([1.0], start=20)
    world.poll(after=0.1)
    assert world.judged_steps() == (0, 10, 20)


@dataclass(frozen=True)
class LossSpikes(LossLarge):
    """One loss is large. Not paced: it looks at each step at which there is a loss."""

    rule_id = "loss-spikes"
    paced = False

    def check(self, window: Window) -> Iterable[Finding]:
        for column in window.statistic(LOSS, "mean"):
            if column.steps[-1] == window.step and column.values[-1] > 5:
                yield found(window, LOSS, float(column.values[-1]), window.step)


@pytest.mark.parametrize("is_saved_first", [True, False])
def test_a_step_at_which_others_were_saved_does_not_hide_what_is_recorded_before_it(is_saved_first: bool) -> None:
    """Tensors may be there before the statistics of the steps before them, or after those."""
    world = World(LossSpikes())
    world.save([0])
    world.record([1.0] * 3)
    world.poll(after=0.1)
    if is_saved_first:
        world.save([10])
        world.poll(after=0.1)
    world.record([1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0], start=3, mark=is_saved_first)
    if not is_saved_first:
        world.poll(after=0.1)
        world.save([10])
        world.mark(10)
    said, recovered = world.poll(after=0.1)
    assert (said.outcome, said.step) == (Outcome.ISSUE_FOUND, 6)
    assert recovered.state is State.RECOVERED
    assert world.evaluator.summary().judged["loss-spikes"] == 11


def test_without_statistics_a_step_at_which_others_were_saved_is_passed_over() -> None:
    world = World(LossSpikes())
    world.save([0, 10, 20])
    world.mark(20)
    for _ in range(3):
        assert world.poll(after=10.0) == ()
    assert [verdict.outcome for verdict in world.end()] == [Outcome.NOT_EVALUATED]


def test_after_the_end_nothing_is_waited_for() -> None:
    world = World(Remembers())
    world.save([0, 10, 20])
    world.end()
    assert world.judged_steps() == (0, 10, 20)
    assert world.evaluator.is_done


@pytest.mark.parametrize(
    ("step", "judged_through", "expected"),
    [
        pytest.param(0, -1, True, id="first"),
        pytest.param(3, -1, True, id="first-of-a-run-that-begins-late"),
        pytest.param(9, 0, False, id="within-ten"),
        pytest.param(10, 0, True, id="tenth"),
        pytest.param(10, 9, True, id="tenth-after-the-end-of-another"),
        pytest.param(510, 500, False, id="ten-of-a-longer-run"),
        pytest.param(520, 500, True, id="twenty-of-a-longer-run"),
        pytest.param(2049, 2000, False, id="within-fifty"),
        pytest.param(2050, 2000, True, id="fifty-of-a-long-run"),
        pytest.param(10**9, 2, True, id="a-gap"),
    ],
)
def test_pace(step: int, judged_through: int, expected: bool) -> None:
    assert is_paced_step(step, judged_through) is expected


@given(steps=st.lists(st.integers(0, 5000), min_size=1, unique=True).map(sorted))
def test_however_a_run_is_thinned_it_is_asked_now_and_then_and_not_too_often(steps: list[int]) -> None:
    asked, through = [], -1
    for step in steps:
        if is_paced_step(step, through):
            asked.append(step)
            through = step
    assert asked[0] == steps[0]
    assert len(asked) <= 52 + 75 + 62
    assert steps[-1] - asked[-1] < 50


@dataclass(frozen=True)
class StallsSoon(StalledTraining):
    """No step came for a minute."""

    rule_id = "stalls-soon"

    threshold: int = parameter(60, "seconds")


@pytest.mark.parametrize("steps", [range(1), range(11), range(15)], ids=["first", "at-the-pace", "between"])
@pytest.mark.parametrize("others", [(), (LossLarge(),)], ids=["alone", "beside-a-paced-rule"])
def test_a_stall_is_told_while_nothing_comes(steps: range, others: tuple[Rule, ...]) -> None:
    world = World(StallsSoon(), *others)
    world.save([0])
    world.record([1.0 for _ in steps])
    world.poll()
    for _ in range(6):
        assert world.poll(after=9.0) == ()
    world.poll(after=9.0)
    (stall,) = world.poll(after=600.0)
    assert (stall.configuration_name, stall.outcome, stall.step) == ("stalls-soon", Outcome.ISSUE_FOUND, steps[-1])
    assert stall.lead is not None
    assert stall.lead.observed == 63.0


def test_a_run_that_goes_on_has_recovered_from_a_stall() -> None:
    world = World(StallsSoon())
    world.save([0])
    world.record([1.0] * 5)
    world.poll()
    world.poll(after=100.0)
    for start in range(5, 45, 5):
        world.record([1.0] * 5, start=start)
        world.poll(after=30.0)
    assert [(v.outcome, v.state, v.step) for v in world.poll()] == [
        (Outcome.ISSUE_FOUND, State.OPENED, 4),
        (Outcome.CLEAN, State.RECOVERED, 30),
    ]
    again = world.poll(after=100.0)[-1]
    assert (again.outcome, again.occurrence, again.step) == (Outcome.ISSUE_FOUND, 2, 44)


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(lambda world: world.poll(after=59.0), id="not-long-enough"),
        pytest.param(lambda world: world.end(), id="it-has-ended"),
        pytest.param(lambda world: (world.end(), world.poll(after=1e6)), id="it-ended-long-ago"),
    ],
)
def test_no_stall(quiet: object) -> None:
    world = World(StallsSoon())
    world.save([0])
    world.record([1.0] * 12)
    world.poll()
    assert callable(quiet)
    quiet(world)
    assert all(verdict.outcome is not Outcome.ISSUE_FOUND for verdict in world.poll())


def test_before_the_first_step_nothing_is_a_stall() -> None:
    world = World(StallsSoon())
    world.poll()
    assert world.poll(after=1e6) == ()


def test_a_restarted_evaluator_counts_anew() -> None:
    world = World(StallsSoon())
    world.save([0])
    world.record([1.0] * 12)
    world.poll()
    world.poll(after=50.0)
    world.evaluator = world.start()
    assert world.poll(after=50.0) == ()  # it was not there to see whether something came
    (stall,) = world.poll(after=61.0)
    assert stall.step == 11


def test_a_rule_that_breaks_while_it_waits_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass(frozen=True)
    class BreaksWaiting(StallsSoon):
        """It breaks while nothing comes."""

        rule_id = "breaks-waiting"

        def check(self, window: Window) -> Iterable[Finding]:
            if window.now > window.newest_step_at:
                raise ZeroDivisionError("waiting")
            return ()

    world = World(BreaksWaiting(), StallsSoon())
    world.save([0])
    world.record([1.0])
    world.poll()
    world.poll(after=30.0)
    said = world.poll(after=100.0)
    assert [(v.configuration_name, v.outcome) for v in said] == [
        ("breaks-waiting", Outcome.NOT_EVALUATED),
        ("stalls-soon", Outcome.ISSUE_FOUND),
    ]
    assert caplog.text.count("Traceback") == 1


def write_two_workers(world: World, through: Sequence[int]) -> None:
    """Worker 0 recorded up to the first, worker 1 up to the second of these steps."""
    write_collections(world.tensors, workers=("worker_0", "worker_1"))
    other = StatisticsLog(world.stores[f"/run/{STATISTICS}"], worker="worker_1", started_ms=STARTED_MS)
    world.record([9.0] * (through[0] + 1))
    for step in range(through[1] + 1):
        other.record({(LOSS, "mean"): 9.0}, step=step, mode="TRAIN", mode_step=step, wall_time=1.7e9)
    other.flush()


@pytest.mark.parametrize(
    ("saved", "ended", "last"),
    [
        pytest.param([0], True, 24, id="ended"),
        pytest.param([0], False, 20, id="still-running"),
        pytest.param([], False, 20, id="nothing-saved"),
        pytest.param([0, 4, 8], False, 20, id="a-saved-step-that-never-came"),
    ],
)
def test_a_recorded_run_is_judged_as_far_as_it_is_there(
    monkeypatch: pytest.MonkeyPatch, saved: list[int], ended: bool, last: int
) -> None:
    world = World(LossLarge(), Remembers())
    world.save(saved)
    world.record([*[1.0] * 15, *[9.0] * 10])
    if ended:
        world.tensors.put(END_MARKER_KEY, b"")
    found = world.backtested(monkeypatch)
    assert (found.run, found.last_step, found.stop_step, found.saved_steps) == ("run", 24, 20, 4)
    assert [(v.configuration_name, v.step) for v in found.issues] == [("loss-large", 20)]
    assert found.judged == {"loss-large": 4 if ended else 3, "remembers": 4 if ended else 3}
    assert not world.progress.exists("progress.json")
    assert last in {24, 20}


def test_a_worker_that_fell_silent_does_not_hide_what_the_others_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(LossLarge())
    write_two_workers(world, (25, 3))
    assert world.backtested(monkeypatch).stop_step == 10


def test_nothing_recorded_is_nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = World(LossLarge()).backtested(monkeypatch)
    assert (found.last_step, found.stop_step, found.saved_steps, found.verdicts) == (-1, None, 0, ())


@pytest.mark.parametrize(
    ("late", "outcome"),
    [pytest.param(3.0, Outcome.ISSUE_FOUND, id="broken"), pytest.param(0.0, Outcome.CLEAN, id="sound")],
)
def test_what_was_measured_after_the_last_step_is_judged_at_the_end(late: float, outcome: Outcome) -> None:
    """Issue 41: weights broke at a step that was not measured, and the script stepped no more."""
    world = World(ExplodingTensor())
    world.record([1.0] * 6)
    assert world.poll() == ()
    world.log.record({(W, "nonfinite_count"): late}, step=5, mode="TRAIN", mode_step=5, wall_time=1.7e9 + 60)
    world.log.flush()
    world.mark(5)
    (verdict,) = world.end()
    assert (verdict.outcome, verdict.step) == (outcome, 5)
