"""Stored runs to learn from: their issues as they were opened, the evidence of each, and the causes that are true."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.detection.train import Job
from benchmarks.engine.judge import verdicts_on
from benchmarks.engine.stored import RUN, Outcome, judged_once
from benchmarks.engine.usual import rules_of
from benchmarks.mutants.operator import TUNE
from benchmarks.mutants.stored_runs import has_no_effect, mutants
from benchmarks.mutants.subjects import CHOSEN, OWN, all_subjects
from trackside.contracts.cause import Sign
from trackside.contracts.verdict import Outcome as VerdictOutcome
from trackside.contracts.verdict import State, Verdict
from trackside.diagnosis.harm import Harm
from trackside.diagnosis.probability import properties_of
from trackside.diagnosis.signs import HARM
from trackside.evaluation.results.verdicts import pooled_signs

MUTANTS_LOSS = 0.1  # share of its twin's score that a mutant must have lost


@dataclass(frozen=True)
class Told:
    """An issue as it was opened, with the evidence of its group."""

    rule: str
    severity: str
    harm: str
    step: int
    group: str
    signs: tuple[Sign, ...]
    properties: tuple[str, ...]
    own: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A judged run. `causes` name its fault rightly; empty for a clean run."""

    name: str
    program: str
    causes: tuple[str, ...]
    effect_step: int
    told: tuple[Told, ...]

    @property
    def true_issues(self) -> tuple[Told, ...]:
        """The issues of a fault, since it acts."""
        return tuple(told for told in self.told if self.causes and told.step >= self.effect_step)


@dataclass(frozen=True)
class Stored:
    """A stored run, and what is known of it.

    causes  those that name its fault rightly; empty for a clean run
    """

    name: str
    program: str
    causes: tuple[str, ...]
    effect_step: int
    folder: Path


def stored_job(job: Job, folder: Path) -> Stored:
    """Return a run of the corpus."""
    outcome = Outcome.read(folder)
    assert outcome is not None, f"{job.name} has not been trained"
    fault = job.program.fault(job.fault) if job.fault else None
    causes = tuple(cause.value for cause in fault.causes) if fault else ()
    return Stored(job.name, job.program.name, causes, outcome.effect_step or 0, folder)


def stored_mutants(root: Path) -> list[Stored]:
    """Return the mutants of the own programs of `tune`, one seed each, that lost a tenth or are known silent errors.

    Those without a name in the list of causes, and those that nothing of reached, are left out.
    """
    programs = [each for each in all_subjects() if each.library == OWN and each.half == TUNE and each.name in CHOSEN]
    found = []
    for mutant in mutants(programs, half=TUNE, seeds=1):
        folder, twin = mutant.folder(root), Outcome.read(mutant.twin.folder(root))
        outcome, operator = Outcome.read(folder), mutant.operator
        if operator is None or outcome is None or twin is None or not operator.causes or has_no_effect(mutant, root):
            continue
        good = twin.score or 0.0
        if operator.is_silent or outcome.score is None or outcome.score < good - MUTANTS_LOSS * abs(good):
            causes = tuple(cause.value for cause in operator.causes)
            found.append(Stored(mutant.name, mutant.subject.name, causes, 0, folder))
    return found


def judged(stored: Stored) -> Run:
    """Return a stored run as all rules judge it. What was judged before holds as long as the code does."""
    return judged_once(stored.folder / "signs.json", Run, partial(_judge, stored))


def _judge(stored: Stored) -> Run:
    rules, every = rules_of(), [harm.value for harm in Harm]
    critical = {rule.rule_id: every for rule in rules}
    verdicts = verdicts_on(stored.folder / RUN, rules, name=stored.name, critical=critical)
    return Run(stored.name, stored.program, stored.causes, stored.effect_step, _told(verdicts))


def _told(verdicts: Sequence[Verdict]) -> tuple[Told, ...]:
    found: list[Told] = []
    standing: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.state is State.RECOVERED:
            standing.pop(verdict.configuration_name, None)
        if verdict.outcome is not VerdictOutcome.ISSUE_FOUND or verdict.state is not State.OPENED:
            continue
        members = [one for one in standing.values() if one.group == verdict.group and one.rule_id != verdict.rule_id]
        standing[verdict.configuration_name] = verdict
        harm = next(
            (s.name.removeprefix(HARM) for s in verdict.signs if s.because == verdict.harm and verdict.harm), ""
        )
        found.append(
            Told(
                verdict.rule_id,
                verdict.severity.value,
                harm,
                verdict.step,
                verdict.group,
                tuple(pooled_signs(verdict, members)),
                properties_of(verdict, others={one.rule_id for one in members}),
                tuple(sign.name for sign in verdict.signs if sign.name.startswith(HARM)),
            )
        )
    return tuple(found)


def judge_all(stored: Sequence[Stored], *, processes: int) -> list[Run]:
    """Return all stored runs, judged."""
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(judged, stored, chunksize=4))
