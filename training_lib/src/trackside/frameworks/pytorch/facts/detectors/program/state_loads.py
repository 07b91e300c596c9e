"""Watches `Module.load_state_dict` for states that change nothing: under other names, or the model's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, user_place
from trackside.contracts.observations import IDLE_LOAD, LoadFacts
from trackside.frameworks.pytorch.compiling.tracing import is_dynamo_compiling
from trackside.frameworks.pytorch.facts.detector import InScript, Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of, named_parameters_of
from trackside.frameworks.shared.detectors import watches

_PLAIN = (torch.Tensor, nn.Parameter)


@watches(IDLE_LOAD)
class StateLoads:
    """The loads of one training that had no effect. A later one that has an effect on the same module takes it back."""

    def __init__(self, watch: Watch) -> None:
        self._steps, self._changed = watch.steps, watch.changed
        self._idle: dict[int, tuple[LoadFacts, Place | None]] = {}  # by id of the module, which may be gone at the end
        self._loading, self._loaded = watch.protect(self._look_before), watch.protect(self._look)

    def install(self) -> Callable[[], None]:
        """Wrap the method. Return the function that undoes it."""
        original = nn.Module.load_state_dict
        loads = self

        @functools.wraps(original)
        def load_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_dynamo_compiling():
                return original(self, *args, **kwargs)
            own: list[LoadFacts] = []
            state = args[0] if args else kwargs.get("state_dict")
            loads._loading(self, state, own)
            answer = original(self, *args, **kwargs)
            loads._loaded(self, state, answer, own)
            return answer

        setattr(nn.Module, "load_state_dict", load_state_dict)  # noqa: B010 - mypy forbids assigning to a method

        def undo() -> None:
            if nn.Module.load_state_dict is load_state_dict:  # else another tool has wrapped ours
                setattr(nn.Module, "load_state_dict", original)  # noqa: B010 - as above

        return undo

    def of(self, watch: Watch) -> InScript | None:
        """Return the first load without an effect, and its place in the script; None without one."""
        for facts, place in self._idle.values():
            return InScript(place, facts)
        return None

    def _look_before(self, module: nn.Module, state: Any, own: list[LoadFacts]) -> None:
        """Note in `own` that a state is the model's own: before the first step it may well be given to it.

        After a load by assignment any state is.
        """
        if not isinstance(state, Mapping) or not self._steps():
            return
        held = dict(named_parameters_of(module, every_name=True))
        if held and all(_is_same(state.get(name), parameter) for name, parameter in held.items()):
            own.append(LoadFacts(next(iter(held)), len(held), is_own=True))

    def _look(self, module: nn.Module, state: Any, answer: Any, own: Sequence[LoadFacts]) -> None:
        if not isinstance(state, Mapping):
            return
        found = own[0] if own else _unknown_names(module, state, answer)
        before = self._idle.pop(id(module), None)
        if found is not None:
            self._idle[id(module)] = found, user_place()
        if found is not None or before is not None:
            self._changed()


def _unknown_names(module: nn.Module, state: Mapping[str, Any], answer: Any) -> LoadFacts | None:
    """Return the load of a state without any tensor that the module has; None for another."""
    tensors = [name for name, value in state.items() if isinstance(value, torch.Tensor)]
    if not tensors or not named_parameters_of(module):
        return None
    unexpected = set(attribute_of(answer, "unexpected_keys", ()))
    return LoadFacts(tensors[0], len(tensors)) if unexpected.issuperset(tensors) else None


def _is_same(value: Any, parameter: torch.Tensor) -> bool:
    """Return True for the same memory. Shards over ranks and tensors without values have none to compare."""
    if not all(
        type(each) in _PLAIN and each.layout is torch.strided and has_memory(each) for each in (value, parameter)
    ):
        return False
    return bool(value.shape == parameter.shape and value.data_ptr() == parameter.data_ptr() != 0)
