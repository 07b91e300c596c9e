"""entropy-collapse: the policy is certain of its answers, and they are not the best ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import ENTROPY, REWARD, REWARD_SPREAD
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import MOST, MOST_OF_THE_TIME, TRACE
from trackside.situation.rollouts import Course, course_of, share_of_equal_groups
from trackside.trial.window import Window


@dataclass(frozen=True)
class Certainty(Details):
    """Details of a finding.

    Attributes:
        first: its first level, in nats
        reward: the newest reward
    """

    first: float
    reward: float


@dataclass(frozen=True)
class EntropyCollapse(Rule):
    """The policy is certain of its answers, and they are not the best ones.

    Why it matters:
        A policy that gives one answer to each prompt tries nothing any more: the answers of a group get the same
        reward, and there is no gradient. A learning rate that is too high, or an advantage without a baseline, brings a
        policy there within a few steps, whatever it answers.

    How it decides:
        It reads entropy, reward, and the share of groups with equal rewards (or their spread).

        1. After `fewest` logs the entropy of the next token has fallen to `share` of its first level.
        2. In three of four groups all answers get the same reward.
        3. The reward has stopped rising after a gain of less than the spread of rewards within a group at first, and it
           still changes from step to step, with the prompts: some are answered rightly each time, others wrongly.

        Where the task is solved, all groups are equal too, but the reward is the same for all prompts: no finding. An
        entropy that falls while the reward rises is what training is for.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.entropy_collapse import EntropyCollapse
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column


        def course(values):
            return Course(Column("reward", "worker_0", np.arange(len(values)), np.array(values)))


        uneven = course(0.3 + 0.1 * np.cos(np.arange(60) ** 2))
        assert EntropyCollapse().is_unsolved(uneven)
        assert not EntropyCollapse().is_unsolved(course(np.full(60, 0.98)))
        ```

    References:
        - Cui et al.: The entropy mechanism of reinforcement learning for reasoning language models (2025).
        - Yu et al.: DAPO (2025).
    """

    rule_id = "entropy-collapse"
    code = "TS503"
    watches = ("losses",)
    needs = ()
    numbers = (ENTROPY.recorded, REWARD.recorded)
    paced = True
    since = "0.1"
    likely_causes = (Cause.ENTROPY_COLLAPSE,)
    shows_its_cause = True
    what_to_do = (
        "Lower the learning rate, and subtract the mean reward of each group from the rewards.",
        "Raise the upper limit of the clipped ratio (epsilon_high), or add a small weight of the entropy.",
    )

    share: float = parameter(0.2, "share of the first entropy, below which a policy is certain", minimum=0, maximum=1)
    fewest: int = parameter(30, "number of logs of the entropy from which on it judges", minimum=10)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if the entropy is gone and the task is not solved."""
        entropy, reward = course_of(window, ENTROPY, fewest=self.fewest), course_of(window, REWARD, fewest=self.fewest)
        equal = share_of_equal_groups(window)
        if entropy is None or reward is None or entropy.now > self.share * entropy.first:
            return []
        spread = course_of(window, REWARD_SPREAD)
        if (equal is not None and equal < MOST_OF_THE_TIME) or not self.is_unsolved(reward, spread):
            return []
        shown = entropy.column.series if entropy.column.steps[-1] == window.step else ()
        return [
            finding_of(
                window,
                entropy.column,
                "entropy of the next token, in nats",
                entropy.now,
                below=self.share * entropy.first,
                statistics=Certainty(entropy.first, reward.now).numbers(),
                series=shown,
            )
        ]

    def is_unsolved(self, reward: Course, spread: Course | None = None) -> bool:
        """Return True if the reward has stopped rising after little gain, and changes with the prompts.

        Args:
            reward: Its course.
            spread: The spread of rewards within a group; None if unknown.
        """
        size = float(np.ptp(reward.column.values)) if spread is None else spread.first
        gain = reward.now - reward.first
        return (
            not reward.still_rises()
            and gain < size * (MOST if spread is None else 1)
            and reward.noise_at_present > TRACE * size
        )

    def lacks(self, window: Window) -> str:
        """Return a clause without enough logs."""
        missing = [n.name for n in (ENTROPY, REWARD) if course_of(window, n, fewest=self.fewest) is None]
        return f"{self.fewest} logs of {' and '.join(missing)}, by TRL or trackside.log" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: entropy and reward."""
        lead, seen = findings[0], Certainty.of(findings[0])
        fall = f"The entropy of the policy has fallen from {seen.first:.3g} to {lead.observed:.3g} nats"
        return f"{fall}, and the reward stays at {seen.reward:.3g}: nothing new is tried."
