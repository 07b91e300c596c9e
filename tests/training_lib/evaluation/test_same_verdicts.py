"""A run gets the same verdicts, to the byte and in the same order, whenever one looks at it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training_lib.marked_run import Content, Place, Process
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Finding, Outcome, Severity
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.rule_processes.rule_limits import NO_LIMITS
from trackside.rules.catalogue import ConfiguredRule, build_rules, default_request
from trackside.rules.rule import FoldingRule
from trackside.storage.memory import MemoryStore
from trackside.trial.steps.watermarks import GONE_SECONDS
from trackside.trial.trial import Trial
from trackside.trial.window import Window

LOSS, WEIGHT, GRADIENT = "CrossEntropyLoss_output_0", "Net_{}.weight", "gradient/Net_{}.weight"
NOW = 1_700_000_100.0
COLLECTIONS = ("losses", "gradients", "weights", "mine", "hyperparameters", "all")
STATISTICS = ("mean", "abs_mean", "l2", "nonfinite_count")


@dataclass(frozen=True)
class Seen:
    """Digests of all that a rule was shown, in order."""

    digests: tuple[str, ...] = ()


def shown(window: Window) -> str:
    """A digest of everything that a rule may see at a step."""
    facts = window.facts
    parts: list[object] = [window.step, window.mode, None if facts is None else facts.from_step]
    parts += [(name, window.tensors(name)) for name in COLLECTIONS]
    for tensor, statistic in itertools.product(window.tensors("all"), STATISTICS):
        for columns in (window.statistic(tensor, statistic), window.statistic(tensor, statistic, mode=None)):
            parts += [(tensor, statistic, c.worker, c.steps.tolist(), c.values.tobytes()) for c in columns]
    return f"{window.step}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Remembers(FoldingRule):
    """Remembers what it was shown, and finds something at each seventh step of that."""

    rule_id = "remembers"
    watches = ("losses", "gradients", "weights", "mine")
    save_interval = 1
    severity = Severity.WARNING
    since = "0"
    what_to_do = ()

    def start(self) -> Seen:
        return Seen()

    def fold(self, state: Seen, window: Window) -> tuple[Seen, Iterable[Finding]]:
        after = Seen((*state.digests, shown(window)))
        return after, [] if len(after.digests) % 7 else self._findings(window)

    def lacks(self, window: Window) -> str:
        return "gradients" if window.step % 3 and not window.tensors("gradients") else ""

    def _findings(self, window: Window) -> Iterable[Finding]:
        for tensor in window.tensors("all"):
            for column in window.statistic(tensor, "mean", last=1):
                yield Finding(
                    subject=tensor,
                    worker=column.worker,
                    step=window.step,
                    since_step=int(column.steps[0]),
                    measure="mean",
                    observed=1.0,
                    relation=">",
                    threshold=0.0,
                )


@dataclass(frozen=True)
class RemembersPaced(Remembers):
    """The same now and then."""

    rule_id = "remembers-paced"
    paced = True
    needs = ()


@dataclass(frozen=True)
class RemembersSaved(Remembers):
    """The same of each saved step."""

    rule_id = "remembers-saved"
    judges_every_step = True


OWN = [RemembersPaced(), Remembers(), RemembersSaved()]


def own_rules() -> Sequence[ConfiguredRule]:
    """Rules that remember; one of them in Amazon's sense, of saved steps alone, and one behind the others in order."""
    usual = [ConfiguredRule(RuleConfiguration(rule.rule_id), rule) for rule in OWN]
    amazons = ConfiguredRule(RuleConfiguration("remembers", name="of-saved", preset="sagemaker"), Remembers())
    last = ConfiguredRule(RuleConfiguration("remembers-paced", name="last"), RemembersPaced())
    return [*usual, amazons, last]


