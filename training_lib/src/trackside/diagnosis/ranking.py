"""The ranking of causes by all evidence of a run. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import SPEED_CAUSES, Cause, Sign, Suspicion
from trackside.diagnosis.learned import Weights
from trackside.diagnosis.signs import (
    FOUND,
    HARM,
    SHOWN,
    explained_by,
    outranked_by,
    proves,
    refuted_by,
    supported_by,
    unproven_by,
)
from trackside.situation.constants import (
    EXPECTED_WEIGHT,
    HINT_WEIGHT,
    LEAST_PROBABILITY,
    MOST_CAUSES,
    NEXT_WEIGHT,
    RARE_WEIGHT,
    UNKNOWN_BELOW,
)


@dataclass(frozen=True)
class Ranked:
    """A cause with its probability among all causes, and the present evidence that supports it, strongest first."""

    cause: Cause
    probability: float
    support: tuple[Sign, ...]


def ranked(signs: Iterable[Sign], weights: Weights, *, hints: Mapping[str, Sequence[Suspicion]]) -> tuple[Ranked, ...]:
    """Return the causes that the evidence does not refute, likeliest first.

    A cause that the evidence shows to be a sign of another one is left out, and the other one has its score. One that
    it places after another one follows that.

    Args:
        signs: The known evidence.
        weights: The learned weights.
        hints: By rule, the causes that it suspects; they count for rules without a row in the table.
    """
    known = tuple(signs)
    refuted = refuted_by(known)
    causes = [
        cause
        for cause in Cause
        if cause not in refuted
        and cause not in SPEED_CAUSES
        # One that is newer than the table takes part where something speaks for it, and dilutes no other cause else.
        and (cause.value in weights.bias or _support(cause, known, weights, hints))
    ]
    scores = {cause: _score(cause, known, weights, hints) for cause in causes}
    explained = explained_by(known)
    for sign, cause in explained.items():  # what speaks for the sign speaks for its cause
        if cause in scores and sign in scores:
            scores[cause] = max(scores[cause], scores.pop(sign))
    for later, first in outranked_by(known).items():
        cause = explained.get(first, first)
        if cause in scores and later in scores:
            scores[cause] = max(scores[cause], scores[later])
            scores[later] = min(scores[later], scores[cause] - NEXT_WEIGHT)
    causes = list(scores)
    highest = max(scores.values(), default=0.0)
    parts = {cause: math.exp(score - highest) for cause, score in scores.items()}
    total = sum(parts.values())
    found = [Ranked(cause, parts[cause] / total, _support(cause, known, weights, hints)) for cause in causes]
    return tuple(sorted(found, key=lambda one: -one.probability))


def suspicions_of(
    signs: Iterable[Sign],
    weights: Weights,
    *,
    hints: Mapping[str, Sequence[Suspicion]],
    observed: Suspicion | None = None,
) -> tuple[Suspicion, ...]:
    """Return the causes to show, likeliest first; none if the evidence supports no cause well enough.

    Args:
        signs: The known evidence.
        weights: The learned weights.
        hints: By rule, the causes that it suspects.
        observed: The cause that the finding itself is, if it is one. It stands alone: evidence of another problem of
            the run explains nothing of it.
    """
    if observed is not None:
        return (observed,)
    known = tuple(signs)
    unproven = unproven_by(known)
    found = [one for one in ranked(known, weights, hints=hints) if one.support and one.cause not in unproven]
    causes = found[:MOST_CAUSES]
    if not causes or causes[0].probability < UNKNOWN_BELOW:
        return ()
    listed = [causes[0], *(one for one in causes[1:] if one.probability >= LEAST_PROBABILITY)]
    return tuple(Suspicion(one.cause, _because(one), round(one.probability, 3)) for one in listed)


def _score(cause: Cause, signs: Sequence[Sign], weights: Weights, hints: Mapping[str, Sequence[Suspicion]]) -> float:
    score = weights.bias.get(cause.value, RARE_WEIGHT)
    return score + sum(_weight(sign, cause, weights, hints) for sign in signs)


def _weight(sign: Sign, cause: Cause, weights: Weights, hints: Mapping[str, Sequence[Suspicion]]) -> float:
    table = weights.present if sign.is_present else weights.absent
    row = table.get(sign.name)
    if row is not None:
        return row.get(cause.value, 0.0)
    if sign.is_present and not sign.name.startswith(SHOWN) and cause in supported_by(sign.name):
        return EXPECTED_WEIGHT  # a piece that is newer than the table
    suspected = hints.get(sign.name.removeprefix(FOUND), ()) if sign.name.startswith(FOUND) else ()
    places = [place for place, suspicion in enumerate(suspected) if suspicion.cause is cause]
    return max(0.0, HINT_WEIGHT - NEXT_WEIGHT * places[0]) if places else 0.0


def _support(
    cause: Cause, signs: Sequence[Sign], weights: Weights, hints: Mapping[str, Sequence[Suspicion]]
) -> tuple[Sign, ...]:
    present = [sign for sign in signs if sign.is_present and not sign.name.startswith(HARM)]  # harm is no reason
    found = [(_weight(sign, cause, weights, hints), sign) for sign in present]
    found = [(weight, sign) for weight, sign in found if weight > 0 or proves(sign, cause)]
    return tuple(sign for _, sign in sorted(found, key=lambda pair: -pair[0]))


def _because(one: Ranked) -> str:
    """Return the numbers behind a cause: of the rule that supports it, of what proves it, or the strongest."""
    shown = f"{SHOWN}{one.cause.value}"
    own = [sign.because for sign in one.support if sign.name == shown]
    own += [sign.because for sign in one.support if proves(sign, one.cause)]
    texts = [sign.because for sign in one.support if sign.because and not sign.name.startswith(SHOWN)]
    return next(iter([*own, *texts]), "")
