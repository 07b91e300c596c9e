"""parameters-not-trained: parameters that should train, and do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.experts import idle_among_others
from trackside.rules.medians import median
from trackside.rules.phases import revisions_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_NOISE = 1e-6  # of the largest gradient
_MOST = 0.5  # of the numbers that should train

_TURN, _EVALUATIONS = 100, 2  # steps, and evaluations within them, after which a part has not had its turn
_LONG_TURN = 200  # steps, of runs with fewer evaluations
_AT_THE_END = 30  # steps, of a run that has ended
_ASIDE = 0.1  # of the numbers that should train
_LASTING = 200  # steps for which most of a model must not train, for a critical finding

NO_OPTIMIZER, NO_MODULE, NO_GRADIENT, NO_CHANGE, FROZEN = (
    "optimizers that hold it",
    "modules that hold it",
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
           the same shapes beside it, as a random target or a random prior has.
        6. *Frozen since*: weight matrices are frozen now, those of the last layer too, and the optimizer that holds
           them is the one that trained them. With another optimizer, made for what is left, they are meant to stay.
        7. A frozen weight that looks trained is left alone: that is what freezing is for. So are models of which no
           optimizer holds anything and no gradient reaches anything (a target network, an average of the weights).
        8. Patience: what is frozen or gets no gradient may have its turn in the next epoch (gradual unfreezing). It
           must last for 100 steps with two evaluations, or for 200, or for 30 where the run has ended and it is the
           first matrix of the model, or several; unless nothing of the model trains at all. Once frozen parameters were
           trained in this run, further frozen ones are information.

        Severity: critical if points 1, 2 and 4 together hold for more than half of the numbers that should train, for
        200 steps, else a warning. Weights that no optimizer holds, but that look trained, are reported as information:
        a backbone may be kept so on purpose. Amazon's Debugger has no such rule.

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
        assert [p.name for p in left_out(facts)] == ["Net_head.weight"]
        ```

    References:
        - TrainCheck (OSDI 2025): silent errors of training programs, "parameters are not updated".
        - huggingface/accelerate issues 2665 and 3209: an optimizer that holds other parameters than the model's.
    """

    rule_id = "parameters-not-trained"
    code = "TS206"
    is_of_networks = True
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
        if facts is None or window.step < self.steps:
            return []
        present = self._present(window, facts)
        reasons = self._reasons(window, facts, present)
        if not reasons:
            return []
        history = _History(window)
        reasons = [(held, reason) for held, reason in reasons if reason != NO_OPTIMIZER or not history.is_over(held)]
        stands = not any(_trains(p, present) for p in facts.parameters)
        takes_turns = _takes_turns(window, facts, fewest=self.steps)
        aside = stands_aside(facts, [held for held, reason in reasons if reason == NO_GRADIENT])
        is_meant = history.thaws or stands_beside(facts, [held for held, reason in reasons if reason == FROZEN])
        is_over = window.is_last and lies_deep(facts, [held for held, _ in reasons])
        findings = []
        for held, reason in sorted(reasons, key=lambda pair: -pair[0].size):
            since = self._since(history, held, reason, present)
            may_wait = reason in {FROZEN, NO_GRADIENT} and not stands
            lasted = window.step - since
            if reason == NO_GRADIENT and may_wait and not _was_measured(window, held, after=since + lasted // 2):
                continue
            if reason in {NO_GRADIENT, NO_CHANGE} and _moves_by_hand(window, held, since=since):
                continue
            can_wait = may_wait and not (is_over and lasted >= _AT_THE_END)
            if lasted >= self.steps and (not can_wait or history.had_its_turn(since)):
                is_passing = is_meant if reason == FROZEN else takes_turns or aside
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
        certain = [f for f in findings if f.measure not in {NO_GRADIENT, FROZEN}]  # others may have their turn yet
        lasting = [f for f in certain if f.step - f.since_step >= _LASTING]
        share = sum(finding.statistics["share_of_model"] for finding in lasting)
        return Severity.CRITICAL if share > _MOST else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return the causes that the findings show: a rate lost in rounding, parameters outside, or cut off."""
        if all(finding.measure == NO_CHANGE for finding in findings) and (rate := _lost_in_rounding(findings, window)):
            because = f"a rate of {rate:.2g} is less than what can be added to these weights"
            return (Suspicion(Cause.LEARNING_RATE_TOO_LOW, because), Suspicion(Cause.FROZEN_PARAMETERS))
        outside = [f for f in findings if f.measure in {NO_OPTIMIZER, NO_MODULE}]
        inside = [f for f in findings if f.measure not in {NO_OPTIMIZER, NO_MODULE}]
        found = []
        if outside:
            found.append(Suspicion(Cause.PARAMETERS_NOT_IN_OPTIMIZER, _why_outside(outside, len(findings))))
        if inside:
            found.append(Suspicion(Cause.FROZEN_PARAMETERS, _why_inside(inside)))
        return tuple(found)

    def _reasons(
        self, window: Window, facts: ModelFacts, present: Mapping[str, float]
    ) -> list[tuple[ParameterFacts, str]]:
        """Return the parameters that are not trained, each once, with the reason."""
        frozen = dict.fromkeys([*frozen_at_random(facts), *frozen_since(facts, lambda: revisions_of(window))])
        idle = idle_among_others(facts, present)  # their router is judged by collapsed-routing
        without = [p for p in unreached(facts, present=present) if p.name not in idle]
        found: dict[int, tuple[ParameterFacts, str]] = {}
        for reason, some in (
            (NO_OPTIMIZER, left_out(facts)),
            (FROZEN, frozen),
            (NO_MODULE, [p for p in without if not p.module]),
            (NO_GRADIENT, [p for p in without if p.module]),
            (NO_CHANGE, self._unchanged(window, facts, present)),
        ):
            found.update({id(held): (held, reason) for held in some})
        return list(found.values())

    def _since(self, history: _History, held: ParameterFacts, reason: str, present: Mapping[str, float]) -> int:
        if reason in {NO_OPTIMIZER, FROZEN}:
            return history.as_now_since(held)
        if reason in {NO_MODULE, NO_GRADIENT}:  # measurements from before it could train say nothing
            return max(history.without_gradient_since(held), history.may_train_since(held))
        return 0

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

    def _unchanged(self, window: Window, facts: ModelFacts, present: Mapping[str, float]) -> tuple[ParameterFacts, ...]:
        held = [p for p in facts.parameters if _may_change(p, present)]
        newest = window.newest(tuple([p.name for p in held]), "update_l2", last=1, mode=None)
        moved = {t for panel in newest for t, update in zip(panel.tensors, panel.newest[:, -1], strict=True) if update}
        still = [p for p in held if p.name not in moved and _never_moved(window, p)]
        largest = _largest_gradients(window) if still else {}
        return tuple([p for p in still if _has_worthy_gradients(window, p, largest)])

    def _finding(
        self, window: Window, facts: ModelFacts, held: ParameterFacts, reason: str, *, since: int, takes_turns: bool
    ) -> Finding:
        module = facts.module(held.module)
        trainable = sum(p.size for p in facts.parameters if not p.tied_to)
        return Finding(
            subject=held.name,
            step=window.step,
            since_step=since,
            measure=reason,
            observed=0.0,
            relation="<",
            threshold={NO_GRADIENT: 1 / self.steps, NO_CHANGE: math.ulp(0.0)}.get(reason, 1.0),
            statistics={
                "numbers": float(held.size),
                "share_of_model": held.size / max(1, trainable),
                "looks_untrained": float(_is_untrained(facts, held)),
                "takes_turns": float(takes_turns),
            },
            place=module.line if module else "",
        )


def left_out(facts: ModelFacts) -> tuple[ParameterFacts, ...]:
    """Return the parameters with a gradient and no optimizer, with the values that they had at first.

    If optimizers hold parameters of no module (an input that is optimised), the models are meant to stay.
    """
    if not any(p.optimizer and p.module for p in facts.parameters):
        return ()
    outside = [p for p in facts.parameters if _should_train(p) and not p.optimizer]
    return tuple([p for p in outside if p.has_gradient and not p.has_changed])


def frozen_at_random(facts: ModelFacts) -> tuple[ParameterFacts, ...]:
    """Return the frozen parameters with their random first values, if others of the model train.

    Models with corrections of low rank are left out.
    """
    trained = {_root(p) for p in facts.parameters if p.optimizer and p.requires_grad}
    frozen = [p for p in facts.parameters if not p.requires_grad and not p.tied_to and _root(p) in trained]
    found = [p for p in frozen if p.looks_untrained and not p.has_changed]
    corrected = {root for root in {_root(p) for p in found} if has_corrections(facts, root)}
    return tuple([p for p in found if _root(p) not in corrected])


def has_corrections(facts: ModelFacts, root: str) -> bool:
    """Return True if a frozen matrix of this root has two trained ones beside it, with a product of its shape.

    Their inner size is at most half of the smaller side: a correction of low rank (LoRA).
    """
    matrices = [p for p in facts.parameters if len(p.shape) == 2 and _root(p) == root]
    trained = [p for p in matrices if p.requires_grad and p.optimizer]
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for p in trained:
        parts = p.module.split(".")
        for depth in range(len(parts)):
            shapes.setdefault(".".join(parts[:depth]), set()).add(p.shape)
    for frozen in matrices:
        if frozen.requires_grad:
            continue
        rows, columns = frozen.shape
        beside = shapes.get(frozen.module.rpartition(".")[0], set())
        inner = {shape[0] for shape in beside if shape[1] == columns} & {s[1] for s in beside if s[0] == rows}
        if any(2 * size <= min(rows, columns) for size in inner):
            return True
    return False


def frozen_since(facts: ModelFacts, revisions: Callable[[], Sequence[ModelFacts]]) -> tuple[ParameterFacts, ...]:
    """Return the weight matrices that their optimizer trained and that are frozen now, with the output layer's.

    Layers are frozen on purpose from the input on; a model with frozen last weights learns nothing any more. Where an
    optimizer was made for what is left to train, freezing was its purpose: embeddings or prompts train beneath a model
    that is to stay.

    Args:
        facts: The facts now.
        revisions: Returns the facts of the run.
    """
    matrices = [p for p in facts.parameters if len(p.shape) > 1 and not p.tied_to]
    if not matrices or matrices[-1].requires_grad or not matrices[-1].optimizer:
        return ()
    trained = {(p.name, p.optimizer) for each in revisions() for p in each.parameters if p.requires_grad}
    frozen = [p for p in matrices if not p.requires_grad and p.optimizer and (p.name, p.optimizer) in trained]
    return tuple(frozen) if matrices[-1] in frozen else ()


def lies_deep(facts: ModelFacts, some: Sequence[ParameterFacts]) -> bool:
    """Return True if the first matrix of a model is among these parameters, or several matrices are.

    A single later one may be an output that nothing uses.
    """
    names = {p.name for p in some if len(p.shape) > 1}
    roots = {_root(p) for p in some}
    firsts = [next((p for p in facts.parameters if _root(p) == root and len(p.shape) > 1), None) for root in roots]
    return len(names) > 1 or any(first is not None and first.name in names for first in firsts)


def stands_aside(facts: ModelFacts, unreached: Sequence[ParameterFacts]) -> bool:
    """Return True if the parameters without a gradient seem to be outputs that the loss does not use.

    What is cut off from the loss by mistake takes all layers before it along, the model's first among them. Layers that
    a forward pass forgot put out as much as they take, or the pass would raise without them.
    """
    without = {p.name for p in unreached}
    trainable = [p for p in facts.parameters if _should_train(p) and p.module]
    for root in {_root(p) for p in unreached}:
        own = [p for p in trainable if _root(p) == root]
        first = next((p for p in own if len(p.shape) > 1), own[0] if own else None)  # a norm before it may be unused
        if first is None or first.name in without:
            return False
    if sum(p.size for p in unreached) < _ASIDE * sum(p.size for p in trainable):
        return True
    matrices = [p for p in trainable if len(p.shape) == 2]
    kinds = groupby(matrices, key=lambda held: (_root(held), held.name in without))
    runs = [(root, is_without, list(some)) for (root, is_without), some in kinds]
    return not any(is_without and _fits_between(run, runs, place) for place, (_, is_without, run) in enumerate(runs))


def _fits_between(
    forgotten: Sequence[ParameterFacts], runs: Sequence[tuple[str, bool, list[ParameterFacts]]], place: int
) -> bool:
    """Return True if a layer after these takes what they put out, and they may have been left out or cut off.

    Left out may be what puts out as much as it takes, and as one before puts out: a model without it still fits. Cut
    off may be a tower: what it takes comes from no layer before.

    Args:
        forgotten: Layers in a row that no gradient reaches.
        runs: All layers of all models in such rows: root, whether no gradient reaches them, and the layers.
        place: The index of the forgotten ones.
    """
    taken, put_out, root = forgotten[0].shape[1], forgotten[-1].shape[0], runs[place][0]
    before, after = (
        [p for other, is_without, run in some if other == root and not is_without for p in run]
        for some in (runs[:place], runs[place + 1 :])
    )
    has_source = any(p.shape[0] == taken for p in before)
    return any(p.shape[1] == put_out for p in after) and (taken == put_out or not has_source)


def stands_beside(facts: ModelFacts, frozen: Sequence[ParameterFacts]) -> bool:
    """Return True if all frozen parts have a trained twin: a target to be met, or a random prior beside the model.

    A twin is another child of the same module with parameters of the same shapes. Layers that put out as much as they
    take may follow each other, and are no such twins.
    """
    children: dict[str, dict[str, list[ParameterFacts]]] = {}
    for held in facts.parameters:
        parts = held.module.split(".")
        for depth in range(1, len(parts) + 1):
            children.setdefault(".".join(parts[: depth - 1]), {}).setdefault(parts[depth - 1], []).append(held)
    beside: set[int] = set()
    still = {id(held) for held in frozen}
    for siblings in children.values():
        trained = {_shapes(part) for part in siblings.values() if all(p.optimizer and p.requires_grad for p in part)}
        for part in siblings.values():
            if any(id(p) in still for p in part) and _shapes(part) in trained and _changes_width(part):
                beside |= {id(p) for p in part}
    return bool(still) and still <= beside


def _shapes(part: Sequence[ParameterFacts]) -> tuple[tuple[int, ...], ...]:
    return tuple([held.shape for held in part])


def _changes_width(part: Sequence[ParameterFacts]) -> bool:
    """Return True for two matrices or more that put out another number than they take."""
    matrices = [held.shape for held in part if len(held.shape) == 2]
    return len(matrices) > 1 and matrices[0][1] != matrices[-1][0]


class _History:
    """The earlier facts and statistics of the parameters."""

    def __init__(self, window: Window) -> None:
        self._window, self._revisions = window, revisions_of(window)

    @cached_property
    def thaws(self) -> bool:
        """True if parameters train now that were frozen, or in no optimizer, earlier in the run."""
        now = {p.name for p in self._revisions[0].parameters if p.requires_grad and p.optimizer}
        return any(
            p.name in now and not (p.requires_grad and p.optimizer)
            for earlier in self._revisions[1:]
            for p in earlier.parameters
            if p.module
        )

    def is_over(self, held: ParameterFacts) -> bool:
        """Return True if a whole model is in no optimizer now, and was in one earlier: its training has ended."""
        now, root = self._revisions[0], _root(held)
        if any(p.optimizer for p in now.parameters if _root(p) == root):
            return False
        # Not by the module's name: that of a model which was the second one, and is the first now, is another.
        return any(p.optimizer and p.name == held.name for each in self._revisions[1:] for p in each.parameters)

    def as_now_since(self, held: ParameterFacts) -> int:
        """Return the first step from which the parameter had the optimizer and the flag that it has now."""
        since = self._revisions[0].from_step
        for earlier in self._revisions[1:]:
            same = [p for p in earlier.parameters if p.name == held.name and bool(p.module) == bool(held.module)]
            if not any((p.optimizer, p.requires_grad) == (held.optimizer, held.requires_grad) for p in same):
                break
            since = earlier.from_step
        return min(since, self._window.step)

    def may_train_since(self, held: ParameterFacts) -> int:
        """Return the first step from which the parameter has been in an optimizer and not frozen; 0 if it is neither.

        A new optimizer does not begin a new time.
        """
        since = self._window.step
        for facts in self._revisions:
            same = [p for p in facts.parameters if p.name == held.name]
            if not any(p.requires_grad and p.optimizer for p in same):
                return 0 if facts is self._revisions[0] else min(since, self._window.step)
            since = facts.from_step
        return 0

    def without_gradient_since(self, held: ParameterFacts) -> int:
        """Return the first step after the last with a gradient of this name."""
        since = 0
        for column in self._window.statistic(held.gradient, "is_present", mode=None):
            had = np.flatnonzero(column.values > 0)
            since = max(since, int(column.steps[had[-1]]) + 1 if had.size else int(column.steps[0]))
        return min(since, self._window.step)

    def had_its_turn(self, since: int) -> bool:
        """Return True if a part that does not train since that step has had time for a turn."""
        lasted = self._window.step - since
        return lasted >= _LONG_TURN or (lasted >= _TURN and self._evaluations_after(since) >= _EVALUATIONS)

    def _evaluations_after(self, since: int) -> int:
        steps = {
            int(step)
            for name in self._window.tensors("losses")
            for column in self._window.statistic(name, "mean", mode="EVAL")
            for step in column.steps[column.steps > since]
        }
        return sum(step - 1 not in steps for step in steps)


def _trains(held: ParameterFacts, present: Mapping[str, float]) -> bool:
    return bool(held.optimizer) and held.requires_grad and present.get(held.name, 1.0) > 0


def _may_be_meant(finding: Finding) -> bool:
    if finding.measure == NO_OPTIMIZER:
        return not finding.statistics["looks_untrained"]
    return finding.measure in {NO_GRADIENT, FROZEN} and bool(finding.statistics["takes_turns"])


def _why_outside(findings: Sequence[Finding], count: int) -> str:
    lost = sum(finding.measure == NO_MODULE for finding in findings)
    if lost:
        return f"an optimizer holds {lost} tensors that no module holds any more: it was made before they were replaced"
    return f"{len(findings)} of {count} are in no optimizer, though they get gradients"


def _why_inside(findings: Sequence[Finding]) -> str:
    """Return how many are frozen, get no gradient, or never change; frozen are only those that require no gradient."""
    counts = {
        "require no gradient": sum(finding.measure == FROZEN for finding in findings),
        "require a gradient that never reaches them": sum(finding.measure == NO_GRADIENT for finding in findings),
        "get gradients and never change": sum(finding.measure == NO_CHANGE for finding in findings),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _takes_turns(window: Window, facts: ModelFacts, *, fewest: int) -> bool:
    """Return True if some parameter had a gradient again after a step without one, or its first after `fewest` such."""
    columns = [c for held in facts.parameters for c in window.statistic(held.gradient, "is_present", mode=None)]
    had = [np.flatnonzero(column.values > 0) for column in columns]
    return any(bool((np.diff(places) > 1).any()) or (places.size > 0 and places[0] >= fewest) for places in had)


def _root(held: ParameterFacts) -> str:
    """Return the name of the model that holds it; "" for Keras, of which a run shows one model."""
    return "" if held.name.startswith(f"{held.module}/") else held.name.partition("_")[0]


def _is_untrained(facts: ModelFacts, held: ParameterFacts) -> bool:
    """Return True for a parameter that looks untrained, and for a bias beside such a weight."""
    return any(p.looks_untrained for p in facts.parameters if p is held or (p.module and p.module == held.module))


def unreached(facts: ModelFacts, *, present: Mapping[str, float]) -> tuple[ParameterFacts, ...]:
    """Return the parameters in a working optimizer that never get a gradient.

    An optimizer works if others of its parameters always have a gradient, or if it is the only one, and steps.
    """
    at_work = {p.optimizer for p in facts.parameters if p.optimizer and present.get(p.name) == 1}
    if len(facts.optimizers) == 1:  # it steps, or this step would not exist
        at_work.add(facts.optimizers[0].name)
    held = [p for p in facts.parameters if _should_train(p) and p.optimizer in at_work]
    return tuple([p for p in held if present.get(p.name) == 0])


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


def _was_measured(window: Window, held: ParameterFacts, *, after: int) -> bool:
    """Return True if the norm of a parameter was measured after that step, is never measured, or nothing more comes."""
    columns = window.statistic(held.name, "l2", mode=None)
    return window.is_last or not columns or any(int(column.steps[-1]) > after for column in columns)


def _moves_by_hand(window: Window, held: ParameterFacts, *, since: int) -> bool:
    """Return True if the norm of a parameter changed although no optimizer has changed it since that step."""
    norms = [column.values[column.steps >= since] for column in window.statistic(held.name, "l2", mode=None)]
    return any(bool(len(some)) and float(np.ptp(some)) > _NOISE * float(some[0]) for some in norms)


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
    steepest = max(math.sqrt(held.size), median(gradients[0].values))
    return (rate, rate * steepest / norm) if norm > 0 else None


def _has_worthy_gradients(window: Window, held: ParameterFacts, largest: Mapping[str, float]) -> bool:
    """Return True if the parameter has gradients, and each is more than rounding noise.

    The gradient of a bias before a normalisation is 0 in theory. `largest` is the norm of the largest gradient, by
    worker.
    """
    gradients = window.statistic(held.gradient, "l2", mode=None)
    return bool(gradients) and all(
        median(column.values) > _NOISE * largest.get(column.worker, 0.0) for column in gradients
    )


def _largest_gradients(window: Window) -> Mapping[str, float]:
    """Return the median norm of the largest gradient, by worker. The newest ones of a converged model are all small."""
    typical: dict[str, list[float]] = {}
    for name in window.tensors("gradients"):
        for column in window.statistic(name, "l2", mode=None):
            typical.setdefault(column.worker, []).append(median(column.values))
    return {worker: max(norms) for worker, norms in typical.items()}