@dataclass(frozen=True)
class StepPlan:
    """What all workers do at a step. `layers`: how many layers have gradients; `faulty`: the worker at fault, or -1."""

    mode: str
    row: str
    is_saved: bool
    layers: int
    faulty: int
    holds_row: bool

    def content(self, worker: int, step: int) -> Content:
        """What one of them records and saves."""
        loss = 2.0 / (1 + step) + worker if self.faulty != worker else float("nan")
        size = 1e-12 if self.faulty == worker else 0.01 * (1 + worker)
        row = {(LOSS, "mean"): loss, (LOSS, "nonfinite_count"): float(np.isnan(loss)), (LOSS, "abs_max"): abs(loss)}
        tensors = {LOSS: np.array([loss])}
        for layer in range(self.layers):
            gradient, weight = GRADIENT.format(layer), WEIGHT.format(layer)
            row[gradient, "l2"] = size
            if self.row == "dear":
                row.update({(gradient, "abs_mean"): size, (weight, "l2"): 3.0, (weight, "update_ratio"): size})
            tensors.update({gradient: np.full(3, size), weight: np.arange(3.0) + layer + worker})
        if self.mode != "TRAIN":
            row, tensors = {(LOSS, "mean"): loss}, {LOSS: np.array([loss]), f"mine/{step % 3}": np.ones(2)}
        return Content(self.mode, row if self.row else {}, tensors if self.is_saved else {})


PLANS = st.builds(
    StepPlan,
    mode=st.sampled_from(["TRAIN", "TRAIN", "TRAIN", "EVAL"]),
    row=st.sampled_from(["cheap", "dear", "dear", ""]),
    is_saved=st.sampled_from([False, False, True]),
    layers=st.integers(0, 3),
    faulty=st.sampled_from([-1, -1, 0, 1]),
    holds_row=st.booleans(),
)


@dataclass(frozen=True)
class Turn:
    """What one worker does in a round: steps made, steps stored, and the rest."""

    steps: int
    arrives: bool
    stored: int
    flushes: bool


@dataclass(frozen=True)
class Round:
    """What happens next: a turn of each worker, a look of the evaluator, and now and then something unusual."""

    turns: tuple[Turn, Turn, Turn]
    looks_between: bool
    looks: bool
    event: str


TURNS = st.builds(
    Turn,
    steps=st.integers(1, 4),
    arrives=st.sampled_from([True, True, False]),
    stored=st.sampled_from([0, 2, 9]),
    flushes=st.sampled_from([True, True, True, False]),
)
ROUNDS = st.builds(
    Round,
    turns=st.tuples(TURNS, TURNS, TURNS),
    looks_between=st.booleans(),
    looks=st.sampled_from([True, True, False]),
    event=st.sampled_from(["", "", "", "", "", "", "", "restart", "interrupt", "kill", "die", "stop"]),
)


@dataclass
class World:
    """A run with its workers, and an evaluator that watches it."""

    rules: Sequence[ConfiguredRule]
    plans: Sequence[StepPlan]
    workers: int
    seconds: float = 0.0
    progress: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.place = Place(self.workers)
        self.processes = [Process(self.place, rank) for rank in range(self.workers)]
        self.evaluator = self.an_evaluator(self.progress)

    def an_evaluator(self, progress: MemoryStore) -> Evaluator:
        place = self.place
        trial = Trial(place.tensors, place.statistics, place.marks, clock=lambda: self.seconds)
        return Evaluator(trial, self.rules, [], ProgressFile(progress), run="run", clock=lambda: NOW, limits=NO_LIMITS)

    def take_turn(self, process: Process, turn: Turn) -> None:
        """What a worker does."""
        for _ in range(turn.steps):
            plan = self.plans[process.step % len(self.plans)]
            process.train(plan.content(process.rank, process.step), holds_row=plan.holds_row)
        if turn.arrives:
            process.arrive()
        for _ in range(turn.stored):
            process.store()
        if turn.flushes:
            process.flush()

    def restart(self) -> None:
        """Another evaluator goes on."""
        self.evaluator = self.an_evaluator(self.progress)

    def kill(self) -> None:
        """All processes are killed, and started again."""
        self.processes = [Process(self.place, rank) for rank in range(self.workers)]

    def interrupt(self) -> None:
        """All processes are told to stop, and are started again."""
        for process in reversed(self.processes):
            process.end(is_interrupted=True)
        self.kill()

    def die(self) -> None:
        """One worker falls silent for good, and the evaluator sees that it does."""
        if len(self.processes) > 1:
            self.processes.pop()
            self._give_signs_of_life()
            self.seconds += GONE_SECONDS
            self._give_signs_of_life()

    def stop(self) -> None:
        """One worker ends before the others."""
        if len(self.processes) > 1:
            self.processes.pop().end()

    def _give_signs_of_life(self) -> None:
        for process in self.processes:
            self.place.clock.now += GONE_SECONDS
            process.flush()
        self.evaluator.poll()

    def play(self, rounds: Iterable[Round]) -> None:
        for one in rounds:
            for process, turn in zip(tuple(self.processes), one.turns, strict=False):
                self.take_turn(process, turn)
                if one.looks_between:
                    self.evaluator.poll()
            if one.looks:
                self.evaluator.poll()
            if one.event:
                getattr(self, one.event)()
        for process in reversed(self.processes):
            process.end()
        while not self.evaluator.is_done:
            self.evaluator.poll()

    def judged_at_once(self) -> MemoryStore:
        """The progress of an evaluator that comes when all is over."""
        progress = MemoryStore()
        late = self.an_evaluator(progress)
        late.poll()
        assert late.is_done
        return progress


