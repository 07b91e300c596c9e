"""reward-without-progress: the reward falls, stays where it began, or is the same for all answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import ENTROPY, KL, REWARD, REWARD_SPREAD
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Known
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import (
    A_HAIR,
    ALL_BUT_CHANCE,
    CERTAIN,
    FEWEST,
    GROWN,
    HALF_AS_MUCH_AGAIN,
    HALF_LEARNED,
    HARDLY_ANY,
    MOST,
    MOST_OF_THE_TIME,
    NEGLIGIBLE_SHARE,
    TRACE,
    TWICE,
)
from trackside.situation.rollouts import (
    Course,
    course_of,
    group_outcomes,
    nats_of_an_answer,
    share_of_equal_groups,
)
from trackside.trial.window import Window

_FALLS = "mean reward, which falls"
_EQUAL = "groups whose answers all got the same reward, in %"
_FLAT = "rise of the mean reward, in deviations of a level"
_MOVED = "rise of the mean reward, in deviations of a level, while the policy changes"
_RANDOM = "entropy of the next token, in nats, which rises while the reward does not"


def _is_equal_for_all(known: Known) -> str | bool:
    """Return which reward all answers of most groups got; True if that is unknown."""
    outcomes = group_outcomes(known.window)
    if outcomes is None or max(outcomes.solved, outcomes.unsolved) < MOST:
        return True
    if outcomes.solved > outcomes.unsolved:
        return f"in {100 * outcomes.solved:.0f} % of the groups each answer got the highest reward: all are accepted"
    return f"in {100 * outcomes.unsolved:.0f} % of the groups each answer got the lowest reward: none is accepted"


def _goes_the_wrong_way(known: Known) -> str | bool:
    """Return a clause if the reward was never above its first level, and the policy changed slowly."""
    reward, entropy = course_of(known.window, REWARD), course_of(known.window, ENTROPY)
    if reward is None or reward.best > reward.first + CERTAIN * reward.error_of_change:
        return False
    if entropy is not None and entropy.now > HALF_AS_MUCH_AGAIN * entropy.first:
        return False
    return "the reward falls from the first steps on: what is rewarded becomes rarer"


def _breaks_off(known: Known) -> str | bool:
    """Return a clause if the reward had risen before it fell."""
    reward, kl = course_of(known.window, REWARD), course_of(known.window, KL)
    if reward is None or reward.best <= reward.first + CERTAIN * reward.error_of_change:
        return False
    jumped = kl is not None and kl.now > GROWN * max(float(np.median(kl.column.values)), kl.error)
    return "it had risen before" + (", and the policy is far from the reference now" if jumped else "")


def _has_become_random(window: Window) -> Course | None:
    """Return the course of the entropy if it has risen well above what it was."""
    entropy = course_of(window, ENTROPY)
    is_higher = entropy is not None and entropy.rose() and entropy.now > HALF_AS_MUCH_AGAIN * entropy.first
    return entropy if is_higher else None


def _has_moved(window: Window) -> bool:
    """Return True if the policy has changed, by its entropy or its divergence from the reference."""
    kl, entropy = course_of(window, KL), course_of(window, ENTROPY)
    is_surer = entropy is not None and entropy.now < HALF_LEARNED * entropy.first
    return is_surer or (kl is not None and kl.rose() and kl.now > NEGLIGIBLE_SHARE)


@dataclass(frozen=True)
class RewardWithoutProgress(Rule):
    """The reward falls, stays where it began, or is the same for all answers.

    Why it matters:
        Reinforcement learning of a language model costs hundreds of GPU hours, and its loss says nothing: it is near
        zero in a training that works and in one that does not. A verifier that accepts everything or nothing, rewards
        in another order than the answers, or an advantage with the wrong sign leave all other curves as they should be.

    How it decides:
        It reads the mean reward of each log (of TRL, verl, OpenRLHF, prime-rl, or `trackside.log(reward=...)`). A level
        is the mean of a tenth of the logs, 5 to 20; noise is the deviation of a log from its neighbours.

        1. The reward falls: after `fewest` logs the newest level is below the first one, or below what it had gained,
           by four standard errors and by three quarters of the gain, or half of the first spread of rewards within a
           group, for three levels on end, in which it does not rise again.
        2. All answers to a prompt got the same reward in 99 % of the groups of the newest `fewest` logs, and the reward
           has not risen, though the answers differ: an answer holds two nats of entropy or more. A solved task is
           silent: there the answers are the same, or the reward has risen. So is one whose rewards are rare, as long as
           some come. A reward that was the same number in each of `fewest` logs counts as well where no groups are
           logged. Groups that got the highest reward are told from those that got the lowest.
        3. After `flat_logs` logs no level is above the first one by more than two standard errors, or 15 % of the
           spread of rewards within a group, while groups have answers with different rewards.

        A task that becomes harder, or a judge that becomes stricter, lets the reward fall once; as soon as it rises
        again this rule is silent.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.reward_without_progress import RewardWithoutProgress
        from trackside.situation.rollouts import Course
        from trackside.trial.window import Column

        values = np.linspace(0.5, 0.1, 60) + 0.01 * np.cos(np.arange(60))
        course = Course(Column("reward", "worker_0", np.arange(60), values))
        assert RewardWithoutProgress().falls(course, spread=0.2)
        assert not RewardWithoutProgress().falls(Course(Column("reward", "worker_0", np.arange(60), values[::-1])), 0.2)
        ```

    References:
        - Shao et al.: DeepSeekMath (2024): the advantage of an answer is its reward against those of its group.
        - Yu et al.: DAPO (2025): groups whose answers are all right or all wrong have no gradient.
    """

    rule_id = "reward-without-progress"
    code = "TS501"
    watches = ("losses",)
    needs = ()
    numbers = (REWARD.recorded,)
    paced = True
    since = "0.1"
    likely_causes = (
        Cause.UNINFORMATIVE_REWARD,
        Cause.LOSS_SIGN,
        Cause.LEARNING_RATE_TOO_HIGH,
        Cause.ENTROPY_TOO_HIGH,
        Cause.UNRELATED_REWARD,
        Cause.LEARNING_RATE_TOO_LOW,
    )
    suspects = (
        Suspect(Cause.UNINFORMATIVE_REWARD, _is_equal_for_all, only=(_EQUAL,)),
        Suspect(Cause.ENTROPY_TOO_HIGH, only=(_RANDOM,)),
        Suspect(Cause.LOSS_SIGN, _goes_the_wrong_way, only=(_FALLS,)),
        Suspect(Cause.LEARNING_RATE_TOO_HIGH, _breaks_off, only=(_FALLS,)),
        Suspect(Cause.UNRELATED_REWARD, only=(_MOVED,)),
        Suspect(Cause.LEARNING_RATE_TOO_LOW, only=(_FLAT,)),
    )
    what_to_do = (
        "Print prompts, answers, rewards and advantages of one step side by side.",
        "Call the reward function by hand on a right and on a wrong answer.",
        "Check that the loss is minus the advantage times the log-probability, and that the learning rate is not zero.",
    )

    fewest: int = parameter(30, "number of logs of the reward from which on it judges", minimum=10)
    flat_logs: int = parameter(100, "number of logs without a rise after which it fires", minimum=20)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding: the reward is the same for all, falls, or stays."""
        reward = course_of(window, REWARD, fewest=self.fewest)
        if reward is None:
            return []
        equal = self._equal(window, reward)
        if equal is not None:
            return [
                finding_of(
                    window, REWARD.recorded, _EQUAL, 100 * equal, above=100 * ALL_BUT_CHANCE * (1 - A_HAIR), series=()
                )
            ]
        spread = course_of(window, REWARD_SPREAD)
        falls, is_flat = self.falls(reward, 0.0 if spread is None else spread.first), self._is_flat(window, reward)
        entropy = _has_become_random(window) if falls or is_flat else None
        if entropy is not None:
            limit = HALF_AS_MUCH_AGAIN * entropy.first
            return [finding_of(window, ENTROPY.recorded, _RANDOM, entropy.now, above=limit, series=())]
        if falls:
            return [
                finding_of(window, REWARD.recorded, _FALLS, reward.now, below=max(reward.first, reward.best), series=())
            ]
        if is_flat:
            rise, measure = (reward.best - reward.first) / reward.error, _MOVED if _has_moved(window) else _FLAT
            return [finding_of(window, REWARD.recorded, measure, rise, below=rise + 1, series=())]
        return []

    def falls(self, reward: Course, spread: float) -> bool:
        """Return True if the reward falls, and by more than noise.

        Args:
            reward: Its course.
            spread: The spread of rewards within a group at first; 0 if unknown.
        """
        lost, gain = reward.best - reward.now, reward.best - reward.first
        lasting = reward.levels[-FEWEST:]
        if reward.best - lasting.max() <= CERTAIN * reward.error_of_change or reward.still_rises():
            return False
        return bool(lost > max(MOST_OF_THE_TIME * gain, MOST * spread, TRACE * abs(reward.first)))

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True if the finding is its cause itself: equal rewards, or a policy that learns noise."""
        return findings[0].measure in {_EQUAL, _RANDOM, _MOVED}

    def lacks(self, window: Window) -> str:
        """Return a clause without enough rewards."""
        missing = course_of(window, REWARD, fewest=self.fewest) is None
        return f"{self.fewest} logs of a reward, by TRL or trackside.log" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what the reward does."""
        lead = findings[0]
        if lead.measure == _EQUAL:
            return f"All answers to a prompt get the same reward in {lead.observed:.0f} % of the groups."
        if lead.measure == _FALLS:
            return f"The mean reward has fallen from {lead.threshold:.3g} to {lead.observed:.3g}."
        if lead.measure == _RANDOM:
            return f"The entropy of the policy rises to {lead.observed:.3g} nats, and the reward does not."
        return "The mean reward is where it began" + (
            ", though the policy has changed." if lead.measure == _MOVED else "."
        )

    def _equal(self, window: Window, reward: Course) -> float | None:
        """Return the share of groups without a difference, if the answers differ and the reward has not risen."""
        share = share_of_equal_groups(window, logs=self.fewest)
        if share is None and float(np.ptp(reward.column.values)) == 0:
            share = 1.0
        nats = nats_of_an_answer(window)
        if share is None or share < ALL_BUT_CHANCE or reward.rose():
            return None
        never = reward.now == 0 and float(np.abs(reward.column.values).max()) == 0
        differs = nats is not None and nats >= TWICE
        return share if differs or never else None

    def _is_flat(self, window: Window, reward: Course) -> bool:
        spread = course_of(window, REWARD_SPREAD)
        least = 0.0 if spread is None else HARDLY_ANY * spread.now
        if reward.count < self.flat_logs or reward.best - reward.first > max(TWICE * reward.error_of_change, least):
            return False
        share = share_of_equal_groups(window)
        return reward.noise > 0 and (share is None or share < MOST)
