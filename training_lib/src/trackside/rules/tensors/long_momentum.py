"""long-momentum: the optimizer averages over more steps than the training has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import OptimizerFacts
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import NEARLY_ALL
from trackside.situation.losses.losses import learned_share, training_losses
from trackside.trial.window import Window

_MOMENTA = ("momentum", "betas_0")


@dataclass(frozen=True)
class Averaged(Details):
    """Details of a finding.

    momentum  the momentum
    steps     number of steps of the run
    """

    momentum: float = 0.0
    steps: int = 0


@dataclass(frozen=True)
class LongMomentum(PyTorchRule):
    """The optimizer's momentum averages over more steps than the training has.

    Why it matters:
        A momentum of m averages the gradients of about 1 / (1 - m) steps: ten with 0.9, a thousand with 0.999. In a
        training of two hundred steps the first gradients, of weights drawn at random, still steer the last step. The
        loss falls late, swings, or stays.

    How it decides:
        When the run has ended, for each group of an optimizer with a momentum m (`momentum` or the first of `betas`) of
        at least `least_momentum`, below 1:

        1. 1 / (1 - m) is more than `times` the number of steps that recorded a loss, `fewest_steps` at least.
        2. The training loss has lost less than 90 % of its first value.

    Example:
        ```python
        from trackside.rules.tensors.long_momentum import averaged_steps

        assert round(averaged_steps(0.9)) == 10
        assert round(averaged_steps(0.999)) == 1000
        ```

    References:
        - Goh: Why momentum really works (Distill, 2017).
        - Kingma, Ba: Adam (ICLR 2015): 0.9 as the default of beta 1.
    """

    rule_id = "long-momentum"
    code = "TS124"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.MOMENTUM_TOO_HIGH,)
    suspects = (Suspect(Cause.MOMENTUM_TOO_HIGH, "momentum is {momentum:.6g}"),)
    shows_its_cause = True
    what_to_do = ("Take a momentum of 0.9 (betas=(0.9, 0.999)), or train for many times as many steps.",)

    times: float = parameter(2.0, "averaged steps over the steps of the run, above which it is too long", minimum=1)
    least_momentum: float = parameter(0.995, "momentum from which on it is looked at", minimum=0, maximum=1)
    fewest_steps: int = parameter(30, "steps of a run, below which it is a trial of the script", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per optimizer that averages over far more steps than the ended run had."""
        losses = training_losses(window)
        if not window.is_last or window.facts is None or not losses:
            return []
        longest = max(losses, key=lambda column: len(column.values))
        taken = int(window.rests(longest.worker).places(longest.steps)[-1]) + 1
        learned = learned_share(window)
        if taken < self.fewest_steps or learned is None or learned >= NEARLY_ALL:
            return []
        return [
            finding_of(
                window,
                optimizer.name,
                "averaged steps over the steps of the run",
                averaged_steps(momentum) / taken,
                above=self.times,
                since=int(longest.steps[0]),
                worker=longest.worker,
                statistics=Averaged(momentum, taken).numbers(),
                place=optimizer.line,
            )
            for optimizer in window.facts.optimizers
            if (momentum := max(_momenta(optimizer), default=0.0)) >= self.least_momentum
            and averaged_steps(momentum) > self.times * taken
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the steps that are averaged, and those of the run."""
        seen = Averaged.of(findings[0])
        return (
            f"The optimizer averages the gradients of about {averaged_steps(seen.momentum):,.0f} steps "
            f"(momentum {seen.momentum:.6g}), and the run had {seen.steps:,.0f}."
        )


def averaged_steps(momentum: float) -> float:
    """Return the number of steps that a momentum averages over, 1 / (1 - m).

    Args:
        momentum: The momentum m, below 1.
    """
    return 1 / (1 - momentum)


def _momenta(optimizer: OptimizerFacts) -> Iterator[float]:
    for group in optimizer.groups:
        yield from (value for key in _MOMENTA if (value := group.get(key, 0.0)) < 1)
