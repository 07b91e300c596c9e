"""Watches `Module.load_state_dict` for states that change nothing: under other names, or the model's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from trackside.capture.script_lines import Place, user_place
from trackside.contracts.model_facts import LoadFacts
from trackside.frameworks.pytorch.compiling.tracing import is_dynamo_compiling
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of, named_parameters_of

_PLAIN = (torch.Tensor, nn.Parameter)


class StateLoads:
    """The loads of one training that had no effect. A later one that has an effect on the same module takes it back.

    Attributes:
        count: Number of changes of the facts.

    Args:
        has_stepped: Returns True once an optimizer has stepped: before, a model's own state may well be given to it.
        changed: Called after each change.
        protect: Keeps errors of ours from the script.
    """

    def __init__(
        self,
        *,
        has_stepped: Callable[[], bool],
        changed: Callable[[], None],
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self.count = 0
        self._has_stepped, self._changed = has_stepped, changed
        self._idle: dict[int, tuple[LoadFacts, Place | None]] = {}  # by id of the module, which may be gone at the end
        self._loaded = protect(self._look)

    def install(self) -> Callable[[], None]:
        """Wrap the method. Return the function that undoes it."""
        original = nn.Module.load_state_dict
        loads = self

        @functools.wraps(original)
        def load_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            answer = original(self, *args, **kwargs)
            if not is_dynamo_compiling():
                loads._loaded(self, args[0] if args else kwargs.get("state_dict"), answer)
            return answer

        setattr(nn.Module, "load_state_dict", load_state_dict)  # noqa: B010 - mypy forbids assigning to a method

        def undo() -> None:
            if nn.Module.load_state_dict is load_state_dict:  # else another tool has wrapped ours
                setattr(nn.Module, "load_state_dict", original)  # noqa: B010 - as above

        return undo

    def facts(self) -> tuple[LoadFacts | None, Place | None]:
        """Return the first load without an effect, and its place in the script."""
        return next(iter(self._idle.values()), (None, None))

    def _look(self, module: nn.Module, state: Any, answer: Any) -> None:
        if not isinstance(state, Mapping):
            return
        found = self._without_effect(module, state, answer)
        before = self._idle.pop(id(module), None)
        if found is not None:
            self._idle[id(module)] = found, user_place()
        if found is not None or before is not None:
            self.count += 1
            self._changed()

    def _without_effect(self, module: nn.Module, state: Mapping[str, Any], answer: Any) -> LoadFacts | None:
        tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
        held = dict(named_parameters_of(module, every_name=True))
        if not tensors or not held:
            return None
        unexpected = set(attribute_of(answer, "unexpected_keys", ()))
        if tensors.keys() <= unexpected:
            return LoadFacts(next(iter(tensors)), len(tensors))
        if self._has_stepped() and all(_is_same(tensors.get(name), parameter) for name, parameter in held.items()):
            return LoadFacts(next(iter(held)), len(held), is_own=True)
        return None


def _is_same(value: Any, parameter: torch.Tensor) -> bool:
    """Return True for the same memory. Shards over ranks and tensors without values have none to compare."""
    if not all(
        type(each) in _PLAIN and each.layout is torch.strided and has_memory(each) for each in (value, parameter)
    ):
        return False
    return bool(value.shape == parameter.shape and value.data_ptr() == parameter.data_ptr() != 0)
