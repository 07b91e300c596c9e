"""The causes that a rule suspects, declared: each with the question or the clause that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.trial.window import Window


@dataclass(frozen=True)
class Suspect:
    """A cause that findings may have.

    cause  the cause
    shown  a question that must be present, or a clause with the leading finding's numbers in braces; "" for a cause
           that is always suspected, without evidence
    only   measures or relations of the leading finding that it is for; () for all
    """

    cause: Cause
    shown: Callable[[Known], Answer] | str = ""
    only: tuple[str, ...] = ()


class FirstOf(tuple["Suspects", ...]):
    """Alternatives, of which one counts: the first with a cause that something shows, else the last.

    Where nothing in an alternative needs to be shown, it counts if any of it is for the findings.
    """

    def __new__(cls, *alternatives: Suspects) -> FirstOf:
        """Return the alternatives, the strongest first."""
        return super().__new__(cls, alternatives)


Suspects = tuple["Suspect | FirstOf", ...]


def only(suspects: Suspects, *kinds: str) -> Suspects:
    """Return suspects that are for some measures or relations of the leading finding only.

    Args:
        suspects: The suspects.
        *kinds: The measures or relations.
    """
    return tuple(
        [
            replace(one, only=kinds) if isinstance(one, Suspect) else FirstOf(*[only(some, *kinds) for some in one])
            for one in suspects
        ]
    )


def suspected(suspects: Suspects, findings: Sequence[Finding], window: Window) -> tuple[Suspicion, ...]:
    """Return the causes that findings have, in the order of their declaration, each once.

    Args:
        suspects: The declaration.
        findings: The findings, worst first.
        window: The run up to the judged step.
    """
    found: dict[Cause, Suspicion] = {}
    for one in _present(suspects, Known(window, tuple(findings))):
        found.setdefault(one.cause, one)
    return tuple(found.values())


def _present(suspects: Suspects, known: Known) -> Iterator[Suspicion]:
    for one in suspects:
        if isinstance(one, FirstOf):
            yield from next((some for each in one[:-1] if (some := _shown(each, known))), _present(one[-1], known))
        elif not one.only or (known.findings and {known.lead.measure, known.lead.relation} & set(one.only)):
            answer = one.shown(known) if callable(one.shown) else _clause(one.shown, known)
            if answer or not one.shown:
                yield Suspicion(one.cause, answer if isinstance(answer, str) else "")


def _shown(suspects: Suspects, known: Known) -> tuple[Suspicion, ...]:
    """Return the causes of an alternative, if one of those that need to be shown is; else none."""
    needy = tuple([one for one in suspects if isinstance(one, FirstOf) or one.shown])
    return tuple(_present(suspects, known)) if not needy or any(_present(needy, known)) else ()


def _clause(text: str, known: Known) -> str:
    return text.format_map(_numbers_of(known.lead)) if known.findings else ""


def _numbers_of(finding: Finding) -> Mapping[str, Any]:
    return {**finding.statistics, **vars(finding), "comparison": finding.comparison}
