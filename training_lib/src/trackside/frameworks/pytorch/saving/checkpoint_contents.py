"""Compares what the script saves as a checkpoint with the trained models: parameters left out, and values changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, NamedTuple

import torch

from trackside.contracts.observations import CheckpointFacts
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames, without_wrappers
from trackside.frameworks.pytorch.ground.script_objects import named_parameters_of

MOST_NAMES = 8
_DEEPEST = 3
_MOST_VALUES = 1000  # of one level of a checkpoint that are looked into
_MOST_COMPARED = 16 << 20  # elements of a checkpoint whose values are compared
_WRAPPER = "module."  # DistributedDataParallel's and DataParallel's, in the keys of their states


class _Held(NamedTuple):
    """A trained parameter: its name, its paths in its model (several if it is tied), and itself."""

    name: str
    paths: list[str]
    parameter: torch.Tensor


class CheckpointContents:
    """Collects the contents of the checkpoints of one training.

    Attributes:
        count: Number of changes of the facts.

    Args:
        names: The trained models.
        changed: Called after each change.
    """

    def __init__(self, names: ParameterNames, *, changed: Callable[[], None]) -> None:
        self.count = 0
        self._names, self._changed = names, changed
        self._saved: dict[str, set[str]] = {}  # by root: bare paths that a checkpoint has held
        self._facts: CheckpointFacts | None = None
        self._altered: tuple[str, list[str]] | None = None  # path and names of the first checkpoint with such values

    def add(self, content: Any, path: str) -> bool:
        """Compare an object that was saved. Return True if it holds weights of a trained model.

        Args:
            content: The object.
            path: The file or folder.
        """
        models = {name: _trained(self._names, name, root) for name, root in self._names.roots()}
        shapes = {
            path: tuple(parameter.shape)
            for _, root in self._names.roots()
            for name, parameter in named_parameters_of(root, every_name=True)
            for path in (bare(name),)
        }
        states = list(_states(content, shapes))
        if not states:
            return False
        for saved in states:
            for root, held in models.items():
                self._add_state(root, held, saved, path, known=shapes.keys())
        facts = self._compared(path)
        if facts != self._facts:
            self._facts = facts
            self.count += 1
            self._changed()
        return True

    def facts(self) -> CheckpointFacts | None:
        """Return the comparison of all checkpoints so far; None before the first."""
        return self._facts

    def _compared(self, newest: str) -> CheckpointFacts:
        count, missing, ends_early = 0, list[str](), True
        for root, module in self._names.roots():
            held, saved = _trained(self._names, root, module), self._saved.get(root, set())
            is_saved = [not saved.isdisjoint(each.paths) for each in held]
            if 2 * sum(is_saved) < len(held) or not held:  # a model that is not kept
                continue
            count += len(held)
            missing += [each.name for each, is_held in zip(held, is_saved, strict=True) if not is_held]
            frozen = _frozen(module)  # saved without these, a model is a correction, which has to hold all that trains
            ends_early = ends_early and all(is_saved[: sum(is_saved)]) and not (frozen and saved.isdisjoint(frozen))
        before = self._facts.path if self._facts is not None else ""
        path, altered = self._altered or ((before or newest) if missing else "", [])
        return CheckpointFacts(
            path=path,
            parameter_count=count,
            missing=tuple(missing[:MOST_NAMES]),
            missing_count=len(missing),
            ends_early=bool(missing) and ends_early,
            altered=tuple(altered[:MOST_NAMES]),
            altered_count=len(altered),
        )

    def _add_state(self, root: str, held: list[_Held], saved: Mapping[str, Any], path: str, *, known: Set[str]) -> None:
        self._saved.setdefault(root, set()).update(known & saved.keys())
        if self._altered is not None:
            return
        differs, left = dict[str, bool](), _MOST_COMPARED
        for each in held:
            left -= each.parameter.numel()
            found = _differs(saved.get(each.paths[0]), each.parameter) if left >= 0 else None
            if found is not None:
                differs[each.name] = found
        altered = [name for name, is_other in differs.items() if is_other]
        if 0 < 2 * len(altered) < len(differs):  # else it holds averages, or those of another moment
            self._altered = path, altered


def bare(path: str) -> str:
    """Return a parameter's path without what wrappers add.

    PEFT leaves the adapter's name out of what it saves, and saves a module that is trained whole by its own name.
    """
    return without_wrappers(path.removeprefix(_WRAPPER)).replace(".default.", ".").replace(".modules_to_save.", ".")


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a tensor, or of one in the form in which safetensors writes it; None for anything else."""
    shape = value.get("shape") if isinstance(value, dict) and "data" in value else getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, (tuple, list)) else None


def first_values(values: Iterable[Any]) -> list[Any]:
    """Return the first values of a level of a checkpoint."""
    return list(islice(values, _MOST_VALUES))


def _states(content: Any, shapes: Mapping[str, tuple[int, ...]], *, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Return the mappings of which most tensors are parameters of a trained model, by bare paths."""
    if isinstance(content, torch.nn.Module):
        content = dict(named_parameters_of(content))
    if not isinstance(content, Mapping):
        return
    tensors = {
        bare(name): value for name, value in content.items() if isinstance(name, str) and shape_of(value) is not None
    }
    known = sum(shapes.get(name) == shape_of(value) for name, value in tensors.items())
    if known and 2 * known >= len(tensors):
        yield tensors
    elif depth < _DEEPEST:
        for each in first_values(content.values()):
            yield from _states(each, shapes, depth=depth + 1)


def _trained(names: ParameterNames, root: str, module: torch.nn.Module) -> list[_Held]:
    found: dict[int, _Held] = {}
    for path, parameter in named_parameters_of(module, every_name=True):
        if parameter.requires_grad and names.name_of(parameter) is not None:
            held = found.setdefault(id(parameter), _Held(f"{root}_{without_wrappers(path)}", [], parameter))
            held.paths.append(bare(path))
    return list(found.values())


def _frozen(module: torch.nn.Module) -> set[str]:
    """Return the paths of the parameters that require no gradient."""
    named = named_parameters_of(module, every_name=True)
    return {bare(path) for path, parameter in named if not parameter.requires_grad}


def _differs(saved: Any, parameter: torch.Tensor) -> bool | None:
    """Return whether a saved tensor differs from the parameter; None where it cannot be read cheaply.

    All values count: of an embedding few rows change, so that a sample of an earlier moment is often equal. Another
    type is left out: an average that was rounded is often equal to what it is the average of.
    """
    if not isinstance(saved, torch.Tensor) or (saved.shape, saved.dtype) != (parameter.shape, parameter.dtype):
        return None
    pair = saved.detach(), parameter.detach()
    if not all(t.is_cpu and t.layout is torch.strided and has_memory(t) for t in pair):
        return None
    return pair[0].data_ptr() != pair[1].data_ptr() and not bool(torch.equal(*map(torch.nan_to_num, pair)))
