"""gamed-reward: the reward that is trained on rises, and the one that is wanted does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import CUT_SHARE, HELD_OUT_REWARD, REWARD
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import (
    A_HAIR,
    ALL_BUT_A_FEW,
    CERTAIN,
    ERRORS,
    LASTING_STEPS,
    MOST,
    NEGLIGIBLE_SHARE,
)
from trackside.situation.rollouts import Course, course_of
from trackside.trial.window import Window

_CUT = "answers that were cut off as the reward rose, in %"


def _is_at_its_height(reward: Course) -> bool:
    """Return True if the reward has risen, and has not fallen again."""
    lost = reward.best - reward.now
    return reward.rose() and lost <= ERRORS * reward.error + MOST * (reward.best - reward.first)


@dataclass(frozen=True)
class Rise(Details):
    """The reward that is trained on.

    Attributes:
        reward_at_first: its first level
        reward: its newest level
    """

    reward_at_first: float
    reward: float


@dataclass(frozen=True)
class GamedReward(Rule):
    """The reward that is trained on rises, and the one that is wanted does not.

    Why it matters:
        A policy finds what its reward counts, not what its author meant: a keyword, the form, the length. The curve of
        the reward is the most beautiful one then. Only a reward that nobody trains for shows it.

    How it decides:
        It reads the mean reward, and the held-out reward: that of prompts that are not trained on, or of another judge
        (`eval_reward` of TRL, `val-core/...` of verl, `trackside.log(held_out_reward=...)`).

        1. The reward has risen by more than four standard errors, and is at its height.
        2. The held-out reward, after `fewest` evaluations, has fallen below its highest value by more than noise and by
           half of what it had gained, or by a tenth of what it was at first.
        3. Or, in place of 2, the reward rises no more, and 95 % of the answers are cut off in the median of 20 logs, of
           which fewer than half were at first: the reward is for length. A policy that still learns may pass through
           answers without an end: silent.

        A held-out reward that rises more slowly than that of the training is silent; so is a fall of both, which is
        `reward-without-progress`.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.gamed_reward import GamedReward
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column


        def course(values):
            return Course(Column("reward", "worker_0", np.arange(len(values)), np.array(values)))


        rising, falling = course(np.linspace(0, 1, 50)), course(np.linspace(0.5, 0.1, 10))
        assert GamedReward().is_gamed(rising, falling)
        assert not GamedReward().is_gamed(rising, rising)
        ```

    References:
        - Gao, Schulman, Hilton: Scaling laws for reward model overoptimization (2023).
    """

    rule_id = "gamed-reward"
    code = "TS502"
    watches = ("losses",)
    needs = ()
    numbers = (REWARD.recorded, HELD_OUT_REWARD.recorded)
    paced = True
    since = "0.1"
    likely_causes = (Cause.REWARD_GAMED,)
    shows_its_cause = True
    what_to_do = (
        "Read the answers with the highest reward, and look for what they have in common and was not meant.",
        "Stop at the best held-out reward, and raise the weight of the divergence from the reference.",
    )

    fewest: int = parameter(5, "evaluations of the held-out reward from which on it judges", minimum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if the reward rises and the held-out one falls."""
        reward, held_out = course_of(window, REWARD), course_of(window, HELD_OUT_REWARD, fewest=self.fewest)
        if reward is None:
            return []
        if held_out is None or not self.is_gamed(reward, held_out):
            return self._by_length(window, reward)
        newest = float(held_out.column.values[-1])
        best = float(held_out.column.values.max())
        numbers = Rise(reward.first, reward.now).numbers()
        return [
            finding_of(
                window, HELD_OUT_REWARD.recorded, "held-out reward", newest, below=best, statistics=numbers, series=()
            )
        ]

    def is_gamed(self, reward: Course, held_out: Course) -> bool:
        """Return True if the reward has risen to its height while the held-out one has fallen.

        Args:
            reward: The reward that is trained on.
            held_out: The one that is not, at least `fewest` values.
        """
        values = held_out.column.values
        quarter = max(1, len(values) // 4)
        levels = [float(values[k : k + quarter].mean()) for k in range(len(values) - quarter + 1)]
        first, now, best = levels[0], levels[-1], max(levels)
        error = held_out.noise * (2 / quarter) ** 0.5
        begin, later = float(values[0]), float(np.std(np.diff(values[1:])))  # what is lost at once is in no level
        if begin - now > CERTAIN * later:
            first, best, error = begin, max(best, begin), min(error, later)
        if not _is_at_its_height(reward):
            return False
        lost, gain = best - now, best - first
        return lost > CERTAIN * error and lost > max(MOST * gain, NEGLIGIBLE_SHARE * abs(first), A_HAIR)

    def _by_length(self, window: Window, reward: Course) -> list[Finding]:
        """Return a finding if the reward has risen with the share of answers that never end."""
        cut = course_of(window, CUT_SHARE, fewest=LASTING_STEPS)
        if cut is None or cut.first >= MOST or not _is_at_its_height(reward) or reward.still_rises():
            return []
        share = float(np.median(cut.column.values[-LASTING_STEPS:]))
        if share < ALL_BUT_A_FEW:
            return []
        numbers, limit = Rise(reward.first, reward.now).numbers(), 100 * ALL_BUT_A_FEW * (1 - A_HAIR)
        return [finding_of(window, CUT_SHARE.recorded, _CUT, 100 * share, above=limit, statistics=numbers, series=())]

    def lacks(self, window: Window) -> str:
        """Return a clause without enough evaluations."""
        lengths = course_of(window, CUT_SHARE, fewest=LASTING_STEPS)
        missing = lengths is None and course_of(window, HELD_OUT_REWARD, fewest=self.fewest) is None
        return f"{self.fewest} held-out rewards, by evaluations of TRL or trackside.log" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: both rewards."""
        lead = findings[0]
        seen = Rise.of(lead)
        rise = f"The reward has risen from {seen.reward_at_first:.3g} to {seen.reward:.3g}"
        if lead.measure == _CUT:
            return f"{rise}, and {lead.observed:.0f} % of the answers are cut off: it is for length."
        return f"{rise}, and the held-out reward has fallen from {lead.threshold:.3g} to {lead.observed:.3g}."
