"""The life of an issue: opened, recovered, opened again; what belongs together; what a crash or an outage leaves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.judging import FEWEST_CLEAN_STEPS, MOST_ISSUES
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import FoldingRule, Rule, parameter
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.window import Window

G = "gradient/Net_fc1.weight"
GOOD, BAD = 1.0, 9.0


@dataclass(frozen=True)
class TooLarge(Rule):
    """A gradient is too large."""

    rule_id = "too-large"
    watches = ("gradients",)
    save_interval = 1
    severity = Severity.CRITICAL
    since = "0.1"
    what_to_do = ("Lower the learning rate.",)
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS, Cause.UNNORMALIZED_INPUTS)

    limit: float = parameter(5.0, "the largest value allowed")

    def check(self, window: Window) -> Iterable[Finding]:
        for column in window.statistic(G, "abs_max"):
            if column.steps[-1] == window.step and column.values[-1] > self.limit:
                yield found_at(window.step, float(column.values[-1]), self.limit)


def found_at(step: int, observed: float, threshold: float) -> Finding:
    return Finding(
        subject=G,
        step=step,
        since_step=step,
        measure="max |gradient|",
        observed=observed,
        relation=">",
        threshold=threshold,
    )


@dataclass(frozen=True)
class Patient(TooLarge):
    """A gradient stays too large."""

    rule_id = "patient"
    patience = 5


@dataclass(frozen=True)
class OnlyOnce(TooLarge):
    """A gradient is too large, as Amazon's rules say it: once."""

    rule_id = "only-once"
    judges_until_found = True


@dataclass(frozen=True)
class Worsening(TooLarge):
    """A gradient is too large, and may become far too large."""

    rule_id = "worsening"
    escalates = True

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        return Severity.CRITICAL if findings[0].observed > 100 else Severity.WARNING


@dataclass(frozen=True)
class Unmoved(Worsening):
    """The same, said once."""

    rule_id = "unmoved"
    escalates = False


@dataclass(frozen=True)
class Counts:
    """What `Third` remembers."""

    large: int = 0
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Third(FoldingRule):
    """A gradient was too large for the third time."""

    rule_id = "third"
    watches = ("gradients",)
    save_interval = 1
    severity = Severity.WARNING
    since = "0.1"
    what_to_do = ()

    def start(self) -> Counts:
        return Counts()

    def fold(self, state: Counts, window: Window) -> tuple[Counts, Iterable[Finding]]:
        (column,) = window.statistic(G, "abs_max")
        large = state.large + int(column.values[-1] > 5)
        after = Counts(large, (*state.steps, window.step))
        return after, [found_at(window.step, float(large), 2.5)] if large >= 3 else []


class World:
    """A run in memory that we write, and what the evaluator sent."""

    name = "kept"

    def __init__(self, *rules: Rule) -> None:
        self.tensors, self.output = MemoryStore(), MemoryStore()
        self.sent: list[Verdict] = []
        self.now = 1000.0
        self.rules = [ConfiguredRule(RuleConfiguration(rule.rule_id), rule) for rule in rules]
        write_collections(self.tensors)
        self.evaluator = self.start()

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.sent += verdicts

    def start(self) -> Evaluator:
        trial = Trial(self.tensors)
        progress = ProgressFile(self.output)
        return Evaluator(trial, self.rules, [self], progress, run="digits", clock=lambda: self.now)

    def write(self, values: Iterable[float], *, start: int = 0) -> None:
        for step, value in enumerate(values, start):
            write_tensors(self.tensors, step, {G: value})

    def judge(self, values: Iterable[float]) -> list[tuple[str, int, int]]:
        self.write(values)
        end_run(self.tensors)
        self.evaluator.poll()
        return history(self.sent)


