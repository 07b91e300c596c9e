"""Validations of a model that was left in training mode, where dropout drops and batch statistics move.

Nothing calls `eval()`, so the signs of such a validation are that the script switches gradients off, or passes over a
data set that it does not train on. Where the script itself does the former while a model trains (`no_grad`,
`inference_mode`, `set_grad_enabled`, as block or decorator), calls are observed until the next backward pass or
optimizer step. If they were a validation, its losses are recorded then, a step of the mode EVAL for each call. It is
counted as a mistake too, if a module behaves otherwise in training.

- It is a validation if a trained model in training mode is called with gradients off and a loss is taken of its output:
  one call, one loss. Several calls to a loss are none (Monte-Carlo dropout, a generator before its discriminator), nor
  are calls without a loss: targets and rollouts of reinforcement learning, pseudo-labels, batch statistics that are
  estimated anew, a momentum teacher, which besides is no trained model.
- A metric stands for the loss: after each call whole batches of classes are compared (`compared_labels.py`), of several
  batches, or of the very tensor of the look before that the training never got. It is none where the script has called
  `train()` since the last step: statistics of the new data are wanted. Nothing is recorded of it.
- An event of every step is none either: a line search, the choice of hard examples, a monitor of the batch. But it is
  one if its first input is the very same tensor three times, and no call of the training had it: a training on all
  data at once is validated after each step. From then on every fifth of them is looked at.
- With gradients on it is one pass over a DataLoader whose last two passes led to no backward pass: a loss or a metric
  is taken of as many calls as it has batches, two at least, before the training goes on.
- A place in the script that showed no validation three times is not observed again. No place is once the script calls
  `eval()` after all.

It costs a comparison where gradients are switched off, and optimizers do not pass that way. Torch's own code that does
so is ignored: its clipping, its activation checkpointing.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, user_place
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.script_objects import length_of, modules_of
from trackside.frameworks.pytorch.ground.structures import flatten, is_no_computation
from trackside.frameworks.pytorch.modes.compared_labels import ComparedLabels
from trackside.frameworks.pytorch.modules.roles import role_of
from trackside.frameworks.pytorch.modules.source import TrainedModules

ENOUGH = 3  # evaluations
MOST_LOOKS = 3  # at a place in the script that shows nothing
MOST_PLACES = 16
_EVERY_STEP = 2  # evaluations fewer steps apart than this belong to each step
_SAME_BEFORE = 2  # looks in a row that have met the same data, before that is a validation of every step
_THINNED = 5  # steps between looks at such a validation
_UNUSED_PASSES = 2  # over a data set, that led to no backward pass, before it is taken for one to validate on
_MOST_DATA = 8
_MOST_TRAINED = 8  # calls of the training that are remembered
_DIFFERING_ROLES = {"dropout", "normalization"}
_ALIKE = (nn.LayerNorm, nn.GroupNorm, nn.modules.instancenorm._InstanceNorm, nn.LocalResponseNorm)
_BETWEEN_MODULES = {"torch.autograd.grad_mode", "torch.utils._contextlib"}
_NO_SCRIPT = ("torch.", "trackside.")

_Location = tuple[CodeType, int]


class ValidationInTrainingMode:
    """A counter of validations in training mode.

    - `is_looking`: True while calls must be reported, by `model_called`, `loss_taken` and `training_goes_on`
    - `step()` returns the number of training steps that have ended
    - `counted()` is called after each of the first validations of a model that behaves otherwise in training
    - `look_begins(again)` is called before it becomes True, with `again` for one of a validation of every step; False
      as its answer leaves the look out
    - `look_changed()` is called when `is_looking` has changed
    - `set_to_train()` returns True if the script has called `train()` since the last step
    - `is_compiler_used()` returns True once the script uses torch.compile: then methods of tensors are left alone
    - `found()` is called at the end of each validation, while `is_looking` is still True
    """

    def __init__(
        self,
        *,
        modules: TrainedModules,
        step: Callable[[], int],
        counted: Callable[[], None],
        set_to_train: Callable[[], bool],
        is_compiler_used: Callable[[], bool],
        fuse: Fuse,
    ) -> None:
        self.count = 0
        self.place: Place | None = None  # where a model was called for a validation
        self.is_looking = False
        self.look_begins: Callable[[bool], bool] = lambda again: True
        self.look_changed: Callable[[], None] = lambda: None
        self.found: Callable[[], None] = lambda: None
        self._modules, self._step, self._counted = modules, step, counted
        self._set_to_train, self._is_compiler_used = set_to_train, is_compiler_used
        self._is_waiting = False
        self._thread = 0
        self._counts: bool | None = None  # None: not known before the first look
        self._looks: dict[_Location, int] = {}
        self._location: _Location | None = None
        self._calls = self._losses = self._metrics = 0
        self._has_extra_calls = self._is_set_to_train = False
        self._called_at: Place | None = None
        self._last_step: int | None = None
        self._data: _Data | None = None  # of the first call of this look
        self._trained: list[_Data] = []  # of the training's calls since
        self._data_before: _Data | None = None
        self._same = 0  # looks before this one that met the same data
        self._pass: _Pass | None = None  # the newest over a data set
        self._unused: dict[int, int] = {}  # passes in a row without a backward pass, by id of the data set
        self._batches = 0  # of the pass with gradients on that is looked at; 0 for none
        self._next_look: dict[_Location, int] = {}  # step of the next look at a validation of every step
        self._undo: list[Callable[[], None]] = []
        fuse.when_blown = self.stand_down
        self._labels = ComparedLabels(fuse.protect(self._labels_compared))
        self._see = untraced(fuse.protect(self._gradients_off))
        self.pass_begins: Callable[[Any, int], None] = untraced(fuse.protect(self._pass_begins))
        self._go_on = fuse.protect(self._training_goes_on)

    @property
    def seen(self) -> tuple[int, Place | None]:
        """The number of validations so far, and a place where a model was called for one."""
        return self.count, self.place

    def install(self) -> Callable[[], None]:
        """Wrap the functions that switch gradients off. Return the function that undoes it."""
        self._wrap(torch.no_grad)
        self._wrap(torch.set_grad_enabled)  # as a block: called, as optimizers do, it is left alone
        self._wrap(torch.inference_mode)
        return self._remove

    def _wrap(self, kind: Any) -> None:
        original = kind.__enter__
        evaluations, see = self, self._see

        @functools.wraps(original)
        def __enter__(self: Any) -> None:  # noqa: N807 - it replaces one
            # `set_grad_enabled` has switched them off before, when it was made.
            was_on = self.prev if kind is torch.set_grad_enabled else torch.is_grad_enabled()
            original(self)
            is_off = was_on and evaluations._is_waiting and not torch.is_grad_enabled()
            if is_off and (location := _users_location()) is not None:
                see(location)

        skip_frame(__enter__)
        kind.__enter__ = __enter__

        def undo() -> None:
            if kind.__enter__ is __enter__:  # else another library has wrapped it, and it stays, inert
                kind.__enter__ = original

        self._undo.append(undo)

    def _remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []

    def training_began(self) -> None:
        """Note that this thread is about to make the first optimizer step."""
        self._thread = threading.get_ident()
        self._is_waiting = True

    def stand_down(self) -> None:
        """Stop for good."""
        self._is_waiting = False
        self._remove()
        self._end_look()

    # What is seen while it looks.

    def model_called(self, args: Any, kwargs: Any) -> None:
        """Note that a trained model in training mode is about to be called."""
        if torch.is_grad_enabled() and not self._batches:
            if len(self._trained) < _MOST_TRAINED and (data := _Data.of(args, kwargs)) is not None:
                self._trained.append(data)
            return
        if self._batches and max(self._losses, self._metrics) >= self._batches:
            return  # it is the training that goes on
        if not self._calls and not self._losses and not self._metrics:
            self._data = _Data.of(args, kwargs)
        self._calls += 1
        self._labels.call_began()
        self._called_at = user_place()

    def loss_taken(self, value: Any) -> None:
        """Note the result of a loss function or a model."""
        if not _may_evaluate(self._calls, self._batches) or is_no_computation():
            return
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
            return
        self._has_extra_calls |= self._calls > 1
        self._losses += 1
        self._calls = 0

    def _labels_compared(self) -> None:
        if _may_evaluate(self._calls, self._batches):
            self._has_extra_calls |= self._calls > 1
            self._metrics += 1
            self._calls = 0

    def training_goes_on(self) -> None:
        """Note a backward pass or optimizer's step about to be made, or that training has ended."""
        self._go_on()

    def _gradients_off(self, location: _Location) -> None:
        if self.is_looking or threading.get_ident() != self._thread:
            return
        if self._looks.get(location, 0) >= MOST_LOOKS or len(self._looks) >= MOST_PLACES:
            return
        if self._step() < self._next_look.get(location, 0) or not self.look_begins(location in self._next_look):
            return
        self._looks.setdefault(location, 0)
        self._location = location
        self._look()

    def _look(self) -> None:
        if self._counts is None:
            self._counts = _can_differ(self._modules)
        self.is_looking = True
        self._is_set_to_train = self._set_to_train()
        self._labels.switch(on=self._counts and self.count < ENOUGH and not self._is_compiler_used())
        self.look_changed()

    def _pass_begins(self, loader: Any, passes: int) -> None:
        """Look at a pass over a data set that was not trained on so far, with gradients on.

        Args:
            loader: The DataLoader.
            passes: Backward passes of the process so far.
        """
        if not self._is_waiting or threading.get_ident() != self._thread:
            return
        step, last, data = self._step(), self._pass, id(loader.dataset)
        self._pass = _Pass(data, step, passes)
        if last is not None and (last.data in self._unused or len(self._unused) < _MOST_DATA):
            is_unused = (last.step, last.passes) == (step, passes)
            self._unused[last.data] = self._unused.get(last.data, 0) + 1 if is_unused else 0
        batches = length_of(loader)
        may_be_one = self._unused.get(data, 0) >= _UNUSED_PASSES and self.count < ENOUGH
        if not may_be_one or self.is_looking or batches is None or batches < _UNUSED_PASSES:
            return
        if torch.is_grad_enabled() and self.look_begins(False):
            self._batches = batches
            self._look()

    def _training_goes_on(self) -> None:
        if self._batches:
            self._pass_ends()
        if not self.is_looking:
            return
        is_validation = self._losses > 0 and not self._has_extra_calls
        has_metric = self._metrics > 0 and not (self._losses or self._has_extra_calls or self._is_set_to_train)
        location, place, step = self._location, self._called_at, self._step()
        is_of_every_step = is_validation and self._last_step is not None and step - self._last_step < _EVERY_STEP
        if is_validation:
            self._last_step = step
        if location is not None and is_of_every_step and self._is_of_fixed_data():
            self._next_look[location] = step
        if location in self._next_look:
            is_of_every_step = False
            self._next_look[location] = step + _THINNED
        if is_validation and not is_of_every_step:
            if step >= _EVERY_STEP:  # else it may be the first of every step
                self.found()
            self._end_look()
            self._count(place)
            return
        is_scored = has_metric and self._is_of_several_batches_or_the_same(step)
        self._end_look()
        if is_scored:
            self._count(place)
            if self.count < ENOUGH:
                return  # else the place has shown enough
        if is_of_every_step and self.count < ENOUGH:
            self.count = 0
        if location is not None:
            self._looks[location] = self._looks.get(location, 0) + 1

    def _pass_ends(self) -> None:
        """Count a pass with gradients on, if a loss or metric was taken of each of its batches."""
        is_whole = max(self._losses, self._metrics) >= self._batches
        is_scored = is_whole and not (self._has_extra_calls or self._is_set_to_train)
        place = self._called_at
        self._end_look()
        if is_scored:
            self._count(place)

    def _is_of_several_batches_or_the_same(self, step: int) -> bool:
        """Return True if this look's metric is of held-out data: several batches, or the look's before; see above."""
        last, self._last_step = self._last_step, step
        is_later = last is None or step - last >= _EVERY_STEP
        return self._is_of_fixed_data(looks=1) or (self._metrics > 1 and is_later)

    def _is_of_fixed_data(self, *, looks: int = _SAME_BEFORE) -> bool:
        """Return True if this look and those before it met the same data, and none of the training's."""
        data, before, self._data_before = self._data, self._data_before, self._data
        is_same = data is not None and before is not None and data.is_same(before)
        self._same = self._same + 1 if is_same and data is not None and not any(map(data.is_same, self._trained)) else 0
        return self._same >= looks

    def _count(self, place: Place | None) -> None:
        if self._counts and self.count < ENOUGH:
            self.count += 1
            self.place = place
            self._counted()

    def _end_look(self) -> None:
        if not self.is_looking:
            return
        self.is_looking = self._has_extra_calls = False
        self._calls = self._losses = self._metrics = self._batches = 0
        self._labels.switch(on=False)
        self._location = self._called_at = self._data = None
        self._trained = []
        self.look_changed()


