"""The terms of a summed loss: the gradient that each sends into what they share, and their values.

Nothing is computed twice. Where the graphs of two terms meet lie shared tensors: the code of a variational autoencoder,
the output of a trunk, a weight. A hook on the last node of a term before such a tensor sees the gradient that the term
sends into it while the script's own backward pass runs. Hooks live as long as this one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from trackside.contracts.run.recorded_names import MOST_TERMS
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.description import UNNAMED, describe_loss
from trackside.frameworks.pytorch.losses.guess import guess_of
from trackside.frameworks.pytorch.losses.parts import part_of, terms_of

MOST_ADDENDS = 256
MOST_NODES = 4000  # of all terms together; a larger graph is not looked at
MOST_ELEMENTS = 1 << 24  # of the gradients that are added up

_OF_WEIGHTS = frozenset([
    "AbsBackward0", "AddBackward0", "AccumulateGrad", "CatBackward0", "DivBackward0", "LinalgVectorNormBackward0",
    "MeanBackward0", "MulBackward0", "NormBackward0", "NormBackward1", "PowBackward0", "SqrtBackward0",
    "StackBackward0", "SubBackward0", "SumBackward0", "SumBackward1", "ToCopyBackward0", "UnsqueezeBackward0",
    "ViewBackward0",
])  # fmt: skip

_Key = tuple[int, int, int]  # the number of a term, and the shared tensor: the id of its node, its output
_Border = tuple[Any, int, int]  # a node, the place of an input, the number of the term


class Term(NamedTuple):
    """A term of a loss.

    - `name`: its loss function in the words of torch.nn; `loss` for one by hand
    - `value`: its value before its weight, a tensor of one element; None if its node keeps too little
    - `guess`: what a constant answer costs, from its targets; 0 for a penalty on weights alone; None if it is unknown
    """

    name: str
    value: torch.Tensor | None
    guess: torch.Tensor | None


class TermGradients:
    """The gradients of the terms of one loss, added up while its backward pass runs.

    Attributes:
        terms: The terms, in the order of addition; none if the loss is no sum, or its terms share nothing.
    """

    def __init__(self, end: Any, protect: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
        ends = _grouped(terms_of(end, most=MOST_ADDENDS))
        self.terms: tuple[Term, ...] = ()
        self._sums: dict[_Key, torch.Tensor] = {}
        self._handles: list[Any] = []
        if not 2 <= len(ends) <= MOST_TERMS:
            return
        borders = _borders(ends)
        if len({number for _, _, number in borders}) < 2:
            return
        self.terms = tuple(_term(each) for each in ends)
        self._add = protect(self._added)
        for node, places in _by_node(borders).items():
            self._handles.append(node.register_hook(self._hook(node, places)))

    def sizes(self) -> list[torch.Tensor | None]:
        """Return the L2 norm of each term's gradient, one element each, and remove the hooks.

        None for a term without one so far.
        """
        for handle in self._handles:
            handle.remove()
        sums, self._sums = self._sums, {}
        found: list[torch.Tensor | None] = []
        for number in range(len(self.terms)):
            norms = [torch.linalg.vector_norm(g.float()) for (term, _, _), g in sums.items() if term == number]
            together = [norm.to(norms[0].device) for norm in norms]  # a model may lie on several devices
            found.append(torch.linalg.vector_norm(torch.stack(together)) if together else None)
        return found

    def _hook(self, node: Any, places: Sequence[tuple[int, int]]) -> Callable[[Any, Any], None]:
        # No node is held: a step that is broken off must be able to free its graph.
        shared = [(number, *node.next_functions[place]) for place, number in places]
        keys = [
            (place, (number, id(other), output))
            for (place, _), (number, other, output) in zip(places, shared, strict=True)
        ]
        add = self._add

        def hook(gradients: Any, _: Any) -> None:
            add(keys, gradients)

        return hook

    def _added(self, keys: Sequence[tuple[int, _Key]], gradients: Any) -> None:
        with torch.no_grad():
            for place, key in keys:
                gradient = gradients[place]
                if gradient is None or gradient.layout != torch.strided or gradient.numel() > MOST_ELEMENTS:
                    continue
                if not has_memory(gradient):
                    continue
                known = self._sums.get(key)
                self._sums[key] = gradient.detach() if known is None else known + gradient.detach()


def _term(ends: Sequence[Any]) -> Term:
    node = ends[0]
    loss = describe_loss(node)
    if loss.name == UNNAMED and _is_of_weights_alone(ends):
        return Term(loss.name, None, torch.zeros(1))
    try:
        part = part_of(node) if loss.name != UNNAMED else None
        value = part.value.detach() if part is not None else None
        return Term(loss.name, value, guess_of(loss) if part is not None else None)
    except RuntimeError:  # the script has written over what the graph keeps
        return Term(loss.name, None, None)


def _is_of_weights_alone(ends: Sequence[Any]) -> bool:
    """Return True for a penalty: norms, squares and sums of parameters, in which no input of the model takes part."""
    waiting, seen = [*ends], set[Any]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ not in _OF_WEIGHTS or len(seen) > MOST_NODES:
            return False
        waiting += [following for following, _ in node.next_functions if following is not None]
    return True


def _grouped(ends: Sequence[Any]) -> list[list[Any]]:
    """Return the nodes of each term. Of many, those by hand are one term: a penalty is a sum over all weights."""
    if len(ends) <= MOST_TERMS:
        return [[end] for end in ends]
    by_hand = [end for end in ends if describe_loss(end).name == UNNAMED]
    named = [[end] for end in ends if end not in by_hand]
    return [*named, by_hand] if by_hand else named


def _borders(ends: Sequence[Sequence[Any]]) -> list[_Border]:
    """Return where each term's own part of the graph meets what it shares with another; [] for a large graph."""
    reached: dict[Any, int] = {}  # node -> bits of the terms that reach it
    visited = 0
    for number, of_term in enumerate(ends):
        bit, waiting = 1 << number, [*of_term]
        while waiting:
            node = waiting.pop()
            known = reached.get(node, 0)
            if known & bit:
                continue
            reached[node] = known | bit
            visited += 1
            if visited > MOST_NODES:
                return []
            waiting += [following for following, _ in node.next_functions if following is not None]
    found: list[_Border] = []
    for node, bits in reached.items():
        if bits & (bits - 1):
            continue
        number = bits.bit_length() - 1
        for place, (following, _) in enumerate(node.next_functions):
            if following is not None and reached[following] & ~bits:
                found.append((node, place, number))
    return found


def _by_node(borders: Sequence[_Border]) -> dict[Any, list[tuple[int, int]]]:
    found: dict[Any, list[tuple[int, int]]] = {}
    for node, place, number in borders:
        found.setdefault(node, []).append((place, number))
    return found