def history(verdicts: Iterable[Verdict]) -> list[tuple[str, int, int]]:
    """(what, occurrence, step) of each."""
    words = {
        (Outcome.ISSUE_FOUND, State.OPENED): "opened",
        (Outcome.CLEAN, State.RECOVERED): "recovered",
        (Outcome.CLEAN, State.OPENED): "clean",
        (Outcome.NOT_EVALUATED, State.OPENED): "not evaluated",
    }
    return [(words[v.outcome, v.state], v.occurrence, v.step) for v in verdicts]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        pytest.param(TooLarge(), [GOOD, BAD], [("opened", 1, 1)], id="opened-and-stays"),
        pytest.param(TooLarge(), [BAD, GOOD, GOOD], [("opened", 1, 0)], id="two-quiet-steps-are-too-few"),
        pytest.param(
            TooLarge(), [BAD, GOOD, GOOD, GOOD, GOOD], [("opened", 1, 0), ("recovered", 1, 3)], id="recovered-once"
        ),
        pytest.param(
            TooLarge(), [BAD, GOOD, GOOD, BAD, GOOD, GOOD, BAD], [("opened", 1, 0)], id="back-before-it-had-recovered"
        ),
        pytest.param(
            TooLarge(),
            [BAD, GOOD, GOOD, GOOD, BAD, BAD],
            [("opened", 1, 0), ("recovered", 1, 3), ("opened", 2, 4)],
            id="opened-again",
        ),
        pytest.param(
            Patient(),
            [*[BAD] * 5, *[GOOD] * 4, BAD, *[GOOD] * 5],
            [("opened", 1, 4), ("recovered", 1, 14)],
            id="as-patient-in-recovery",
        ),
        pytest.param(
            Patient(),
            [*[BAD] * 5, *[GOOD] * 5, *[BAD] * 4, GOOD],
            [("opened", 1, 4), ("recovered", 1, 9)],
            id="as-patient-when-it-comes-again",
        ),
        pytest.param(Worsening(), [BAD, BAD, 900.0, 900.0], [("opened", 1, 0), ("opened", 2, 2)], id="worse"),
        pytest.param(
            Worsening(), [BAD, 900.0, BAD, 900.0], [("opened", 1, 0), ("opened", 2, 1)], id="no-worse-than-it-was"
        ),
        pytest.param(
            Worsening(),
            [900.0, BAD, *[GOOD] * 3, BAD, 900.0],
            [("opened", 1, 0), ("recovered", 1, 4), ("opened", 2, 5), ("opened", 3, 6)],
            id="worse-after-recovery",
        ),
        pytest.param(Unmoved(), [BAD, 900.0, 900.0], [("opened", 1, 0)], id="worse-but-said-once"),
        pytest.param(OnlyOnce(), [BAD, *[GOOD] * 4, BAD], [("opened", 1, 0)], id="until-found"),
        pytest.param(TooLarge(), [GOOD] * 5, [("clean", 1, 4)], id="never-an-issue-is-clean-and-never-recovers"),
    ],
)
def test_life(rule: Rule, values: Sequence[float], expected: list[tuple[str, int, int]]) -> None:
    assert World(rule).judge(values) == expected


def test_an_issue_that_becomes_worse_has_its_new_severity_even_after_a_restart() -> None:
    world = World(Worsening())
    world.write([BAD, BAD])
    world.evaluator.poll()
    world.evaluator = world.start()
    world.write([900.0], start=2)
    end_run(world.tensors)
    world.evaluator.poll()
    assert [(v.severity, v.step) for v in world.sent] == [(Severity.WARNING, 0), (Severity.CRITICAL, 2)]


def test_what_recovered_says_of_which_issue_and_asks_for_nothing() -> None:
    world = World(TooLarge())
    world.rules = [ConfiguredRule(RuleConfiguration("too-large", actions=(Action.NOTIFY,)), TooLarge())]
    world.evaluator = world.start()
    world.judge([GOOD, BAD, *[GOOD] * 3])
    opened, recovered = world.sent
    assert recovered.message == f"Recovered by step 4: {G} is as it should be again (issue of step 1)."
    assert (recovered.severity, recovered.actions, recovered.findings) == (Severity.INFO, (), ())
    assert recovered.group == opened.group == opened.verdict_id == "digits/too-large/issue-found"
    assert recovered.verdict_id == "digits/too-large/clean/recovered"
    assert world.evaluator.summary().issues == (opened,)


