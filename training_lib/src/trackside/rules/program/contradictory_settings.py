"""contradictory-settings: settings of an optimizer that it does not know, or that exclude one another."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule
from trackside.situation.constants import NEARLY_ALL
from trackside.trial.window import Window

_KNOWN = ("lr", "momentum", "weight_decay", "dampening", "nesterov", "eps", "alpha", "amsgrad", "lr_decay", "rho")
_ALSO_CALLED = {
    "learning_rate": "lr", "learningrate": "lr", "lrate": "lr", "rate": "lr", "wd": "weight_decay",
    "decay": "weight_decay", "weightdecay": "weight_decay", "l2": "weight_decay", "mom": "momentum", "epsilon": "eps",
}  # fmt: skip
UNKNOWN, REVERSED = "setting that the optimizer does not know", "first beta less the second"


@dataclass(frozen=True)
class ContradictorySettings(Rule):
    """An optimizer has a setting that it does not know, or two that exclude one another.

    Why it matters:
        PyTorch's optimizers accept any word in a group of parameters and use those that they know: a group with
        `learning_rate=0.5` trains with the rate of all others. Adam's two betas are easily given in the wrong order: it
        then averages gradients over a thousand steps, and their sizes over ten.

    How it decides:
        With the hook's facts about each group of an optimizer's parameters, as they are at its first step:

        1. A word that the optimizer does not know, which is another name of a setting that it has (`learning_rate`,
           `wd`, `epsilon`), or differs from one in a letter or two (`weigth_decay`). Words of schedules and of the
           program itself (`initial_lr`, `max_momentum`, `lr_scale`) are left alone.
        2. Of Adam and its kind, a first beta above the second.

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
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.MOMENTUM_TOO_HIGH,)
    suspects = (Suspect(Cause.MOMENTUM_TOO_HIGH, "the first beta is above the second", (REVERSED,)),)
    what_to_do = (
        "Give the groups of an optimizer the names of its own arguments: lr, weight_decay, momentum, betas, eps.",
        "Give Adam's betas in their order, as in betas=(0.9, 0.999).",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each setting that has no effect, and for each group with reversed betas."""
        for optimizer in window.facts.optimizers if window.facts is not None else ():
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

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the settings, and what they are or should be called."""
        names = [finding.subject.rpartition("/")[2] for finding in findings]
        if findings[0].measure == REVERSED:
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
