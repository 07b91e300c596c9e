"""The names of parameters: smdebug's own."""

from __future__ import annotations

import itertools
import operator
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.live_objects import instances, one_look
from trackside.frameworks.pytorch.ground.script_objects import named_modules_of, named_parameters_of, parameters_of

_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
}
_DATA_PARALLEL = {"DistributedDataParallel": "DDP", "FullyShardedDataParallel": "FSDP1", "DataParallel": "DataParallel"}
_PARAMETERS = operator.itemgetter("params")
_MOST_ROWS = 64  # optimizers, and those whose parameters change
_FIRST_SEARCHES = 32  # models of an ensemble, folds: each is named, whatever the search costs
_SHARE = 0.02  # of the process's time, for all further searches: as much as watching may take
_WRAPPER_PARTS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


class ParameterNames:
    """The names of parameters, as smdebug gives them: `<RootClass>_<dotted.name>`.

    The modules that own an optimizer's parameters are looked for among all live objects, once per optimizer, on its
    first captured step: some ten milliseconds then, and nothing while models are built. (Following
    `register_module_module_registration_hook` instead costs 10 us per child, and never sees a deep copy or a model that
    was unpickled.)

    A second root of a class is `<RootClass>2`; a parameter of no module is `Parameters_<k>.weight`. Where a script goes
    on to make models and optimizers (meta-learning makes some for each task), parameters stay without a name until a
    search is affordable again.

    Args:
        clock: Returns the processor time of this thread, in seconds.
        process_clock: Returns that of the process.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        process_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._process_clock = clock, process_clock
        self._searches, self._searched_seconds = 0, 0.0
        self._names: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._rows: dict[tuple[int, ...], tuple[str, ...]] = {}  # names of the parameters of optimizers, by their ids
        self._root_names: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._taken: dict[str, int] = {}
        self._homeless = 0
        self._registered: list[weakref.ref[torch.nn.Module]] = []
        self._seen: list[weakref.ref[Optimizer]] | None = None
        self._others: list[weakref.ref[torch.nn.Module]] = []  # roots that were seen, of which no optimizer has a part
        self._outside: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}

    def optimizers_seen(self) -> list[Optimizer] | None:
        """Return the live optimizers that were found beside the modules; None before the first search."""
        return None if self._seen is None else [found for each in self._seen if (found := each()) is not None]

    def register(self, root: torch.nn.Module) -> None:
        """Name the parameters of a model. From then on the parameters of unregistered models have no name."""
        root = unwrapped(root)
        self._registered.append(weakref.ref(root))
        self._name_parts(root)

    def of_roots(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Return (name, parameter) for each parameter of the roots named so far that has a name itself."""
        self._name_later_parts()
        for _, root in self.roots():
            for parameter in parameters_of(root):
                name = self._name_of(parameter)
                if name is not None:
                    yield name, parameter

    def of(self, optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
        """Return (name, parameter) for each parameter of the optimizer, in its order."""
        return zip(*self.row(optimizer), strict=True)

    def row(self, optimizer: Optimizer) -> tuple[tuple[str, ...], Sequence[torch.Tensor]]:
        """Return the names and the parameters of `of`. The names of the same parameters are the same object again."""
        parameters = list(itertools.chain.from_iterable(map(_PARAMETERS, optimizer.param_groups)))
        numbers = tuple(map(id, parameters))  # none of them is given again: see `_forget_rows`
        names = self._rows.get(numbers)
        if names is not None:
            return names, parameters
        if any(self._name_of(p) is None for p in parameters):
            if self._registered:
                self._name_later_parts()
            elif self._may_search():
                self._name_all(parameters)
        named = [(name, p) for p in parameters if (name := self._name_of(p)) is not None]
        names = tuple([name for name, _ in named])
        if len(named) == len(parameters):
            if len(self._rows) == _MOST_ROWS:
                self._rows.clear()
            self._rows[numbers] = names
        return names, [parameter for _, parameter in named]

    def roots(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Return (name, module) of each live root named so far, in the order of naming."""
        for reference, name in list(self._root_names.values()):
            root = reference()
            if root is not None:
                yield name, root

    def others(self) -> Iterator[torch.nn.Module]:
        """Return each live root that was seen in the newest search, and of which no optimizer holds a parameter."""
        for reference in self._others:
            root = reference()
            if root is not None and id(root) not in self._root_names:
                yield root

    def parameters_outside(self) -> Iterator[torch.Tensor]:
        """Return the trained parameters of `others`."""
        return (p for root in self.others() for p in parameters_of(root) if p.requires_grad)

    def outside(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Return (name, module) of each live root that gets gradients, and of which no optimizer holds a parameter.

        They were seen beside the roots, in the search for these.
        """
        for root in self.others():
            known, name = self._outside.get(id(root), (None, ""))
            if known is None or known() is not root:
                if not any(p.requires_grad and p.grad is not None for p in parameters_of(root)):
                    continue
                name = self._new_name(root)
                self._outside[id(root)] = (weakref.ref(root), name)
            yield name, root

    def name_of(self, parameter: torch.Tensor) -> str | None:
        """Return the name of a parameter of an optimizer seen before; None for any other."""
        return self._name_of(parameter)

    def _forget_rows(self, _: object) -> None:
        """Forget all rows, for a parameter is gone, and another object may be given its id."""
        self._rows.clear()

    def _name_of(self, parameter: torch.Tensor) -> str | None:
        reference, name = self._names.get(id(parameter), (None, ""))
        # The object itself is compared, for an id is given again once its object is gone.
        return name if reference is not None and reference() is parameter else None

    def _name_parts(self, root: torch.nn.Module) -> None:
        """Name the parameters of a model that have no name yet."""
        root_name = self._root_name(root)
        for path, parameter in named_parameters_of(root):
            if self._name_of(parameter) is None:
                self._names[id(parameter)] = (
                    weakref.ref(parameter, self._forget_rows),
                    f"{root_name}_{without_wrappers(path)}",
                )

    def _name_later_parts(self) -> None:
        """Name what registered models have gained since: layers may be added while they train."""
        for reference in self._registered:
            root = reference()
            if root is not None:
                self._name_parts(root)

    def _may_search(self) -> bool:
        """Return True if a search among all live objects is one of the first, or affordable."""
        is_affordable = self._searched_seconds <= _SHARE * self._process_clock()
        return self._searches < _FIRST_SEARCHES or is_affordable

    def _name_all(self, parameters: list[torch.Tensor]) -> None:
        started = self._clock()
        with one_look():
            roots = _roots()
            homes = _homes({id(p) for p in parameters}, roots)
            self._others = [weakref.ref(root) for root in roots]
            self._seen = [weakref.ref(optimizer) for optimizer in instances(Optimizer)]
        for parameter in parameters:
            if self._name_of(parameter) is not None:
                continue
            home = homes.get(id(parameter))
            if home is None:
                name = f"Parameters_{self._homeless}.weight"
                self._homeless += 1
            else:
                name = f"{self._root_name(home.root)}_{home.path}"
            self._names[id(parameter)] = (weakref.ref(parameter, self._forget_rows), name)
        self._searches += 1
        self._searched_seconds += self._clock() - started

    def _root_name(self, root: torch.nn.Module) -> str:
        reference, name = self._root_names.get(id(root), (None, ""))
        if reference is None or reference() is not root:
            name = self._new_name(root)
            self._root_names[id(root)] = (weakref.ref(root), name)
        return name

    def _new_name(self, root: torch.nn.Module) -> str:
        kind = _class_name(type(root))
        count = self._taken[kind] = self._taken.get(kind, 0) + 1
        return kind if count == 1 else f"{kind}{count}"


def _class_name(kind: type) -> str:
    """Return the name of the class as written: `fully_shard` replaces it by a class called FSDP<name>."""
    written = kind.__mro__[2:] if kind.__bases__[0].__name__ == "FSDPModule" else ()
    return (written or (kind,))[0].__name__


class Home(NamedTuple):
    """The home of a parameter: the outermost module that holds it, and its dotted path in that."""

    root: torch.nn.Module
    path: str


def _homes(wanted: set[int], roots: list[torch.nn.Module]) -> dict[int, Home]:
    """Return the home of each wanted parameter, by id. Of several roots the one with the most of them is taken."""
    homes: dict[int, Home] = {}
    owned = [(root, paths) for root in roots if (paths := _paths(root, wanted))]
    for root, paths in sorted(owned, key=lambda pair: -len(pair[1])):
        for number, path in paths.items():
            homes.setdefault(number, Home(root, path))
    return homes


def _paths(root: torch.nn.Module, wanted: set[int]) -> dict[int, str]:
    named = named_parameters_of(root)  # each parameter once, so tied weights have one name
    return {id(parameter): without_wrappers(name) for name, parameter in named if id(parameter) in wanted}


def inner_modules(root: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Return (dotted path, module) of the root (path "") and all modules in it, each once, without wrappers."""
    for path, module in named_modules_of(root):
        if type(module).__name__ not in _WRAPPERS:
            yield without_wrappers(path), module


def inner_parameters(root: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return (dotted path, parameter) of all parameters of the root; a tied one by each of its names."""
    return named_parameters_of(root, every_name=True)


def without_wrappers(name: str) -> str:
    """Return a dotted path without the parts that wrappers add."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPER_PARTS)


def _roots() -> list[torch.nn.Module]:
    """Return the live modules that no other module holds, without wrappers."""
    modules = [module for module in instances(torch.nn.Module) if "_modules" in module.__dict__]
    held = {id(child) for module in modules for child in module._modules.values()}
    return [unwrapped(module) for module in modules if id(module) not in held]


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module itself, without its wrappers for several devices or for the compiler."""
    inner = module._modules.get(_WRAPPERS.get(type(module).__name__, ""))
    return module if inner is None else unwrapped(inner)


def data_parallel(roots: Sequence[torch.nn.Module]) -> str:
    """Return the name of the wrapper that spreads the models over devices; "" for none."""
    if any(
        "FSDPModule" in {base.__name__ for base in type(m).__mro__} for root in roots for _, m in inner_modules(root)
    ):
        return "FSDP2"
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not is_distributed and torch.cuda.device_count() < 2:
        return ""
    inside = {id(root) for root in roots}
    for wrapper, word in _DATA_PARALLEL.items():
        if any(type(m).__name__ == wrapper and id(unwrapped(m)) in inside for m in instances(torch.nn.Module)):
            return word
    return ""
