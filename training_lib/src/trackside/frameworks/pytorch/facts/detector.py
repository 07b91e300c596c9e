"""Detectors of facts about modules, parameters, optimizers and the program, and the events that they hear.

One that needs nothing but its subject is a function; one that watches is a class:

@sees(PROBABILITY)
def probability(module: nn.Module) -> float | None: ...

@watches(SEQUENCE)
class Sequences:
    def __init__(self, watch: Watch) -> None: ...
    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None: ...
    def of(self, module: nn.Module) -> tuple[int, ...]: ...
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.ground.script_lines import Place
from trackside.contracts.observations import Observation, Section
from trackside.frameworks.pytorch.facts import detectors
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.shared.adapter import StepHook, Undo
from trackside.frameworks.shared.detectors import Detector, detectors_in

Protect = Callable[[Callable[..., None]], Callable[..., None]]


class Counter(Protocol):
    """A counter of evaluations of one kind, and the place of the newest."""

    count: int
    place: Place | None


class Copies(Counter, Protocol):
    """A counter of evaluations of copies of the models."""

    def look(self, names: ParameterNames) -> None:
        """Find the copies of the models."""


class Contents(Protocol):
    """A comparison of what the script has saved with the models."""

    def facts(self) -> Any:
        """Return the facts so far."""


@dataclass
class Watch:
    """A training as detectors see it: what a class of theirs is made with, and the subject of facts about the program.

    Attributes:
        protect: Makes a function of the detector harmless to the script, and ends the detector with its first error.
        changed: To be called when a value has changed: the facts are gathered as the open step ends.
        steps: Returns the number of training steps of this process so far.
        passes: Returns the number of its backward passes so far.
        names: The trained models.
        is_first_look: Returns True until facts were gathered once.
        clipping: Places where gradients were clipped, by kind and limit.
        in_training_mode, random, copies, still, untrained: Evaluations in training mode, with a live dropout, of stale
            copies, of copies that never change, and of models that nothing has trained.
        checkpoints: Compares what the script saves; None where that is not watched.
        set_to_train: The modules whose own `train` was called with True; None where that is not known from the start.
    """

    protect: Protect = lambda function: function
    changed: Callable[[], None] = lambda: None
    steps: Callable[[], int] = lambda: 0
    passes: Callable[[], int] = lambda: 0
    names: ParameterNames = field(default_factory=ParameterNames)
    is_first_look: Callable[[], bool] = lambda: True
    clipping: Mapping[tuple[str, float], Place | None] = field(default_factory=dict)
    in_training_mode: Counter | None = None
    random: Counter | None = None
    copies: Copies | None = None
    still: Copies | None = None
    untrained: Counter | None = None
    checkpoints: Contents | None = None
    set_to_train: weakref.WeakSet[nn.Module] | None = None


class SeenParameter(NamedTuple):
    """A parameter at a look.

    Attributes:
        tensor: The parameter.
        is_trained: True if an optimizer holds it, and it requires a gradient.
        may_be_read: False while another thread may be writing its gradient.
    """

    tensor: torch.Tensor
    is_trained: bool
    may_be_read: bool


class InScript(NamedTuple):
    """A value that needs the script's source, which is read on the writer's thread.

    Attributes:
        place: A place in the script.
        facts: Facts whose `line` is that of the place; None: the value is that line itself.
        arguments: Further fields of the facts: each is the first argument, as written, of the call of a function there.
    """

    place: Place | None
    facts: Any = None
    arguments: tuple[tuple[str, str], ...] = ()


class Events(Protocol):
    """The events that a detector may hear. A class has a method for each that it needs, and `of`.

    `kinds` are the classes of modules whose calls and returns it notes; all, where it has none. All are called on the
    training's thread. An error ends the detector, and nothing else.
    """

    def install(self) -> Undo:
        """Install hooks that stay for the whole run. Return the function that undoes it."""

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks that each step meets."""

    def rest_ended(self, steps: int) -> None:
        """Handle the end of a rest of so many steps."""

    def outermost_called(self, module: nn.Module) -> None:
        """Handle the call of an outermost module, on steps that watch calls."""

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Handle the call of a module, on steps that watch calls."""

    def returned(self, module: nn.Module, output: Any) -> None:
        """Handle what a module returned, on steps that watch calls."""

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Handle the first batch for the training of a pass over a DataLoader."""

    def before_step(self, optimizer: Optimizer) -> None:
        """Handle the moment before the step of an optimizer, where the facts are looked at as it ends."""

    def after_step(self, optimizer: Optimizer) -> None:
        """Handle the end of a step that is looked at."""

    def look_begins(self) -> None:
        """Handle the moment before facts are gathered."""

    def changes(self) -> object:
        """Return a value that differs once the facts are to be gathered. Values about optimizers and programs are."""


