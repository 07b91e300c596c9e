"""stale-statistics: layers use statistics, or a program a copy of the weights, that nothing ever updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.observations import (
    STALE_CASTS,
    STALE_COPY_EVALUATIONS,
    STALE_COPY_LINE,
    STALE_STATE,
    STILL_COPY_EVALUATIONS,
    STILL_COPY_LINE,
    STILL_TARGET_STEPS,
)
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import SEVERAL
from trackside.trial.window import Window

_OF_COPY = "evaluations of a copy with running statistics as they began"
_OF_STILL_COPY = "evaluations of a copy that has never changed"
_OF_CASTS = "calls with a cast of the weight from before the newest steps"
_OF_STILL_TARGET = "steps in which a target network has never changed"


@dataclass(frozen=True)
class StaleStatistics(PyTorchRule):
    """Statistics, or a copy of the weights, are used that nothing ever updates.

    Why it matters:
        In eval mode, batch normalisation normalises by its running statistics. Where the layer was never in training
        mode these are mean 0 and variance 1 of nothing, so that it does not normalise at all. Spectral normalisation
        divides by an estimate that only training mode improves: in eval mode the weights change and the estimate does
        not, so that the norm is bounded no more. An average of weights (EMA, SWA) is a copy that never sees a batch:
        its norms keep the statistics of their first moment, unless the script copies or estimates them.

    How it decides:
        The hook looks at the layers in eval mode after training steps.

        1. Running statistics are stale where the mean is 0 and the variance 1 in each channel.
        2. A vector of spectral normalisation is stale where it stood still between two looks, while a parameter of the
           model trains.
        3. It fires for the layers whose state has been stale for `steps` steps.
        4. It also fires where a copy of the model is called in eval mode: its parameters have changed since the first
           step, its running statistics are mean 0 and variance 1, and those of the trained model are not. Found are
           copies that were made before the first step.
        5. It fires where a copy of the model is evaluated three times, its parameters as at the first step, while the
           model itself trains and is never evaluated: an average that nothing updates. A copy that is called at each
           step is a teacher or a reference, and is left alone.
        6. It fires where a copy that targets are computed with has not changed once in `target_steps` steps, or in a
           run that has ended and had `target_steps_at_end` of them: a target network that nothing synchronises. A
           target is called without gradients on other inputs than its model reads with them, as next states are. One
           that reads the same is a reference, and a copy that was trained before is a teacher.
        7. It fires for layers that compute under autocast with old casts of their weights. Autocast keeps casts until
           its block is left: around the whole loop it is never left, and no step reaches what the model computes with.

        Frozen layers with statistics of a checkpoint are silent, and layers in training mode. State on a device is not
        read.

        It needs no neighbouring steps; what must last has been seen at as many watched steps.

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ModuleFacts
        from trackside.contracts.observations import STALE_STATE
        from trackside.rules.program.stale_statistics import stale_modules

        seen = {STALE_STATE: "running statistics"}
        norm = ModuleFacts("norm", "BatchNorm1d", "normalization", is_training=False, observed=seen)
        assert stale_modules(ModelFacts(modules=(norm,))) == (norm,)
        ```

    References:
        - PyTorch, issue 51800: spectral normalisation is wrong if the first forward pass is in eval mode.
    """

    rule_id = "stale-statistics"
    code = "TS211"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.TRAIN_EVAL_MODE, Cause.STALE_COPY)
    suspects = (
        FirstOf(
            (Suspect(Cause.STALE_COPY, only=(_OF_COPY, _OF_STILL_COPY, _OF_STILL_TARGET, _OF_CASTS)),),
            (Suspect(Cause.TRAIN_EVAL_MODE),),
        ),
    )
    shows_its_cause = True
    what_to_do = (
        "Call model.train() before training, so that the layers learn their statistics.",
        "If these layers are frozen on purpose, load a checkpoint with their statistics first.",
        "Update an average of the weights after each step, or evaluate the model itself.",
        "Copy the weights into a target network every so many steps: target.load_state_dict(model.state_dict()).",
        "Enter torch.autocast anew for the forward pass of each batch, and leave it before backward().",
        "Copy the buffers of an average with its weights, or call torch.optim.swa_utils.update_bn before it is used.",
    )

    steps: int = parameter(20, "steps that the state must have been stale", minimum=1)
    target_steps: int = parameter(20_000, "steps in which a target network must not have changed", minimum=1)
    target_steps_at_end: int = parameter(200, "the same number of steps, in a run that has ended", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer with stale state."""
        facts = window.facts
        if facts is None:
            return []
        found = [*_of_copies(window, facts), *self._of_targets(window, facts), *_of_casts(window, facts)]
        if window.watched_since(facts.from_step) < self.steps:
            return found
        return found + [
            finding_of(
                window,
                module.name,
                f"steps with {STALE_STATE.of(module)} as they began",
                float(window.step - facts.from_step + 1),
                above=float(self.steps),
                since=facts.from_step,
                place=module.line,
            )
            for module in stale_modules(facts)
        ]

    def _of_targets(self, window: Window, facts: ModelFacts) -> Iterator[Finding]:
        steps, needed = STILL_TARGET_STEPS.of(facts.program), self.target_steps
        if steps >= (min(needed, self.target_steps_at_end) if window.is_last else needed):
            yield finding_of(window, "target network", _OF_STILL_TARGET, float(steps), above=0.0, since=0)

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about modules."""
        return "" if window.facts is not None else "what a hook of this version tells of the program (its modules)"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what is never updated."""
        if findings[0].measure == _OF_STILL_TARGET:
            return "A target network is never updated: its weights are those that it began with."
        if findings[0].measure == _OF_CASTS:
            return "Layers compute with old casts of their weights: autocast is never left, and keeps them."
        return super().sentence(findings)


def _of_copies(window: Window, facts: ModelFacts) -> Iterator[Finding]:
    stale, still = STALE_COPY_EVALUATIONS.of(facts.program), STILL_COPY_EVALUATIONS.of(facts.program)
    for measure, count, limit, line in (
        (_OF_COPY, stale, 0.0, STALE_COPY_LINE),
        (_OF_STILL_COPY, still, float(SEVERAL), STILL_COPY_LINE),
    ):
        if count > limit:
            place = line.of(facts.program)
            yield finding_of(
                window, "copy of the model", measure, float(count), above=limit, since=facts.from_step, place=place
            )


def _of_casts(window: Window, facts: ModelFacts) -> Iterator[Finding]:
    for module in facts.modules:
        if count := STALE_CASTS.of(module):
            yield finding_of(
                window, module.name, _OF_CASTS, float(count), above=0.0, since=facts.from_step, place=module.line
            )


def stale_modules(facts: ModelFacts) -> tuple[ModuleFacts, ...]:
    """Return the modules in eval mode with state that no training mode has updated.

    Spectral normalisation counts only if a parameter of its layer trains: a frozen one needs no new estimate.
    """
    trained = {_layer(p.module) for p in facts.parameters if p.optimizer and p.requires_grad}
    stale = [module for module in facts.modules if STALE_STATE.of(module) and not module.is_training]
    return tuple([m for m in stale if STALE_STATE.of(m) != "spectral norm" or _layer(m.name) in trained])


def _layer(module: str) -> str:
    """Return the name of the layer that a module belongs to, without the parts that a parametrization adds."""
    return module.partition(".parametrizations")[0]
