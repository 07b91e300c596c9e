"""Optimizers that are none of `torch.optim`, known by what they have: `step()`, and groups of trained tensors.

fastai's are such. They are looked for once, at the first backward pass of a process in which nobody has made an
optimizer of PyTorch; a training with one pays nothing. From then on `step` of their class shows their steps.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.ground.live_objects import instances, of_types, types
from trackside.frameworks.pytorch.optimizers.by_hand import StepsByHand, Updates

Handler = Callable[[Optimizer, Any, Any], object]


class StandIn(Optimizer):
    """An optimizer of PyTorch in the place of another object, with its groups. It never steps.

    Attributes:
        defaults: Empty: no setting is known beside those of the groups.
        state: Empty: each kind keeps it in a form of its own.

    Args:
        original: The object. It is not kept alive.
    """

    def __init__(self, original: Any) -> None:  # the base's would copy the groups
        self._original = weakref.ref(original)
        self.defaults: dict[str, Any] = {}
        self.state: Any = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override] # the base stores them
        """The groups as they are now; none once the object is gone."""
        original = self._original()
        return [] if original is None else [{**group, "params": list(group["params"])} for group in _groups(original)]


class OtherOptimizers:
    """The optimizers of other kinds in this process.

    Attributes:
        before: Handles the moment before a step, as a hook of PyTorch's.
        after: Handles the moment after it.
        ended: Called with what stands for the optimizer after a step that was handled, also one by hand.
        by_hand: The steps that a script makes itself.

    Args:
        met: Handles a new optimizer.
        protect: Makes a function harmless.
    """

    before: Handler
    after: Handler

    def __init__(
        self, met: Callable[[Optimizer], object], *, protect: Callable[[Callable[..., None]], Callable[..., None]]
    ) -> None:
        self._met = met
        self.ended: Callable[[Optimizer], object] = id
        self.by_hand = StepsByHand()
        self._stand_ins: dict[int, tuple[weakref.ref[Any], Optimizer]] = {}
        self._stepping: set[int] = set()
        self._undo: list[Callable[[], None]] = []
        self.look: Callable[[], None] = protect(self._look)
        self._meet = protect(self._add)

    @property
    def are_met(self) -> bool:
        """True once one was met."""
        return bool(self._undo) or self.by_hand.is_on

    def begin_by_hand(self, weights: Sequence[torch.Tensor]) -> None:
        """Take the script for the optimizer of these weights, which it has changed itself."""
        updates = Updates(weights)
        stand_in = type("ByHand", (StandIn,), {})(updates)
        self.by_hand.begin(updates, stand_in)
        self._met(stand_in)

    def remove(self) -> None:
        """Leave their classes as they were."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def _look(self) -> None:
        """Look for optimizers among all live objects, unless PyTorch has one."""
        if instances(Optimizer):
            return
        found = [each for each in of_types(set(filter(_has_step, types()))) if any(_groups(each))]
        for kind in {type(each) for each in found}:
            self._watch(kind)
        for each in found:
            self._add(each)

    def _add(self, original: Any) -> None:
        number, stand_ins = id(original), self._stand_ins
        kind = type(type(original).__name__, (StandIn,), {})
        stand_in = kind(original)
        reference = weakref.ref(original, lambda _: stand_ins.pop(number, None))
        stand_ins[number] = reference, stand_in
        self._met(stand_in)

    def _of(self, original: Any) -> Optimizer | None:
        known = self._stand_ins.get(id(original))
        if known is None or known[0]() is not original:
            self._meet(original)
            known = self._stand_ins.get(id(original))
        return None if known is None else known[1]

    def _watch(self, kind: Any) -> None:
        original, others = kind.step, self
        is_own = "step" in vars(kind)

        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            stand_in = None if id(self) in others._stepping else others._of(self)
            if stand_in is None:  # within a step of its own, by a class above
                return original(self, *args, **kwargs)
            others._stepping.add(id(self))
            try:
                others.before(stand_in, (stand_in,), {})
                result = original(self, *args, **kwargs)
                others.after(stand_in, (stand_in,), {})
            finally:
                others._stepping.discard(id(self))
            others.ended(stand_in)
            return result

        skip_frame(step)
        kind.step = step
        self._undo.append(
            functools.partial(setattr, kind, "step", original) if is_own else functools.partial(delattr, kind, "step")
        )


def _has_step(kind: type) -> bool:
    """Return True for a class of the script's or a library's with a method `step`."""
    return any("step" in vars(each) for each in kind.__mro__ if each.__module__ != "builtins") and not issubclass(
        kind, torch.nn.Module
    )


def _groups(each: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the groups of trained tensors of an object; none if it has no such thing."""
    try:
        groups = each.param_groups if hasattr(type(each), "param_groups") else vars(each).get("param_groups", ())
        weakref.ref(each)
    except Exception:  # noqa: BLE001 - anybody's property
        return
    if not isinstance(groups, (list, tuple)):
        return
    for group in groups:
        parameters = group.get("params") if isinstance(group, Mapping) else None
        if parameters is not None and not isinstance(parameters, torch.Tensor) and _are_trained(parameters):
            yield group


def _are_trained(parameters: Any) -> bool:
    found = list(parameters)
    return bool(found) and all(isinstance(each, torch.Tensor) and each.is_leaf for each in found)
