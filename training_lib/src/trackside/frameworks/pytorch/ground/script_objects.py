"""Questions to the script's own objects: modules, data sets, optimizers. Each class may answer in a way of its own.

A module may override `named_parameters` with fewer arguments, a data set may have no length, and `__getattr__` may
raise whatever it likes. An override is there on purpose (it hides or renames parameters), so it is asked first, with as
few arguments as the question needs, then with none; if it fails, what PyTorch keeps in the module itself is the answer.
No function here raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import torch
from torch import nn


def named_modules_of(root: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return (dotted path, module) of a module (path "") and of all modules in it, each once.

    Args:
        root: A module of the script.
    """
    return _first_answer(root, "named_modules", of=nn.Module) or list(_modules_in(root))


def modules_of(root: nn.Module) -> list[nn.Module]:
    """Return a module and all modules in it, each once.

    Args:
        root: A module of the script.
    """
    return [module for _, module in named_modules_of(root)]


def named_parameters_of(root: nn.Module, *, every_name: bool = False) -> list[tuple[str, nn.Parameter]]:
    """Return (dotted path, parameter) of all parameters of a module, each once.

    Args:
        root: A module of the script.
        every_name: Return one with several names by each of them, where the module can tell them.
    """
    found = _first_answer(root, "named_parameters", {"remove_duplicate": False} if every_name else {}, of=torch.Tensor)
    return list(_tensors_in(root, "_parameters", every_name=every_name)) if found is None else found


def parameters_of(root: nn.Module) -> list[nn.Parameter]:
    """Return all parameters of a module, each once.

    Args:
        root: A module of the script.
    """
    if _is_overridden(root, "parameters"):
        with suppress(Exception):
            found = list(root.parameters())
            if all(isinstance(each, torch.Tensor) for each in found):
                return found
    return [parameter for _, parameter in named_parameters_of(root)]


def has_parameters(module: nn.Module) -> bool:
    """Return True if a module or one in it has parameters, without a walk through all.

    Args:
        module: A module of the script.
    """
    return first_parameter_of(module) is not None


def first_parameter_of(module: nn.Module) -> nn.Parameter | None:
    """Return the first parameter of a module, without a walk through all; None without one.

    Args:
        module: A module of the script.
    """
    with suppress(Exception):
        found = next(iter(module.parameters()), None)
        if found is None or isinstance(found, torch.Tensor):
            return found
    return next((parameter for _, parameter in _tensors_in(module, "_parameters", every_name=False)), None)


def named_buffers_of(root: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return (dotted path, buffer) of all buffers of a module, each once.

    Args:
        root: A module of the script.
    """
    found = _first_answer(root, "named_buffers", of=torch.Tensor)
    return list(_tensors_in(root, "_buffers", every_name=False)) if found is None else found


def tensors_of(root: nn.Module) -> list[torch.Tensor]:
    """Return all parameters and buffers of a module, each once.

    Args:
        root: A module of the script.
    """
    return [*parameters_of(root), *(buffer for _, buffer in named_buffers_of(root))]


def own_parameters_of(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a module itself, without those of modules in it.

    Args:
        module: A module of the script.
    """
    return [each for each in module._parameters.values() if each is not None]


def own_buffers_of(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return (name, buffer) of the buffers of a module itself, without those of modules in it.

    Args:
        module: A module of the script.
    """
    return [(name, each) for name, each in module._buffers.items() if each is not None]


def set_to_evaluation(module: nn.Module) -> None:
    """Set a module and all in it to evaluation mode, by its own `eval` if that works.

    Args:
        module: A module of the script.
    """
    try:
        module.eval()
    except Exception:  # noqa: BLE001 - its `train` may take no argument
        for each in modules_of(module):
            each.training = False


def length_of(value: Any) -> int | None:
    """Return the length of a data set, sampler or loader; None for one without.

    Args:
        value: An object of the script.
    """
    try:
        return len(value)
    except Exception:  # noqa: BLE001 - PyTorch asks for a length only where a sampler needs it
        return None


def attribute_of(value: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of an object; `default` for one without, or with a `__getattr__` that fails.

    Args:
        value: An object of the script.
        name: The name of the attribute.
        default: The answer without it.
    """
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001 - see above
        return default


def _first_answer(
    root: nn.Module, question: str, keywords: Mapping[str, bool] = MappingProxyType({}), *, of: type
) -> list[tuple[str, Any]] | None:
    """Return the answer with `keywords`, else without any; None if neither is pairs of a name and a value."""
    for given in (keywords, {}):
        with suppress(Exception):
            found = list(getattr(root, question)(**given))
            if all(isinstance(name, str) and isinstance(each, of) for name, each in found):
                return found
    return None


def _is_overridden(module: nn.Module, name: str) -> bool:
    return name in vars(module) or getattr(type(module), name) is not getattr(nn.Module, name)


def _modules_in(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Return what `named_modules` of PyTorch does, without a call of any module."""
    waiting, seen = [("", root)], set[int]()
    while waiting:
        path, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        inside = ((name, each) for name, each in reversed(module._modules.items()) if each is not None)
        waiting += [(f"{path}.{name}" if path else name, each) for name, each in inside]


def _tensors_in(root: nn.Module, kind: str, *, every_name: bool) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for path, module in _modules_in(root):
        for name, tensor in vars(module)[kind].items():
            if tensor is not None and (every_name or id(tensor) not in seen):
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor
