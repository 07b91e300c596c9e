"""The parts of the training program, found and stored as model facts: see `records.model_facts`.

The search runs when the first steps end and then at every tenth, and costs microseconds if nothing has changed.
Findings are worked out, looked up in the script's source, and stored on the writer thread.
"""

from __future__ import annotations

import itertools
import math
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.script_lines import Place, script_path, shown, user_place
from trackside.capture.steps.step_engine import Position
from trackside.contracts.errors import RecordError
from trackside.contracts.model_facts import (
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
)
from trackside.contracts.observations import Observation, without_defaults
from trackside.contracts.run_layout import model_facts_key
from trackside.frameworks.pytorch.facts.detector import Detectors, InScript, SeenParameter
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.parameter_names import (
    ParameterNames,
    data_parallel,
    inner_modules,
    inner_parameters,
    without_wrappers,
)
from trackside.frameworks.pytorch.ground.source_lines import ModuleTree, SourceLines, user_classes
from trackside.frameworks.pytorch.losses.description import UNNAMED, LossDescription
from trackside.frameworks.pytorch.losses.graph import addends, facts_of, half_precision
from trackside.frameworks.pytorch.modules.roles import role_of, widths
from trackside.records.model_facts import MOST_BYTES, MOST_REVISIONS, encode_facts, read_facts
from trackside.storage.store import Store

LOOK_INTERVAL = 10  # steps
OFTEN_UNTIL, SELDOM = 500, 4  # from this step on, looks are that many times rarer: their cost is felt in small models
FIRST_LOOKS = 3  # steps, each of which is looked at
LOOKS_AGAIN = (10, 100, 1000)  # steps at which values are compared with the first ones, whatever has changed
CALM_REVISIONS = 8  # from then on, each further one doubles the interval: a training that changes all the time
MOST_LOSSES = 64
MOST_OF_A_LOSS = 16  # in the first step

_WAIT_SECONDS = 1.0  # how long what was found may wait to be stored
_IDLE_SECONDS = 5.0
_LAST_RETRY_SECONDS = 60.0
_REQUIRES_GRAD = attrgetter("requires_grad")
_Observed = Mapping[Observation[Any], Any]


@dataclass(frozen=True)
class _Found:
    """The parts found at a step, before the lookup in the source."""

    from_step: int
    roots: Sequence[Sequence[tuple[str, type, ModuleFacts]]]  # of each its modules: dotted path, class, facts
    parameters: tuple[ParameterFacts, ...]
    optimizers: Sequence[tuple[OptimizerFacts, Place | None]]
    losses: Sequence[tuple[LossFacts, Place | None]]
    program: ProgramFacts


