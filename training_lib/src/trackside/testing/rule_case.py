"""For authors of rules: a table of cases in a few lines, and the checks that hold for every rule.

CASES = [
    RuleCase("one NaN", {"Net_fc.weight": {0: [1.0, float("nan")]}}, fires=("Net_fc.weight",)),
    RuleCase("all finite", {"Net_fc.weight": {0: [1.0, 2.0]}}),
]

@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(ExplodingTensor(), case)
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding
from trackside.rules.rule import FoldingRule, Rule, is_paced_step
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import (
    WALL_TIME,
    end_run,
    write_collections,
    write_facts,
    write_statistics,
    write_tensors,
)
from trackside.trial.trial import Trial
from trackside.trial.window import Window

Tensors = Mapping[str, Mapping[int, Any]]
Statistics = Mapping[str, Mapping[str, Mapping[int, Any]]]  # by tensor, statistic, step

_RELATIONS = {"<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class RuleCase:
    """What was saved, and which tensors the rule must name at `step` (default: the newest), in this order.

    `tensors` maps a name to its values by step: arrays, or numbers for scalars. A value that is a mapping holds one
    value per worker; everything else was saved by `worker_0`. `fires=()` is a case that must stay silent. `mode` is
    that of every step. Tensors belong to collections by their names, as in a run of PyTorch; `collections` maps further
    collections to their regexes. `facts`: what `window.facts` tells, as revisions too, oldest first.
    `recorded`: always-on statistics by tensor, statistic and step (`{"Net_fc.weight": {"l2": {0: 1.0}}}`); a value that
    is a mapping holds one number per worker. `evaluated`: the same of mode EVAL.
    `others`: the tensors of the runs in `window.others`, by their names.
    """

    name: str
    tensors: Tensors = field(default_factory=dict)
    fires: tuple[str, ...] = ()
    step: int | None = None
    mode: str = "TRAIN"
    collections: Mapping[str, Iterable[str]] = field(default_factory=dict)
    facts: ModelFacts | tuple[ModelFacts, ...] | None = None
    others: Mapping[str, Tensors] = field(default_factory=dict)
    recorded: Statistics = field(default_factory=dict)
    evaluated: Statistics = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def trial(self) -> Trial:
        """The case as a finished run in memory: real records, read by the real trial."""
        return recorded_trial(
            self.tensors,
            mode=self.mode,
            collections=self.collections,
            facts=self.facts,
            recorded=self.recorded,
            evaluated=self.evaluated,
        )

    @property
    def newest_step(self) -> int:
        """The last step of which there is anything."""
        columns = [*self.tensors.values()]
        columns += [
            column
            for statistics in (self.recorded, self.evaluated)
            for of in statistics.values()
            for column in of.values()
        ]
        return max((step for column in columns for step in column), default=0)

    @property
    def window(self) -> Window:
        """What the rule may see."""
        window = self.trial.window(self.newest_step if self.step is None else self.step, now=WALL_TIME)
        others = {
            name: recorded_trial(t, mode=self.mode, collections=self.collections) for name, t in self.others.items()
        }
        return replace(window, others=others)


def recorded_trial(
    tensors: Tensors,
    *,
    mode: str = "TRAIN",
    collections: Mapping[str, Iterable[str]] | None = None,
    facts: ModelFacts | tuple[ModelFacts, ...] | None = None,
    recorded: Statistics | None = None,
    evaluated: Statistics | None = None,
) -> Trial:
    """A finished run in memory that saved these tensors; see `RuleCase` for their shape."""
    saved: dict[tuple[int, str], dict[str, Any]] = {}
    for name, steps in tensors.items():
        for step, value in steps.items():
            for worker, of_worker in (value if isinstance(value, Mapping) else {"worker_0": value}).items():
                saved.setdefault((step, worker), {})[name] = of_worker
    store = MemoryStore()
    workers = {worker for _, worker in saved} | _workers_of(recorded) | _workers_of(evaluated)
    write_collections(store, extra=collections, workers=sorted(workers) or ["worker_0"])
    for (step, worker), values in sorted(saved.items()):
        write_tensors(store, step, values, mode=mode, worker=worker)
    write_facts(store, facts)
    end_run(store)
    rows = MemoryStore() if recorded or evaluated else None
    if rows is not None:
        write_statistics(rows, recorded or {}, mode=mode)
        write_statistics(rows, evaluated or {}, mode="EVAL")
    trial = Trial(store, rows)
    trial.refresh()
    return trial


def _workers_of(recorded: Statistics | None) -> set[str]:
    values = [v for of in (recorded or {}).values() for column in of.values() for v in column.values()]
    return {worker for value in values for worker in (value if isinstance(value, Mapping) else ("worker_0",))}


def assert_case(rule: Rule, case: RuleCase) -> tuple[Finding, ...]:
    """Judges one case and returns the findings.

    Asserts that the rule names the tensors of `case.fires` and no other, that it says the same when asked again, and
    what every finding must hold: its step, its comparison, evidence that ends at its step, and plain JSON.
    """
    window = case.window
    findings = judged(rule, window)
    subjects = tuple(finding.subject for finding in findings)
    assert subjects == case.fires, f"{case.name}: named {subjects or 'nothing'}, expected {case.fires or 'silence'}"
    again = [str(finding) for finding in judged(rule, window)]  # as text, for NaN is not equal to itself
    assert again == [str(finding) for finding in findings], (
        f"{case.name}: the rule answered differently when asked again"
    )
    for finding in findings:
        assert_finding(finding, step=window.step)
    return findings


def judged(rule: Rule, window: Window) -> tuple[Finding, ...]:
    """What the rule finds at the window's step, after it was shown what it must remember of the steps before."""
    if not isinstance(rule, FoldingRule):
        return tuple(rule.check(window))
    trial, state = window.source, rule.start()
    findings: tuple[Finding, ...] = ()
    assert isinstance(trial, Trial)
    for step in steps_to_judge(rule, trial):
        if step <= window.step:
            state, found = rule.fold(state, trial.window(step, now=WALL_TIME))
            findings = tuple(found) if step == window.step else ()
            assert rule.load(rule.dump(state)) == state, "the state is not the same after a restart"
    return findings


