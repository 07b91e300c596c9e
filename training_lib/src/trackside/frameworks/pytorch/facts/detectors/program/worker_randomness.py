"""Random generators that every worker of a DataLoader copies, so that all workers draw the same numbers.

Nothing is run or drawn: the attributes of the data set and the code of its functions are read, once for a DataLoader.
"""

from __future__ import annotations

import dis
import random
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np
import torch

from trackside.contracts.observations import SHARED_RANDOMNESS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches

MOST_OBJECTS = 200  # of a data set
_DEEPEST = 4
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
_OF_ONE_WORKER = frozenset({"get_worker_info", "initial_seed", "getpid", "urandom", "time", "time_ns", "SeedSequence"})


@watches(SHARED_RANDOMNESS)
class WorkerRandomness:
    """The first such source among the DataLoaders of a training."""

    def __init__(self, watch: Watch) -> None:
        self._found = ""

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Look at the data of a DataLoader with several workers."""
        if iterator._num_workers > 1 and not self._found:
            self._found = shared_randomness(iterator._dataset, getattr(iterator, "_worker_init_fn", None))

    def of(self, watch: Watch) -> str:
        """Return the source; "" if none was found."""
        return self._found


def shared_randomness(dataset: Any, worker_init: Callable[..., object] | None) -> str:
    """Return the source of random numbers that are the same in every worker; "" if none is found.

    Args:
        dataset: The data set of a DataLoader with several workers.
        worker_init: Its `worker_init_fn`.
    """
    if isinstance(worker_init, FunctionType):
        return "worker_init_fn" if _seeds_all_alike(worker_init) else ""
    if worker_init is not None:
        return ""
    for holder in _objects_in(dataset):
        name = _drawn_from(holder)
        if name:
            return f"{type(holder).__name__}.{name}"
    return ""


def _seeds_all_alike(function: FunctionType) -> bool:
    """Return True if the function seeds something, and reads neither its argument nor anything of the worker."""
    code = function.__code__
    names = set(code.co_names)
    if not any("seed" in name.lower() for name in names) or not names.isdisjoint(_OF_ONE_WORKER):
        return False
    if code.co_freevars or not code.co_argcount:
        return False
    argument = code.co_varnames[0]
    return argument not in code.co_cellvars and not any(
        argument in (each.argval if isinstance(each.argval, tuple) else (each.argval,))
        for each in dis.get_instructions(code)
        if each.opname.startswith("LOAD_FAST")
    )


def _drawn_from(holder: Any) -> str:
    """Return the name of an attribute with a generator that the object draws from when it is asked for data."""
    try:
        attributes = vars(holder)
    except TypeError:
        return ""
    held = [name for name, value in attributes.items() if isinstance(value, _GENERATORS)]
    if not held:
        return ""
    used = _names_used(type(holder))
    return next((name for name in held if name in used), "")


def _names_used(kind: type) -> set[str]:
    """Return the names in the functions that answer a request for data, and in those that they call."""
    used: set[str] = set()
    waiting, seen = list(_ENTRIES), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        function = getattr(kind, name, None)
        if isinstance(function, FunctionType):
            names = set(function.__code__.co_names)
            if not names.isdisjoint(_OF_ONE_WORKER):
                return set()  # it draws by the worker's number or seed
            used |= names
            waiting += names
    return used


def _objects_in(value: Any) -> Iterator[Any]:
    """Return the data set, and the objects that it holds: other data sets, transformations, lists of them."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        each, depth = waiting.pop()
        if id(each) in seen or isinstance(each, (str, bytes, int, float, np.ndarray, torch.Tensor, type, FunctionType)):
            continue
        seen.add(id(each))
        if isinstance(each, (list, tuple)):
            parts = list(each[:32])
        elif isinstance(each, Mapping):
            parts = list(each.values())[:32]
        else:
            yield each
            parts = list(getattr(each, "__dict__", {}).values())
        if depth < _DEEPEST:
            waiting += [(part, depth + 1) for part in parts]
