"""The evidence about causes: named questions about a run, each answered present, absent or unknown. Pure functions.

Four kinds have a row each in the table of weights (`causes.json`):

- the questions of `trackside.evidence`, answered from the facts and statistics of the run;
- `found:<rule>`, present for each rule with a standing issue;
- `shown:<cause>`, present for each cause that a rule supports with numbers of the run;
- `harm:<kind>`, present for each kind of harm that the run shows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.diagnosis.harm import Harm
from trackside.evidence.question import Known, Question
from trackside.evidence.registry import all_questions
from trackside.trial.window import Window

FOUND, SHOWN, HARM = "found:", "shown:", "harm:"


_logger = logging.getLogger(__name__)


def signs_of(window: Window) -> tuple[Sign, ...]:
    """Return the pieces of evidence in a window that are known, present or absent.

    A piece that cannot be answered, for whatever reason, counts as unknown: the verdict does not depend on it.
    """
    known = Known(window)
    return tuple(sign for one in all_questions().values() if (sign := _sign(one, known)) is not None)


def _sign(one: Question, known: Known) -> Sign | None:
    try:
        answer = one(known)
    except Exception:  # evidence is an extra: without it, the finding still holds
        _logger.debug("The evidence %s is unknown", one.name, exc_info=True)
        return None
    if answer is None:
        return None
    return Sign(one.name, bool(answer), answer if isinstance(answer, str) else "")


def signs_of_rules(opinions: Iterable[tuple[str, Sequence[Suspicion]]]) -> Iterator[Sign]:
    """Yield the evidence in standing issues: the rules that found them, and the causes that they support with numbers.

    Args:
        opinions: Each rule's id, with the causes that it suspects.
    """
    shown: dict[Cause, str] = {}
    for rule_id, suspicions in opinions:
        yield Sign(f"{FOUND}{rule_id}")
        for suspicion in suspicions:
            if suspicion.because:
                shown.setdefault(suspicion.cause, suspicion.because)
    for cause, because in shown.items():
        yield Sign(f"{SHOWN}{cause.value}", because=because)


def signs_of_harm(harms: Mapping[Harm, str]) -> Iterator[Sign]:
    """Yield the harm of a run as evidence."""
    for harm, because in harms.items():
        yield Sign(f"{HARM}{harm.value}", because=because)


def supported_by(name: str) -> tuple[Cause, ...]:
    """Return the causes that a present piece of evidence is expected to support, before anything is learned.

    Args:
        name: The name of the piece.
    """
    if name.startswith(SHOWN):
        return (Cause(name.removeprefix(SHOWN)),)
    return all_questions()[name].supports if name in all_questions() else ()


def refuted_by(signs: Iterable[Sign]) -> frozenset[Cause]:
    """Return the causes that absent evidence makes impossible."""
    return frozenset(cause for one in _questions_of(signs, is_present=False) for cause in one.refutes)


def unproven_by(signs: Sequence[Sign]) -> frozenset[Cause]:
    """Return the causes that need evidence of their own, and have none: neither a question nor a rule shows them."""
    proven = {cause for one in _questions_of(signs) for cause in one.proves}
    proven |= {
        cause for sign in signs if sign.is_present and sign.name.startswith(SHOWN) for cause in supported_by(sign.name)
    }
    return frozenset(cause for one in all_questions().values() for cause in one.proves) - proven


def proves(sign: Sign, cause: Cause) -> bool:
    """Return True if a present piece of evidence shows a cause that is not named without any."""
    return sign.is_present and any(cause in one.proves for one in _questions_of([sign]))


def outranked_by(signs: Iterable[Sign]) -> Mapping[Cause, Cause]:
    """Return the causes that present evidence places after another one, with that other one."""
    return {cause: one.supports[0] for one in _questions_of(signs) for cause in one.outranks}


def explained_by(signs: Iterable[Sign]) -> Mapping[Cause, Cause]:
    """Return the causes that present evidence shows to be signs of another one, with that other one.

    A cause that is a sign itself is followed to what it is a sign of.
    """
    explained = {cause: one.supports[0] for one in _questions_of(signs) for cause in one.explains}
    found = {}
    for sign, cause in explained.items():
        way = [sign, cause]
        while way[-1] in explained and len(way) <= len(explained):
            way.append(explained[way[-1]])
        if way[-1] not in explained:  # else they explain one another
            found[sign] = way[-1]
    return found


def _questions_of(signs: Iterable[Sign], *, is_present: bool = True) -> list[Question]:
    """Return the questions behind the evidence that is present, or absent."""
    known = all_questions()
    return [known[sign.name] for sign in signs if sign.is_present is is_present and sign.name in known]
