"""length-preference: the length of an answer alone decides which one of a pair is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import CHOSEN_LENGTH, LONGER_CHOSEN, REJECTED_LENGTH, SHORTER_CHOSEN
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window

_LONGER = "pairs with the longer answer chosen, in %"
_SHORTER = "pairs with the shorter answer chosen, in %"


@dataclass(frozen=True)
class Lengths(Details):
    """Mean lengths, in tokens.

    Attributes:
        chosen: of the chosen answers
        rejected: of the rejected ones
    """

    chosen: float
    rejected: float


@dataclass(frozen=True)
class LengthPreference(PyTorchRule):
    """The length of an answer alone decides which one of a pair is chosen.

    Why it matters:
        What tells chosen from rejected answers with the least effort is learned. If that is the length, the margins and
        the accuracy rise as they should, and the model has learned to write long answers, or short ones.

    How it decides:
        It reads the batches of preferences as TRL's collators make them, at the first 32 batches and rarely after.
        After `fewest` looks it fires where

        1. the chosen answer is the longer one in more than `share` of the pairs, or the shorter one in so many;
        2. and the mean lengths differ by more than a factor of `times`.

    Example:
        ```python
        from trackside.language.rules.length_preference import LengthPreference

        assert LengthPreference().share == 0.95
        ```

    References:
        - Park et al.: Disentangling length from quality in direct preference optimization (2024).
        - Singhal et al.: A long way to go: investigating length correlations in RLHF (2023).
    """

    rule_id = "length-preference"
    code = "TS513"
    watches = ("losses",)
    numbers = (LONGER_CHOSEN,)
    since = "0.1"
    likely_causes = (Cause.LENGTH_PREFERENCE,)
    shows_its_cause = True
    what_to_do = (
        "Add pairs in which the chosen answer is the other one by length, or leave the most unlike ones out.",
        "Divide log-probabilities by length (loss_type of SimPO or ld_alpha of TRL).",
    )

    share: float = parameter(0.95, "share of the pairs, above which the length decides", minimum=0.5, maximum=1)
    times: float = parameter(1.25, "times that one mean length is of the other, above which they differ", minimum=1)
    fewest: int = parameter(8, "looks at batches from which on it judges", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if all chosen answers are the longer ones, or the shorter ones."""
        chosen, rejected = self._mean(window, CHOSEN_LENGTH), self._mean(window, REJECTED_LENGTH)
        if chosen is None or rejected is None or not self.differ(chosen, rejected):
            return []
        is_longer = chosen > rejected
        name, measure = (LONGER_CHOSEN, _LONGER) if is_longer else (SHORTER_CHOSEN, _SHORTER)
        share = self._mean(window, name) or 0.0
        if share <= self.share:
            return []
        numbers = Lengths(chosen, rejected).numbers()
        return [finding_of(window, name, measure, 100 * share, above=100 * self.share, statistics=numbers, series=())]

    def differ(self, chosen: float, rejected: float) -> bool:
        """Return True if mean lengths are unlike.

        Args:
            chosen: Tokens of the chosen answers.
            rejected: Tokens of the rejected ones.
        """
        return max(chosen, rejected) > self.times * min(chosen, rejected)

    def lacks(self, window: Window) -> str:
        """Return a clause without enough looks."""
        missing = self._mean(window, LONGER_CHOSEN) is None
        return f"{self.fewest} batches of pairs for a causal language model of transformers" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: which side, and both lengths."""
        lead, seen = findings[0], Lengths.of(findings[0])
        which = "longer" if lead.measure == _LONGER else "shorter"
        lengths = f"{seen.chosen:.3g} tokens against {seen.rejected:.3g}"
        return f"In {lead.observed:.0f} % of the pairs the {which} answer is the chosen one ({lengths})."

    def _mean(self, window: Window, name: str) -> float | None:
        columns = window.statistic(name, "mean", mode=None)
        values = columns[0].values if columns else np.zeros(0)
        return float(np.mean(values)) if len(values) >= self.fewest else None
