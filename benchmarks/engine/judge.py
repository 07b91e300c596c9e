"""Verdicts on stored runs, by the library."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.engine.stored import RUN, judged_once
from benchmarks.engine.usual import rules_of
from trackside.contracts.cause import Cause
from trackside.contracts.errors import RunNotFoundError
from trackside.contracts.issue_group import issue_groups
from trackside.contracts.rule_request import CALIBRATED, RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.evaluation.backtest import backtest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.rule_processes.rule_limits import NO_LIMITS
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial, open_trial


@dataclass(frozen=True)
class Alarm:
    """An issue that a rule opened.

    step          the step at which it was opened
    since         the first step at which it held
    group         the same for issues of one problem
    lead          the tensor or fact of the worst finding
    causes        suspected causes, likeliest first
    reasons       these in words, with the evidence of each
    is_recovered  True if it was gone again at the end
    """

    rule: str
    severity: Severity
    step: int
    since: int = 0
    group: str = ""
    message: str = ""
    lead: str = ""
    causes: tuple[Cause, ...] = ()
    reasons: tuple[str, ...] = ()
    what_to_do: tuple[str, ...] = ()
    is_recovered: bool = False


@dataclass(frozen=True)
class Card:
    """A card as a user sees it at the end of a run, of warning level or above.

    rules        the rules with an issue of this problem
    step         the step at which the first of them opened
    causes       suspected causes, likeliest first
    probability  that something is wrong, the highest of its issues; 0 if unknown
    """

    rules: tuple[str, ...]
    severity: Severity
    step: int
    causes: tuple[Cause, ...]
    message: str
    probability: float = 0.0


@dataclass(frozen=True)
class Judged:
    """The judgement of one run.

    steps          0 where nothing was captured
    losses         median of the first and of the last five training losses, which no rule had a part in; may be empty
    alarms         in the order in which they were opened
    cards          in the order of the summary: standing ones first, then the gravest
    crashed        rules that raised
    not_evaluated  rules that could not judge
    clean          rules that judged, and found nothing
    seconds        processor time of the judgement
    """

    steps: int
    losses: tuple[float, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    cards: tuple[Card, ...] = ()
    crashed: tuple[str, ...] = ()
    not_evaluated: tuple[str, ...] = ()
    clean: tuple[str, ...] = ()
    seconds: float = 0.0

    def at_least(self, severity: Severity, rule: str = "") -> tuple[Alarm, ...]:
        """Return the alarms of that level or above, of one rule or of all."""
        return tuple(
            each for each in self.alarms if each.severity.rank >= severity.rank and (not rule or each.rule == rule)
        )

    @property
    def rules(self) -> frozenset[str]:
        """Every rule on a card."""
        return frozenset(rule for card in self.cards for rule in card.rules)

    def beyond(self, twin: Judged) -> tuple[Card, ...]:
        """Return the cards with a rule that is silent on the twin."""
        return tuple(card for card in self.cards if set(card.rules) - twin.rules)


def judge(run: Path, rules: Sequence[RuleConfiguration] | None = None) -> Judged:
    """Judge a stored run by these rules, by default those of `trackside run` without any option."""
    uri, began = str(run.absolute()), time.process_time()
    try:
        found = backtest(uri, rules_of() if rules is None else rules, clock=lambda: 0.0)
        losses = _first_and_last(open_trial(uri))
    except RunNotFoundError:  # nothing was captured
        return Judged(0)
    last = {each.configuration_name: each for each in found.verdicts if each.outcome is Outcome.ISSUE_FOUND}
    of = {outcome: tuple(v.rule_id for v in found.verdicts if v.outcome is outcome) for outcome in Outcome}
    return Judged(
        steps=found.last_step + 1,
        losses=losses,
        alarms=tuple(_alarm(each, last[each.configuration_name].state is not State.OPENED) for each in found.issues),
        cards=tuple(_cards(found.verdicts)),
        crashed=found.crashed,
        not_evaluated=of[Outcome.NOT_EVALUATED],
        clean=of[Outcome.CLEAN],
        seconds=time.process_time() - began,
    )


def verdicts_on(
    run: Path,
    rules: Sequence[RuleConfiguration],
    *,
    name: str,
    critical: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Verdict, ...]:
    """Return every verdict on a stored run.

    Args:
        run: Folder of the run.
        rules: Rules that judge it.
        name: Name of the run in the verdicts; their ids and groups are made of it.
        critical: By rule, the kinds of harm with which it is critical; those that were learned by default.
    """
    location = RunLocation(str(run.absolute()))
    evaluator = Evaluator(
        Trial(open_store(location.tensors), open_store(location.statistics)),
        build_rules(RuleRequest(tuple(rules))),
        (),
        ProgressFile(MemoryStore()),
        run=name,
        clock=lambda: 0.0,
        limits=NO_LIMITS,
        critical=critical,
    )
    return evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True).verdicts


def judge_once(folder: Path, *, preset: str = CALIBRATED) -> Judged:
    """Return the kept judgement of a stored run if the code is the same; else judge it and keep that."""
    return judged_once(folder / f"judged-{preset}.json", Judged, partial(judge, folder / RUN, rules_of(preset)))


def judge_all(folders: Sequence[Path], *, processes: int, preset: str = CALIBRATED) -> Iterator[Judged]:
    """Yield the judgement of each stored run, in order; tell on stderr how far it is."""
    began = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for number, found in enumerate(pool.map(partial(judge_once, preset=preset), folders, chunksize=4), 1):
            if number % 50 == 0:
                seconds = time.perf_counter() - began
                print(f"{preset}: {number} of {len(folders)}, {seconds:.0f} s", file=sys.stderr)
            yield found


def first_causes(cards: Sequence[Card], count: int) -> tuple[Cause, ...]:
    """Return the first different causes that a reader of these cards meets."""
    return tuple(dict.fromkeys(cause for card in cards for cause in card.causes))[:count]


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
        causes=tuple(each.cause for each in verdict.suspicions),
        reasons=tuple(f"{each.what} ({each.because})" for each in verdict.suspicions),
        what_to_do=verdict.what_to_do,
        is_recovered=is_recovered,
    )


def _cards(verdicts: Sequence[Verdict]) -> Iterator[Card]:
    for group in issue_groups(verdicts):
        if group.severity.rank >= Severity.WARNING.rank:
            yield Card(
                rules=tuple(sorted({issue.rule_id for issue in group.issues})),
                severity=group.severity,
                step=min(issue.step for issue in group.issues),
                causes=tuple(suspicion.cause for suspicion in group.suspicions),
                message=group.lead.message,
                probability=group.probability or 0.0,
            )
