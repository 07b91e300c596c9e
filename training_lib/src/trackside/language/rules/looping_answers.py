"""looping-answers: the answers of the policy have come to repeat the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import REPEATED_SHARE
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.rollouts import Course, course_of
from trackside.trial.window import Window


@dataclass(frozen=True)
class Before(Details):
    """The share at first.

    Attributes:
        first: in percent
    """

    first: float


@dataclass(frozen=True)
class LoopingAnswers(Rule):
    """The answers of the policy have come to repeat the same words.

    Why it matters:
        A policy that was driven too far, or that is paid by length, says one phrase until the limit. Rewards that count
        words or look for a form do not see it, and entropy and divergence tell little.

    How it decides:
        1. n is the share of the sequences of four words of an answer that stand earlier in it, of a sample of the
           answers of each log.
        2. After `fewest` logs it fires where n is above `share`, was below half of it at first, and has risen beyond
           noise.

        Answers that repeated themselves from the first are as the model was, and silent.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.looping_answers import LoopingAnswers
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column


        def course(first, last):
            return Course(Column("repeated", "worker_0", np.arange(40), np.linspace(first, last, 40)))


        assert LoopingAnswers().loops(course(0.05, 0.8))
        assert not LoopingAnswers().loops(course(0.05, 0.2))
        ```

    References:
        - Welleck et al.: Neural text generation with unlikelihood training (2019): repeated n-grams.
    """

    rule_id = "looping-answers"
    code = "TS514"
    watches = ("losses",)
    needs = ()
    numbers = (REPEATED_SHARE.recorded,)
    paced = True
    since = "0.1"
    likely_causes = (Cause.LOOPING_ANSWERS, Cause.LEARNING_RATE_TOO_HIGH)
    shows_its_cause = True
    what_to_do = (
        "Read the answers with the highest reward, and take repeated words off the reward.",
        "Lower the learning rate, or raise the weight of the divergence from the reference.",
    )

    share: float = parameter(0.5, "share of repeated sequences, above which answers loop", minimum=0, maximum=1)
    fewest: int = parameter(20, "number of logs from which on it judges", minimum=10)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if answers have begun to loop."""
        repeated = course_of(window, REPEATED_SHARE, fewest=self.fewest)
        if repeated is None or not self.loops(repeated):
            return []
        numbers = Before(100 * repeated.first).numbers()
        measure, limit = "repeated sequences of four words, in %", 100 * self.share
        name = REPEATED_SHARE.recorded
        return [finding_of(window, name, measure, 100 * repeated.now, above=limit, statistics=numbers, series=())]

    def loops(self, repeated: Course) -> bool:
        """Return True if the share is high, and was not at first.

        Args:
            repeated: The course of the share of repeated sequences.
        """
        return repeated.now > self.share > 2 * repeated.first and repeated.rose()

    def lacks(self, window: Window) -> str:
        """Return a clause without enough logs."""
        missing = course_of(window, REPEATED_SHARE, fewest=self.fewest) is None
        return f"{self.fewest} logs of answers, by TRL or trackside.log(answers=..., rewards=...)" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how much is repeated."""
        lead = findings[0]
        rise = f"from {Before.of(lead).first:.0f} to {lead.observed:.0f} %"
        return f"The answers say the same over and over: repeated sequences of four words rose {rise}."
