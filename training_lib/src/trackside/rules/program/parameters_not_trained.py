"""parameters-not-trained: parameters that should train, and do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_NOISE = 1e-6  # of the largest gradient
_MOST = 0.5  # of the numbers that should train

NO_OPTIMIZER, NO_GRADIENT, NO_CHANGE, FROZEN = (
    "optimizers that hold it",
    "share of steps with a gradient",
    "relative update",
    "gradients that it may get",
)

_ROUNDING = 1e-7  # share of a number's size: the precision of float32


@dataclass(frozen=True)
class ParametersNotTrained(Rule):
    """Parameters that take part in the training are never changed by it.

    Why it matters:
        A layer that was left out of the optimizer, or that no gradient reaches, stays at its random start. The rest of
        the model learns around it: the loss falls, only not as far as it could, and nothing reports it.

    How it decides:
        For each parameter, with the hook's facts about the program (its optimizer, and whether it requires a
        gradient), and the always-on statistics of the newest `steps` steps:

        1. *In no optimizer*: it requires a gradient and gets one, but no optimizer holds it.
        2. *No gradient*: an optimizer holds it, it requires a gradient, and it got none at any of these steps although
           others of the same optimizer did, or although it is the only optimizer and goes on stepping. Where parts of
           the model take turns (experts, blocks that are skipped: some parameter had a gradient again after steps
           without), that is information.
        3. *No change*: an optimizer with a learning rate above zero holds it and it gets gradients that are more than
           rounding noise, but its update was exactly zero whenever it was measured, three times at least.
        4. *Frozen at its random start*: it requires no gradient, others of the same model are trained, and its values
           are still those of the framework's own initialisation (uniform within +-1/sqrt(inputs)).
        5. *Frozen since*: weight matrices that were trained at first are frozen now, those of the last layer too.
        6. A frozen weight that looks trained is left alone: that is what freezing is for. So are models of which no
           optimizer holds anything (a target network, an average of the weights).

        Severity: critical if these parameters are more than half of the numbers that should train, else a warning;
        those of point 2 do not count, since a gradient may still reach them. Weights that no optimizer holds, but that
        look trained, are reported as information: a backbone may be kept so on purpose. Amazon's Debugger has no such
        rule.

    What to do:
        Build the optimizer from the parameters of the whole model, after the last layer was added, replaced or
        unfrozen. See that the forward pass uses the layer, and that nothing detaches its output from the loss.

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ParameterFacts
        from trackside.rules.program.parameters_not_trained import left_out

        body = ParameterFacts("Net_body.weight", "body", (8, 8), "float32", optimizer="SGD", has_gradient=True)
        head = ParameterFacts("Net_head.weight", "head", (2, 8), "float32", has_gradient=True)
        rest = ParameterFacts("Net_rest.weight", "rest", (2, 8), "float32")
        facts = ModelFacts(parameters=(body, head, rest))
        assert left_out(facts) == ("Net_head.weight",)
        ```

    References:
        - TrainCheck (OSDI 2025): silent errors of training programs, "parameters are not updated".
        - huggingface/accelerate issues 2665 and 3209: an optimizer that holds other parameters than the model's.
    """

    rule_id = "parameters-not-trained"
    watches = ("gradients", "losses")
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.PARAMETERS_NOT_IN_OPTIMIZER,)
    what_to_do = (
        "Build the optimizer from the whole model's parameters, after the last layer was added or replaced.",
        "See that the forward pass uses the layer and that nothing detaches its output from the loss.",
    )

    steps: int = parameter(10, "newest steps that are looked at", minimum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per parameter that is not trained, the largest first."""
        facts = window.facts
        if facts is None or window.step < facts.from_step + self.steps:
            return []
        present = self._present(window, facts)
        found = dict.fromkeys(left_out(facts), (NO_OPTIMIZER, 0.0, 1.0))
        first = window.source.facts_at(0)
        frozen = {*frozen_at_random(facts), *(frozen_since(first, facts) if first is not None else ())}
        found.update(dict.fromkeys(frozen, (FROZEN, 0.0, 1.0)))
        found.update(dict.fromkeys(unreached(facts, present=present), (NO_GRADIENT, 0.0, 1 / self.steps)))
        found.update({name: (NO_CHANGE, 0.0, math.ulp(0.0)) for name in self._unchanged(window, facts, present)})
        named = [parameter for parameter in facts.parameters if parameter.name in found]
        named.sort(key=lambda parameter: -parameter.size)
        takes_turns = bool(named) and _takes_turns(window, facts)
        return [
            self._finding(window, facts, parameter, found[parameter.name], takes_turns=takes_turns)
            for parameter in named
        ]

    def lacks(self, window: Window) -> str:
        """Return a clause without facts about the program, or before `steps` steps of one program."""
        facts = window.facts
        if facts is None:
            return "facts about the program's modules, parameters and optimizers, which Trackside's hook records"
        return "" if window.step >= facts.from_step + self.steps else f"{self.steps} steps of one program"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if over half of the model certainly does not train.

        INFO if all findings may be meant so, else WARNING.
        """
        if all(finding.measure == NO_OPTIMIZER and not finding.statistics["looks_untrained"] for finding in findings):
            return Severity.INFO
        if all(finding.measure == NO_GRADIENT and finding.statistics["takes_turns"] for finding in findings):
            return Severity.INFO
        certain = [finding for finding in findings if finding.measure != NO_GRADIENT]  # others may have their turn yet
        share = sum(finding.statistics["share_of_model"] for finding in certain)
        return Severity.CRITICAL if share > _MOST else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return the causes: a rate lost in rounding, parameters in no optimizer, or frozen parameters."""
        if all(finding.measure == NO_CHANGE for finding in findings) and (rate := _lost_in_rounding(findings, window)):
            because = f"a rate of {rate:.2g} is less than what can be added to these weights"
            return (Suspicion(Cause.LEARNING_RATE_TOO_LOW, because), Suspicion(Cause.FROZEN_PARAMETERS))
        missing = sum(finding.measure == NO_OPTIMIZER for finding in findings)
        because = f"{missing} of {len(findings)} are in no optimizer"
        outside = Suspicion(Cause.PARAMETERS_NOT_IN_OPTIMIZER, because if missing else "")
        inside = Suspicion(Cause.FROZEN_PARAMETERS, f"{len(findings) - missing} are frozen, or never change")
        if not missing:
            return (inside, outside)
        return (outside,) if missing == len(findings) else (outside, inside)

    def _present(self, window: Window, facts: ModelFacts) -> Mapping[str, float]:
        """Return the share of the newest steps at which each parameter had a gradient, the largest over the workers."""
        shares: dict[str, list[float]] = {}
        too_short: set[str] = set()
        names = tuple([held.gradient for held in facts.parameters])
        for panel in window.newest(names, "is_present", last=self.steps, mode=None):
            if panel.count < self.steps:
                too_short.update(panel.tensors)
            for tensor, share in zip(panel.tensors, panel.newest.mean(axis=1).tolist(), strict=True):
                shares.setdefault(tensor, []).append(share)
        known = {tensor: max(found) for tensor, found in shares.items() if tensor not in too_short}
        return {held.name: known[held.gradient] for held in facts.parameters if held.gradient in known}

    def _unchanged(self, window: Window, facts: ModelFacts, present: Mapping[str, float]) -> tuple[str, ...]:
        held = [p for p in facts.parameters if _may_change(p, present)]
        newest = window.newest(tuple([p.name for p in held]), "update_l2", last=1, mode=None)
        moved = {t for panel in newest for t, update in zip(panel.tensors, panel.newest[:, -1], strict=True) if update}
        still = [p for p in held if p.name not in moved and _never_moved(window, p)]
        largest = _largest_gradients(window) if still else {}
        return tuple([p.name for p in still if _has_worthy_gradients(window, p, largest)])

    def _finding(
        self,
        window: Window,
        facts: ModelFacts,
        held: ParameterFacts,
        measured: tuple[str, float, float],
        *,
        takes_turns: bool,
    ) -> Finding:
        measure, observed, threshold = measured
        module = facts.module(held.module)
        trainable = sum(p.size for p in facts.parameters if not p.tied_to)
        return Finding(
            subject=held.name,
            step=window.step,
            since_step=min(facts.from_step, window.step),
            measure=measure,
            observed=observed,
            relation="<",
            threshold=threshold,
            statistics={
                "numbers": float(held.size),
                "share_of_model": held.size / max(1, trainable),
                "looks_untrained": float(_is_untrained(facts, held)),
                "takes_turns": float(takes_turns),
            },
            place=module.line if module else "",
        )


def left_out(facts: ModelFacts) -> tuple[str, ...]:
    """Return the parameters with a gradient and no optimizer, if an optimizer holds others of the model."""
    trained = {_root(p) for p in facts.parameters if p.optimizer}
    outside = [p for p in facts.parameters if _should_train(p) and not p.optimizer and _root(p) in trained]
    return tuple([p.name for p in outside if p.has_gradient])


def frozen_at_random(facts: ModelFacts) -> tuple[str, ...]:
    """Return the frozen parameters with their random first values, if others of the model train."""
    trained = {_root(p) for p in facts.parameters if p.optimizer and p.requires_grad}
    frozen = [p for p in facts.parameters if not p.requires_grad and not p.tied_to and _root(p) in trained]
    return tuple([p.name for p in frozen if p.looks_untrained])


def frozen_since(first: ModelFacts, facts: ModelFacts) -> tuple[str, ...]:
    """Return the weight matrices that trained at first and are frozen now, if the output layer is among them.

    Layers are frozen on purpose from the input on; a model with frozen last weights learns nothing any more.
    """
    before = {p.name for p in first.parameters if p.requires_grad and p.optimizer and len(p.shape) > 1}
    matrices = [p for p in facts.parameters if len(p.shape) > 1 and not p.tied_to]
    frozen = [p for p in matrices if p.name in before and not p.requires_grad]
    return tuple([p.name for p in frozen]) if matrices and matrices[-1] in frozen else ()


def _takes_turns(window: Window, facts: ModelFacts) -> bool:
    """Return True if some parameter had a gradient again after steps without one."""
    columns = [c for held in facts.parameters for c in window.statistic(held.gradient, "is_present", mode=None)]
    had = [np.flatnonzero(column.values > 0) for column in columns]
    return any(bool((np.diff(places) > 1).any()) for places in had)


def _root(held: ParameterFacts) -> str:
    return held.name.partition("_")[0]


def _is_untrained(facts: ModelFacts, held: ParameterFacts) -> bool:
    """Return True for a parameter that looks untrained, and for a bias beside such a weight."""
    return any(p.looks_untrained for p in facts.parameters if p is held or (p.module and p.module == held.module))


def unreached(facts: ModelFacts, *, present: Mapping[str, float]) -> tuple[str, ...]:
    """Return the parameters in a working optimizer that never get a gradient.

    An optimizer works if others of its parameters always have a gradient, or if it is the only one, and steps.
    """
    at_work = {p.optimizer for p in facts.parameters if p.optimizer and present.get(p.name) == 1}
    if len(facts.optimizers) == 1:  # it steps, or this step would not exist
        at_work.add(facts.optimizers[0].name)
    held = [p for p in facts.parameters if _should_train(p) and p.optimizer in at_work]
    return tuple([p.name for p in held if present.get(p.name) == 0])


def _should_train(held: ParameterFacts) -> bool:
    return held.requires_grad and not held.tied_to


def _may_change(held: ParameterFacts, present: Mapping[str, float]) -> bool:
    return _should_train(held) and bool(held.optimizer) and present.get(held.name) == 1


def _never_moved(window: Window, held: ParameterFacts) -> bool:
    """Return True if all of at least three updates were zero, and the rate was not."""
    updates = window.statistic(held.name, "update_l2", mode=None)
    if not updates or not all(_is_zero_throughout(column) for column in updates):
        return False
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", mode=None)
    return any((rate.values > 0).all() for rate in rates)


def _is_zero_throughout(column: Column) -> bool:
    """Return True for at least three values that are all zero."""
    return len(column.values) >= 3 and not column.values.any()


def _lost_in_rounding(findings: Sequence[Finding], window: Window) -> float | None:
    """Return the largest rate of these parameters, if a step by it is lost in rounding for each; else None."""
    rates = []
    for finding in findings:
        held = window.facts.parameter(finding.subject) if window.facts else None
        step = _step_of(window, held) if held is not None else None
        if step is None or not step[1] < _ROUNDING:
            return None
        rates.append(step[0])
    return max(rates, default=None)


def _step_of(window: Window, held: ParameterFacts) -> tuple[float, float] | None:
    """Return the rate of a parameter, and the largest step as a share of its size; None if one of them is unknown.

    The gradient limits a step of SGD, 1 for each element a step of Adam.
    """
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", mode=None)
    weights = window.statistic(held.name, "l2", last=1, mode=None)
    gradients = window.statistic(held.gradient, "l2", mode=None)
    if not rates or not weights or not gradients:
        return None
    rate, norm = float(rates[0].values[-1]), float(weights[0].values[-1])
    steepest = max(math.sqrt(held.size), float(np.median(gradients[0].values)))
    return (rate, rate * steepest / norm) if norm > 0 else None


def _has_worthy_gradients(window: Window, held: ParameterFacts, largest: Mapping[str, float]) -> bool:
    """Return True if the parameter has gradients, and each is more than rounding noise.

    The gradient of a bias before a normalisation is 0 in theory. `largest` is the norm of the largest present gradient,
    by worker.
    """
    gradients = window.statistic(held.gradient, "l2", mode=None)
    return bool(gradients) and all(
        float(np.median(column.values)) > _NOISE * largest.get(column.worker, 0.0) for column in gradients
    )


def _largest_gradients(window: Window) -> Mapping[str, float]:
    """Return the norm of the largest gradient at its newest step, by worker."""
    newest: dict[str, list[float]] = {}
    for name in window.tensors("gradients"):
        for column in window.statistic(name, "l2", mode=None):
            newest.setdefault(column.worker, []).append(float(column.values[-1]))
    return {worker: max(norms) for worker, norms in newest.items()}
