"""The harm that a training suffers: the evidence that an issue needs to be critical. Pure functions of a window.

One gate for all rules: a rule names a problem, and the problem is critical while the training is being hurt by it.
`critical.json` lists the kinds of harm with which a rule is critical.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import (
    CERTAIN,
    COURSE_STEPS,
    ENOUGH_STEPS,
    GAIN,
    LASTING_STEPS,
    LONG_LASTING,
    MAD_TO_DEVIATION,
    MEDIAN_TO_ERROR,
    MOST,
    NEARLY_GUESSING,
    RATE_STILL_RISES,
)
from trackside.situation.losses.guessing import beats, best_guess
from trackside.situation.losses.losses import chance_level, finite, has_gained, learned_share, training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.trial.window import Column, Window


class Harm(str, Enum):
    """A kind of harm.

    NOT_FINITE       the run has values that are not finite: at once
    STANDSTILL       the run makes no step any more: at once
    WORSENED         a training loss is worse than its own best, beyond noise
    NOTHING_LEARNED  no training loss has fallen beyond noise, or it is that of a guess
    LASTING          the finding itself is harm, and has lasted
    """

    NOT_FINITE = "not-finite"
    STANDSTILL = "standstill"
    WORSENED = "worsened"
    NOTHING_LEARNED = "nothing-learned"
    LASTING = "lasting"


def harms_in(findings: Sequence[Finding], window: Window) -> dict[Harm, str]:
    """Return the kinds of harm in a window, each with its evidence, a clause.

    Args:
        findings: The findings of a rule, dated from their first step.
        window: The run up to the judged step.
    """
    found: dict[Harm, str] = {}
    if broken := _not_finite(findings, window):
        found[Harm.NOT_FINITE] = broken
    if findings and findings[0].kind is FindingKind.STANDSTILL:
        found[Harm.STANDSTILL] = findings[0].comparison
    if window.step >= COURSE_STEPS and (worse := _worsened(window)):
        found[Harm.WORSENED] = worse
    if nothing := _nothing_learned(window):
        found[Harm.NOTHING_LEARNED] = nothing
    if (lasted := lasted_steps(findings, window)) >= LASTING_STEPS:
        found[Harm.LASTING] = f"it has lasted for {lasted} steps"
    return found


def gated(
    severity: Severity, harms: Mapping[Harm, str], allowed: Sequence[str], *, lasted_steps: int
) -> tuple[Severity, str]:
    """Return the severity of a built-in rule's issue, and the harm that makes it critical ("" if it is not).

    A critical severity needs harm of a kind that is allowed for the rule; without it the issue is a warning. A warning
    becomes critical if nothing was learned for `LONG_LASTING` steps.

    Args:
        severity: The severity that the rule gives its findings.
        harms: The harm that the run shows.
        allowed: The kinds of harm with which the rule is critical.
        lasted_steps: The number of steps since the first finding.
    """
    if severity is Severity.INFO:
        return severity, ""
    counted = {harm: because for harm, because in harms.items() if harm.value in allowed}
    if severity is Severity.WARNING:
        is_long = lasted_steps >= LONG_LASTING
        counted = {harm: because for harm, because in counted.items() if is_long and harm is Harm.NOTHING_LEARNED}
    if not counted:
        return Severity.WARNING, ""
    return Severity.CRITICAL, next(iter(counted.values()))


def lasted_steps(findings: Sequence[Finding], window: Window) -> int:
    """Return the number of watched steps since the first finding."""
    return window.watched_since(min((finding.since_step for finding in findings), default=window.step))


def _not_finite(findings: Sequence[Finding], window: Window) -> str:
    if any(finding.kind is FindingKind.NOT_FINITE for finding in findings):
        return "the run has values that are not finite"
    for column in training_losses(window):
        if not math.isfinite(column.values[-1]):
            return "the loss is not finite"
    return ""


def _worsened(window: Window) -> str:
    """Return the evidence of a training loss that is worse than its own best; "" without any."""
    if has_several_aims(window):
        return ""
    for column in training_losses(window):
        losses = finite(column)[1]
        if len(losses) < COURSE_STEPS or (losses < 0).any():
            continue
        best, now = best_and_now(losses)
        size = min(len(losses) // 3, 20)
        error = MEDIAN_TO_ERROR * noise_of(losses) / math.sqrt(size)  # of a median of normal noise
        start = median(losses[:size])
        if now > best + max(CERTAIN * error, MOST * abs(start - best), GAIN * abs(best)):
            return f"the loss is {now:.3g}, and was {best:.3g} at best"
    return ""


def best_and_now(losses: NDArray[np.float64]) -> tuple[float, float]:
    """Return (the lowest, the present) median of a stretch of losses. A stretch is a third of them, 20 at most.

    The present value is the lower of the two newest stretches, so that a single spike is no harm.

    Args:
        losses: Finite losses, oldest first, shape (n,), n >= 3.
    """
    size = max(1, min(len(losses) // 3, 20))
    medians = [median(losses[end - size : end]) for end in range(len(losses), size - 1, -size)]
    return min(medians), min(medians[:2])


def noise_of(losses: NDArray[np.float64]) -> float:
    """Return the standard deviation of the noise of losses, whatever their trend: from successive differences.

    Args:
        losses: Finite losses, oldest first, shape (n,), n >= 2.
    """
    changes = np.diff(losses)
    return MAD_TO_DEVIATION * median(np.abs(changes - median(changes))) / math.sqrt(2)


def _nothing_learned(window: Window) -> str:
    """Return the evidence that no training loss has fallen beyond noise, or that all are those of a guess."""
    columns = training_losses(window)
    if not columns or has_several_aims(window) or _warms_up(Evidence(window).learning_rates):
        return ""
    if min(len(finite(column)[0]) for column in columns) < ENOUGH_STEPS:
        return ""
    if any((finite(column)[1] < 0).any() for column in columns):
        return ""
    guesses = [guess for column in columns if (guess := _beside_guess(window, column)) is not None]
    if len(guesses) == len(columns) and all(guess.is_near and not guess.is_beaten for guess in guesses):
        return str(guesses[0])
    has_learned = has_gained(window, share=GAIN) or (learned_share(window) or 0.0) > GAIN
    if has_learned or any(guess.is_beaten for guess in guesses):
        return ""
    losses = finite(columns[0])[1]
    size = min(len(losses) // 3, 20)
    return f"the loss is {median(losses[-size:]):.3g} after {len(losses)} steps, {losses[0]:.3g} at first"


@dataclass(frozen=True)
class _BesideGuess:
    """The present level of a training loss beside that of the best constant answer.

    is_beaten  the level is certainly below
    """

    level: float
    guess: float
    is_beaten: bool

    @property
    def is_near(self) -> bool:
        return self.level > NEARLY_GUESSING * self.guess

    def __str__(self) -> str:
        return f"the loss is {self.level:.3g}, and guessing costs {self.guess:.3g}"


def _beside_guess(window: Window, column: Column) -> _BesideGuess | None:
    """Return a loss beside that of a guess; None if that is unknown."""
    guess = best_guess(window, column.tensor, worker=column.worker)
    facts = window.facts.loss(column.tensor) if window.facts is not None else None
    level = guess.loss if guess is not None else chance_level(facts)
    if level is None:
        return None
    losses = finite(column)[1]
    return _BesideGuess(median(losses[-20:]), level, beats(losses, level))


def _warms_up(rates: Sequence[Column]) -> bool:
    """Return True if a learning rate still rises: then a flat loss is no harm yet."""
    return any(len(c.values) > 5 and float(c.values[-6]) < RATE_STILL_RISES * float(c.values[-1]) for c in rates)
