"""Killed at any point, the evaluator goes on as if nothing had happened: nothing lost, nothing said twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run_layout import PROGRESS_KEY
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import Delivery, Progress, ProgressFile, RuleProgress, keep_only
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import Rule, parameter
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.window import Window

G = "gradient/Net_fc1.weight"


@dataclass(frozen=True)
class TooLarge(Rule):
    """A gradient is too large."""

    rule_id = "too-large"
    watches = ("gradients",)
    save_interval = 10
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ("Lower the learning rate.",)
    patience = 2

    limit: float = parameter(5.0, "the largest value allowed")

    def check(self, window: Window) -> Iterable[Finding]:
        for column in window.statistic(G, "abs_max"):
            if column.values[-1] > self.limit:
                yield Finding(
                    subject=G,
                    step=window.step,
                    since_step=window.step,
                    measure="max |gradient|",
                    observed=float(column.values[-1]),
                    relation=">",
                    threshold=self.limit,
                    series=column.series,
                )


@dataclass(frozen=True)
class Crashes(TooLarge):
    """It crashes at step 3."""

    rule_id = "crashes"

    def check(self, window: Window) -> Iterable[Finding]:
        if window.step == 3:
            raise RuntimeError("no more")
        return ()


class Killed(BaseException):
    """SIGKILL: nothing may catch it."""


class Fate:
    """Kills at the n-th outward act, before or after it took effect."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left, self.after = at, after

    def strike(self, *, after: bool) -> None:
        if after == self.after:
            self.left -= 1
            if self.left == 0:
                raise Killed


class MortalStore(MemoryStore):
    """A store whose user may be killed around each put."""

    fate: Fate | None = None

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if self.fate:
            self.fate.strike(after=False)
        super().put(key, data)
        if self.fate:
            self.fate.strike(after=True)


class Bus:
    """A bus that cannot tell whether it has had an event before."""

    name = "bus"

    def __init__(self) -> None:
        self.events: list[str] = []
        self.fate: Fate | None = None

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        if self.fate:
            self.fate.strike(after=False)
        self.events += [verdict.to_json() for verdict in verdicts]
        if self.fate:
            self.fate.strike(after=True)


RULES = tuple(
    ConfiguredRule(RuleConfiguration(rule.rule_id, name=name), rule)
    for name, rule in (
        ("early", TooLarge()),
        ("late", TooLarge(limit=50.0)),
        ("clean", TooLarge(limit=1e9)),
        ("crashes", Crashes()),
    )
)
SERIES = (1.0, 9.0, 1.0, 9.0, 9.0, 60.0, 60.0, 1.0, 1.0, 1.0, 9.0, 9.0)


def live(fate: Fate | None) -> tuple[MortalStore, Bus, bool]:
    """A run of twelve steps, judged as it grows, by an evaluator that is killed once; a new one takes over."""
    tensors, output, bus = MemoryStore(), MortalStore(), Bus()
    output.fate = bus.fate = fate
    write_collections(tensors)

    def start() -> Evaluator:
        sinks: list[Sink] = [bus, JsonLinesSink(output)]
        return Evaluator(Trial(tensors), RULES, sinks, ProgressFile(output), run="digits", clock=lambda: 1000.0)

    evaluator, was_killed = start(), False
    for step in range(len(SERIES) + 1):
        if step < len(SERIES):
            write_tensors(tensors, step, {G: SERIES[step]})
        else:
            end_run(tensors)
        try:
            evaluator.poll()
        except Killed:
            was_killed = True
            evaluator = start()
            evaluator.poll()
    assert evaluator.is_done
    assert evaluator.summary().undelivered == ()
    return output, bus, was_killed


def test_an_uninterrupted_run_says_each_thing_once() -> None:
    output, bus, _ = live(None)
    verdicts = [Verdict.from_json(line) for line in output.get("verdicts.jsonl").decode().splitlines()]
    assert [(v.configuration_name, v.outcome, v.state, v.occurrence, v.step) for v in verdicts] == [
        ("crashes", Outcome.NOT_EVALUATED, State.OPENED, 1, 3),
        ("early", Outcome.ISSUE_FOUND, State.OPENED, 1, 4),
        ("late", Outcome.ISSUE_FOUND, State.OPENED, 1, 6),
        ("early", Outcome.CLEAN, State.RECOVERED, 1, 9),
        ("late", Outcome.CLEAN, State.RECOVERED, 1, 9),
        ("early", Outcome.ISSUE_FOUND, State.OPENED, 2, 11),
        ("clean", Outcome.CLEAN, State.OPENED, 1, 11),
    ]
    assert len({verdict.verdict_id for verdict in verdicts}) == len(verdicts)
    assert Counter(bus.events) == Counter(v.to_json() for v in verdicts)


