"""unended-answers: the answers are cut off and never end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import CUT_SHARE, REWARD
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import ALL_BUT_A_FEW, ALL_BUT_CHANCE, NEAR_A_LIMIT
from trackside.situation.rollouts import Course, course_of
from trackside.trial.window import Window


@dataclass(frozen=True)
class UnendedAnswers(Rule):
    """The answers are cut off and never end.

    Why it matters:
        An answer that is cut off has mostly no result to judge: its reward is an accident, and many trainers leave it
        out of the loss. A wrong end token, a limit of length below what the task needs, or a reward that grows with the
        length have the same look: every answer is as long as allowed.

    How it decides:
        It reads the share of cut-off answers of each log, after `fewest` logs.

        1. None has ended in any of the newest `fewest` logs: 99 % of the answers or more were cut off in each.
        2. Or nearly all are cut off (`share`, in the median), which has not become less, and the reward has not risen.
        3. Or 95 % are cut off, fewer were at first, and the reward rises no more: it is for length.

        A model that is to write long answers, and learns all the same, ends a few of them: silent.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.unended_answers import UnendedAnswers
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column


        def course(value):
            return Course(Column("cut_share", "worker_0", np.arange(30), np.full(30, value)))


        assert UnendedAnswers().never_ends(course(1.0))
        assert not UnendedAnswers().never_ends(course(0.95))
        ```

    References:
        - TRL, `mask_truncated_completions`; Yu et al.: DAPO (2025): overlong answers.
    """

    rule_id = "unended-answers"
    code = "TS505"
    watches = ("losses",)
    needs = ()
    numbers = (CUT_SHARE.recorded,)
    paced = True
    since = "0.1"
    likely_causes = (Cause.UNENDED_ANSWERS,)
    shows_its_cause = True
    what_to_do = (
        "Compare the end token of the template with the eos_token_id of the sampler.",
        "Allow longer answers (max_completion_length), or leave cut-off ones out of the loss.",
    )

    share: float = parameter(0.9, "share of cut-off answers, from which on nearly none ends", minimum=0, maximum=1)
    fewest: int = parameter(25, "number of logs from which on it judges", minimum=10)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if the answers never end."""
        cut = course_of(window, CUT_SHARE, fewest=self.fewest)
        if cut is None:
            return []
        median = float(np.median(cut.column.values[-self.fewest :]))
        reward = course_of(window, REWARD)
        learns_nothing = reward is None or not reward.rose()
        is_for_length = reward is not None and not reward.still_rises() and cut.rose() and median >= ALL_BUT_A_FEW
        is_stuck = median >= self.share and not cut.fell() and (learns_nothing or is_for_length)
        if not self.never_ends(cut) and not is_stuck:
            return []
        limit = min(self.share, median * NEAR_A_LIMIT)
        return [
            finding_of(
                window,
                CUT_SHARE.recorded,
                "answers that were cut off, in %",
                100 * median,
                above=100 * limit,
                series=(),
            )
        ]

    def never_ends(self, cut: Course) -> bool:
        """Return True if no answer has ended in any of the newest logs.

        Args:
            cut: The course of the share of cut-off answers.
        """
        return bool((cut.column.values[-self.fewest :] >= ALL_BUT_CHANCE).all())

    def lacks(self, window: Window) -> str:
        """Return a clause without enough logs."""
        missing = course_of(window, CUT_SHARE, fewest=self.fewest) is None
        return f"{self.fewest} logs of the share of cut-off answers, by TRL or trackside.log" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how many are cut off."""
        return f"{findings[0].observed:.0f} % of the answers are cut off at the longest length allowed: they never end."
