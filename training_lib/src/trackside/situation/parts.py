"""The parts of a model that train, and those that do not: left out, frozen, unreached, unchanged. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.observations import HAS_CHANGED, HAS_GRADIENT, LOOKS_UNTRAINED
from trackside.situation.constants import NEGLIGIBLE_SHARE


def left_out(facts: ModelFacts) -> tuple[ParameterFacts, ...]:
    """Return the parameters with a gradient and no optimizer, with the values that they had at first.

    If optimizers hold parameters of no module (an input that is optimised), the models are meant to stay.
    """
    if not any(p.optimizer and p.module for p in facts.parameters):
        return ()
    outside = [p for p in facts.parameters if should_train(p) and not p.optimizer]
    return tuple([p for p in outside if HAS_GRADIENT.of(p) and not HAS_CHANGED.of(p)])


def all_frozen(facts: ModelFacts) -> tuple[ParameterFacts, ...]:
    """Return all parameters of a model of Keras that trains with none of them; nothing for any other.

    PyTorch raises there; in a program of its own steps, something else than gradients may move them.
    """
    is_frozen = facts.program.framework == "keras" and not any(p.requires_grad for p in facts.parameters)
    return facts.parameters if is_frozen else ()


def frozen_at_random(facts: ModelFacts) -> tuple[ParameterFacts, ...]:
    """Return the frozen parameters with their random first values, if others of the model train.

    Models with corrections of low rank are left out.
    """
    trained = {root_of(p) for p in facts.parameters if p.optimizer and p.requires_grad}
    frozen = [p for p in facts.parameters if not p.requires_grad and not p.tied_to and root_of(p) in trained]
    found = [p for p in frozen if LOOKS_UNTRAINED.of(p) and not HAS_CHANGED.of(p)]
    corrected = {root for root in {root_of(p) for p in found} if has_corrections(facts, root)}
    return tuple([p for p in found if root_of(p) not in corrected])


def has_corrections(facts: ModelFacts, root: str) -> bool:
    """Return True if a frozen matrix of this root has two trained ones beside it, with a product of its shape.

    Their inner size is at most half of the smaller side: a correction of low rank (LoRA).
    """
    matrices = [p for p in facts.parameters if len(p.shape) == 2 and root_of(p) == root]
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
    roots = {root_of(p) for p in some}
    firsts = [next((p for p in facts.parameters if root_of(p) == root and len(p.shape) > 1), None) for root in roots]
    return len(names) > 1 or any(first is not None and first.name in names for first in firsts)


def stands_aside(facts: ModelFacts, unreached: Sequence[ParameterFacts]) -> bool:
    """Return True if the parameters without a gradient seem to be outputs that the loss does not use.

    What is cut off from the loss by mistake takes all layers before it along, the model's first among them. Layers that
    a forward pass forgot put out as much as they take, or the pass would raise without them.
    """
    without = {p.name for p in unreached}
    trainable = [p for p in facts.parameters if should_train(p) and p.module]
    for root in {root_of(p) for p in unreached}:
        own = [p for p in trainable if root_of(p) == root]
        first = next((p for p in own if len(p.shape) > 1), own[0] if own else None)  # a norm before it may be unused
        if first is None or first.name in without:
            return False
    if sum(p.size for p in unreached) < NEGLIGIBLE_SHARE * sum(p.size for p in trainable):
        return True
    matrices = [p for p in trainable if len(p.shape) == 2]
    kinds = groupby(matrices, key=lambda held: (root_of(held), held.name in without))
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


def trains(held: ParameterFacts, present: Mapping[str, float]) -> bool:
    return bool(held.optimizer) and held.requires_grad and present.get(held.name, 1.0) > 0


def root_of(held: ParameterFacts) -> str:
    """Return the name of the model that holds it; "" for Keras, of which a run shows one model."""
    return "" if held.name.startswith(f"{held.module}/") else held.name.partition("_")[0]


def is_untrained(facts: ModelFacts, held: ParameterFacts) -> bool:
    """Return True for a parameter that looks untrained, and for a bias beside such a weight."""
    return any(LOOKS_UNTRAINED.of(p) for p in facts.parameters if p is held or (p.module and p.module == held.module))


def unreached(facts: ModelFacts, *, present: Mapping[str, float]) -> tuple[ParameterFacts, ...]:
    """Return the parameters in a working optimizer that never get a gradient.

    An optimizer works if others of its parameters always have a gradient, or if it is the only one, and steps.
    """
    at_work = {p.optimizer for p in facts.parameters if p.optimizer and present.get(p.name) == 1}
    if len(facts.optimizers) == 1:  # it steps, or this step would not exist
        at_work.add(facts.optimizers[0].name)
    held = [p for p in facts.parameters if should_train(p) and p.optimizer in at_work]
    return tuple([p for p in held if present.get(p.name) == 0])


def should_train(held: ParameterFacts) -> bool:
    return held.requires_grad and not held.tied_to
