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
from trackside.contracts.run.recorded_names import RECORDED
from trackside.contracts.run_layout import performance_key, system_metrics_key
from trackside.contracts.verdict import Finding
from trackside.records.machine.performance_facts import PerformanceFacts, encode_performance
from trackside.rules.rule import FoldingRule, Rule, is_paced_step
from trackside.speed.machine.system_sampler import FIRST_NODE
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
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
Machine = Mapping[tuple[str, ...], Mapping[float, float]]  # by type, name and dimension, then second
Statistics = Mapping[str, Mapping[str, Mapping[int, Any]]]  # by tensor, statistic, step

_RELATIONS = {"<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class RuleCase:
    """A row of a table of cases: the content of a run, and the tensors that a rule must name.

    Tensors belong to collections by their names, as in a run of PyTorch. A mapping in place of a value holds one value
    per worker; a plain value is of `worker_0`.

    Attributes:
        name: Name of the case, the id of its test.
        tensors: Saved values by name and step, arrays or numbers.
        fires: Tensors that the rule must name, in this order; `()` for silence.
        step: Judged step (default: the newest).
        mode: Mode of every step.
        collections: Regexes of further collections.
        facts: Content of `window.facts`, or its revisions, oldest first.
        others: Tensors of the runs in `window.others`, by name of the run.
        recorded: Always-on statistics by tensor, statistic and step: `{"Net_fc.weight": {"l2": {0: 1.0}}}`.
        evaluated: Always-on statistics of mode EVAL.
        machine: Metrics of the machines by (type, name, dimension) and second of the run, which its step ends at:
            `{("gpu", "gpu0", "GPUUtilization"): {0: 95.0, 1: 97.0}}`. A fourth part of a key names the machine.
        speed: Facts about the speed of each worker.
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
    machine: Machine = field(default_factory=dict)
    speed: Mapping[str, PerformanceFacts] = field(default_factory=dict)

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
            profiles=profile_store(self.machine, self.speed),
        )

    @property
    def newest_step(self) -> int:
        """The last step with a tensor or a statistic."""
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
        """The window that the rule judges."""
        step = self.newest_step if self.step is None else self.step
        window = replace(self.trial.window(step, now=WALL_TIME), is_last=step == self.newest_step)
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
    profiles: Store | None = None,
) -> Trial:
    """Return a finished run in memory.

    Args:
        tensors: Saved values, as in `RuleCase`.
        mode: Mode of every step.
        collections: Regexes of further collections.
        facts: Model facts, or their revisions, oldest first.
        recorded: Always-on statistics, as in `RuleCase`.
        evaluated: Always-on statistics of mode EVAL.
        profiles: Measurements of the run's speed.
    """
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
    trial = Trial(store, rows, profiles=lambda: profiles)
    trial.refresh()
    return trial


def profile_store(machine: Machine, speed: Mapping[str, PerformanceFacts]) -> Store:
    """Return a store with measurements of a run's speed, as the sampler and the adapters write them.

    Args:
        machine: Metrics, as in `RuleCase`.
        speed: Facts about the speed of each worker.
    """
    store = MemoryStore()
    files: dict[str, list[str]] = {}
    for (kind, name, dimension, *node), values in machine.items():
        lines = files.setdefault(node[0] if node else FIRST_NODE, [])
        for second, value in values.items():
            sample = {"Type": kind, "Name": name, "Dimension": dimension, "Value": value}
            lines.append(
                json.dumps({**sample, "NodeId": node[0] if node else FIRST_NODE, "Timestamp": WALL_TIME + second})
            )
    for node_name, lines in files.items():
        key = system_metrics_key(int(WALL_TIME), hour="2023111422", node=node_name)
        store.put(key, "".join(f"{line}\n" for line in lines).encode())
    for worker, facts in speed.items():
        store.put(performance_key(worker), encode_performance(facts))
    return store


def _workers_of(recorded: Statistics | None) -> set[str]:
    values = [v for of in (recorded or {}).values() for column in of.values() for v in column.values()]
    return {worker for value in values for worker in (value if isinstance(value, Mapping) else ("worker_0",))}


def assert_case(rule: Rule, case: RuleCase) -> tuple[Finding, ...]:
    """Judge one case, assert its outcome, and return the findings.

    Asserts that the rule names the tensors of `case.fires` and no other, that a second judgement is equal, and that
    every finding has its step, its comparison, evidence that ends at its step, and plain JSON.

    Args:
        rule: The rule with its parameters.
        case: The run and the expected tensors.

    Raises:
        AssertionError: The rule judges otherwise.
    """
    window = case.window
    findings = judged(rule, window)
    subjects = tuple(finding.subject for finding in findings)
    assert subjects == case.fires, f"{case.name}: named {subjects or 'nothing'}, expected {case.fires or 'silence'}"
    again = [str(finding) for finding in judged(rule, window)]  # as text, for NaN is not equal to itself
    assert again == [str(finding) for finding in findings], (
        f"{case.name}: the rule answered differently at the second call"
    )
    for finding in findings:
        assert_finding(finding, step=window.step)
    return findings


def judged(rule: Rule, window: Window) -> tuple[Finding, ...]:
    """Return the findings at the window's step. A folding rule sees the steps before it first.

    Args:
        rule: The rule with its parameters.
        window: A window of a `Trial`.
    """
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
    """Return the steps that the evaluator judges by the rule, in a run that has ended.

    Args:
        rule: The rule with its parameters.
        trial: A finished run.
    """
    steps = tuple(trial.new_complete_steps(-1))
    if not rule.paced:
        return tuple([step for step in steps if rule.is_watching(trial.parts.steps.collections_at(step))])
    judged_steps: list[int] = []
    for step in steps:
        if step == steps[-1] or is_paced_step(step, judged_steps[-1] if judged_steps else -1):
            judged_steps.append(step)
    return tuple(judged_steps)


def assert_finding(finding: Finding, *, step: int) -> None:
    """Assert the promises that every finding of every rule keeps.

    Args:
        finding: A finding of any rule.
        step: The judged step.
    """
    assert finding.step == step
    assert 0 <= finding.since_step <= step
    assert finding.measure, "a finding names its measure"
    assert _RELATIONS[finding.relation](finding.observed, finding.threshold), finding.comparison
    words = finding.comparison
    assert ": " in words, "an observation is a quantity and its value"
    assert RECORDED not in words, f"{words!r} names a number that only Trackside knows"
    assert " in %" not in words, f"{words!r} has its unit at the wrong place"
    assert "share" not in words or "%" in words, f"{words!r} gives a share without its unit"
    assert len(finding.series) <= 20
    assert not finding.series or finding.series[-1][0] == step, "the evidence ends at the judged step"
    json.dumps(finding.to_dict(), allow_nan=False)


def replay(rule: Rule, trial: Trial) -> tuple[Finding, ...]:
    """Return the findings of the first verdict that would leave the evaluator; () without one.

    A verdict leaves when as many judged steps in a row have a finding as the rule's `patience` demands.

    Args:
        rule: The rule with its parameters.
        trial: A finished run.
    """
    streak = 0
    for step in steps_to_judge(rule, trial):
        findings = judged(rule, trial.window(step, now=WALL_TIME))
        streak = streak + 1 if findings else 0
        if streak >= rule.findings_in_a_row:
            return findings
    return ()