def test_what_comes_and_goes_for_ever_is_told_ten_times() -> None:
    world = World(TooLarge())
    told_of = world.judge([BAD, *[GOOD] * FEWEST_CLEAN_STEPS] * (MOST_ISSUES + 3))
    assert [occurrence for what, occurrence, _ in told_of if what == "opened"] == [*range(1, MOST_ISSUES + 1)]
    assert sum(what == "recovered" for what, *_ in told_of) == MOST_ISSUES
    assert len({verdict.verdict_id for verdict in world.sent}) == 2 * MOST_ISSUES


def test_a_step_that_cannot_be_answered_is_no_quiet_step_and_ends_a_streak() -> None:
    @dataclass(frozen=True)
    class Blind(TooLarge):
        """A gradient is too large, at odd steps only."""

        rule_id = "blind"
        patience = 2

        def lacks(self, window: Window) -> str:
            return "" if window.step % 2 else "an odd step"

    world = World(Blind())
    assert world.judge([GOOD, BAD, GOOD, BAD, BAD, *[GOOD] * 6]) == [("opened", 1, 4), ("recovered", 1, 9)]
    assert world.sent[0].since_step == 3  # and not step 1, between which and step 3 it was not to be seen


@given(
    values=st.lists(st.sampled_from([GOOD, BAD]), min_size=1, max_size=24),
    cuts=st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_portions_and_restarts_change_nothing(values: list[float], cuts: list[tuple[int, bool]]) -> None:
    rules = (TooLarge(), Patient(), OnlyOnce(), Third())
    whole = World(*rules)
    whole.judge(values)
    growing, step = World(*rules), 0
    for length, restarts in [*cuts, (len(values), False)]:
        growing.write(values[step : step + length], start=step)
        step = min(len(values), step + length)
        growing.evaluator.poll()
        if restarts:
            growing.evaluator = growing.start()
    end_run(growing.tensors)
    growing.evaluator.poll()
    assert by_rule(growing.sent) == by_rule(whole.sent)
    assert len({v.verdict_id for v in growing.sent}) == len(growing.sent)


def by_rule(verdicts: Iterable[Verdict]) -> list[str]:
    return sorted(verdict.to_json() for verdict in verdicts)


def test_a_folding_rule_remembers_over_a_restart() -> None:
    world = World(Third())
    for step, value in enumerate([BAD, GOOD, BAD, GOOD, BAD, GOOD]):
        write_tensors(world.tensors, step, {G: value})
        world.evaluator.poll()
        world.evaluator = world.start()
    assert history(world.sent) == [("opened", 1, 4)]
    state = Third().load(ProgressFile(world.output).load().rules["third"].memory)
    assert state == Counts(3, (0, 1, 2, 3, 4, 5))


@dataclass(frozen=True)
class Suspects(TooLarge):
    """A gradient is too large, for a reason."""

    rule_id = "suspects"

    causes: str = parameter("", "what it suspects")

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        return [Suspicion(Cause(cause)) for cause in self.causes.split()]


def grouped(*causes: str, limits: Sequence[float] = ()) -> list[str]:
    """The configuration that leads the group of each of these, in order of their issues."""
    world = World()
    world.rules = [
        ConfiguredRule(RuleConfiguration("suspects", name=f"r{number}"), Suspects(causes=text, limit=limit))
        for number, (text, limit) in enumerate(zip(causes, limits or [5.0] * len(causes), strict=True))
    ]
    world.evaluator = world.start()
    world.judge([6.0, 7.0, 8.0, 9.0])
    assert all(v.outcome is Outcome.ISSUE_FOUND for v in world.sent)
    return [verdict.group.split("/")[1] for verdict in world.sent]


@dataclass(frozen=True)
class ThirdSuspects(Third):
    """A gradient was too large for the third time, for a reason."""

    rule_id = "third"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH,)


HIGH, DEAD, DATA, LEAK = "learning-rate-too-high", "dead-units", "non-finite-data", "data-leakage"


