"""Collections defined by a role in the model, and whether a model can have members of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trackside.contracts.model_facts import ModelFacts


def without_members(collections: Sequence[str], facts: ModelFacts) -> str:
    """Return why a run of such a program has no tensor in any of the collections; "" if it may have one.

    A clause for a user: `no module of the model is a ReLU`.
    """
    reasons = [_WHY_NONE[name](facts) if name in _WHY_NONE else "" for name in collections]
    return reasons[0] if reasons and all(reasons) else ""


def activations(facts: ModelFacts) -> frozenset[str]:
    """Return the families of the model's activations, as far as modules are or end with one; empty without any."""
    return frozenset([module.activation for module in facts.modules if module.activation])


def _no_relu(facts: ModelFacts) -> str:
    return _none_of(("relu",), "a ReLU", facts)


def _nothing_saturating(facts: ModelFacts) -> str:
    return _none_of(("tanh", "sigmoid"), "a sigmoid or tanh", facts)


def _none_of(families: Sequence[str], words: str, facts: ModelFacts) -> str:
    found = activations(facts)
    if not facts.modules or not found.isdisjoint(families):
        return ""
    unseen = "" if found else " (one that is called as a function is not seen)"
    return f"no module of the model is {words}{unseen}"


def _no_classes(facts: ModelFacts) -> str:
    """Return the clause if every loss is built in and distinguishes no classes; "" if any was computed by hand."""
    if not facts.losses or not all(loss.is_built_in and loss.class_count is None for loss in facts.losses):
        return ""
    return f"the loss separates no classes ({', '.join(dict.fromkeys(loss.type_name for loss in facts.losses))})"


_WHY_NONE: Mapping[str, Callable[[ModelFacts], str]] = {
    "relu_outputs": _no_relu,
    "saturating_inputs": _nothing_saturating,
    "labels": _no_classes,
}