class _Pass(NamedTuple):
    """A pass over a data set: its id, and the steps and backward passes before it."""

    data: int
    step: int
    passes: int


class _Data(NamedTuple):
    """The first tensor of a call, by its memory's owner and its place in it. Nothing is read or held."""

    owner: weakref.ref[torch.Tensor]
    place: tuple[Any, torch.Size, int]

    @classmethod
    def of(cls, args: Any, kwargs: Any) -> _Data | None:
        tensor = next(flatten(args, kwargs), None)
        if tensor is None or tensor.layout != torch.strided:
            return None
        owner = tensor if tensor._base is None else tensor._base
        version = 0 if tensor.is_inference() else tensor._version
        return cls(weakref.ref(owner), (tensor.storage_offset(), tensor.shape, version))

    def is_same(self, other: _Data) -> bool:
        owner = self.owner()
        return owner is not None and owner is other.owner() and self.place == other.place


def _can_differ(modules: TrainedModules) -> bool:
    """Return True if a trained module behaves otherwise in training mode."""
    return any(
        role_of(module).role in _DIFFERING_ROLES and not isinstance(module, _ALIKE)
        for _, root in modules.roots()
        for module in modules_of(root)
    )


def _may_evaluate(calls: int, batches: int) -> bool:
    """Return True if a model was called, with gradients off or in a pass over data that are not trained on."""
    return calls > 0 and (batches > 0 or not torch.is_grad_enabled())


def _users_location() -> _Location | None:
    """Return the place where the script, or a library that trains for it, switched gradients off; else None.

    None stands for torch itself and for us.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN_MODULES:
        frame = frame.f_back
    is_other = str(frame.f_globals.get("__name__")).startswith(_NO_SCRIPT)
    return None if is_other else (frame.f_code, frame.f_lasti)