@pytest.mark.parametrize(
    ("causes", "limits", "leaders"),
    [
        pytest.param((HIGH, HIGH), (5, 6.5), ["r0", "r0"], id="the-same-a-step-later"),
        pytest.param((HIGH, HIGH), (5, 5), ["r0", "r0"], id="the-same-at-the-same-step"),
        pytest.param((HIGH, HIGH), (6.5, 5), ["r1", "r1"], id="the-first-in-time-leads"),
        pytest.param((f"{DEAD} {HIGH}", f"{LEAK} {HIGH}"), (5, 5), ["r0", "r0"], id="the-second-likeliest-of-both"),
        pytest.param((f"{HIGH} {LEAK}", f"{LEAK} {DATA}", DATA), (5, 6.5, 7.5), ["r0"] * 3, id="a-chain"),
        pytest.param((HIGH, LEAK), (5, 5), ["r0", "r1"], id="other-causes"),
        pytest.param((HIGH, DEAD), (5, 6.5), ["r0", "r1"], id="a-symptom-found-by-a-rule-without-weights"),
        pytest.param(("", ""), (5, 5), ["r0", "r1"], id="no-causes"),
        pytest.param((HIGH, f"{LEAK} converged {HIGH}"), (5, 5), ["r0", "r1"], id="the-third-likeliest-does-not-count"),
        pytest.param((HIGH, LEAK, f"{LEAK} {HIGH}"), (5, 5, 5), ["r0", "r1", "r0"], id="the-first-that-shares"),
        pytest.param((HIGH, LEAK, HIGH), (5, 6.5, 7.5), ["r0", "r1", "r0"], id="with-another-in-between"),
    ],
)
def test_groups(causes: tuple[str, ...], limits: tuple[float, ...], leaders: list[str]) -> None:
    assert grouped(*causes, limits=limits) == leaders


def test_what_has_recovered_leads_no_group() -> None:
    world = World()
    world.rules = [
        ConfiguredRule(RuleConfiguration("suspects", name="first"), Suspects(causes=HIGH, limit=8.0)),
        ConfiguredRule(RuleConfiguration("suspects", name="never"), Suspects(causes=HIGH, limit=99.0)),
        ConfiguredRule(RuleConfiguration("third"), ThirdSuspects()),
    ]
    world.evaluator = world.start()
    world.judge([9.0, GOOD, GOOD, GOOD, 6.0, 6.0])
    issues = [verdict for verdict in world.sent if verdict.outcome is Outcome.ISSUE_FOUND]
    assert [(v.configuration_name, v.step, v.group.split("/")[1]) for v in issues] == [
        ("first", 0, "first"),
        ("third", 5, "third"),
    ]


@pytest.mark.parametrize(
    ("first", "second", "notified"),
    [
        pytest.param((Action.NOTIFY,), (Action.NOTIFY,), ["first"], id="once-for-a-problem"),
        pytest.param((), (Action.NOTIFY,), ["second"], id="where-the-first-told-nobody"),
        pytest.param((Action.NOTIFY,), (), ["first"], id="where-only-the-first-tells"),
        pytest.param((Action.PUBLISH_METRIC,), (Action.PUBLISH_METRIC,), [], id="nobody-asked-for-it"),
    ],
)
def test_of_one_problem_the_owner_is_notified_once(
    first: tuple[Action, ...], second: tuple[Action, ...], notified: list[str]
) -> None:
    world = World()
    world.rules = [
        ConfiguredRule(RuleConfiguration("suspects", name=name, actions=actions), Suspects(causes=HIGH, limit=limit))
        for name, actions, limit in (("first", first, 5.0), ("second", second, 6.5))
    ]
    world.evaluator = world.start()
    world.judge([6.0, 7.0])
    assert [v.configuration_name for v in world.sent if Action.NOTIFY in v.actions] == notified
    asked = {"first": first, "second": second}
    for verdict in world.sent:  # whatever else was asked for is done
        assert {*asked[verdict.configuration_name]} - {Action.NOTIFY} == {*verdict.actions} - {Action.NOTIFY}


def test_what_comes_back_is_the_same_problem_and_is_notified_anew() -> None:
    world = World(TooLarge())
    world.judge([BAD, GOOD, GOOD, GOOD, BAD])
    assert [(what, step) for what, _, step in history(world.sent)] == [("opened", 0), ("recovered", 3), ("opened", 4)]
    first = "digits/too-large/issue-found"
    assert [verdict.group for verdict in world.sent] == [first] * 3
    assert world.sent[0].actions == world.sent[2].actions


