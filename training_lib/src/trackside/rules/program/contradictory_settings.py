"""contradictory-settings: settings or parameters of an optimizer that it should not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import OptimizerFacts
from trackside.contracts.observations import OPPOSED_GRADIENTS, REUSED_GRADIENTS
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import NEARLY_ALL
from trackside.trial.window import Window

_KNOWN = ("lr", "momentum", "weight_decay", "dampening", "nesterov", "eps", "alpha", "amsgrad", "lr_decay", "rho")
_ALSO_CALLED = {
    "learning_rate": "lr", "learningrate": "lr", "lrate": "lr", "rate": "lr", "wd": "weight_decay",
    "decay": "weight_decay", "weightdecay": "weight_decay", "l2": "weight_decay", "mom": "momentum", "epsilon": "eps",
}  # fmt: skip
UNKNOWN, REVERSED = "setting that the optimizer does not know", "first beta less the second"
REUSED = "steps by gradients that another optimizer has stepped by"
OPPOSED = "cosine of the gradients by which two optimizers step the same parameters"


@dataclass(frozen=True)
class ContradictorySettings(PyTorchRule):
    """An optimizer has a setting that it does not know, two that exclude one another, or parameters of another one.

    Why it matters:
        PyTorch's optimizers accept any word in a group of parameters and use those that they know: a group with
        `learning_rate=0.5` trains with the rate of all others. Adam's two betas are easily given in the wrong order: it
        then averages gradients over a thousand steps, and their sizes over ten. And nothing is raised where two of
        them are given the same parameters: each gradient moves these twice, or a generator that holds its
        discriminator's parameters, too, trains it to be fooled.

    How it decides:
        With the hook's facts about each group of an optimizer's parameters, as they are at its first step:

        1. A word that the optimizer does not know, which is another name of a setting that it has (`learning_rate`,
           `wd`, `epsilon`), or differs from one in a letter or two (`weigth_decay`). Words of schedules and of the
           program itself (`initial_lr`, `max_momentum`, `lr_scale`) are left alone.
        2. Of Adam and its kind, a first beta above the second.
        3. Two optimizers hold the same parameters, and one steps by gradients that the other has just stepped by, at
           `reused` of the hook's looks or more.
        4. An optimizer holds all parameters of another one and more, each has losses of its own, taken of the module
           that both hold, and the mean cosine of their gradients is below `opposed`. Encoders that tasks or the two
           aims of an adversarial autoencoder share are silent, and so are optimizers within others (SAM, Lookahead) and
           phases one after the other.

    Example:
        ```python
        from trackside.rules.program.contradictory_settings import meant_by

        group = {"lr": 0.01, "weight_decay": 0.0, "learning_rate": 0.5, "initial_lr": 0.01}
        assert meant_by("learning_rate", group) == "lr"
        assert meant_by("initial_lr", group) == ""
        ```

    References:
        - PyTorch, `torch.optim`, "Per-parameter options".
        - Kingma, Ba: Adam (ICLR 2015): the two rates of decay.
    """

    rule_id = "contradictory-settings"
    code = "TS227"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.MOMENTUM_TOO_HIGH, Cause.SHARED_PARAMETERS)
    suspects = (
        Suspect(Cause.MOMENTUM_TOO_HIGH, "the first beta is above the second", (REVERSED,)),
        Suspect(Cause.SHARED_PARAMETERS, "two optimizers step the same parameters", (REUSED, OPPOSED)),
    )
    what_to_do = (
        "Give the groups of an optimizer the names of its own arguments: lr, weight_decay, momentum, betas, eps.",
        "Give Adam's betas in their order, as in betas=(0.9, 0.999).",
        "Give each parameter to one optimizer: that of a generator gets generator.parameters() alone.",
    )

    reused: int = parameter(
        2, "looks at steps by gradients that another optimizer has stepped by", minimum=1, maximum=3
    )
    opposed: float = parameter(
        -0.3,
        "mean cosine of the gradients of two optimizers, a share of the product of their norms",
        minimum=-1,
        maximum=0,
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per setting without effect, group with reversed betas, and optimizer of shared ones."""
        for optimizer in window.facts.optimizers if window.facts is not None else ():
            yield from self._shared(window, optimizer)
            for number, group in enumerate(optimizer.groups):
                for measure, setting, size in _contradictions(group):
                    yield finding_of(
                        window,
                        f"hyperparameters/{optimizer.name}/group_{number}/{setting}",
                        measure,
                        size,
                        above=0.0,
                        since=0,
                        place=optimizer.line,
                    )

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True where two optimizers are seen to step the same parameters."""
        return findings[0].measure in {REUSED, OPPOSED}

    def _shared(self, window: Window, optimizer: OptimizerFacts) -> Iterator[Finding]:
        reused, cosine = REUSED_GRADIENTS.of(optimizer), OPPOSED_GRADIENTS.of(optimizer)
        place = optimizer.line
        if reused >= self.reused:
            above = self.reused - 1.0
            yield finding_of(window, optimizer.name, REUSED, float(reused), above=above, since=0, place=place)
        elif cosine is not None and cosine < self.opposed:
            yield finding_of(window, optimizer.name, OPPOSED, cosine, below=self.opposed, since=0, place=place)

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the settings, and what they are or should be called."""
        lead = findings[0]
        if lead.measure == REUSED:
            return f"{lead.subject} and another optimizer hold the same parameters: each gradient moves them twice."
        if lead.measure == OPPOSED:
            return f"{lead.subject} and another optimizer hold the same parameters, and undo each other's steps."
        names = [finding.subject.rpartition("/")[2] for finding in findings]
        if lead.measure == REVERSED:
            return "The first beta of the optimizer is above the second: they are in the wrong order."
        return f"The optimizer does not know {names[0]!r} in a group of its parameters, and ignores it."


def meant_by(name: str, group: Mapping[str, float]) -> str:
    """Return the setting that a word without effect stands for; "" for a word that has one, or a meaning of its own.

    Args:
        name: A word in the group.
        group: The settings of a group of parameters.
    """
    if name in _KNOWN:
        return ""
    plain = name.lower().replace("-", "_")
    meant = _ALSO_CALLED.get(plain) or next(iter(difflib.get_close_matches(plain, _KNOWN, 1, NEARLY_ALL)), "")
    is_longer = meant and meant in plain and plain != meant and plain not in _ALSO_CALLED
    return "" if is_longer or meant not in group else meant


def _contradictions(group: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    """Yield measure, setting and size of each contradiction in a group."""
    yield from ((UNKNOWN, name, 1.0) for name in group if meant_by(name, group))
    first, second = group.get("betas_0"), group.get("betas_1")
    if first is not None and second is not None and first > second:
        yield REVERSED, "betas_0", first - second