def steps_to_judge(rule: Rule, trial: Trial) -> tuple[int, ...]:
    """The steps that the evaluator asks the rule about, in a run that has ended."""
    steps = tuple(trial.new_complete_steps(-1))
    if not rule.paced:
        return tuple([step for step in steps if rule.is_watching(trial.collections_at(step))])
    asked: list[int] = []
    for step in steps:
        if step == steps[-1] or is_paced_step(step, asked[-1] if asked else -1):
            asked.append(step)
    return tuple(asked)


def assert_finding(finding: Finding, *, step: int) -> None:
    """Asserts what holds for every finding of every rule, judged at `step`."""
    assert finding.step == step
    assert 0 <= finding.since_step <= step
    assert finding.measure, "a finding says what it measured"
    assert _RELATIONS[finding.relation](finding.observed, finding.threshold), finding.comparison
    assert len(finding.series) <= 20
    assert not finding.series or finding.series[-1][0] == step, "the evidence ends at the judged step"
    json.dumps(finding.to_dict(), allow_nan=False)


def replay(rule: Rule, trial: Trial) -> tuple[Finding, ...]:
    """The findings at the first step at which a verdict would leave the evaluator; () if that never happens.

    Judges every step that the evaluator would ask it about; as many of them in a row as the rule's `patience` says must
    show a finding.
    """
    streak = 0
    for step in steps_to_judge(rule, trial):
        findings = judged(rule, trial.window(step, now=WALL_TIME))
        streak = streak + 1 if findings else 0
        if streak >= rule.findings_in_a_row:
            return findings
    return ()