class ModelFactsSource:
    """The source of model facts, which looks at the trained models during training.

    - `is_looking`: this step is looked at, so `before_step` matters
    - `wants_loss`: the same for `loss_seen`
    - `program`: returns facts of the program that other parts know
    - `detectors`: see all else of modules, parameters, optimizers and the program

    Of the methods only `wants_loss` could raise.
    """

    def __init__(
        self,
        *,
        names: ParameterNames,
        optimizer_name: Callable[[Optimizer], str],
        program: Callable[[], ProgramFacts],
        detectors: Detectors,
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self.is_looking = True
        self.may_read: Callable[[Optimizer | None], bool] = lambda optimizer: True
        self.steps = 0  # of this process
        self._names, self._optimizer_name = names, optimizer_name
        self._program, self._detectors = program, detectors
        self._file: ModelFactsFile | None = None
        self._places: weakref.WeakKeyDictionary[Optimizer, Place | None] = weakref.WeakKeyDictionary()
        self._optimizers: weakref.WeakKeyDictionary[Optimizer, OptimizerFacts] = weakref.WeakKeyDictionary()
        self._states: weakref.WeakKeyDictionary[Optimizer, tuple[Any, ...]] = weakref.WeakKeyDictionary()
        self._losses: dict[str, tuple[LossFacts, Place | None]] = {}
        self._followed_losses = 0  # of these, the number that a step followed
        self._seen_losses: dict[str, int] = {}
        self._autocast_dtype: torch.dtype | None = None
        self._modules: list[weakref.ref[nn.Module]] = []
        self._others: list[weakref.ref[torch.Tensor]] = []  # parameters that no optimizer holds
        self._recorded_state: object = None
        self._recorded_program: _Observed = {}
        self._revisions = 0
        self._interval = self._next_look = LOOK_INTERVAL
        self._looks_again = list(LOOKS_AGAIN)
        self._quiet_until = FIRST_LOOKS
        self.optimizer_created: Callable[[Optimizer], None] = protect(self._optimizer_created)
        self.loss_seen: Callable[[torch.Tensor, LossDescription], None] = protect(self._loss_seen)
        self.before_step: Callable[[Optimizer], None] = protect(self._before_step)
        self._look = protect(self._looked)

    @property
    def has_gathered(self) -> bool:
        """True once facts were gathered."""
        return self._revisions > 0

    @property
    def has_news_of_program(self) -> bool:
        """True if what is seen of the program differs from what was gathered."""
        return self._detectors.seen_of("program", self._detectors.watch) != self._recorded_program

    def connect(self, file: ModelFactsFile) -> None:
        """Set the file that stores the facts."""
        self._file = file

    def end_step(self, step: int) -> None:
        """Look at the models if it is time. Call it right before a training step ends, as `StepEngine.end_step`."""
        if self.is_looking:
            self._followed_losses = len(self._losses)
            self._look(step)
        self.steps += 1
        self.is_looking = False
        self._look_if_due()

    def look_soon(self) -> None:
        """Look at the models as the open step ends: something has changed."""
        self.is_looking = True  # as the open step ends, or the training

    def rest_ended(self, steps: int) -> None:
        """Count steps at rest: what was due among them is looked at as the open step ends."""
        self.steps += steps
        self._look_if_due()

    def _look_if_due(self) -> None:
        if self.steps < FIRST_LOOKS or self.steps >= self._next_look:
            self.is_looking = True
            between = self._interval if self.steps < OFTEN_UNTIL else SELDOM * self._interval
            self._next_look = (self.steps // between + 1) * between

    def wants_loss(self, name: str) -> bool:
        """Return True if this loss is looked at: each loss of the first step, later only the first of a name."""
        count = self._seen_losses.get(name, 0)
        return not (count and self.steps) and count < MOST_OF_A_LOSS and len(self._losses) < MOST_LOSSES

    def has_loss_at(self, place: Place | None) -> bool:
        """Return True if a loss that a training step followed was seen at this place of the script."""
        followed = itertools.islice(self._losses.values(), self._followed_losses)
        return place is not None and any(place == seen for _, seen in followed)

    def _optimizer_created(self, optimizer: Optimizer) -> None:
        self._places[optimizer] = user_place()
        if self.steps >= self._quiet_until and self._revisions < MOST_REVISIONS:  # some make one at each step
            self._quiet_until = self.steps + LOOK_INTERVAL
            self.look_soon()

    def _loss_seen(self, tensor: torch.Tensor, loss: LossDescription) -> None:
        """Note a loss that `backward` is about to be called on. Keeps nothing of its graph."""
        self._add_loss(tensor.grad_fn, loss)
        for end, part in addends(tensor.grad_fn) if loss.name == UNNAMED else ():
            if self.wants_loss(part.name):
                self._add_loss(end, part)

    def _add_loss(self, end: Any, loss: LossDescription) -> None:
        count = self._seen_losses.get(loss.name, 0)
        self._seen_losses[loss.name] = count + 1
        if self._autocast_dtype is None:
            self._autocast_dtype = half_precision(end)
        facts = facts_of(end, loss, name=f"{loss.name}_output_{count}")
        self._losses[facts.name] = facts, user_place()
        self.is_looking = True

    def _before_step(self, optimizer: Optimizer) -> None:
        groups = optimizer.param_groups
        held = groups[0]["params"] if len(groups) == 1 else [p for group in groups for p in group["params"]]
        parameters = tuple(map(id, held)), bytes(map(_REQUIRES_GRAD, held))
        kinds = tuple(tuple(map(_kind_of, group.values())) for group in groups)
        flags = mode_flags(m for r in self._modules if (m := r()) is not None)
        self._states[optimizer] = (parameters, kinds, flags)
        self._detectors.before_step(optimizer)
        if optimizer not in self._optimizers:
            self._optimizers[optimizer] = OptimizerFacts(
                self._optimizer_name(optimizer),
                type(optimizer).__name__,
                groups=tuple(map(_numbers_of, groups)),
            )

    def _looked(self, step: int) -> None:
        if self._file is None:
            return
        for optimizer in self._states:
            self._detectors.after_step(optimizer)
        is_again = bool(self._looks_again) and self.steps >= self._looks_again[0]
        self._looks_again = [steps for steps in self._looks_again if steps > self.steps]
        if self._state() == self._recorded_state and not is_again:
            return
        is_first = not self._revisions
        self._file.add(self._gather(step))
        self._revisions += 1
        if self._revisions > CALM_REVISIONS:
            self._interval *= 2
        if is_first:  # now that the modules are known
            for optimizer in list(self._states):
                self._before_step(optimizer)
        self._recorded_state = self._state()

    def _state(self) -> object:
        """Return a value that differs once something has changed."""
        others = bytes(p.requires_grad for r in self._others if (p := r()) is not None)
        seen_of = self._detectors.seen_of
        optimizers = [(id(o), s, seen_of("optimizers", o)) for o, s in self._states.items()]
        program = seen_of("program", self._detectors.watch)
        return optimizers, others, program, len(self._losses), self._detectors.changes()

    def _gather(self, step: int) -> _Found:
        self._detectors.look_begins()
        owners = _Owners(self._states, self._optimizers, self._names, detectors=self._detectors, may_read=self.may_read)
        roots, parameters = [], []
        self._modules, self._others = [], []
        for index, (root_name, root) in enumerate([*self._names.roots(), *self._names.outside()]):
            modules = [(path, module) for path, module in inner_modules(root)]
            self._modules += [weakref.ref(module) for _, module in modules]
            prefix = f"{root_name}." if index else ""
            of_root = [(p, type(m), self._module_facts(m, f"{prefix}{p}" if p else root_name)) for p, m in modules]
            roots.append(of_root)
            for path, parameter in inner_parameters(root):
                place = without_wrappers(path)
                module_name = place.rpartition(".")[0]
                parameter_facts = owners.facts(f"{root_name}_{place}", parameter)
                parameters.append(
                    replace(parameter_facts, module=f"{prefix}{module_name}" if module_name else root_name)
                )
                if not parameter_facts.optimizer and not parameter_facts.tied_to:
                    self._others.append(weakref.ref(parameter))
        parameters += owners.homeless()
        has_single = any(parameter.dtype == "float32" for parameter in parameters)
        half = _dtype_name(self._autocast_dtype) if self._autocast_dtype is not None and has_single else ""
        self._recorded_program = self._detectors.seen_of("program", self._detectors.watch)
        optimizers = [(self._as_now(o), self._places.get(o)) for o in self._states if o in self._optimizers]
        return _Found(
            from_step=step,
            roots=roots,
            parameters=tuple(parameters),
            optimizers=optimizers,
            losses=list(self._losses.values()),
            program=replace(
                self._program(),
                autocast_dtype=half,
                data_parallel=data_parallel([r for _, r in self._names.roots()]),
                observed=self._recorded_program,
            ),
        )

    def _as_now(self, optimizer: Optimizer) -> OptimizerFacts:
        """Return the facts of an optimizer after a step."""
        facts = self._optimizers[optimizer]
        return replace(
            facts,
            parameter_count=sum(len(group["params"]) for group in optimizer.param_groups),
            observed=self._detectors.seen_of("optimizers", optimizer),
        )

    def _module_facts(self, module: nn.Module, name: str) -> ModuleFacts:
        role = role_of(module)
        in_features, out_features = widths(module)
        return ModuleFacts(
            name=name,
            type_name=type(module).__name__,
            role=role.role,
            activation=role.activation,
            is_training=module.training,
            in_features=in_features,
            out_features=out_features,
            observed=self._detectors.seen_of("modules", module),
        )


class _Owners:
    """The optimizer that holds each parameter, and the first name of each parameter."""

    def __init__(
        self,
        states: Mapping[Optimizer, tuple[Any, ...]],
        optimizers: Mapping[Optimizer, OptimizerFacts],
        names: ParameterNames,
        *,
        detectors: Detectors,
        may_read: Callable[[Optimizer | None], bool],
    ) -> None:
        self._names, self._detectors, self._may_read = names, detectors, may_read
        self._own: set[int] = set()  # that no other thread trains
        self._owner: dict[int, tuple[str, int, bool]] = {}
        self._parameters: dict[int, torch.Tensor] = {}
        self._first_names: dict[int, str] = {}
        for optimizer, (state, _, _) in list(states.items()):
            trains, is_own = dict(zip(*state, strict=True)), may_read(optimizer)
            for number, group in enumerate(optimizer.param_groups):
                for p in group["params"]:
                    name = optimizers[optimizer].name if optimizer in optimizers else ""
                    self._owner.setdefault(id(p), (name, number, bool(trains.get(id(p), p.requires_grad))))
                    self._parameters[id(p)] = p
                    if is_own:
                        self._own.add(id(p))

    def facts(self, name: str, parameter: torch.Tensor) -> ParameterFacts:
        """Return the facts of a parameter under the name `name`, without its module."""
        optimizer, group, requires_grad = self._owner.get(id(parameter), ("", 0, parameter.requires_grad))
        first = self._first_names.setdefault(id(parameter), self._names.name_of(parameter) or name)
        placements = getattr(parameter, "placements", ())
        is_trained = bool(optimizer) and requires_grad
        may_be_read = id(parameter) in self._own or (not optimizer and self._may_read(None))
        return ParameterFacts(
            name=name,
            module="",
            shape=tuple(parameter.shape),
            dtype=_dtype_name(parameter.dtype),
            requires_grad=requires_grad,
            optimizer=optimizer,
            group=group,
            tied_to=first if first != name else "",
            is_sharded=bool(placements) and not all(placement.is_replicate() for placement in placements),
            observed=self._detectors.seen_of("parameters", SeenParameter(parameter, is_trained, may_be_read)),
        )

    def homeless(self) -> Iterator[ParameterFacts]:
        """Return the parameters that optimizers hold and no module does."""
        for number, parameter in self._parameters.items():
            if number not in self._first_names and (name := self._names.name_of(parameter)) is not None:
                yield self.facts(name, parameter)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _numbers_of(group: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers and flags of a parameter group, without those on a device or not finite."""
    found: dict[str, float] = {}
    for key, value in group.items():
        parts = value if isinstance(value, (tuple, list)) and key != "params" else [value]
        for k, given in enumerate(parts):
            part = _number_of(given)
            if isinstance(part, (bool, int, float)) and math.isfinite(part):
                found[key if parts[0] is value else f"{key}_{k}"] = float(part)
    return found


def mode_flags(modules: Iterable[nn.Module]) -> bytes:
    """Return a byte for each module, 1 in training mode and 0 in evaluation mode.

    Args:
        modules: The modules.
    """
    return bytes([module.training for module in modules])


def _number_of(value: Any) -> Any:
    """Return the number in a tensor of one element in memory of the processor; any other value as it is."""
    is_number = isinstance(value, torch.Tensor) and value.is_cpu and value.numel() == 1 and has_memory(value)
    return float(value.detach()) if is_number else value


def _kind_of(value: Any) -> object:
    """Return a value that changes with the kind of `value`, and not as a schedule goes on.

    For a number that is whether it is zero. A tensor, which may lie on a device, is never read.
    """
    if isinstance(value, (tuple, list)):
        return len(value) if len(value) > 4 else tuple(map(_kind_of, value))
    if isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) else value != 0
    return value is None


class ModelFactsFile:
    """The file of model facts: a `BackgroundPart` of the writer thread.

    - `open_store`: opens the store of the run's tensors
    - `start`: returns the position to add to the numbers of steps
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        start: Callable[[], Position],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_store, self._worker, self._start, self._monotonic = open_store, worker, start, monotonic
        self._store: Store | None = None
        self._added: list[_Found] = []  # by the training thread; taken from the front by the writer's
        self._revisions: list[ModelFacts] = []
        self._is_resumed = self._has_news = self._is_full = False
        self._resumed_at: int | None = None  # None: not known yet
        self._revision_count = self.stored_revisions = 0
        self._lines: tuple[object, list[dict[str, Place]]] = (None, [])
        self._source = SourceLines()
        self._retry_at = 0.0
        self._retry_seconds = 0.0

    def add(self, found: _Found) -> None:
        """Add the parts found at a step. Called on the training thread."""
        self._added.append(found)

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush or attempt; see `BackgroundPart`."""
        if self._retry_seconds:
            return max(0.0, self._retry_at - self._monotonic())
        return _IDLE_SECONDS if self._is_resumed else _WAIT_SECONDS

    def flush_if_due(self) -> bool:
        """Store new facts, if it is time; see `BackgroundPart`."""
        if not (self._added or self._has_news) or self._monotonic() < self._retry_at:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store new facts; see `BackgroundPart`."""
        if not (self._added or self._has_news):
            return
        try:
            self._save()
        except OSError:
            self._retry_seconds = min(self._retry_seconds * 2 or 1.0, _LAST_RETRY_SECONDS)
            self._retry_at = self._monotonic() + self._retry_seconds
            raise
        self._retry_seconds = self._retry_at = 0.0

    def close(self) -> None:
        """Store the rest; see `BackgroundPart`."""
        self.flush()

    def _save(self) -> None:
        start = self._start()
        if self._store is None:
            self._store = self._open_store()
        self._resume(self._store)
        while self._added:
            found = self._added[0]
            facts = self._with_lines(found)
            from_step = found.from_step + start.step
            if self._resumed_at is None:
                self._resumed_at = from_step if self._revisions else 0
            facts = replace(facts, from_step=from_step, program=replace(facts.program, resumed_at=self._resumed_at))
            del self._added[0]
            self._add(facts)
        self._source = SourceLines()  # the files as trees are large, and facts are few
        if self._has_news:
            self._store.put(
                model_facts_key(self._worker), encode_facts(self._revisions, revision_count=self._revision_count)
            )
            self._has_news, self.stored_revisions = False, self._revision_count

    def _resume(self, store: Store) -> None:
        """Read the facts that an earlier process of the run has stored, once."""
        if self._is_resumed:
            return
        try:
            self._revisions = list(read_facts(store, self._worker))
        except RecordError:  # it was damaged before: its content is lost already
            self._revisions = []
        self._revision_count = len(self._revisions)
        self._is_resumed = True

    def _add(self, facts: ModelFacts) -> None:
        last = self._revisions[-1] if self._revisions else None
        if last is not None and facts.from_step < last.from_step:  # it goes on from a checkpoint before
            self._revisions = [earlier for earlier in self._revisions if earlier.from_step < facts.from_step]
            last = self._revisions[-1] if self._revisions else None
        if self._is_full or (last is not None and replace(facts, from_step=last.from_step) == last):
            return
        revisions = [*self._revisions, facts]
        if len(revisions) > MOST_REVISIONS:
            del revisions[1]
        if len(encode_facts(revisions)) > MOST_BYTES:
            self._is_full = True
            return
        self._revisions = revisions
        self._revision_count += 1
        self._has_news = True

    def _with_lines(self, found: _Found) -> ModelFacts:
        script = script_path()
        places = self._module_places(found, script)
        modules = [
            replace(facts, line=shown(of_root.get(path), script), observed=self._resolved(facts.observed, script))
            for root, of_root in zip(found.roots, places, strict=True)
            for path, _, facts in root
        ]
        optimizers = [
            replace(facts, line=shown(place, script), observed=self._resolved(facts.observed, script))
            for facts, place in found.optimizers
        ]
        program = replace(found.program, script=script, observed=self._resolved(found.program.observed, script))
        losses = tuple(self._loss_with_lines(facts, place, script) for facts, place in found.losses)
        return ModelFacts(found.from_step, tuple(modules), found.parameters, tuple(optimizers), losses, program)

    def _resolved(self, observed: _Observed, script: str) -> _Observed:
        """Return what was seen with what the script's source holds of it, and without what is then as by default."""
        return without_defaults({each: self._value(value, script) for each, value in observed.items()})

    def _value(self, value: Any, script: str) -> Any:
        if isinstance(value, InScript):
            if value.facts is None:
                return shown(value.place, script)
            arguments = {field: self._source.argument(value.place, call) for field, call in value.arguments}
            return replace(value.facts, line=shown(value.place, script), **arguments)
        return tuple(self._value(each, script) for each in value) if type(value) is tuple else value

    def _loss_with_lines(self, facts: LossFacts, backward: Place | None, script: str) -> LossFacts:
        if backward is None:
            return facts
        is_call = self._source.has_call(backward, "backward")
        return replace(
            facts,
            line=shown(self._source.loss(backward), script),
            backward_line=shown(backward, script) if is_call else "",
        )

    def _module_places(self, found: _Found, script: str) -> list[dict[str, Place]]:
        """Return the place of each module of each root. They are looked up again only if the modules changed."""
        paths = [[(path, kind) for path, kind, _ in root] for root in found.roots]
        if self._lines[0] != paths:
            seen = [p.file for _, p in (*found.optimizers, *found.losses) if p is not None]
            files = dict.fromkeys([*([script] if script else []), *seen])
            places = [self._source.modules(_tree(modules), files=files) for modules in paths]
            self._lines = paths, places
        return self._lines[1]


def _tree(modules: Sequence[tuple[str, type]]) -> ModuleTree:
    """Return a root's modules, given by their dotted paths in order, as a tree."""
    trees: dict[str, ModuleTree] = {}
    for path, kind in modules:
        tree = trees[path] = ModuleTree(kind.__name__, user_classes(kind))
        above, _, name = path.rpartition(".")
        if path and above in trees:
            trees[above].children[name] = tree
    return trees.get("", ModuleTree(""))
