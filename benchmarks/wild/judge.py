"""Judges stored runs of the corpus by today's rules, and shows the alarms of the tune half.

    python -m benchmarks.wild.judge                 # a line for each run with an alarm
    python -m benchmarks.wild.judge --only bert --cards

Rules and their settings are those of `trackside run` without any option. A judgement is kept beside the run, and holds
as long as the code of rules, evaluation and reading does. Single runs of the report half are never shown.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.wild.program import TUNE
from benchmarks.wild.run import add_choice, chosen_programs, default_plan
from benchmarks.wild.stored_runs import Job, Outcome, jobs
from trackside.contracts.errors import RunNotFoundError
from trackside.contracts.verdict import Outcome as VerdictOutcome
from trackside.contracts.verdict import Severity, State, Verdict
from trackside.evaluation.backtest import backtest
from trackside.trial.trial import Trial, open_trial


@dataclass(frozen=True)
class Alarm:
    """An issue that a rule opened.

    since         the first step at which it held
    group         the same for issues of one problem
    lead          the tensor or fact of the worst finding
    suspicions    likely causes, likeliest first
    is_recovered  True if it was gone again at the end
    """

    rule: str
    severity: Severity
    step: int
    since: int
    group: str
    message: str
    lead: str
    suspicions: tuple[str, ...]
    what_to_do: tuple[str, ...]
    is_recovered: bool


@dataclass(frozen=True)
class Judged:
    """The judgement of one run.

    steps    0 where nothing was captured
    losses   median of the first and of the last five training losses, which no rule had a part in; empty without any
    crashed  rules that raised
    """

    program: str
    seed: int
    steps: int
    losses: tuple[float, ...]
    alarms: tuple[Alarm, ...]
    crashed: tuple[str, ...] = ()

    def at_least(self, severity: Severity, rule: str = "") -> tuple[Alarm, ...]:
        """Return the alarms of that level or above, of one rule or of all."""
        return tuple(
            each for each in self.alarms if each.severity.rank >= severity.rank and (not rule or each.rule == rule)
        )

    def to_document(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Judged:
        """Return the judgement in a document of `to_document`."""
        alarms = tuple(
            Alarm(
                **{
                    **each,
                    "severity": Severity(each["severity"]),
                    "suspicions": tuple(each["suspicions"]),
                    "what_to_do": tuple(each["what_to_do"]),
                }
            )
            for each in document["alarms"]
        )
        rest = {"losses": tuple(document["losses"]), "crashed": tuple(document["crashed"])}
        return cls(**{**document, "alarms": alarms, **rest})


def judge(job: Job, folder: Path) -> Judged:
    """Judge a stored run by the usual rules."""
    run = str((folder / "run").absolute())
    try:
        trial = open_trial(run)
        found = backtest(run, default_plan().request.rules, clock=lambda: 0.0)
    except RunNotFoundError:  # trained to its end, by something that no adapter sees
        return Judged(job.program.name, job.seed, 0, (), ())
    last = {each.configuration_name: each for each in found.verdicts if each.outcome is VerdictOutcome.ISSUE_FOUND}
    return Judged(
        program=job.program.name,
        seed=job.seed,
        steps=found.last_step + 1,
        losses=_first_and_last(trial),
        alarms=tuple(_alarm(each, last[each.configuration_name].state is not State.OPENED) for each in found.issues),
        crashed=found.crashed,
    )


def _first_and_last(trial: Trial) -> tuple[float, ...]:
    """Return the medians at both ends of the training loss with most values."""
    columns = [
        column
        for name in trial.tensor_names(collection="losses")
        if "_input_" not in name
        for column in trial.columns(name, "mean", last_step=trial.recorded_through, mode="TRAIN")
    ]
    values = max((list(column.values) for column in columns), key=len, default=[])
    return tuple(round(float(statistics.median(part)), 4) for part in (values[:5], values[-5:])) if values else ()


def _alarm(verdict: Verdict, is_recovered: bool) -> Alarm:
    return Alarm(
        rule=verdict.rule_id,
        severity=verdict.severity,
        step=verdict.step,
        since=verdict.since_step,
        group=verdict.group,
        message=verdict.message,
        lead=f"{verdict.lead.subject}: {verdict.lead.comparison}" if verdict.lead else "",
        suspicions=tuple(f"{each.what} ({each.because})" for each in verdict.suspicions),
        what_to_do=verdict.what_to_do,
        is_recovered=is_recovered,
    )


def judged_once(job: Job, folder: Path) -> Judged:
    """Return the kept judgement of a stored run if the code is the same; else judge it and keep that."""
    return kept.judged_once(
        folder / "judged.json",
        lambda: judge(job, folder),
        to_document=Judged.to_document,
        from_document=Judged.from_document,
    )


def judge_all(chosen: Sequence[Job], *, root: Path, processes: int) -> Iterator[tuple[Job, Judged]]:
    """Yield the judgement of each training that came to its end, in order."""
    stored = [
        (job, folder)
        for job in chosen
        if (outcome := Outcome.read(folder := job.folder(root))) is not None and outcome.status == 0
    ]
    _Shared.stored = stored
    with ProcessPoolExecutor(processes) as pool:
        yield from zip((job for job, _ in stored), pool.map(_ask, range(len(stored))), strict=True)


class _Shared:
    """State for forked processes: a program is a function that cannot be sent."""

    stored: Sequence[tuple[Job, Path]]


def _ask(number: int) -> Judged:
    return judged_once(*_Shared.stored[number])


def lines(job: Job, judged: Judged, *, has_cards: bool) -> Iterator[str]:
    """Yield the alarms of a run, for people."""
    for each in judged.at_least(Severity.WARNING):
        recovered = ", recovered" if each.is_recovered else ""
        at = f"at step {each.step} of {judged.steps}{recovered}, loss {' to '.join(map(str, judged.losses))}"
        yield f"{job.name}: {each.severity.value} {each.rule} {at}"
        if has_cards:
            yield f"    {each.message}"
            yield f"    observed since step {each.since}: {each.lead}"
            yield from (f"    likely: {text}" for text in each.suspicions)
            yield from (f"    what to do: {text}" for text in each.what_to_do)


def main(words: Sequence[str] | None = None) -> int:
    """Print the alarms of the tune half; 1 if a rule crashed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(options)
    options.add_argument("--cards", action="store_true", help="with the text of each alarm")
    options.add_argument("--processes", type=int, default=1)
    arguments = options.parse_args(words)
    arguments.split = TUNE
    chosen = list(jobs(chosen_programs(arguments), seeds=arguments.seeds))
    found = list(judge_all(chosen, root=arguments.root, processes=arguments.processes))
    for job, judged in found:
        print(*lines(job, judged, has_cards=arguments.cards), sep="\n", end="\n" if judged.alarms else "")
    print(f"{len(found)} of {len(chosen)} runs of the half `{TUNE}` judged")
    return 1 if any(judged.crashed for _, judged in found) else 0


if __name__ == "__main__":
    sys.exit(main())
