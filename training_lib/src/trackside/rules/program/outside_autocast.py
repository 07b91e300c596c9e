"""outside-autocast: layers compute in full precision though the training uses autocast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.observations import AUTOCAST
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import A_HAIR
from trackside.trial.window import Window

HALF, BYPASSED, OUTSIDE = "half", "bypassed", "outside"
_IGNORED, _LEFT_OUT = "float32 output while autocast was on", "share of the weights of layers outside of autocast"


@dataclass(frozen=True)
class OutsideAutocast(PyTorchRule):
    """Layers compute in full precision although the training uses autocast.

    Why it matters:
        Mixed precision is asked for to halve memory and time. Linear layers and convolutions are where it does; one of
        them in float32 costs what it cost before, and the loss shows nothing. So it goes unseen for as long as nobody
        looks at a profile.

    How it decides:
        At the calls that the hook watches anyway, in training, it looks at the output of each `Linear` and
        convolution of `torch.nn` with weights in float32.

        1. The output is float32 while autocast is on for its device: something went round autocast, as a patched
           function does. This is a warning.
        2. The output is float32 with autocast off, and autocast was off when the outermost module was called. It
           fires where such layers hold at least `share` of the weights of all layers that were seen, and others
           computed in half precision. This is a remark, for it may be meant.

        A part that switches autocast off on the way (`enabled=False`) is silent. So are layers with hooks or a
        `forward` of their own, classes that are not of `torch.nn`, layers frozen from the input on, and whatever a
        compiled or traced function computes inside (Thunder, `torch.compile`).

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ParameterFacts
        from trackside.contracts.observations import AUTOCAST
        from trackside.rules.program.outside_autocast import share_outside

        facts = ModelFacts(
            modules=(
                ModuleFacts("body", "Linear", observed={AUTOCAST: "half"}),
                ModuleFacts("head", "Linear", observed={AUTOCAST: "outside"}),
            ),
            parameters=(
                ParameterFacts("Net_body.weight", "body", (30, 10), "float32"),
                ParameterFacts("Net_head.weight", "head", (10, 10), "float32"),
            ),
        )
        assert share_outside(facts) == 0.25
        ```

    References:
        - PyTorch, Automatic mixed precision: operations that autocast to half precision.
        - Jiang et al.: Training with confidence (OSDI 2025): an operation outside of autocast among silent errors.
    """

    rule_id = "outside-autocast"
    code = "TS223"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.OUTSIDE_AUTOCAST,)
    shows_its_cause = True
    what_to_do = (
        "Call these layers within `with torch.autocast(...)`.",
        "If they are called within it: find the tool that patches the function they call.",
        "If full precision is meant, leave it.",
    )

    share: float = parameter(0.1, "share of the weights of layers that are outside of autocast", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer that went round autocast, else per layer outside of it."""
        facts = window.facts
        if facts is None:
            return []
        bypassed = [module for module in facts.modules if AUTOCAST.of(module) == BYPASSED]
        if bypassed:
            return [self._finding(window, facts, module, measure=_IGNORED, observed=1.0) for module in bypassed]
        share = share_outside(facts)
        if not 0 < share < 1 or share < self.share:
            return []
        outside = [module for module in facts.modules if AUTOCAST.of(module) == OUTSIDE]
        return [self._finding(window, facts, module, measure=_LEFT_OUT, observed=share) for module in outside]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a training without autocast."""
        is_used = any(AUTOCAST.of(module) in (HALF, BYPASSED) for module in facts.modules)
        return "" if is_used else "no layer was seen under autocast"

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about modules."""
        return "" if window.facts is not None else "facts about the program's modules, which Trackside's hook records"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how many layers, and whether autocast was on."""
        lead, count = findings[0], len(findings)
        what = f"{lead.subject} computes" if count == 1 else f"{count} layers, {lead.subject} first, compute"
        if lead.measure == _IGNORED:
            return f"{what} in float32 although autocast is on."
        return f"{what} in float32 outside of autocast, with {100 * lead.observed:.0f} % of the weights of layers."

    def _finding(
        self, window: Window, facts: ModelFacts, module: ModuleFacts, *, measure: str, observed: float
    ) -> Finding:
        return finding_of(
            window,
            module.name,
            measure,
            observed,
            above=0.0 if measure == _IGNORED else min(self.share, observed) * (1 - A_HAIR),
            since=min(facts.from_step, window.step),
            place=module.line,
            grade=Severity.WARNING if measure == _IGNORED else Severity.INFO,
        )


def share_outside(facts: ModelFacts) -> float:
    """Return the share of the weights of seen layers that lie in layers outside of autocast; 0 if none was seen."""
    sizes = {HALF: 0, OUTSIDE: 0, BYPASSED: 0}
    for held in facts.parameters:
        module = facts.module(held.module)
        if module is not None and AUTOCAST.of(module) in sizes:
            sizes[AUTOCAST.of(module)] += held.size
    return sizes[OUTSIDE] / (sum(sizes.values()) or 1)
