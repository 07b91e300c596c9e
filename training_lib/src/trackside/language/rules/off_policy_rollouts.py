"""off-policy-rollouts: the answers that are trained on are not those of the trained policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import (
    CLIPPED_SHARE,
    LARGEST_GAP,
    REWARD,
    SAMPLER_GAP,
    SAMPLER_KL,
    STALENESS,
    UPDATE_KL,
    LanguageNumber,
)
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import A_HAIR, SEVERAL, THREEFOLD
from trackside.situation.rollouts import course_of, recent
from trackside.trial.window import Window

_MEASURES = {
    SAMPLER_GAP.name: "difference of the log-probabilities of sampler and trainer, in nats",
    LARGEST_GAP.name: "largest difference of the log-probabilities of a token, in nats",
    SAMPLER_KL.name: "divergence of the sampler from the trainer, in nats",
    STALENESS.name: "age of the rollouts, in updates",
    CLIPPED_SHARE.name: "clipped ratios, in %",
    UPDATE_KL.name: "divergence of the policy from the one that made the rollouts, in nats",
}
_UPDATES = (_MEASURES[CLIPPED_SHARE.name], _MEASURES[UPDATE_KL.name])


def _grows_with_age(known: Known) -> str | bool:
    """Return a clause if the rollouts are old, and further from the policy the older they are."""
    age = course_of(known.window, STALENESS)
    if age is None or float(age.column.values.max()) < SEVERAL:
        return False
    gap = course_of(known.window, SAMPLER_GAP) or course_of(known.window, SAMPLER_KL)
    oldest = f"rollouts are up to {age.column.values.max():.0f} updates old"
    if gap is None or gap.count != age.count:
        return oldest
    is_old = age.column.values > np.median(age.column.values)
    if is_old.all() or not is_old.any():
        return oldest
    sizes = np.abs(gap.column.values)
    is_worse = sizes[is_old].mean() > THREEFOLD * max(
        float(sizes[age.column.values == age.column.values.min()].mean()), A_HAIR
    )
    return f"{oldest}, and the older they are the more the two differ" if is_worse else False


_NUMBERS: tuple[LanguageNumber, ...] = (
    SAMPLER_GAP,
    SAMPLER_KL,
    UPDATE_KL,
    CLIPPED_SHARE,
    STALENESS,
    LARGEST_GAP,
)


@dataclass(frozen=True)
class OffPolicyRollouts(Rule):
    """The answers that are trained on are not those of the trained policy.

    Why it matters:
        A policy gradient is right for the policy's own answers. A sampler with other weights, another temperature,
        template or precision, or one that gets new weights too seldom, draws answers that the trained model would not
        give. The training goes on, learns less or breaks up late, and no other curve tells.

    How it decides:
        It takes the median of the newest ten logs of each number that the trainer logs, after `fewest` logs:

        1. the difference of the log-probabilities of sampler and trainer for the same tokens: above `gap` nats;
        2. their divergence (`mismatch_kl`, `rollout_corr/kl`): above `divergence` nats;
        3. the divergence of the policy from the one before the updates (`approx_kl`, `ppo_kl`): above `divergence`
           nats; or the share of clipped ratios: above `clipped`;
        4. the age of the rollouts: above `updates`;
        5. the largest difference of the log-probabilities of one token: above `largest` nats. The mean of long answers
           hides a few tokens that the trained model would never say.

        A sampler in half precision differs by a hundredth of a nat or two, and a few updates of age are usual where
        sampling and training run at once: silent.

    Example:
        ```python
        from trackside.language.rules.off_policy_rollouts import OffPolicyRollouts

        assert OffPolicyRollouts().limits()["sampler_gap"] == 0.2
        ```

    References:
        - verl, rollout correction: |KL| above 0.1 is an alarm.
        - Schulman et al.: Proximal policy optimization (2017): a few epochs on the same rollouts.
    """

    rule_id = "off-policy-rollouts"
    code = "TS504"
    watches = ("losses",)
    needs = ()
    numbers = (REWARD.recorded, *(number.recorded for number in _NUMBERS))
    paced = True
    since = "0.1"
    likely_causes = (Cause.STALE_ROLLOUTS, Cause.SAMPLER_DIFFERS, Cause.LEARNING_RATE_TOO_HIGH)
    suspects = (
        FirstOf(
            (Suspect(Cause.LEARNING_RATE_TOO_HIGH, only=_UPDATES),),
            (Suspect(Cause.STALE_ROLLOUTS, _grows_with_age),),
            (Suspect(Cause.STALE_ROLLOUTS, only=(_MEASURES[STALENESS.name],)),),
            (Suspect(Cause.SAMPLER_DIFFERS),),
        ),
    )
    what_to_do = (
        "Compare the log-probabilities of one answer in the sampler and in the trainer, token by token.",
        "Copy the weights to the sampler after each update, and give both the same temperature and template.",
        "Make fewer updates on the same rollouts, or lower the learning rate.",
    )

    gap: float = parameter(
        0.2, "difference of log-probabilities in nats, above which sampler and trainer differ", minimum=0
    )
    divergence: float = parameter(0.1, "divergence in nats, above which two policies differ", minimum=0)
    clipped: float = parameter(0.4, "share of clipped ratios, above which updates go too far", minimum=0, maximum=1)
    largest: float = parameter(8.0, "difference of log-probabilities of one token, in nats", minimum=0)
    updates: float = parameter(16.0, "age of the rollouts in updates, above which they are old", minimum=1)
    fewest: int = parameter(15, "number of logs from which on it judges", minimum=10)

    def limits(self) -> dict[str, float]:
        """Return the limit of each number, by its name."""
        return {
            SAMPLER_GAP.name: self.gap,
            SAMPLER_KL.name: self.divergence,
            UPDATE_KL.name: self.divergence,
            CLIPPED_SHARE.name: self.clipped,
            STALENESS.name: self.updates,
            LARGEST_GAP.name: self.largest,
        }

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each number beyond its limit, the furthest first."""
        return sorted(self._found(window), key=lambda one: one.observed / one.threshold, reverse=True)

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True if the sampler is seen to be another model; not of ratios, which have several causes."""
        return findings[0].measure not in _UPDATES

    def lacks(self, window: Window) -> str:
        """Return a clause if none of the numbers is logged."""
        is_known = any(recent(window, number, fewest=self.fewest) is not None for number in _NUMBERS)
        return "" if is_known else "clipped ratios, or log-probabilities of a sampler, by TRL or trackside.log"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the first number."""
        lead = findings[0]
        return f"The {lead.measure.partition(', in ')[0]} is {lead.observed:.3g}{_unit(lead.measure)}."

    def _found(self, window: Window) -> Iterator[Finding]:
        limits = self.limits()
        for number in _NUMBERS:
            newest = recent(window, number, fewest=self.fewest)
            if newest is None:
                continue
            size, limit = float(np.median(np.abs(newest))), limits[number.name]
            if size > limit:
                times = 100.0 if number is CLIPPED_SHARE else 1.0
                yield finding_of(
                    window, number.recorded, _MEASURES[number.name], times * size, above=times * limit, series=()
                )


def _unit(measure: str) -> str:
    unit = measure.partition(", in ")[2]
    return f" {unit}" if unit else ""
