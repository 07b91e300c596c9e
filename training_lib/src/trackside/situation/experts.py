"""Experts that a router chooses between, found by the shapes of a model's parts, not by their names."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ParameterFacts
from trackside.situation.constants import MOST_READ, ROUTER_LEVELS

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]+)")


@dataclass(frozen=True)
class Experts:
    """The experts of one layer.

    name      of the module that holds them
    line      "train.py:41", the line that created them; "" if unknown
    members   names of the trained parameters of each, for experts that are modules; () for the other kind
    stacked   names of trained parameters with one expert in each row, else ()
    count     number of experts
    """

    name: str
    line: str
    members: tuple[tuple[str, ...], ...]
    stacked: tuple[str, ...]
    count: int


_known: dict[int, tuple[weakref.ref[ModelFacts], tuple[Experts, ...]]] = {}


def experts_in(facts: ModelFacts) -> tuple[Experts, ...]:
    """Return the layers of experts of a model.

    They are modules of one class with numbers in their names, or rows of parameters with three dimensions that belong
    to no known kind of layer. Either way the router stands beside them: a matrix with as many rows or columns as there
    are experts, in the module that holds them or in a part of it.
    """
    known, found = _known.get(id(facts), (None, ()))
    if known is None or known() is not facts:
        found = _found_in(facts)
        if len(_known) >= MOST_READ:
            _known.clear()
        _known[id(facts)] = weakref.ref(facts), found
    return found


def _found_in(facts: ModelFacts) -> tuple[Experts, ...]:
    trained: dict[str, list[ParameterFacts]] = {}
    for held in facts.parameters:
        if held.requires_grad and held.optimizer and not held.tied_to:
            trained.setdefault(held.module, []).append(held)
    modules = {module.name: module for module in facts.modules}
    return (*_of_modules(modules, trained), *_of_rows(modules, trained))


def idle_among_others(facts: ModelFacts, present: Mapping[str, float]) -> frozenset[str]:
    """Return the parameters of experts without a gradient, in layers with experts that have one.

    Args:
        facts: The facts about the program.
        present: The share of steps with a gradient, by parameter.
    """
    found: set[str] = set()
    for layer in experts_in(facts):
        used = [any(present.get(name, 0.0) > 0 for name in names) for names in layer.members]
        if any(used):
            found.update(
                name for names, is_used in zip(layer.members, used, strict=True) if not is_used for name in names
            )
    return frozenset(found)


def _of_modules(
    modules: Mapping[str, ModuleFacts], trained: Mapping[str, Sequence[ParameterFacts]]
) -> Iterator[Experts]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, module in modules.items():
        holder, _, last = name.rpartition(".")
        if match := _NUMBERED.fullmatch(last):
            alike.setdefault((holder, match["stem"], module.type_name), []).append(name)
    for (holder, _, _), names in alike.items():
        if len(names) < 2 or not holder:
            continue
        if not (
            _has_router(holder, len(names), trained, names) or _has_router(_above(holder), len(names), trained, names)
        ):
            continue
        members = tuple(tuple(_below(name, trained)) for name in names)
        if all(members):
            line = modules[holder].line if holder in modules else ""
            yield Experts(holder, line or modules[names[0]].line, members, (), len(names))


def _of_rows(modules: Mapping[str, ModuleFacts], trained: Mapping[str, Sequence[ParameterFacts]]) -> Iterator[Experts]:
    for name, held in trained.items():
        module = modules.get(name)
        if module is None or module.role not in {"", "container"}:
            continue
        by_count: dict[int, list[str]] = {}
        for each in held:
            if len(each.shape) == 3 and each.shape[0] > 1:
                by_count.setdefault(each.shape[0], []).append(each.name)
        for count, stacked in by_count.items():
            if _has_router(name, count, trained, ()) or _has_router(_above(name), count, trained, ()):
                yield Experts(name, module.line, (), tuple(stacked), count)


def _has_router(
    holder: str, count: int, trained: Mapping[str, Sequence[ParameterFacts]], experts: Sequence[str]
) -> bool:
    """Return True if a module, or a part near below it that is no expert's, holds a matrix with one row per expert."""
    prefix = f"{holder}." if holder else ""
    for name, held in trained.items():
        depth = 0 if name == holder else name.removeprefix(prefix).count(".") + 1
        is_near = depth == 0 or (depth <= ROUTER_LEVELS and name.startswith(prefix))
        if is_near and not _is_of(name, experts) and any(len(p.shape) == 2 and count in p.shape for p in held):
            return True
    return False


def _is_of(name: str, experts: Sequence[str]) -> bool:
    return any(name == expert or name.startswith(f"{expert}.") for expert in experts)


def _below(name: str, trained: Mapping[str, Sequence[ParameterFacts]]) -> Iterator[str]:
    for module, held in trained.items():
        if _is_of(module, (name,)):
            yield from (each.name for each in held)


def _above(name: str) -> str:
    return name.rpartition(".")[0]
