"""A slow, hanging or crashing rule beside others: they never wait for it, and nothing of what it says is lost."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import HANGS_SECONDS, ends_early
from trackside.contracts.errors import AccessDeniedError, StorageError, StorageUnavailableError
from trackside.contracts.rule_request import CustomRule, RuleConfiguration
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.evaluation.backtest import backtest
from trackside.evaluation.evaluator import MOST_SLOW_STEPS, Evaluator
from trackside.evaluation.exit_codes import RULE_CRASHED, exit_code_of
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_processes.rule_limits import NO_LIMITS, RuleLimits
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import FoldingRule, Rule
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.window import Window

LOSS = "CrossEntropyLoss_output_0"
HANGS_AT = 3
AGES = RuleLimits(step_seconds=3600)  # nothing that a test waits for is given up


@dataclass(frozen=True)
class TooHigh(Rule):
    """A loss is too high."""

    rule_id = "too-high"
    watches = ("losses",)
    save_interval = 1
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ()

    limit: ClassVar[float] = 5.0

    def check(self, window: Window) -> Iterable[Finding]:
        self.dawdle(window.step)
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean"):
                value = float(column.values[-1])
                if column.steps[-1] == window.step and value > self.limit:
                    yield Finding(name, window.step, window.step, "loss", value, ">", self.limit, worker=column.worker)

    def dawdle(self, step: int) -> None:
        """What makes it slow."""


@dataclass(frozen=True, eq=False)
class Slow(TooHigh):
    """A loss is too high, seen late."""

    rule_id = "slow"
    seconds: ClassVar[float] = 0.05

    def dawdle(self, step: int) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True, eq=False)
class Hangs(TooHigh):
    """It hangs at one step until it is let go."""

    rule_id = "hangs"
    let_go: ClassVar[threading.Event] = threading.Event()
    has_hung: ClassVar[threading.Event] = threading.Event()

    def dawdle(self, step: int) -> None:
        if step == HANGS_AT:
            self.has_hung.set()
            assert self.let_go.wait(HANGS_SECONDS)


@dataclass(frozen=True, eq=False)
class Spins(TooHigh):
    """It never ends."""

    rule_id = "spins"

    def dawdle(self, step: int) -> None:
        while step == HANGS_AT:
            with contextlib.suppress(Exception):  # as loops do that are to live for ever
                int("1")


@dataclass(frozen=True, eq=False)
class Raises(TooHigh):
    """It raises at one step what it is told to raise."""

    rule_id = "raises"
    error: ClassVar[list[BaseException]] = []

    def dawdle(self, step: int) -> None:
        if step == HANGS_AT and self.error:
            raise self.error.pop(0)


@dataclass(frozen=True)
class Seen:
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Remembers(FoldingRule):
    """It remembers every step that it was asked about, and is slow about it."""

    rule_id = "remembers"
    watches = ("losses",)
    save_interval = 1
    severity = Severity.INFO
    since = "0.1"
    what_to_do = ()
    let_go: ClassVar[threading.Semaphore] = threading.Semaphore(0)
    patience_seconds: ClassVar[float] = HANGS_SECONDS

    def start(self) -> Seen:
        return Seen()

    def fold(self, state: Seen, window: Window) -> tuple[Seen, Iterable[Finding]]:
        assert self.let_go.acquire(timeout=self.patience_seconds)
        return Seen((*state.steps, window.step)), ()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Hangs, "let_go", threading.Event())
    monkeypatch.setattr(Hangs, "has_hung", threading.Event())
    monkeypatch.setattr(Remembers, "let_go", threading.Semaphore(0))
    monkeypatch.setattr(Raises, "error", [])
    yield
    Hangs.let_go.set()
    Remembers.let_go.release(1000)


def built_in(*rules: Rule) -> list[ConfiguredRule]:
    return [ConfiguredRule(RuleConfiguration(rule.rule_id), rule) for rule in rules]


def from_file(rule: Rule) -> ConfiguredRule:
    configuration = RuleConfiguration(rule.rule_id, source=__file__)
    assert isinstance(configuration.custom, CustomRule)
    return ConfiguredRule(configuration, rule)


class World:
    """A run in memory, what is said of it, and evaluators of it."""

    name = "kept"

    def __init__(self) -> None:
        self.tensors, self.output = MemoryStore(), MemoryStore()
        self.sent: list[Verdict] = []
        write_collections(self.tensors)

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.sent += verdicts

    def write(self, *losses: float, first: int = 0) -> None:
        for step, loss in enumerate(losses, start=first):
            write_tensors(self.tensors, step, {LOSS: loss})

    def evaluator(self, *rules: ConfiguredRule, limits: RuleLimits = AGES, **more: Any) -> Evaluator:
        progress, clock = ProgressFile(self.output), lambda: 1000.0
        trial = Trial(self.tensors)
        return Evaluator(trial, rules, [self], progress, run="digits", clock=clock, limits=limits, **more)

    def judge_to_the_end(self, *rules: ConfiguredRule, limits: RuleLimits = AGES, **more: Any) -> Summary:
        end_run(self.tensors)
        deadline = time.monotonic() + HANGS_SECONDS
        evaluator = self.evaluator(*rules, limits=limits, **more)
        summary = evaluator.watch(poll_seconds=0.01, sleep=time.sleep, should_stop=lambda: time.monotonic() > deadline)
        assert summary.has_ended
        return summary

    def outcomes(self) -> list[tuple[str, str, int]]:
        return [(v.configuration_name, _what(v), v.step) for v in self.sent]

    def of(self, name: str) -> list[tuple[str, int]]:
        return [(what, step) for said, what, step in self.outcomes() if said == name]


def _what(verdict: Verdict) -> str:
    return verdict.state.value if verdict.state is State.RECOVERED else verdict.outcome.value


def sweep_until(evaluator: Evaluator, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANGS_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        evaluator.poll()


@pytest.fixture
def world() -> World:
    return World()


# Others do not wait


def test_others_are_told_on_time_while_a_rule_hangs(world: World) -> None:
    @dataclass(frozen=True)
    class AlsoTooHigh(TooHigh):
        """The same, by another name."""

        rule_id = "also-too-high"

    evaluator = world.evaluator(from_file(Hangs()), *built_in(TooHigh(), AlsoTooHigh()))
    world.write(1, 1, 1, 1)
    evaluator.poll()
    assert Hangs.has_hung.wait(HANGS_SECONDS)
    for step in range(4, 40):
        world.write(9 if step == 30 else 1, first=step)
        with ends_early():
            evaluator.poll()
        assert len(world.sent) == (0 if step < 30 else 2 if step < 33 else 4)
    assert {name for name, *_ in world.outcomes()} == {"too-high", "also-too-high"}
    Hangs.let_go.set()
    sweep_until(evaluator, lambda: bool(world.of("hangs")))
    assert world.of("hangs")[0] == ("issue-found", 30)  # at its own pace, and nothing is lost


def test_the_others_have_said_their_last_word_when_a_rule_hangs_at_the_end(world: World) -> None:
    world.write(1, 9, 1, 1, 1, 1)
    end_run(world.tensors)
    evaluator = world.evaluator(from_file(Hangs()), *built_in(TooHigh()))
    evaluator.poll()
    assert not evaluator.is_done
    assert world.outcomes() == [
        ("hangs", "issue-found", 1),
        ("too-high", "issue-found", 1),
        ("too-high", "recovered", 4),
    ]
    Hangs.let_go.set()
    sweep_until(evaluator, lambda: evaluator.is_done)
    assert world.of("hangs") == [("issue-found", 1), ("recovered", 4)]


def test_what_a_rule_said_before_it_hung_does_not_wait(world: World) -> None:
    evaluator = world.evaluator(from_file(Hangs()), limits=RuleLimits(step_seconds=3600, wait_seconds=0))
    world.write(1, 9, 1, 1, *[1] * 50)
    sweep_until(evaluator, lambda: bool(world.sent))
    assert world.outcomes() == [("hangs", "issue-found", 1)]


# The same is said, wherever and however slowly a rule is asked

SERIES = [
    pytest.param([1.0] * 12, id="never"),
    pytest.param([9.0] * 12, id="always"),
    pytest.param([1, 9, 1, 1, 1, 9, 9, 1, 1, 1, 1, 9], id="comes-and-goes"),
    pytest.param([], id="nothing"),
]


@pytest.mark.parametrize("losses", SERIES)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(RuleLimits(), id="abreast"),
        pytest.param(RuleLimits(wait_seconds=0.0), id="nobody-waits"),
        pytest.param(NO_LIMITS, id="everybody-waits"),
    ],
)
def test_a_rule_in_a_thread_says_what_it_says_beside_the_others(losses: list[float], limits: RuleLimits) -> None:
    inline, threaded = World(), World()
    for world in (inline, threaded):
        world.write(*losses)
    before = inline.judge_to_the_end(*built_in(TooHigh()))
    after = threaded.judge_to_the_end(from_file(TooHigh()), limits=limits)
    assert threaded.outcomes() == inline.outcomes()
    assert (after.judged, after.last_step) == (before.judged, before.last_step)
    assert [v.message for v in threaded.sent] == [v.message for v in inline.sent]


def test_a_slow_rule_finds_what_it_finds_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "seconds", 0.015)
    losses = [9.0 if 40 <= step < 60 or step >= 190 else 1.0 for step in range(200)]
    inline, threaded = World(), World()
    for world in (inline, threaded):
        world.write(*losses)
    inline.judge_to_the_end(*built_in(TooHigh()))
    summary = threaded.judge_to_the_end(from_file(Slow()), *built_in(TooHigh()))
    assert threaded.of("slow") == threaded.of("too-high") == inline.of("too-high")
    assert summary.judged["slow"] == 200
    # The other had said all that happened before the slow one was half way.
    assert [name for name, *_ in threaded.outcomes()][:3] == ["too-high"] * 3


def test_abreast_of_the_others_it_speaks_in_the_order_of_the_rules(world: World) -> None:
    world.write(1, 9)
    evaluator = world.evaluator(*built_in(TooHigh()), from_file(Raises()), limits=NO_LIMITS)
    evaluator.poll()
    assert [name for name, *_ in world.outcomes()] == ["too-high", "raises"]
    assert len({verdict.group for verdict in world.sent}) == 2


@pytest.mark.parametrize("rules", [*itertools.permutations([TooHigh(), Remembers()])], ids=lambda r: r[0].rule_id)
def test_each_step_is_shown_once_and_in_order(world: World, rules: tuple[Rule, ...]) -> None:
    Remembers.let_go.release(1000)
    for step in range(0, 60, 6):
        world.write(*[1] * 6, first=step)
        world.evaluator(*map(from_file, rules)).watch(
            poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True
        )  # restarted each time
    world.judge_to_the_end(*map(from_file, rules))
    assert _seen(world) == (*range(60),)


def _seen(world: World) -> tuple[int, ...]:
    seen: Seen = Remembers().load(ProgressFile(world.output).load().rules["remembers"].memory)
    return seen.steps


@dataclass(frozen=True, eq=False)
class LooksBack(Remembers):
    """The same, now and then."""

    paced = True


@pytest.mark.parametrize("wait_seconds", [0.0, 10.0], ids=["behind", "abreast"])
@pytest.mark.parametrize("steps", [0, 1, 57, 61])
def test_a_paced_rule_is_asked_about_the_same_steps(steps: int, wait_seconds: float) -> None:
    Remembers.let_go.release(1000)
    inline, threaded = World(), World()
    for world in (inline, threaded):
        world.write(*[1] * steps)
    inline.judge_to_the_end(*built_in(LooksBack()))
    threaded.judge_to_the_end(from_file(LooksBack()), limits=RuleLimits(wait_seconds=wait_seconds))
    assert _seen(threaded) == _seen(inline)
    assert threaded.outcomes() == inline.outcomes()


@settings(max_examples=15, deadline=None)
@given(
    pieces=st.lists(st.lists(st.sampled_from([1.0, 1.0, 9.0]), max_size=6), max_size=6),
    seconds=st.sampled_from([0.0, 0.001, 0.004]),
    wait_seconds=st.sampled_from([0.0, 0.003, 10.0]),
)
def test_watched_or_judged_afterwards_slow_or_quick_it_says_the_same(
    pieces: list[list[float]], seconds: float, wait_seconds: float
) -> None:
    class Slower(Slow):
        """It takes as long as it is told."""

    Slower.seconds = seconds
    watched, afterwards = World(), World()
    evaluator = watched.evaluator(from_file(Slower()), limits=RuleLimits(wait_seconds=wait_seconds))
    first = 0
    for piece in pieces:
        watched.write(*piece, first=first)
        evaluator.poll()
        first += len(piece)
    end_run(watched.tensors)
    sweep_until(evaluator, lambda: evaluator.is_done)
    afterwards.write(*itertools.chain.from_iterable(pieces))
    afterwards.judge_to_the_end(*built_in(Slower()))
    assert watched.outcomes() == afterwards.outcomes()
    assert evaluator.summary().judged == afterwards.evaluator(*built_in(Slower())).summary().judged


def test_goes_on_in_the_middle_of_a_slow_rules_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(*[1] * 10)
    Remembers.let_go.release(4)
    evaluator = world.evaluator(from_file(Remembers()), *built_in(TooHigh()))
    sweep_until(evaluator, lambda: evaluator.summary().judged["remembers"] == 4)
    # Killed while the rule is at step 4, whose answer never comes.
    monkeypatch.setattr(Remembers, "let_go", threading.Semaphore(1000))
    world.judge_to_the_end(from_file(Remembers()), *built_in(TooHigh()))
    assert _seen(world) == (*range(10),)


# It is given up


@pytest.mark.parametrize("rule", [Hangs(), Spins()], ids=lambda rule: rule.rule_id)
def test_a_rule_that_hangs_is_given_up_and_why_is_said(
    world: World, rule: Rule, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(1, 9, *[1] * 8)
    summary = world.judge_to_the_end(from_file(rule), *built_in(TooHigh()), limits=RuleLimits(step_seconds=0.3))
    first, last = [v for v in world.sent if v.configuration_name == rule.rule_id]
    assert (first.outcome, first.step) == (Outcome.ISSUE_FOUND, 1)
    assert (last.outcome, last.step, last.actions) == (Outcome.NOT_EVALUATED, HANGS_AT, ())
    assert last.message == f"The rule {rule.rule_id} was still at step 3 after 0 seconds, and judges no further."
    assert f"--rule {__file__}:{rule.rule_id}" in last.what_to_do[1]
    assert summary.crashed == (rule.rule_id,)
    assert exit_code_of(summary) == RULE_CRASHED
    assert world.of("too-high") == [("issue-found", 1), ("recovered", 4)]
    assert caplog.text.count("was still at step 3") >= 1
    again = world.judge_to_the_end(from_file(rule), *built_in(TooHigh()))
    assert again.verdicts == summary.verdicts  # it is not asked again by the next evaluator


def test_a_rule_that_loops_is_ended_where_that_is_safe(world: World) -> None:
    world.write(*[1] * 6)
    evaluator = world.evaluator(from_file(Spins()), limits=RuleLimits(step_seconds=0.2))
    sweep_until(evaluator, lambda: bool(world.sent))
    sweep_until(evaluator, lambda: not any(thread.name == "rule spins" for thread in threading.enumerate()))


def test_an_answer_that_comes_after_all_is_not_taken(world: World) -> None:
    world.write(*[9 if step >= HANGS_AT else 1 for step in range(8)])
    evaluator = world.evaluator(from_file(Hangs()), limits=RuleLimits(step_seconds=0.2))
    sweep_until(evaluator, lambda: bool(world.sent))
    Hangs.let_go.set()
    end_run(world.tensors)
    for _ in range(5):
        evaluator.poll()
    assert world.outcomes() == [("hangs", "not-evaluated", HANGS_AT)]


def test_after_the_end_a_slow_rule_has_some_time_left(world: World) -> None:
    world.write(*[1] * 20)
    limits = RuleLimits(end_seconds=HANGS_SECONDS)
    summary = world.judge_to_the_end(from_file(Slow()), *built_in(TooHigh()), limits=limits)
    assert world.of("too-high") == [("clean", 19)]
    assert (world.of("slow"), summary.crashed) == ([("clean", 19)], ())


def test_a_rule_that_is_too_slow_after_the_end_says_how_far_it_has_come(world: World) -> None:
    world.write(*[1] * 20)
    limits = RuleLimits(step_seconds=HANGS_SECONDS, end_seconds=0.1)
    summary = world.judge_to_the_end(from_file(Hangs()), *built_in(TooHigh()), limits=limits)
    assert world.of("too-high") == [("clean", 19)]
    ((said, step),) = world.of("hangs")
    assert said == "not-evaluated"
    assert step <= HANGS_AT
    assert f"it had come to step {step} of 19." in world.sent[-1].message
    assert "trackside rules test RUN --rule" in world.sent[-1].what_to_do[0]
    assert summary.crashed == ("hangs",)


def test_a_stop_is_not_kept_waiting_by_a_rule_that_hangs(world: World) -> None:
    world.write(1, 9, 1, 1, 1)
    with ends_early():
        summary = world.evaluator(from_file(Hangs()), *built_in(TooHigh())).watch(
            poll_seconds=1, sleep=lambda _: None, should_stop=lambda: True
        )
    assert world.outcomes() == [
        ("hangs", "issue-found", 1),
        ("too-high", "issue-found", 1),
        ("too-high", "recovered", 4),
    ]
    assert not summary.has_ended
    assert summary.crashed == ()
    Hangs.let_go.set()
    world.judge_to_the_end(from_file(Hangs()), *built_in(TooHigh()))
    assert world.of("hangs") == [("issue-found", 1), ("recovered", 4)]


# It raises


@pytest.mark.parametrize(
    ("error", "named"),
    [
        pytest.param(ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", id="a-mistake"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="an-exit"),
        pytest.param(KeyboardInterrupt("no"), "KeyboardInterrupt: no", id="an-interrupt"),
        pytest.param(MemoryError(), "MemoryError: ", id="out-of-memory"),
        pytest.param(AccessDeniedError("not yours"), "AccessDeniedError: not yours", id="what-it-may-not-read"),
    ],
)
def test_a_crash_in_a_thread_is_a_crash(world: World, error: BaseException, named: str) -> None:
    Raises.error.append(error)
    world.write(*[1] * 8)
    summary = world.judge_to_the_end(from_file(Raises()), *built_in(TooHigh()))
    assert world.of("raises") == [("not-evaluated", HANGS_AT)]
    assert f"crashed at step 3 and judges no further: {named}" in world.sent[0].message
    assert world.of("too-high") == [("clean", 7)]
    assert exit_code_of(summary) == RULE_CRASHED


@pytest.mark.parametrize("wait_seconds", [0.0, 10.0], ids=["behind", "abreast"])
@pytest.mark.parametrize("times", [0, 1, 3], ids=["never", "once", "three-times"])
def test_an_outage_that_only_a_rule_meets_is_waited_out(
    world: World, times: int, wait_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[StorageError] = [StorageUnavailableError("S3 is busy") for _ in range(times)]
    Raises.error.extend(errors)
    world.write(1, 1, 1, 9, 1, 1, 1, 1)
    limits = RuleLimits(wait_seconds=wait_seconds)
    world.judge_to_the_end(from_file(Raises()), *built_in(TooHigh()), limits=limits)
    assert world.of("raises") == world.of("too-high") == [("issue-found", 3), ("recovered", 6)]
    assert caplog.text.count("S3 is busy") == min(times, 1)


# Rules that ship with Trackside


@dataclass(frozen=True, eq=False)
class Burns(TooHigh):
    """It needs the processor for long, at some steps."""

    rule_id = "burns"
    slow_steps: ClassVar[frozenset[int]] = frozenset()
    threads: ClassVar[list[str]] = []

    def dawdle(self, step: int) -> None:
        self.threads.append(threading.current_thread().name)
        until = time.thread_time() + (0.05 if step in self.slow_steps else 0)
        while time.thread_time() < until:
            pass


@pytest.mark.parametrize(
    ("slow_steps", "is_moved"),
    [
        pytest.param(range(12), True, id="always"),
        pytest.param([1, 4, 8], True, id="three-times"),
        pytest.param([1, 4], False, id="twice"),
        pytest.param([], False, id="never"),
    ],
)
def test_a_rule_that_turns_out_to_be_slow_goes_on_in_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch, slow_steps: Sequence[int], is_moved: bool
) -> None:
    monkeypatch.setattr(Burns, "slow_steps", frozenset(slow_steps))
    monkeypatch.setattr(Burns, "threads", [])
    world.write(*[9 if step in {2, 10} else 1 for step in range(12)])
    world.judge_to_the_end(*built_in(Burns(), TooHigh()), limits=RuleLimits(quick_seconds=0.04))
    assert world.of("burns") == world.of("too-high")
    main = threading.current_thread().name
    slowest = [*slow_steps][MOST_SLOW_STEPS - 1] if is_moved else 11
    assert Burns.threads == [main] * (slowest + 1) + ["rule burns"] * (11 - slowest)


def test_a_rule_of_an_installed_package_is_asked_apart_where_that_is_said(world: World) -> None:
    world.write(1, 9, 1, 1, 1, 1)
    evaluator = world.evaluator(*built_in(Hangs(), TooHigh()), threaded={"hangs"})
    evaluator.poll()
    assert world.of("too-high") == [("issue-found", 1), ("recovered", 4)]


# Recorded runs


def test_a_backtest_waits_for_a_slow_rule(tmp_path: Any) -> None:
    file = tmp_path / "late.py"
    file.write_text(_RULE_FILE, encoding="utf-8")
    stores: dict[str, MemoryStore] = {}

    def store_at(uri: str) -> MemoryStore:
        return stores.setdefault(uri, MemoryStore())

    tensors = store_at("runs/digits/debug-output")
    write_collections(tensors)
    for step in range(20):
        write_tensors(tensors, step, {LOSS: 9.0 if step == 12 else 1.0})
    end_run(tensors)
    rules = [RuleConfiguration("Late", source=str(file)), RuleConfiguration("exploding-tensor")]
    found = backtest("runs/digits", rules, clock=lambda: 1000.0, stores=store_at)
    assert found.judged["Late"] == 20
    assert [v.step for v in found.issues] == [12]


_RULE_FILE = '''
import time
from dataclasses import dataclass

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule


@dataclass(frozen=True)
class Late(Rule):
    """A loss is too high."""

    rule_id = "Late"
    watches = ("losses",)
    save_interval = 1
    severity = Severity.WARNING
    since = "1"
    what_to_do = ()

    def check(self, window):
        time.sleep(0.02)
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", last=1):
                if column.values[-1] > 5:
                    value = float(column.values[-1])
                    yield Finding(name, window.step, window.step, "loss", value, ">", 5.0)
'''