def check(world: World) -> None:
    live, late = ProgressFile(world.progress).load(), ProgressFile(world.judged_at_once()).load()
    for name, rule in late.rules.items():
        assert live.rules[name] == rule, name
    assert [verdict.to_json() for verdict in live.verdicts] == [verdict.to_json() for verdict in late.verdicts]
    assert live.to_json() == late.to_json()


@settings(max_examples=60, deadline=None)
@given(
    plans=st.lists(PLANS, min_size=1, max_size=12),
    workers=st.integers(1, 3),
    rounds=st.lists(ROUNDS, min_size=2, max_size=10),
)
def test_rules_are_shown_the_same_whenever_one_looks(plans: list[StepPlan], workers: int, rounds: list[Round]) -> None:
    world = World(own_rules(), plans, workers)
    world.play(rounds)
    check(world)


@settings(max_examples=10, deadline=None)
@given(
    plans=st.lists(PLANS, min_size=5, max_size=40),
    workers=st.integers(1, 2),
    rounds=st.lists(ROUNDS, min_size=5, max_size=12),
)
def test_the_default_rules_give_the_same_verdicts_whenever_one_looks(
    plans: list[StepPlan], workers: int, rounds: list[Round]
) -> None:
    world = World(build_rules(default_request()), plans, workers)
    world.play(rounds)
    check(world)


@dataclass(frozen=True)
class FindsTheSeventh(Remembers):
    """Finds something at step 7."""

    rule_id = "finds-the-seventh"

    def fold(self, state: Seen, window: Window) -> tuple[Seen, Iterable[Finding]]:
        return state, self._findings(window) if window.step == 7 else []


@dataclass(frozen=True)
class FindsTheSeventhPaced(FindsTheSeventh):
    """The same now and then: the seventh is one of its steps only where it is the last."""

    rule_id = "finds-the-seventh-paced"
    paced = True
    needs = ()


@pytest.mark.parametrize("looks", [True, False], ids=["live", "late"])
def test_rules_that_look_now_and_then_look_at_the_last_step_after_all_others(looks: bool) -> None:
    rules = [
        ConfiguredRule(RuleConfiguration(rule.rule_id), rule) for rule in (FindsTheSeventhPaced(), FindsTheSeventh())
    ]
    plan = StepPlan("TRAIN", "dear", is_saved=False, layers=1, faulty=-1, holds_row=False)
    world, turn = World(rules, [plan], 1), Turn(8, arrives=True, stored=0, flushes=True)
    world.play([Round((turn, turn, turn), looks_between=looks, looks=looks, event="")])
    check(world)
    found = [v for v in world.evaluator.summary().verdicts if v.outcome is Outcome.ISSUE_FOUND]
    assert [(v.rule_id, v.step) for v in found] == [("finds-the-seventh", 7), ("finds-the-seventh-paced", 7)]


@pytest.mark.parametrize("faulty", [0, 1, -1])
def test_what_it_compares_is_worth_comparing(faulty: int) -> None:
    """The same machinery finds a fault where there is one, and only there."""
    sound = StepPlan("TRAIN", "dear", is_saved=False, layers=2, faulty=-1, holds_row=False)
    fault = StepPlan("TRAIN", "dear", is_saved=True, layers=2, faulty=faulty, holds_row=False)
    world = World(build_rules(default_request()), [sound] * 20 + [fault] * 10, 2)
    turn = Turn(3, arrives=True, stored=9, flushes=True)
    rounds = [Round((turn, turn, turn), looks_between=True, looks=True, event="")] * 10
    world.play(rounds)
    check(world)
    found = [v for v in world.evaluator.summary().verdicts if v.outcome is Outcome.ISSUE_FOUND]
    assert {f.worker for v in found for f in v.findings if v.rule_id == "exploding-tensor"} == (
        {f"worker_{faulty}"} if faulty >= 0 else set()
    )