Kinds = tuple[type[nn.Module], ...]


class ByKind(dict[type, tuple[Callable[..., None], ...]]):
    """By the class of a module, the functions that note its calls.

    Args:
        functions: Each with the classes of modules whose calls it notes.
    """

    def __init__(self, functions: Sequence[tuple[Kinds, Callable[..., None]]]) -> None:
        super().__init__()
        self._functions = functions

    def __missing__(self, kind: type) -> tuple[Callable[..., None], ...]:
        """Return those of a class that was not met yet."""
        if len(self) >= _MOST_KINDS:  # a library may make a class for each module
            self.clear()
        found = self[kind] = tuple([function for kinds, function in self._functions if issubclass(kind, kinds)])
        return found


EVENTS = tuple(name for name in vars(Events) if not name.startswith("_"))
_MOST_KINDS = 1000  # of modules that are remembered
_ANSWERS = ("install", "step_hooks", "changes")  # events whose result counts


class Detectors:
    """All detectors of one training, by event.

    Args:
        watch: The training as they see it.
        guard: Logs their failures.
    """

    def __init__(self, watch: Watch, guard: Guard) -> None:
        self.watch, self._guard = watch, guard
        self._seeing: dict[Section, list[tuple[Detector, Callable[[Any], Any]]]] = {}
        methods: dict[str, list[Callable[..., Any]]] = {event: [] for event in EVENTS}
        of_calls: dict[str, list[tuple[Kinds, Callable[..., None]]]] = {"called": [], "returned": []}
        for detector in detectors_in(detectors):
            first, of = detector.observations[0], detector.detects
            if isinstance(of, type):
                fuse = Fuse(guard, f"seeing {first.name}")
                watching = of(replace(watch, protect=fuse.protect))
                of = watching.of
                for event in EVENTS:
                    if (method := getattr(watching, event, None)) is not None:
                        methods[event].append(method if event in _ANSWERS else fuse.protect(method))
                        if event in of_calls:
                            of_calls[event].append((getattr(watching, "kinds", (nn.Module,)), methods[event][-1]))
            self._seeing.setdefault(first.about, []).append((detector, of))
        self._install, self._step_hooks, self._changes = (tuple(methods[event]) for event in _ANSWERS)
        self.rest_ended = _each(methods["rest_ended"])
        self.outermost_called = tuple(methods["outermost_called"])
        self.called, self.returned = ByKind(of_calls["called"]), ByKind(of_calls["returned"])
        self.pass_met = _each(methods["pass_met"])
        self.before_step, self.after_step = _each(methods["before_step"]), _each(methods["after_step"])
        self.look_begins = _each(methods["look_begins"])

    def install(self) -> Undo:
        """Install the hooks that stay for the whole run. Return the function that undoes it."""
        installed = [install() for install in self._install]

        def undo() -> None:
            for each in reversed(installed):
                each()

        return undo

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks that each step meets."""
        return [hook for hooks in self._step_hooks for hook in hooks()]

    def changes(self) -> tuple[object, ...]:
        """Return a value that differs once the facts are to be gathered."""
        return tuple(change() for change in self._changes)

    def seen_of(self, about: Section, subject: Any) -> dict[Observation[Any], Any]:
        """Return all that is seen of a subject, without what is as by default.

        A detector that raises leaves its observations at their defaults.

        Args:
            about: The section of the facts.
            subject: A module, a `SeenParameter`, an optimizer, or the watch.
        """
        found: dict[Observation[Any], Any] = {}
        for detector, of in self._seeing.get(about, ()):
            try:
                found |= detector.seen(of(subject))
            except Exception as error:  # noqa: BLE001 - a subject may be anybody's code
                name = detector.observations[0].name
                self._guard.warn_once(f"seeing {name}", "%s could not be seen: %s.", name, describe(error))
        return found


def _each(functions: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    def all_of_them(*args: Any) -> None:
        for function in functions:
            function(*args)

    return all_of_them
