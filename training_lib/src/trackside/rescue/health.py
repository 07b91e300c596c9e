"""The state of a training's numbers: healthy, suspected, or at fault by a cause that going back can cure.

A fault is transient if the numbers before it were as always, and one step broke them. Numbers that grow from look to
look show a training that diverges by itself, which no return cures: it is refused.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import NamedTuple

from trackside.rescue.numbers import Numbers

FEWEST_HEALTHY = 20  # looks: before them nobody knows what is usual
_WINDOW = 200  # healthy looks that show what is usual
_NEAR = 60  # of them show which loss is usual by now
_NEWEST = 8  # of them are compared with the others, before a value that is not finite
_OUTLIER = 10.0  # times the largest of all before: a step that breaks weights, not one of a heavy tail
_FAR_OUTLIER = 1000.0  # the same, where no loss need confirm it: the state of an optimizer is spoilt for long
_USUAL = 10.0  # times the largest of the window: numbers that had not yet begun to grow
_GROWN = 100.0  # times the norm of the weights at the first look
_RATE_JUMP = 3.0  # times the largest rate of all before
_HARM_LOOKS = 8  # looks after the outlier, of which all but one must have an unusual loss
_LONGEST_SUSPICION = 40  # looks; what has not hurt by then did not hurt
_FIRST = 10  # losses that show where the training began

NOT_FINITE, SPIKE, RATE_JUMP, BY_RULE = (
    "values that are not finite",
    "a spike",
    "a jump of the rate",
    "a rule's finding",
)


class Fault(NamedTuple):
    """A fault of the training's numbers.

    cause         its kind
    since         number of training steps that had ended when it began, at least
    evidence      the numbers that show it, a clause
    is_of_batch   True if the data of its step, or the draws, may be the cause: they are left out
    refusal       why going back does not cure it, a clause; "" if it may
    """

    cause: str
    since: int
    evidence: str
    is_of_batch: bool = True
    refusal: str = ""


class _Suspicion(NamedTuple):
    cause: str
    since: int
    evidence: str
    losses: list[float]


class Health:
    """Judges the numbers of each look.

    Attributes:
        is_suspected: True while the effect of an unusual step is not known yet.
        looks: Number of looks with usual numbers.
        gradient: Largest norm of gradients among usual looks; 0 if unknown.
        rate: Largest rate of usual looks.
    """

    def __init__(self) -> None:
        self._usual: deque[Numbers] = deque(maxlen=_WINDOW)
        self._first: list[float] = []
        self._suspicion: _Suspicion | None = None
        self.looks = 0
        self.gradient = self.change = self.rate = 0.0
        self._newest: Numbers | None = None
        self._first_weights = 0.0
        self._interval = self._changes = 0  # steps between two looks, and looks with as many
        self._is_on_trial = False

    @property
    def is_suspected(self) -> bool:
        return self._suspicion is not None

    @property
    def usual_loss(self) -> float:
        """The largest loss that is usual by now; infinity if none is known."""
        return self._bound()

    def observe(self, numbers: Numbers, *, state_is_finite: bool = True) -> Fault | None:
        """Return the fault that these numbers show, if any.

        Args:
            numbers: Of one look.
            state_is_finite: False if the optimizer's own state holds values that are not finite.
        """
        before, self._newest = self._newest, numbers
        if not math.isfinite(numbers.weights) or not state_is_finite:
            return self._not_finite(numbers, before, of_state=math.isfinite(numbers.weights))
        if self._suspicion is not None:
            return self._judge(self._suspicion, numbers)
        self._suspicion = self._suspected(numbers)
        if self._suspicion is not None:
            if 0 < _FAR_OUTLIER * self.gradient < (numbers.gradient or 0.0) < math.inf:
                refusal = "" if self.has_learned() else "it had not learned before"
                return Fault(SPIKE, self._suspicion.since, self._suspicion.evidence, refusal=refusal)
            return self._judge(self._suspicion, numbers)
        if numbers.loss is None or math.isfinite(numbers.loss):
            self._learn(numbers)
        return None

    def went_back(self) -> None:
        """Note that the training is at an earlier moment again. What is usual stays as it is until it is confirmed."""
        self._suspicion = self._newest = None
        self._is_on_trial = True

    def confirmed(self) -> None:
        """Note that the training goes on as before."""
        self._is_on_trial = False

    def is_harmed(self) -> bool:
        """Return True if the newest loss is unusually large."""
        loss = self._newest.loss if self._newest is not None else None
        return loss is not None and not loss <= self._bound()

    def is_usual(self, losses: list[float]) -> bool:
        """Return True if losses after a return are as they were before the fault, or none is known."""
        return not losses or median(losses) <= self._bound()

    def has_learned(self) -> bool:
        """Return True if the losses are not above those that the training began with, or none is known.

        A loss that falls far below zero is no sign of learning: one with the wrong sign does.
        """
        losses = [each.loss for each in self._usual if each.loss is not None]
        if not losses:
            return True
        now = median(losses[-2 * _FIRST :])
        return -_USUAL * median(map(abs, self._first)) < now <= max(self._first)

    def _learn(self, numbers: Numbers) -> None:
        if self._is_on_trial:
            return
        self.looks += 1
        interval = numbers.steps - self._usual[-1].steps if self._usual else 0
        if interval > self._interval:  # changes of more steps are larger
            self._interval, self.change, self._changes = interval, 0.0, 0
        self._changes += 1
        self._usual.append(numbers)
        self._first_weights = self._first_weights or numbers.weights
        if numbers.loss is not None and len(self._first) < _FIRST:
            self._first.append(numbers.loss)
        if math.isfinite(numbers.gradient or 0.0):
            self.gradient = max(self.gradient, numbers.gradient or 0.0)
        self.change = max(self.change, numbers.change or 0.0)
        self.rate = max(self.rate, numbers.rate)

    def _bound(self) -> float:
        losses = [each.loss for each in list(self._usual)[-_NEAR:] if each.loss is not None]
        if not losses:
            return math.inf
        return max(losses) + 0.5 * (max(losses) - median(losses))

    def _not_finite(self, numbers: Numbers, before: Numbers | None, *, of_state: bool) -> Fault:
        what = "the optimizer's state holds" if of_state else "the weights hold"
        suspicion = self._suspicion
        since = suspicion.since if suspicion is not None else numbers.steps - 1
        refusal = ""
        if self.looks < FEWEST_HEALTHY:
            refusal = "its first steps already broke it, so there is no sound moment to go back to"
        elif not self.has_learned():
            refusal = "its losses had risen above where they began, so an earlier moment is no sound one"
        elif suspicion is None and self._had_grown(before):
            refusal = "its numbers had grown for many steps before, so that it diverges by itself"
        is_given = numbers.loss is not None and math.isfinite(numbers.loss)
        is_torn = is_given and numbers.gradient is not None and math.isfinite(numbers.gradient)
        if suspicion is not None:
            return Fault(
                suspicion.cause, since, f"{suspicion.evidence}; {what} values that are not finite", True, refusal
            )
        cause = "weights that one step tore" if is_torn and not of_state else NOT_FINITE
        loss = f", after a loss of {numbers.loss:.4g}" if numbers.loss is not None else ""
        return Fault(cause, since, f"{what} values that are not finite{loss}", not is_torn, refusal)

    def _had_grown(self, before: Numbers | None) -> bool:
        """Return True if the looks right before were not as those of the window before them."""
        usual = list(self._usual)
        newest, older = usual[-_NEWEST:], usual[:-_NEWEST]
        if before is None or len(older) < _NEWEST or before.weights > _GROWN * self._first_weights:
            return True
        return any(
            _size(each, field) > _USUAL * max(_size(one, field) for one in older)
            for each in (*newest, before)
            for field in ("loss", "gradient", "weights")
        )

    def _suspected(self, numbers: Numbers) -> _Suspicion | None:
        if self.looks < FEWEST_HEALTHY:
            return None
        since = numbers.steps - 1
        if 0 < _RATE_JUMP * self.rate < numbers.rate:
            return _Suspicion(RATE_JUMP, since, f"the rate is {numbers.rate:.3g}, after at most {self.rate:.3g}", [])
        if 0 < _OUTLIER * self.gradient < (numbers.gradient or 0.0):
            what = f"gradients have a norm of {numbers.gradient:.3g}, after at most {self.gradient:.3g}"
            return _Suspicion(SPIKE, since, what, [])
        if self._changes >= FEWEST_HEALTHY and 0 < _OUTLIER * self.change < (numbers.change or 0.0):
            what = f"weights changed by {numbers.change:.3g} at once, after at most {self.change:.3g}"
            return _Suspicion(SPIKE, since, what, [])
        return None

    def _judge(self, suspicion: _Suspicion, numbers: Numbers) -> Fault | None:
        """Return the fault once its harm is known; close a suspicion without harm."""
        losses, bound = suspicion.losses, self._bound()
        if numbers.loss is not None and numbers.steps > suspicion.since + 1:  # the step's own loss is no effect of it
            losses.append(numbers.loss)
        newest = losses[-_HARM_LOOKS:]
        if len(newest) == _HARM_LOOKS and sum(not loss <= bound for loss in newest) >= _HARM_LOOKS - 1:
            evidence = f"{suspicion.evidence}, and the loss is {median(newest):.4g} since, usually at most {bound:.4g}"
            refusal = "" if self.has_learned() else "it had not learned before"
            return Fault(suspicion.cause, suspicion.since, evidence, suspicion.cause == SPIKE, refusal)
        is_over = len(losses) >= _LONGEST_SUSPICION or numbers.steps - suspicion.since > 10 * _LONGEST_SUSPICION
        is_harmless = len(newest) == _HARM_LOOKS and all(loss <= bound for loss in newest)
        if is_over or (is_harmless and suspicion.cause != RATE_JUMP):  # a rate takes its time
            self._suspicion = None
            self.rate = max(self.rate, numbers.rate) if suspicion.cause == RATE_JUMP else self.rate
            self._learn(numbers)
        return None


def _size(numbers: Numbers, field: str) -> float:
    value = getattr(numbers, field)
    return abs(value) if value is not None else 0.0
