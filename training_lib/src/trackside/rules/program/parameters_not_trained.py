"""parameters-not-trained: parameters that should train, and do not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import ENOUGH_STEPS, FLOAT32_ROUNDING, LONG_LASTING, LONG_STEPS, MOST
from trackside.situation.experts import idle_among_others
from trackside.situation.parts import (
    all_frozen,
    frozen_at_random,
    frozen_since,
    is_untrained,
    left_out,
    lies_deep,
    stands_aside,
    stands_beside,
    trains,
    unreached,
)
from trackside.situation.phases import revisions_of
from trackside.situation.training_parts import (
    History,
    gradients_present,
    moves_by_hand,
    step_of,
    takes_turns,
    unchanged,
    was_measured,
    without_slope,
)
from trackside.trial.window import Window

NO_OPTIMIZER, NO_MODULE, NO_GRADIENT, NO_CHANGE, FROZEN, NO_SLOPE = (
    "optimizers that hold it",
    "modules that hold it",
    "share of steps with a gradient",
    "relative update",
    "gradients that it may get",
    "largest gradient so far",
)
_MAY_COME = frozenset({FROZEN, NO_GRADIENT, NO_SLOPE})
_INSIDE = {
    FROZEN: "require no gradient",
    NO_GRADIENT: "require a gradient that never reaches them",
    NO_CHANGE: "get gradients and never change",
    NO_SLOPE: "had gradients of exactly zero at each measured step",
}


@dataclass(frozen=True)
class Untrained(Details):
    """Details of a finding.

    share_of_model   share of the numbers that should train
    looks_untrained  True if the values look like those of an initializer
    takes_turns      True if the parameter may have its turn yet, or is meant to stay
    """

    share_of_model: float = 0.0
    looks_untrained: bool = False
    takes_turns: bool = False


def _lost_in_rounding(known: Known) -> Answer:
    """Return the rate of these parameters, if a step by it is lost in rounding for each of them."""
    rates = []
    for finding in known.findings:
        held = known.window.facts.parameter(finding.subject) if known.window.facts else None
        step = step_of(known.window, held) if held is not None and finding.measure == NO_CHANGE else None
        if step is None or not step[1] < FLOAT32_ROUNDING:
            return False
        rates.append(step[0])
    return f"a rate of {max(rates):.2g} is less than what can be added to these weights"


def _outside(known: Known) -> Answer:
    outside = [f for f in known.findings if f.measure in {NO_OPTIMIZER, NO_MODULE}]
    if lost := sum(finding.measure == NO_MODULE for finding in outside):
        return f"an optimizer holds {lost} tensors that no module holds any more: it was made before they were replaced"
    return bool(outside) and f"{len(outside)} of {len(known.findings)} are in no optimizer, though they get gradients"


def _inside(known: Known) -> Answer:
    """Return how many are frozen, get no gradient, or never change; frozen are only those that require no gradient."""
    counts = Counter(finding.measure for finding in known.findings)
    return ", ".join(f"{counts[measure]} {what}" for measure, what in _INSIDE.items() if counts[measure])


@dataclass(frozen=True)
class ParametersNotTrained(NetworkRule):
    """Parameters that take part in the training are never changed by it.

    Why it matters:
        A layer that was left out of the optimizer, or that no gradient reaches, stays at its random start. The rest of
        the model learns around it: the loss falls, only not as far as it could, and nothing reports it.

    How it decides:
        For each parameter, with the hook's facts about the program (its optimizer, and whether it requires a
        gradient), and the always-on statistics of the newest `steps` steps. Parameters are kept apart by identity: a
        layer and the one that replaced it have the same name.

        1. *In no optimizer*: it requires a gradient and gets one, no optimizer holds it, and its values are still those
           of the first step. So it is with a whole model that was left out, if optimizers hold parts of another one;
           not with one that an optimizer held earlier (pretrained in the same process).
        2. *No longer in the model*: an optimizer holds it, no module does any more, and no gradient reaches it. A layer
           was replaced, or the model copied, after the optimizer was made.
        3. *No gradient*: an optimizer holds it, it requires a gradient, and it got none at any of these steps although
           others of the same optimizer did, or although it is the only optimizer and goes on stepping. Where parts of
           the model take turns (experts, blocks that are skipped, heads of one task after the other: some parameter
           had a gradient after steps without), that is information. So it is for parts that stand aside, as an unused
           pooler does, or a head or a decoder for later, or members of an ensemble that are not at work yet: the
           model's first matrix trains, and the model would not fit together without them, or all together are less than
           a tenth of the numbers that should train.
        4. *No change*: an optimizer with a learning rate above zero holds it and it gets gradients that are more than
           rounding noise, but its update was exactly zero whenever it was measured, three times at least.
           For points 3 and 4 its norm is also the same whenever it was measured since: a weight that moves without
           gradients is trained by hand, as TRPO's policies are. Until the end of the run, point 3 waits for a
           measurement in the newer half of the steps without a gradient. Experts that a router does not choose are
           left to collapsed-routing.
        5. *Frozen at its random start*: it requires no gradient, others of the same model are trained, and its values
           are still as a common initializer draws them. Not in a model with trained corrections of low rank beside
           frozen matrices, which are frozen on purpose. It is information where each frozen part has a trained twin of
           the same shapes beside it, as a random target or a random prior has. A model of Keras of which nothing
           trains is reported whatever its values: each step of it does nothing.
        6. *Frozen since*: weight matrices are frozen now, those of the last layer too, and the optimizer that holds
           them is the one that trained them. With another optimizer, made for what is left, they are meant to stay.
        7. *No slope*: all gradients of its module were exactly zero whenever they were measured, for 100 steps, or for
           30 where the run has ended, and another module has others. So is a branch that is multiplied by zero.
        8. A frozen weight that looks trained is left alone: that is what freezing is for. So are models of which no
           optimizer holds anything and no gradient reaches anything (a target network, an average of the weights).
        9. Patience: what is frozen or gets no gradient may have its turn in the next epoch (gradual unfreezing). It
           must last for 100 steps with two evaluations, or for 200, or for 30 where the run has ended and it is the
           first matrix of the model, or several; unless nothing of the model trains at all. Once frozen parameters were
           trained in this run, further frozen ones are information.

        Severity: critical if points 1, 2 and 4 together hold for more than half of the numbers that should train, for
        200 steps, else a warning. Weights that no optimizer holds, but that look trained, are reported as information:
        a backbone may be kept so on purpose.

        It needs no neighbouring steps; what must last has been seen at as many watched steps.

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ParameterFacts
        from trackside.contracts.observations import HAS_GRADIENT
        from trackside.situation.parts import left_out

        seen = {HAS_GRADIENT: True}
        body = ParameterFacts("Net_body.weight", "body", (8, 8), "float32", optimizer="SGD", observed=seen)
        head = ParameterFacts("Net_head.weight", "head", (2, 8), "float32", observed=seen)
        rest = ParameterFacts("Net_rest.weight", "rest", (2, 8), "float32")
        facts = ModelFacts(parameters=(body, head, rest))
        assert [p.name for p in left_out(facts)] == ["Net_head.weight"]
        ```

    References:
        - TrainCheck (OSDI 2025): silent errors of training programs, "parameters are not updated".
        - huggingface/accelerate issues 2665 and 3209: an optimizer that holds other parameters than the model's.
    """

    rule_id = "parameters-not-trained"
    code = "TS206"
    watches = ("gradients", "losses")
    since = "0.1"
    likely_causes = (Cause.PARAMETERS_NOT_IN_OPTIMIZER,)
    suspects = (
        FirstOf(
            (Suspect(Cause.LEARNING_RATE_TOO_LOW, _lost_in_rounding), Suspect(Cause.FROZEN_PARAMETERS)),
            (Suspect(Cause.PARAMETERS_NOT_IN_OPTIMIZER, _outside), Suspect(Cause.FROZEN_PARAMETERS, _inside)),
        ),
    )
    what_to_do = (
        "Build the optimizer from the whole model's parameters, after the last layer was added or replaced.",
        "See that the forward pass uses the layer and that nothing detaches its output from the loss.",
    )

    steps: int = parameter(10, "newest steps that are looked at", minimum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per parameter that is not trained, the largest first."""
        facts = window.facts
        if facts is None or window.step < self.steps:
            return []
        present = gradients_present(window, facts, last=self.steps)
        reasons = self._reasons(window, facts, present)
        if not reasons:
            return []
        history = History(window)
        reasons = [(held, reason) for held, reason in reasons if reason != NO_OPTIMIZER or not history.is_over(held)]
        stands = not any(trains(p, present) for p in facts.parameters)
        may_turn = takes_turns(window, facts, fewest=self.steps)
        aside = stands_aside(facts, [held for held, reason in reasons if reason == NO_GRADIENT])
        is_meant = history.thaws or stands_beside(facts, [held for held, reason in reasons if reason == FROZEN])
        is_over = window.is_last and lies_deep(facts, [held for held, _ in reasons])
        findings = []
        for held, reason in sorted(reasons, key=lambda pair: -pair[0].size):
            since = self._since(history, held, reason, present)
            may_wait = reason in _MAY_COME and not stands
            lasted = window.watched_since(since)
            half = since + (window.step - since) // 2
            if reason == NO_GRADIENT and may_wait and not was_measured(window, held, after=half):
                continue
            if reason in {NO_GRADIENT, NO_CHANGE} and moves_by_hand(window, held, since=since):
                continue
            can_wait = may_wait and not (is_over and lasted >= ENOUGH_STEPS)
            if reason == NO_SLOPE:
                can_wait = lasted < (ENOUGH_STEPS if window.is_last else LONG_STEPS)
            if lasted >= self.steps and (not can_wait or (reason != NO_SLOPE and history.had_its_turn(since))):
                is_passing = is_meant if reason == FROZEN else reason != NO_SLOPE and (may_turn or aside)
                findings.append(self._finding(window, facts, held, reason, since=since, takes_turns=is_passing))
        return findings

    def lacks(self, window: Window) -> str:
        """Return a clause without facts about the program, or before `steps` steps of it."""
        if window.facts is None:
            return "what a hook of this version tells of the program (modules, parameters, optimizers)"
        return "" if window.step >= self.steps else f"{self.steps} steps of the program"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if over half of the model certainly does not train, for long.

        INFO if all findings may be meant so, else WARNING.
        """
        if all(_may_be_meant(finding) for finding in findings):
            return Severity.INFO
        certain = [f for f in findings if f.measure not in _MAY_COME]  # others may have their turn yet
        lasting = [f for f in certain if f.step - f.since_step >= LONG_LASTING]
        share = sum(Untrained.of(finding).share_of_model for finding in lasting)
        return Severity.CRITICAL if share > MOST else Severity.WARNING

    def _reasons(
        self, window: Window, facts: ModelFacts, present: Mapping[str, float]
    ) -> list[tuple[ParameterFacts, str]]:
        """Return the parameters that are not trained, each once, with the reason."""
        since = frozen_since(facts, lambda: revisions_of(window))
        frozen = dict.fromkeys([*frozen_at_random(facts), *since, *all_frozen(facts)])
        idle = idle_among_others(facts, present)  # their router is judged by collapsed-routing
        without = [p for p in unreached(facts, present=present) if p.name not in idle]
        zero = without_slope(window, facts, present)
        idle |= idle_among_others(facts, {**present, **dict.fromkeys([p.name for p in zero], 0.0)})
        found: dict[int, tuple[ParameterFacts, str]] = {}
        for reason, some in (
            (NO_OPTIMIZER, left_out(facts)),
            (FROZEN, frozen),
            (NO_MODULE, [p for p in without if not p.module]),
            (NO_GRADIENT, [p for p in without if p.module]),
            (NO_CHANGE, unchanged(window, facts, present)),
            (NO_SLOPE, [p for p in zero if p.name not in idle]),
        ):
            found.update({id(held): (held, reason) for held in some})
        return list(found.values())

    def _since(self, history: History, held: ParameterFacts, reason: str, present: Mapping[str, float]) -> int:
        if reason in {NO_OPTIMIZER, FROZEN}:
            return history.as_now_since(held)
        if reason == NO_SLOPE:
            return history.may_train_since(held)
        if reason in {NO_MODULE, NO_GRADIENT}:  # measurements from before it could train say nothing
            return max(history.without_gradient_since(held), history.may_train_since(held))
        return 0

    def _finding(
        self, window: Window, facts: ModelFacts, held: ParameterFacts, reason: str, *, since: int, takes_turns: bool
    ) -> Finding:
        module = facts.module(held.module)
        trainable = sum(p.size for p in facts.parameters if not p.tied_to)
        return finding_of(
            window,
            held.name,
            reason,
            0.0,
            below={NO_GRADIENT: 1 / self.steps, NO_CHANGE: math.ulp(0.0), NO_SLOPE: math.ulp(0.0)}.get(reason, 1.0),
            since=since,
            statistics={
                "numbers": float(held.size),
                **Untrained(held.size / max(1, trainable), is_untrained(facts, held), takes_turns).numbers(),
            },
            place=module.line if module else "",
        )


def _may_be_meant(finding: Finding) -> bool:
    if finding.measure == NO_OPTIMIZER:
        return not Untrained.of(finding).looks_untrained
    return finding.measure in _MAY_COME and Untrained.of(finding).takes_turns
