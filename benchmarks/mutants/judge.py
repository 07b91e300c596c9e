"""Judges stored mutants by the rules of `trackside run`, and compares each with its twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.mutants.stored_runs import Mutant, Outcome
from benchmarks.wild.run import default_plan
from trackside.contracts.cause import Cause
from trackside.contracts.errors import RunNotFoundError
from trackside.contracts.issue_group import issue_groups
from trackside.contracts.verdict import Severity
from trackside.evaluation.backtest import backtest


@dataclass(frozen=True)
class Shown:
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
    """The judgement of a stored run.

    steps    0 where nothing was captured
    cards    in the order of the summary: standing ones first, then the gravest
    crashed  rules that raised
    """

    steps: int
    cards: tuple[Shown, ...]
    crashed: tuple[str, ...] = ()

    @property
    def rules(self) -> frozenset[str]:
        """Every rule on a card."""
        return frozenset(rule for card in self.cards for rule in card.rules)

    def beyond(self, twin: Judged) -> tuple[Shown, ...]:
        """Return the cards with a rule that is silent on the twin."""
        return tuple(card for card in self.cards if set(card.rules) - twin.rules)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Judged:
        """Return the judgement in a document of JSON values."""
        cards = tuple(
            Shown(
                tuple(each["rules"]),
                Severity(each["severity"]),
                each["step"],
                tuple(Cause(cause) for cause in each["causes"]),
                each["message"],
                each.get("probability", 0.0),
            )
            for each in document["cards"]
        )
        return cls(document["steps"], cards, tuple(document["crashed"]))


def first_causes(cards: Sequence[Shown], count: int) -> tuple[Cause, ...]:
    """Return the first different causes that a reader of these cards meets."""
    return tuple(dict.fromkeys(cause for card in cards for cause in card.causes))[:count]


def judge(folder: Path) -> Judged:
    """Judge the run below a folder by the usual rules."""
    try:
        found = backtest(str((folder / "run").absolute()), default_plan().request.rules, clock=lambda: 0.0)
    except RunNotFoundError:  # nothing was captured
        return Judged(0, ())
    cards = tuple(
        Shown(
            rules=tuple(sorted({issue.rule_id for issue in group.issues})),
            severity=group.severity,
            step=min(issue.step for issue in group.issues),
            causes=tuple(suspicion.cause for suspicion in group.suspicions),
            message=group.lead.message,
            probability=group.probability or 0.0,
        )
        for group in issue_groups(found.verdicts)
        if group.severity.rank >= Severity.WARNING.rank
    )
    return Judged(found.last_step + 1, cards, found.crashed)


def judged_once(folder: Path) -> Judged:
    """Return the kept judgement of a stored run if the code is the same; else judge it and keep that."""
    return kept.judged_once(
        folder / "judged.json", partial(judge, folder), to_document=asdict, from_document=Judged.from_document
    )


def judge_all(chosen: Sequence[Mutant], *, root: Path, processes: int) -> Iterator[tuple[Mutant, Judged]]:
    """Yield the judgement of each training that came to its end, in order."""
    stored = [
        (each, folder)
        for each in chosen
        if (outcome := Outcome.read(folder := each.folder(root))) is not None and outcome.status == 0
    ]
    with ProcessPoolExecutor(processes) as pool:
        yield from zip(
            (mutant for mutant, _ in stored), pool.map(judged_once, [folder for _, folder in stored]), strict=True
        )