@pytest.mark.parametrize("after", [False, True], ids=["before-it-took-effect", "after-it-took-effect"])
def test_killed_at_any_act_nothing_is_lost_and_nothing_is_said_twice(after: bool) -> None:
    expected, uninterrupted, _ = live(None)
    for at in itertools.count(1):
        output, bus, was_killed = live(Fate(at, after=after))
        if not was_killed:
            break
        assert output.get("verdicts.jsonl") == expected.get("verdicts.jsonl"), at
        assert set(bus.events) == set(uninterrupted.events), at
        assert len(bus.events) <= len(uninterrupted.events) + 2, at  # at least once: a bus cannot tell; two at step 9
    assert at > 15


def test_a_restart_between_sweeps_does_not_judge_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, output = MemoryStore(), MemoryStore()
    write_collections(tensors)
    judged: list[int] = []
    check = TooLarge.check
    monkeypatch.setattr(TooLarge, "check", lambda self, window: (judged.append(window.step), check(self, window))[1])
    for step in range(4):
        write_tensors(tensors, step, {G: 1.0})
        rules = (ConfiguredRule(RuleConfiguration("too-large"), TooLarge()),)
        Evaluator(Trial(tensors), rules, [], ProgressFile(output), run="digits", clock=lambda: 1000.0).poll()
    assert judged == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"version":99,"rules":[],"said":[]}', id="newer-version"),
        pytest.param(b'{"version":1,"rules":[{"name":3}],"said":[]}', id="wrong-types"),
    ],
)
def test_unreadable_progress_means_a_fresh_start(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.put("progress.json", content)
    assert ProgressFile(store).load() == Progress()
    assert "starts from the first step" in caplog.text


names = st.text(min_size=1, max_size=5)
rule_progress = st.builds(
    RuleProgress,
    judged_through=st.integers(-1, 10**12),
    judged=st.integers(0, 10**9),
    unreadable=st.integers(0, 9),
    streak=st.integers(0, 9),
    since=st.dictionaries(st.tuples(names, names), st.integers(0, 10**12), max_size=3),
    error=st.text(max_size=10),
    issues=st.integers(0, 10),
    is_open=st.booleans(),
    quiet=st.integers(0, 9),
    has_concluded=st.booleans(),
    lacks=st.text(max_size=10),
    memory=st.text(max_size=10),
)


@given(rules=st.dictionaries(names, rule_progress, max_size=3), sinks=st.lists(names, max_size=2, unique=True))
def test_progress_is_read_as_it_was_written(rules: dict[str, RuleProgress], sinks: list[str]) -> None:
    verdict = Verdict("r", "rule", "rule", Outcome.CLEAN, Severity.INFO, 3, "All is well.", 1.5)
    progress = Progress(rules=rules, deliveries=[Delivery(verdict, tuple(sinks))])
    assert Progress.from_json(progress.to_json()) == progress


def test_what_is_no_longer_judged_or_sent_to_is_dropped() -> None:
    def said(name: str) -> Delivery:
        return Delivery(Verdict("r", name, name, Outcome.CLEAN, Severity.INFO, 3, "Well.", 1.5), ("bus", "gone"))

    progress = Progress(rules={"a": RuleProgress(judged=3), "old": RuleProgress()}, deliveries=[said("a"), said("old")])
    kept = keep_only(progress, configurations=["a", "new"], sinks=["bus"])
    assert kept.rules == {"a": RuleProgress(judged=3), "new": RuleProgress()}
    assert [(s.verdict.rule_id, s.undelivered) for s in kept.deliveries] == [("a", ("bus",))]


class CountedPuts(MemoryStore):
    """Counts how often the progress was stored."""

    puts = 0

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.puts += key == PROGRESS_KEY
        super().put(key, data)


def stored_in_thirty_seconds(progress_seconds: float, *, values: Sequence[float]) -> int:
    """How often the progress of a run is stored that makes a step and is looked at every second."""
    tensors, output, now = MemoryStore(), CountedPuts(), [1000.0]
    write_collections(tensors)
    rules = [ConfiguredRule(RuleConfiguration("too-large"), TooLarge())]
    evaluator = Evaluator(
        Trial(tensors),
        rules,
        [],
        ProgressFile(output),
        run="digits",
        clock=lambda: now[0],
        progress_seconds=progress_seconds,
    )
    for step, value in enumerate(values):
        now[0] += 1.0
        write_tensors(tensors, step, {G: value})
        evaluator.poll()
    return output.puts


SOUND = (1.0,) * 30


def test_progress_is_stored_with_each_look_in_a_folder_and_every_ten_seconds_elsewhere() -> None:
    assert stored_in_thirty_seconds(0.0, values=SOUND) == 30
    assert stored_in_thirty_seconds(10.0, values=SOUND) == 3


def test_a_verdict_is_stored_at_once() -> None:
    values = [*SOUND[:5], 9.0, 9.0]
    assert stored_in_thirty_seconds(10.0, values=values[:-1]) == 0
    assert stored_in_thirty_seconds(10.0, values=values) == 1
