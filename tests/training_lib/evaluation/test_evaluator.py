"""The evaluator: each step, each rule, patience, three outcomes, and what happens when something breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from trackside.contracts.action import Action
from trackside.contracts.errors import AccessDeniedError, StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation, event_key
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.evaluation.evaluator import DELIVERY_SECONDS_AFTER_THE_END, HEARTBEAT_SECONDS, Evaluator, evaluate
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink, UndeliveredError
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import Rule, parameter
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.window import Window

G1, G2 = "gradient/Net_fc1.weight", "gradient/Net_fc2.weight"
LOSS = "CrossEntropyLoss_output_0"


@dataclass(frozen=True)
class TooLarge(Rule):
    """A gradient is too large."""

    rule_id = "too-large"
    watches = ("gradients",)
    save_interval = 10
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ("Lower the learning rate.",)

    limit: float = parameter(5.0, "the largest value allowed")

    def check(self, window: Window) -> Iterable[Finding]:
        for name in window.tensors("gradients"):
            for column in window.statistic(name, "abs_max"):
                if column.steps[-1] == window.step and not column.values[-1] <= self.limit:
                    yield Finding(
                        subject=name,
                        worker=column.worker,
                        step=window.step,
                        since_step=window.step,
                        measure="max |gradient|",
                        observed=float(column.values[-1]),
                        relation=">",
                        threshold=self.limit,
                        series=column.series,
                    )


@dataclass(frozen=True)
class TooLargeForLong(TooLarge):
    """A gradient stays too large."""

    rule_id = "too-large-for-long"
    patience = 3


@dataclass(frozen=True)
class Advice(TooLarge):
    """A gradient could be smaller."""

    rule_id = "advice"
    severity = Severity.WARNING


@dataclass(frozen=True)
class Crashes(Rule):
    """It divides by zero."""

    rule_id = "crashes"
    watches = ("gradients", "losses")
    save_interval = 10
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ()

    def check(self, window: Window) -> Iterable[Finding]:
        yield from ()
        raise ZeroDivisionError(f"at step {window.step}")


@dataclass(frozen=True)
class ReadsValues(TooLarge):
    """It wants whole tensors."""

    rule_id = "reads-values"

    def check(self, window: Window) -> Iterable[Finding]:
        for name in window.tensors("gradients"):
            window.value(name, worker="worker_0")
        return ()


@dataclass(frozen=True)
class NeedsThreeSteps(TooLarge):
    """It cannot say that all is well before step 2."""

    rule_id = "needs-three-steps"

    def lacks(self, window: Window) -> str:
        return "" if window.step >= 2 else f"three steps; this is step {window.step}"


class World:
    """A run in memory, its stores, a sink that keeps what it is given, and a clock that only we move."""

    def __init__(self) -> None:
        self.tensors, self.output = MemoryStore(), MemoryStore()
        self.now = 1000.0
        self.sent: list[Verdict] = []
        write_collections(self.tensors)

    name = "kept"

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.sent += verdicts

    def evaluator(self, *rules: ConfiguredRule, sinks: Sequence[Sink] | None = None) -> Evaluator:
        return Evaluator(
            Trial(self.tensors),
            rules,
            [self, JsonLinesSink(self.output)] if sinks is None else sinks,
            ProgressFile(self.output),
            run="digits",
            clock=lambda: self.now,
        )

    def judge(self, *rules: ConfiguredRule) -> list[Verdict]:
        end_run(self.tensors)
        self.evaluator(*rules).poll()
        return self.sent

    def lines(self) -> list[Verdict]:
        return [Verdict.from_json(line) for line in self.output.get("verdicts.jsonl").decode().splitlines()]


@pytest.fixture
def world() -> World:
    return World()


def configured(rule: Rule, *actions: Action, name: str = "") -> ConfiguredRule:
    return ConfiguredRule(RuleConfiguration(rule.rule_id, name=name, actions=actions), rule)


def test_an_issue_says_what_where_since_when_and_what_to_do(world: World) -> None:
    for step, value in ((0, 1.0), (10, 7.0), (20, 9.0)):
        write_tensors(world.tensors, step, {G1: value, G2: 2 * value, LOSS: 1.0})
    (verdict,) = world.judge(configured(TooLarge(), Action.STOP_TRAINING, Action.NOTIFY))
    assert verdict.outcome is Outcome.ISSUE_FOUND
    assert (verdict.step, verdict.since_step, verdict.affected) == (10, 10, 2)
    assert [f.subject for f in verdict.findings] == [G2, G1]  # worst first
    assert verdict.message == (
        "A gradient is too large: gradient/Net_fc2.weight (max |gradient|: 14, above the limit of 5 at step 10) "
        "since step 10, and 1 more like it."
    )
    assert verdict.tensor_key == f"debug-output/{event_key(10, 'worker_0')}"
    assert verdict.actions == (Action.STOP_TRAINING, Action.NOTIFY)
    assert verdict.what_to_do == ("Lower the learning rate.",)
    assert verdict.severity is Severity.CRITICAL
    assert verdict.detected_at == 1000.0
    assert verdict.lead is not None
    assert verdict.lead.series == ((0, 2.0), (10, 14.0))
    assert world.lines() == [verdict]


def test_one_issue_a_configuration_however_long_it_lasts(world: World) -> None:
    evaluator = world.evaluator(configured(TooLarge()), configured(TooLarge(limit=50.0), name="huge"))
    for step in range(0, 50, 10):
        write_tensors(world.tensors, step, {G1: 10.0 + step})
        evaluator.poll()
    assert [(v.configuration_name, v.step) for v in world.sent] == [("too-large", 0)]
    write_tensors(world.tensors, 50, {G1: 60.0})
    evaluator.poll()
    end_run(world.tensors)
    evaluator.poll()
    assert [(v.configuration_name, v.outcome) for v in world.sent] == [
        ("too-large", Outcome.ISSUE_FOUND),
        ("huge", Outcome.ISSUE_FOUND),
    ]
    assert evaluator.is_done


@pytest.mark.parametrize(
    ("series", "since", "judged_at"),
    [
        pytest.param([9, 9, 9], 0, 2, id="three-in-a-row"),
        pytest.param([1, 9, 9, 1, 9, 9, 9], 4, 6, id="a-good-step-starts-the-count-again"),
        pytest.param([9, None, 9, None, 9], 0, 4, id="steps-without-its-tensors-do-not-count"),
        pytest.param([9, 9, 1, 9, 9, 1], None, None, id="never-three"),
        pytest.param([1, 1, 1, 1], None, None, id="never"),
    ],
)
def test_patience(world: World, series: list[float | None], since: int | None, judged_at: int | None) -> None:
    for step, value in enumerate(series):
        write_tensors(world.tensors, step, {LOSS: 1.0} if value is None else {G1: value})
    (verdict,) = world.judge(configured(TooLargeForLong()))
    found = verdict.outcome is Outcome.ISSUE_FOUND
    assert (verdict.since_step if found else None, verdict.step if found else None) == (since, judged_at)


def test_three_outcomes_never_collapse(world: World) -> None:
    for step in range(4):
        write_tensors(world.tensors, step, {G1: 9.0})

    @dataclass(frozen=True)
    class NoLosses(TooLarge):
        """There are no losses."""

        rule_id = "no-losses"
        watches = ("losses",)

    verdicts = world.judge(
        configured(TooLarge()), configured(TooLarge(limit=99.0), name="clean"), configured(NoLosses())
    )
    assert {v.configuration_name: v.outcome for v in verdicts} == {
        "too-large": Outcome.ISSUE_FOUND,
        "clean": Outcome.CLEAN,
        "no-losses": Outcome.NOT_EVALUATED,
    }
    clean, blind = verdicts[1:]
    assert clean.message == "4 steps judged up to step 3, no issue found."
    assert clean.actions == ()
    assert blind.message == "The run saved no losses, so there was nothing to judge."
    assert "'losses' to the capture request, every 10 steps" in blind.what_to_do[0]


def test_a_run_without_a_step_was_not_evaluated(world: World) -> None:
    (verdict,) = world.judge(configured(TooLarge()))
    assert verdict.outcome is Outcome.NOT_EVALUATED
    assert "without a single saved step" in verdict.message


def test_fewer_steps_than_patience_is_not_clean(world: World) -> None:
    write_tensors(world.tensors, 0, {G1: 1.0})
    write_tensors(world.tensors, 1, {G1: 1.0})
    (verdict,) = world.judge(configured(TooLargeForLong()))
    assert verdict.outcome is Outcome.NOT_EVALUATED
    assert "Only 2 steps with gradients" in verdict.message


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        pytest.param([1.0, 1.0], Outcome.NOT_EVALUATED, id="too-short-is-not-clean"),
        pytest.param([1.0, 1.0, 1.0], Outcome.CLEAN, id="long-enough"),
        pytest.param([1e9], Outcome.ISSUE_FOUND, id="an-issue-needs-no-more"),
    ],
)
def test_what_a_rule_lacks_keeps_it_from_calling_a_run_clean(
    world: World, values: list[float], outcome: Outcome
) -> None:
    for step, value in enumerate(values):
        write_tensors(world.tensors, step, {G1: value})
    (verdict,) = world.judge(configured(NeedsThreeSteps()))
    assert verdict.outcome is outcome
    assert outcome is not Outcome.NOT_EVALUATED or "it needs three steps; this is step 1." in verdict.message


def test_nothing_is_said_before_the_end_of_a_healthy_run(world: World) -> None:
    evaluator = world.evaluator(configured(TooLarge()))
    for step in range(3):
        write_tensors(world.tensors, step, {G1: 1.0})
        evaluator.poll()
        assert world.sent == []
    end_run(world.tensors)
    evaluator.poll()
    assert [v.outcome for v in world.sent] == [Outcome.CLEAN]


@pytest.mark.parametrize("rule", [TooLarge(), ReadsValues()], ids=lambda rule: rule.rule_id)
def test_damaged_files_are_not_clean(world: World, rule: Rule) -> None:
    for step in range(3):
        write_tensors(world.tensors, step, {G1: 9.0})
        world.tensors.put(event_key(step, "worker_0"), b"garbage")
    (verdict,) = world.judge(configured(rule))
    assert verdict.outcome is Outcome.NOT_EVALUATED
    assert "damaged" in verdict.message


def test_one_damaged_step_does_not_hide_the_others(world: World) -> None:
    for step in range(3):
        write_tensors(world.tensors, step, {G1: 9.0 if step == 2 else 1.0})
    world.tensors.put(event_key(1, "worker_0"), b"garbage")
    (verdict,) = world.judge(configured(TooLarge()))
    assert (verdict.outcome, verdict.step) == (Outcome.ISSUE_FOUND, 2)


def test_a_crashing_rule_is_said_to_have_crashed_and_the_others_go_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(3):
        write_tensors(world.tensors, step, {G1: 9.0 if step == 2 else 1.0})
    evaluator = world.evaluator(configured(Crashes(), Action.STOP_TRAINING), configured(TooLarge()))
    end_run(world.tensors)
    evaluator.poll()
    crash, issue = world.sent
    assert (crash.outcome, crash.actions) == (Outcome.NOT_EVALUATED, ())
    assert "crashed at step 0" in crash.message
    assert "ZeroDivisionError: at step 0" in crash.message
    assert (issue.outcome, issue.step) == (Outcome.ISSUE_FOUND, 2)
    assert evaluator.summary().crashed == ("crashes",)
    assert caplog.text.count("Traceback") == 1


def test_only_a_critical_rule_may_stop_a_run(world: World) -> None:
    write_tensors(world.tensors, 0, {G1: 9.0})
    (verdict,) = world.judge(configured(Advice(), Action.STOP_TRAINING, Action.NOTIFY))
    assert verdict.actions == (Action.NOTIFY,)


def test_a_nan_leads_and_workers_are_named_where_there_are_several(world: World) -> None:
    write_collections(world.tensors, workers=("worker_0", "worker_1"))
    write_tensors(world.tensors, 0, {G1: 1e9, G2: 1.0}, worker="worker_0")
    write_tensors(world.tensors, 0, {G1: 1.0, G2: np.array([math.nan, 1.0])}, worker="worker_1")
    (verdict,) = world.judge(configured(TooLarge()))
    assert verdict.lead is not None
    assert (verdict.lead.subject, verdict.lead.worker) == (G2, "worker_1")
    assert "gradient/Net_fc2.weight on worker_1 (" in verdict.message
    assert verdict.tensor_key.endswith("_worker_1.tfevents")


def test_at_most_twenty_findings_are_named_and_all_are_counted(world: World) -> None:
    write_tensors(world.tensors, 0, {f"gradient/Net_fc{i}.weight": 10.0 + i for i in range(33)})
    (verdict,) = world.judge(configured(TooLarge()))
    assert (len(verdict.findings), verdict.affected) == (20, 33)
    assert verdict.findings[0].observed == 42.0


class Flaky:
    """A sink that refuses while it is told to."""

    name = "flaky"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_down = True

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        if self.is_down:
            raise UndeliveredError("the bus is down", verdicts)
        self.sent += [verdict.verdict_id for verdict in verdicts]


def test_what_a_sink_refuses_waits_in_the_outbox_and_other_sinks_go_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    flaky = Flaky()
    write_tensors(world.tensors, 0, {G1: 9.0})
    evaluator = world.evaluator(configured(TooLarge()), sinks=[flaky, JsonLinesSink(world.output)])
    for _ in range(3):
        evaluator.poll()
    assert flaky.sent == []
    assert len(world.lines()) == 1
    assert len(evaluator.summary().undelivered) == 1
    assert caplog.text.count("Not delivered to flaky") == 1
    restarted = world.evaluator(configured(TooLarge()), sinks=[flaky, JsonLinesSink(world.output)])
    flaky.is_down = False
    restarted.poll()
    restarted.poll()
    assert flaky.sent == ["digits/too-large/issue-found"]
    assert len(world.lines()) == 1
    assert restarted.summary().undelivered == ()


@pytest.mark.parametrize("has_begun", [pytest.param(True, id="a run at rest"), pytest.param(False, id="no step yet")])
def test_progress_is_stored_now_and_then_even_if_nothing_is_new(world: World, *, has_begun: bool) -> None:
    """Its age is how the deployment tells a quiet evaluator from a dead one."""

    class Noting(MemoryStore):
        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            stored.append((key, world.now))
            super().put(key, data)

    stored: list[tuple[str, float]] = []
    world.output = Noting()
    if has_begun:
        write_tensors(world.tensors, 0, {G1: 1.0})
    evaluator = world.evaluator(configured(TooLarge()))
    evaluator.poll()
    stored.clear()
    began = world.now
    for seconds in (1, HEARTBEAT_SECONDS - 1, HEARTBEAT_SECONDS, HEARTBEAT_SECONDS + 1, 700, 999, 1000):
        world.now = began + seconds
        evaluator.poll()
    assert stored == [("progress.json", began + seconds) for seconds in (HEARTBEAT_SECONDS, 700, 1000)]


def test_verdicts_go_out_even_where_progress_cannot_be_stored(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryStore):
        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            raise StorageUnavailableError("No space left on device")

    world.output = Full()
    write_tensors(world.tensors, 0, {G1: 9.0})
    evaluator = world.evaluator(configured(TooLarge()), sinks=[world])
    evaluator.poll()
    evaluator.poll()
    assert len(world.sent) == 1
    assert caplog.text.count("No space left") == 1


class Life:
    """The sleep of an evaluator: each one is the next event, and moves the clock."""

    def __init__(self, world: World, *events: Callable[[], None]) -> None:
        self.world, self.events = world, list(events)

    def __call__(self, seconds: float) -> None:
        self.world.now += seconds
        if self.events:
            self.events.pop(0)()


def test_watches_until_the_run_has_ended(world: World) -> None:
    life = Life(
        world,
        lambda: write_tensors(world.tensors, 0, {G1: 1.0}),
        lambda: None,
        lambda: write_tensors(world.tensors, 1, {G1: 1.0}),
        lambda: end_run(world.tensors),
    )
    summary = world.evaluator(configured(TooLarge())).watch(poll_seconds=1, sleep=life, should_stop=lambda: False)
    assert summary.has_ended
    assert summary.judged == {"too-large": 2}
    assert summary.last_step == 1
    assert [v.outcome for v in summary.verdicts] == [Outcome.CLEAN]


def test_on_a_stop_request_what_is_complete_is_judged_and_nothing_is_called_clean(world: World) -> None:
    stop: list[bool] = []

    def stop_with_a_new_step() -> None:
        write_tensors(world.tensors, 1, {G1: 9.0})
        stop.append(True)

    write_tensors(world.tensors, 0, {G1: 1.0})
    life = Life(world, stop_with_a_new_step)
    rules = (configured(TooLarge()), configured(TooLarge(limit=99.0), name="clean-so-far"))
    summary = world.evaluator(*rules).watch(poll_seconds=1, sleep=life, should_stop=lambda: bool(stop))
    assert not summary.has_ended
    assert [(v.configuration_name, v.step) for v in summary.verdicts] == [("too-large", 1)]
    end_run(world.tensors)
    summary = world.evaluator(*rules).watch(poll_seconds=1, sleep=life, should_stop=lambda: False)
    assert [v.outcome for v in summary.verdicts] == [Outcome.ISSUE_FOUND, Outcome.CLEAN]
    assert len(world.sent) == 2


def test_an_outage_is_waited_out_and_a_refusal_is_not(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStore):
        error: Exception | None = StorageUnavailableError("S3 is busy")

        def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
            if self.error:
                raise self.error
            return super().get(key, start=start, length=length)

    broken = world.tensors = Broken()
    write_collections(broken)
    write_tensors(broken, 0, {G1: 9.0})
    end_run(broken)
    life = Life(world, lambda: None, lambda: setattr(broken, "error", None))
    summary = world.evaluator(configured(TooLarge())).watch(poll_seconds=1, sleep=life, should_stop=lambda: False)
    assert [v.outcome for v in summary.verdicts] == [Outcome.ISSUE_FOUND]
    assert caplog.text.count("S3 is busy") == 1
    broken.error = AccessDeniedError("no permission")
    with pytest.raises(AccessDeniedError):
        world.evaluator(configured(TooLarge())).watch(poll_seconds=1, sleep=life, should_stop=lambda: False)


def test_after_the_end_a_dead_bus_is_given_up_on_after_a_while(world: World) -> None:
    end_run(world.tensors)
    evaluator = world.evaluator(configured(TooLarge()), sinks=[Flaky()])
    summary = evaluator.watch(poll_seconds=10, sleep=Life(world), should_stop=lambda: False)
    assert len(summary.undelivered) == 1
    assert world.now == pytest.approx(1000 + DELIVERY_SECONDS_AFTER_THE_END, abs=11)


def test_evaluate_joins_the_built_in_rules_with_a_run() -> None:
    stores: dict[str, MemoryStore] = {}
    run = RunLocation("somewhere/digits")

    def store_at(uri: str) -> MemoryStore:
        return stores.setdefault(uri, MemoryStore())

    write_collections(store_at(run.tensors))
    write_tensors(store_at(run.tensors), 0, {G1: np.array([math.nan]), LOSS: 1.0})
    end_run(store_at(run.tensors))
    summary = evaluate(
        run,
        RuleRequest((RuleConfiguration("exploding-tensor"), RuleConfiguration("loss-not-decreasing"))),
        [JsonLinesSink(store_at(run.rule_output))],
        poll_seconds=1,
        clock=lambda: 5.0,
        sleep=lambda _: None,
        should_stop=lambda: False,
        stores=store_at,
    )
    assert {v.rule_id: v.outcome for v in summary.verdicts} == {
        "exploding-tensor": Outcome.ISSUE_FOUND,
        "loss-not-decreasing": Outcome.NOT_EVALUATED,
    }
    assert summary.verdicts[0].run == "digits"
    assert store_at(run.rule_output).get("verdicts.jsonl").count(b"\n") == 2
