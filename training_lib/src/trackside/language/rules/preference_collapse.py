"""preference-collapse: the chosen answers become unlikely, or the pairs teach nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import CHOSEN_LOGP, MARGIN, ORDERED_SHARE, REJECTED_LOGP
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import HARDLY_VISIBLE, MOST, NOISE
from trackside.situation.rollouts import Course, course_of
from trackside.trial.window import Window

_FALLS = "log-probability of the chosen answers, in nats"
_EQUAL = "margin between chosen and rejected answers"
_SAME = "margin, with other log-probabilities of the two"
_WRONG = "pairs in the right order, in %"


@dataclass(frozen=True)
class Fall(Details):
    """Log-probabilities, in nats.

    Attributes:
        rejected: those of the rejected answers now
        first: those of the chosen ones at first
    """

    rejected: float
    first: float


@dataclass(frozen=True)
class PreferenceCollapse(Rule):
    """The chosen answers become unlikely, or the pairs teach nothing.

    Why it matters:
        A loss of preferences sees the difference of two log-probabilities alone. It goes down as well where both fall,
        and the model writes neither: margins and accuracies rise to the end, and what is generated is noise. Pairs
        whose answers are the same teach nothing at all.

    How it decides:
        1. The log-probabilities of the chosen and of the rejected answers have both fallen beyond noise since the first
           logs, that of the chosen ones by `share` of its first size, while the margin has risen.
        2. The margin is zero in each of `fewest` logs. Where chosen and rejected answers have the same
           log-probability, the answers of each pair are the same; if not, the reference is the trained model itself.
        3. Most pairs are in the wrong order, and were not at first, while the margin has fallen: the loss is turned
           around.

        A slight fall of the chosen answers is usual, and silent.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.preference_collapse import PreferenceCollapse
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column


        def course(first, last):
            return Course(Column("logp", "worker_0", np.arange(40), np.linspace(first, last, 40)))


        assert PreferenceCollapse().collapses(course(-20, -60), course(-20, -90))
        assert not PreferenceCollapse().collapses(course(-20, -22), course(-20, -60))
        ```

    References:
        - Pal et al.: Smaug (2024); Razin et al.: Unintentional unalignment (2024): the likelihood of both falls.
    """

    rule_id = "preference-collapse"
    code = "TS506"
    watches = ("losses",)
    needs = ()
    numbers = (MARGIN.recorded,)
    paced = True
    since = "0.1"
    likely_causes = (
        Cause.PREFERENCE_COLLAPSE,
        Cause.UNINFORMATIVE_REWARD,
        Cause.REFERENCE_FOLLOWS,
        Cause.LOSS_SIGN,
    )
    suspects = (
        Suspect(Cause.PREFERENCE_COLLAPSE, only=(_FALLS,)),
        Suspect(Cause.UNINFORMATIVE_REWARD, only=(_EQUAL,)),
        Suspect(Cause.REFERENCE_FOLLOWS, only=(_SAME,)),
        Suspect(Cause.LOSS_SIGN, only=(_WRONG,)),
    )
    what_to_do = (
        "Generate a few answers, and read them.",
        "Lower the learning rate, raise beta, or add the likelihood of the chosen answers to the loss.",
        "Print a few pairs: each should have two different answers.",
        "Copy the reference model before the training, and set it to the trained one seldom (ref_model_sync_steps).",
    )

    share: float = parameter(0.5, "share of its first size, by which a log-probability must have fallen", minimum=0)
    fewest: int = parameter(20, "number of logs from which on it judges", minimum=10)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if both answers become unlikely, or are the same."""
        margin = course_of(window, MARGIN, fewest=self.fewest)
        if margin is None:
            return []
        chosen, rejected = course_of(window, CHOSEN_LOGP, fewest=self.fewest), course_of(window, REJECTED_LOGP)
        if float(np.abs(margin.column.values).max()) <= NOISE:
            measure = _SAME if chosen is not None and rejected is not None and differ(chosen, rejected) else _EQUAL
            return [finding_of(window, MARGIN.recorded, measure, 0.0, below=NOISE, series=())]
        if (ordered := course_of(window, ORDERED_SHARE, fewest=self.fewest)) is not None and margin.fell():
            return self._in_wrong_order(window, ordered)
        if chosen is None or rejected is None or not margin.rose() or not self.collapses(chosen, rejected):
            return []
        numbers = Fall(rejected.now, chosen.first).numbers()
        limit = chosen.first - self.share * abs(chosen.first)
        return [
            finding_of(window, CHOSEN_LOGP.recorded, _FALLS, chosen.now, below=limit, statistics=numbers, series=())
        ]

    def collapses(self, chosen: Course, rejected: Course) -> bool:
        """Return True if both have become unlikely.

        Args:
            chosen: Log-probabilities of the chosen answers.
            rejected: Those of the rejected ones.
        """
        return chosen.fell() and rejected.fell() and chosen.first - chosen.now > self.share * abs(chosen.first)

    def _in_wrong_order(self, window: Window, ordered: Course) -> list[Finding]:
        """Return a finding if fewer pairs are in the right order than by chance, and fewer than at first."""
        if not ordered.fell() or ordered.now >= MOST:
            return []
        share = 100 * ordered.now
        return [finding_of(window, ORDERED_SHARE.recorded, _WRONG, share, below=100 * MOST, series=())]

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True if a margin of zero, or a turned order, shows what is wrong."""
        return findings[0].measure != _FALLS

    def lacks(self, window: Window) -> str:
        """Return a clause without enough logs."""
        missing = course_of(window, MARGIN, fewest=self.fewest) is None
        return f"{self.fewest} logs of the margin of preferences, by TRL or trackside.log" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what became of the chosen answers."""
        lead = findings[0]
        if lead.measure == _EQUAL:
            return "The margin between chosen and rejected answers is zero: the answers of each pair are the same."
        if lead.measure == _SAME:
            return "The margin is zero at each step: the reference is the trained model, or gets its weights each time."
        if lead.measure == _WRONG:
            return (
                f"The loss trains against the preferences: {lead.observed:.0f} % of the pairs are in the right order."
            )
        fall = f"from {Fall.of(lead).first:.3g} to {lead.observed:.3g} nats"
        return f"The chosen answers become unlikely with the rejected ones: their log-probability fell {fall}."


def differ(chosen: Course, rejected: Course) -> bool:
    """Return True if the two sides have had other log-probabilities.

    Args:
        chosen: Those of the chosen answers.
        rejected: Those of the rejected ones.
    """
    size = min(chosen.count, rejected.count)
    one, other = chosen.column.values[-size:], rejected.column.values[-size:]
    return bool((np.abs(one - other) > HARDLY_VISIBLE * np.abs(one)).any())