@dataclass(frozen=True)
class Breaks(TooLarge):
    """A gradient is too large, unless it breaks."""

    rule_id = "breaks"

    where: str = parameter("check", "which of its methods fails")
    at: int = parameter(2, "at which step")

    def check(self, window: Window) -> Iterable[Finding]:
        self._fail("check", window.step)
        return super().check(window)

    def lacks(self, window: Window) -> str:
        self._fail("lacks", window.step)
        return ""

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        self._fail("suspicions", window.step)
        return super().suspicions(findings, window)

    def sentence(self, findings: Sequence[Finding]) -> str:
        self._fail("sentence", findings[0].step)
        return ""

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        self._fail("severity_of", findings[0].step)
        return Severity.CRITICAL

    def _fail(self, where: str, step: int) -> None:
        if where == self.where and step == self.at:
            raise ERRORS[0]


ERRORS: list[Exception] = [ZeroDivisionError("oh")]


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    return lambda error: monkeypatch.setitem(globals(), "ERRORS", [error])


METHODS = ("check", "lacks", "suspicions", "sentence", "severity_of")


@pytest.mark.parametrize("where", METHODS)
def test_wherever_a_rule_crashes_the_others_go_on(where: str) -> None:
    world = World(Breaks(where=where), TooLarge())
    values = [GOOD, GOOD, GOOD if where == "lacks" else BAD, BAD]
    world.judge(values)
    by_name = {verdict.configuration_name: verdict for verdict in world.sent}
    assert len(world.sent) == 2
    assert by_name["breaks"].outcome is Outcome.NOT_EVALUATED
    assert "crashed at step 2" in by_name["breaks"].message
    assert "ZeroDivisionError: oh" in by_name["breaks"].message
    assert history([by_name["too-large"]]) == [("opened", 1, 3 if where == "lacks" else 2)]
    assert world.evaluator.summary().crashed == ("breaks",)
    assert world.evaluator.is_done


@pytest.mark.parametrize("where", METHODS)
def test_an_outage_while_a_rule_is_asked_loses_nothing(where: str, fails_with: Callable[[Exception], None]) -> None:
    fails_with(StorageUnavailableError("S3 is busy"))
    world = World(Third(), Breaks(where=where), TooLarge())
    first = 3 if where == "lacks" else 2
    world.write([GOOD, GOOD, GOOD if where == "lacks" else BAD, BAD])
    for _ in range(2):
        with pytest.raises(StorageUnavailableError):
            world.evaluator.poll()
    world.evaluator = world.start()
    fails_with(ZeroDivisionError("which never comes"))
    world.rules = [one for one in world.rules if one.rule.rule_id != "breaks"] + [
        ConfiguredRule(RuleConfiguration("breaks"), Breaks(where="nothing"))
    ]
    world.evaluator = world.start()
    world.evaluator.poll()
    issues = {v.configuration_name: history([v]) for v in world.sent}
    assert issues["too-large"] == issues["breaks"] == [("opened", 1, first)]
    assert len(world.sent) == len(issues)
    third = Third().load(ProgressFile(world.output).load().rules["third"].memory)
    assert third.steps == (0, 1, 2, 3)  # each step once


def test_a_damaged_file_behind_the_reasons_does_not_hide_the_issue(fails_with: Callable[[Exception], None]) -> None:
    fails_with(RecordError("labels", 3, "is cut off"))
    world = World(Breaks(where="suspicions", at=1))
    assert world.judge([GOOD, BAD]) == [("opened", 1, 1)]
    assert world.sent[0].suspicions == ()


def test_several_issues_of_one_step_keep_the_order_of_the_rules() -> None:
    for rules in itertools.permutations((TooLarge(), OnlyOnce(), Third())):
        world = World(*rules)
        world.judge([BAD] * 3)
        at_first = [v.configuration_name for v in world.sent if v.step == 0]
        assert at_first == [rule.rule_id for rule in rules if rule.rule_id != "third"]
