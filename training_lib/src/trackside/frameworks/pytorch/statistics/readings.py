"""Readings of PyTorch for the always-on statistics: losses, learning rates, norms of gradients, weights and updates.

The arithmetic is one call per kind over all tensors, on their own device, with one conversion at the end; on a CPU with
the compiled loops, where `trackside-native` is installed. On a GPU
nothing waits: numbers travel while training goes on, and are recorded when they have arrived, a step or two later.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.values import Flags, Here, Numbers, Values
from trackside.capture.statistics.budget import DEAR, NORMS
from trackside.capture.statistics.statistic_rows import DearReading, Reading, Watched
from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.capture.steps.loss_parts import Part
from trackside.capture.steps.step_engine import StepEngine
from trackside.contracts.run.recorded_names import LOST_UPDATES
from trackside.frameworks.pytorch.ground.memory import has_memory, have_memory, with_memory
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.losses.description import LateScale, constant_of
from trackside.frameworks.pytorch.optimizers.source import fused_scale
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers, is_on_device
from trackside.frameworks.pytorch.statistics.last_look import LastLook
from trackside.frameworks.pytorch.statistics.lost_updates import HALF, lost_share, rounds_to_nearest
from trackside.frameworks.pytorch.statistics.tensor_loops import TensorLoops

PART_BYTES = 64 << 20  # of weights with an update measured in one step: they are copied for it
MOST_PARTS = 100
MOST_TENSORS_A_PART = 4096
MOST_COPIED_BYTES = 512 << 20  # a larger tensor's update is never measured

_PIECE = 1 << 20  # elements of a gradient that are looked at together, so that a buffer of them stays small
_REAL = {torch.float32, torch.float64}
_NOT_MEASURED = -1.0

Tensors = list[torch.Tensor]


class PyTorchStatistics:
    """A reader of losses and optimizers for the always-on statistics of a session. No method raises.

    Code that runs at every step has no layers, because each function call costs a training of small steps a
    microsecond.

    Args:
        record: The session's statistics.
        names: Names of parameters.
        optimizer_name: Returns the name under which an optimizer's learning rates are recorded.
        is_late: Returns True if the value of a tensor has to travel from a device.
    """

    def __init__(
        self,
        record: StepStatistics,
        *,
        names: ParameterNames,
        optimizer_name: Callable[[Optimizer], str],
        is_late: Callable[[torch.Tensor], bool] = is_on_device,
    ) -> None:
        self.record = record
        self._names, self._optimizer_name = names, optimizer_name
        self.numbers = self._device = DeviceNumbers(is_late)  # on their way, sent with the end of each step
        self._alone = DeviceNumbers(is_late)  # of numbers that are needed with the statistics off, too
        self._loops = TensorLoops()
        self._plans: dict[int, _Plan] = {}
        self.last_look = LastLook(record, self._plans, is_late)
        self._watched: dict[Any, Watched] = {}  # the same names have the same tables
        self._open: dict[int, Reading | _OpenReading] = {}
        self._was_broken = False
        record.wait, record.when_off = self._device.wait, self._open.clear

    def add_loss(
        self, name: str, value: torch.Tensor, scale: float | LateScale, *, mode: str, part: Part = Part.NONE
    ) -> None:
        """Add a scalar loss to the open step of a mode; its true value is `value` / `scale`."""
        record = self.record
        if not record.is_on:
            return
        try:
            number = self._device.take_loss(value, scale)
            if part is Part.NONE:
                record.recorder.add_loss(name, number, mode=mode)
            else:
                record.recorder.parts.add(name, number, part, weight=constant_of(scale), mode=mode)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            record.switch_off(error)

    def read_later(self, tensor: torch.Tensor) -> Values:
        """Return a tensor's numbers, shape (n,), which may arrive later: with those of the open step, if any are."""
        return self._device.take(tensor) if self.record.is_on else self._alone.take_alone(tensor)

    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters of all optimizers that have stepped, in order."""
        return [parameter for plan in self._plans.values() for parameter in plan.parameters]

    def before_step(self, optimizer: Optimizer, *, is_skipped: bool | Values = False) -> None:
        """Read the values that this step of the optimizer uses. Gradients must be as it gets them.

        Of a step that the optimizer is told to skip, only learning rates are recorded; the flag may be on its way.
        """
        if not self.record.is_on:
            return
        try:
            plan = self._plan(optimizer)
            if plan.parameters and is_in_cuda_graph(plan.parameters[0]):
                return
            reading = self._open[id(optimizer)] = self._plain_reading(plan, optimizer)
            if self.record.recorder.takes_norms and is_skipped is not True:
                if not plan.is_as_built():
                    del self._plans[id(optimizer)]
                    plan = self._plan(optimizer)
                if plan.parameters:
                    measured = self._open[id(optimizer)] = self._measured(plan, reading.rates, optimizer)
                    measured.is_skipped = None if is_skipped is False else is_skipped
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self.record.switch_off(error)

    def after_step(self, optimizer: Optimizer) -> None:
        """Read the change of the weights by the step."""
        if not self.record.is_on:
            return
        try:
            reading = self._open.pop(id(optimizer), None)
            if isinstance(reading, _OpenReading):
                reading = self._closed(reading)
            if reading is not None:
                self.record.recorder.add(reading)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self.record.switch_off(error)

    def total_norm(self, optimizer: Optimizer) -> float | None:
        """Return the L2 of all gradients of the step that the optimizer is about to make, if it was measured here."""
        reading = self._open.get(id(optimizer))
        return None if reading is None else reading.total

    def leave_out(self, optimizer: Optimizer) -> None:
        """Keep only the learning rates of a step that the optimizer skipped. Call it before `after_step`."""
        reading = self._open.get(id(optimizer))
        if isinstance(reading, _OpenReading):
            self._open[id(optimizer)] = Reading(reading.plan.watched, reading.rates)

    def end_step(self, engine: StepEngine, *, keep_unsettled: bool = False) -> None:
        """End the engine's open step here as well. Call it right before the engine's own `end_step`."""
        record = self.record
        if not record.is_on:
            return
        try:
            if self._device.is_used:
                self._device.send()
            record.recorder.end_step(
                step=engine.step, mode=engine.mode, mode_step=engine.mode_step(), keep_unsettled=keep_unsettled
            )
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            record.switch_off(error)

    def _measured(self, plan: _Plan, rates: list[float] | Values, optimizer: Optimizer) -> _OpenReading:
        reading = _OpenReading(plan, rates)
        started = self.record.budget.clock()
        with torch.no_grad():
            reading.gradients = _present([parameter.grad for parameter in plan.parameters], reading)
            scale = fused_scale(optimizer)
            self._take_norms(reading, scale)
            started = self.record.budget.spend(NORMS, started)
            if self.record.recorder.takes_dear:
                self._take_weights(reading, plan.next_part(), scale)
                self.record.budget.spend(DEAR, started)
        return reading

    def _closed(self, open_reading: _OpenReading) -> Reading:
        """Return the reading of a step."""
        dear: DearReading | None = None
        if open_reading.part is not None and have_memory(open_reading.weights):
            started = self.record.budget.clock()
            with torch.no_grad():
                dear = self._dear_reading(open_reading, open_reading.part)
            self.record.budget.spend(DEAR, started)
        plan, rates, norms = open_reading.plan, open_reading.rates, open_reading.norms
        has_gradient, counts, total = open_reading.has_gradient, open_reading.counts, open_reading.total
        skipped = open_reading.is_skipped
        return Reading(plan.watched, rates, norms, has_gradient, dear, counts, total, skipped)

    def _plan(self, optimizer: Optimizer) -> _Plan:
        plan = self._plans.get(id(optimizer))
        groups = optimizer.param_groups
        parameters = groups[0]["params"] if len(groups) == 1 else [p for group in groups for p in group["params"]]
        if (
            plan is not None
            and plan.optimizer() is optimizer
            and len(parameters) == len(plan.all_parameters)
            and all(map(is_, parameters, plan.all_parameters))
        ):
            return plan
        number, forget = id(optimizer), weakref.WeakMethod(self.last_look.forget)
        # A plan holds the parameters, which must be free to go with their optimizer.
        reference = weakref.ref(optimizer, lambda _: method(number) if (method := forget()) is not None else None)
        word = self._optimizer_name(optimizer)
        plan = _Plan(optimizer, reference, tuple(parameters), self._names.of(optimizer), word)
        plan.watched = self._watched.setdefault(plan.watched.identity, plan.watched)
        self._plans[id(optimizer)] = plan
        return plan

    def _plain_reading(self, plan: _Plan, optimizer: Optimizer) -> Reading:
        """Return a reading of learning rates alone."""
        groups = optimizer.param_groups
        rates = [groups[number]["lr"] for number in plan.rate_groups]
        for rate in rates:
            if type(rate) is not float and isinstance(rate, torch.Tensor) and self._device.is_late(rate):
                joined = torch.cat([_number(r) for r in rates])
                return Reading(plan.watched, self._device.take(joined))
        found = [rate if type(rate) is float else float(_number(rate)) for rate in rates]
        return Reading(plan.watched, found)

    def _take_norms(self, reading: _OpenReading, scale: float | torch.Tensor) -> None:
        gradients = reading.gradients
        if gradients and self._device.is_late(gradients[0]):
            reading.norms = self._spread(self._device.take(_norms(gradients) / scale), reading)
            return
        norms = self._norms_here(gradients)
        if scale != 1:
            norms /= float(scale)
        reading.total = math.sqrt(norms @ norms)
        if math.isfinite(reading.total):
            self._was_broken = False
        elif not self._was_broken or self.record.recorder.takes_dear:  # while it lasts, it is counted now and then
            self._was_broken = True
            _count_exactly(reading, norms, float(scale))
            reading.total = math.sqrt(norms @ norms)
        reading.norms = self._spread(Here(norms), reading)

    def _norms_here(self, tensors: Tensors) -> Numbers:
        """Return the L2 norm of each tensor on the CPU."""
        norms = self._loops.norms(tensors)
        return _norms(tensors).numpy().astype(np.float64) if norms is None else norms

    def _spread(self, numbers: Values, reading: _OpenReading) -> Values:
        """Return numbers of all parameters, from those of the parameters with a gradient."""
        return numbers if reading.has_gradient is None else _Spread(numbers, reading.has_gradient)

    def _take_weights(self, reading: _OpenReading, part: _Part, scale: float | torch.Tensor) -> None:
        reading.part = part
        reading.weights = [_local(p) for p in reading.plan.parameters[part.first : part.first + part.count]]
        measured = [w for w, is_copied in zip(reading.weights, part.is_copied, strict=True) if is_copied]
        reading.copies = part.room(measured)
        has_gradient = reading.has_gradient_in(part)
        gradients = reading.gradients_in(part)
        flags = has_gradient if has_gradient is not None else [True] * part.count
        elements = [weight.numel() for weight, is_present in zip(reading.weights, flags, strict=True) if is_present]
        reading.part_has_gradient = has_gradient
        if self._device.is_late(reading.weights[0]):
            _copy(reading.copies, measured)
            reading.sizes = _size_on_device(gradients, elements, scale)
            reading.weight_norms = _norms(reading.weights)
            return
        norms = self._loops.copied(measured, reading.copies)
        if norms is None:
            _copy(reading.copies, measured)
        reading.weight_norms = self._norms_here(reading.weights) if norms is None or len(norms) < part.count else norms
        sums = self._loops.sizes(gradients)
        if sums is None:
            reading.sizes = _size(gradients, elements, float(scale))
        else:
            totals, zeros, largest = sums
            filled = np.array([gradient.numel() for gradient in gradients]) - zeros
            reading.sizes = [totals / elements / float(scale), 1 - filled / elements, largest / float(scale)]

    def _add_lost_updates(self, reading: _OpenReading, part: _Part, measured: Tensors) -> None:
        """Add the share of half-precision elements that the step left as they were, to the numbers of the step."""
        optimizer, rates = reading.plan.optimizer(), reading.rates
        if optimizer is None or not any(w.dtype in HALF for w in measured) or not rounds_to_nearest(optimizer):
            return
        if isinstance(rates, list) and not any(rates):
            return  # it was to leave everything as it is
        present = iter(reading.gradients_in(part))
        flags = [True] * part.count if reading.part_has_gradient is None else reading.part_has_gradient.tolist()
        gradients = [next(present) if has_one else None for has_one in flags]
        copied = [g for g, is_copied in zip(gradients, part.is_copied, strict=True) if is_copied]
        share = lost_share(measured, reading.copies, copied)
        if share is None:
            return
        number = self._device.take(share) if self._device.is_late(share) else float(share)
        self.record.recorder.numbers.added[LOST_UPDATES, "mean"] = number

    def _dear_reading(self, reading: _OpenReading, part: _Part) -> DearReading:
        measured = [w for w, is_copied in zip(reading.weights, part.is_copied, strict=True) if is_copied]
        is_late = self._device.is_late(reading.weights[0])
        updates: Any = None if is_late else self._loops.changed(measured, reading.copies)
        if updates is None:
            torch._foreach_sub_(reading.copies, measured)
            updates = _norms(reading.copies) if is_late else self._norms_here(reading.copies)
        self._add_lost_updates(reading, part, measured)
        copied = None if all(part.is_copied) else np.array(part.is_copied)
        has_gradient = reading.part_has_gradient
        if is_late:
            sizes = torch.stack(reading.sizes)
            kinds = [self._device.take(reading.weight_norms), _spread(self._device.take(updates), copied)]
            kinds += [_spread(self._device.take(row), has_gradient) for row in sizes]
            return DearReading(part.first, part.count, _Joined(kinds), has_gradient)
        norms = reading.weight_norms
        rows = [norms, _filled(updates, copied), *(_filled(row, has_gradient) for row in reading.sizes)]
        if not np.isfinite(norms).all():
            _count_weights(reading, part, norms)
        return DearReading(part.first, part.count, Here(np.concatenate(rows)), has_gradient)


class _Plan:
    """The watched values of one optimizer, valid while its parameters stay the same."""

    def __init__(
        self,
        optimizer: Optimizer,
        reference: Callable[[], Optimizer | None],
        all_parameters: tuple[torch.Tensor, ...],
        named: Iterable[tuple[str, torch.Tensor]],
        optimizer_name: str,
    ) -> None:
        self.optimizer = reference
        self.all_parameters = all_parameters
        unique = {name: parameter for name, parameter in named if _is_countable(parameter)}
        self.parameters = list(unique.values())
        self._are_plain = all(type(parameter) in PLAIN_TYPES for parameter in self.parameters)
        known = set(map(id, self.parameters))
        self._without_memory = [p for p in all_parameters if id(p) not in known and _is_freed(p)]
        self.rate_groups = [
            number for number, group in enumerate(optimizer.param_groups) if _is_number(group.get("lr"))
        ]
        self.watched = Watched(
            tuple(unique),
            tuple(f"hyperparameters/{optimizer_name}/group_{number}/lr" for number in self.rate_groups),
            tuple(_is_sharded(p) for p in self.parameters),
        )
        self._parts = _parts([_local(p) for p in self.parameters])
        self._next = 0

    def is_as_built(self) -> bool:
        """Return False if memory of a parameter was freed since, or is back."""
        have_all = have_memory(self.parameters) if self._are_plain else all(map(has_memory, self.parameters))
        return have_all and not any(map(has_memory, self._without_memory))

    def named_weights(self) -> list[tuple[str, torch.Tensor]]:
        """Return the plain tensors of the parameters that have memory, with their names."""
        named = zip(self.watched.parameters, self.parameters, strict=True)
        return [(name, _local(parameter)) for name, parameter in named if has_memory(parameter)]

    def next_part(self) -> _Part:
        """Return the next slice of parameters to measure: all, unless the model exceeds PART_BYTES."""
        part = self._parts[self._next % len(self._parts)]
        if len(self._parts) > 1:
            self._parts[self._next % len(self._parts) - 1].forget()
        self._next += 1
        return part


class _Part:
    """Neighbouring parameters that are copied together."""

    def __init__(self, first: int, sizes_bytes: Sequence[int]) -> None:
        self.first, self.count = first, len(sizes_bytes)
        self.is_copied = [size <= MOST_COPIED_BYTES for size in sizes_bytes]
        self._copies: Tensors = []

    def room(self, tensors: Tensors) -> Tensors:
        """Return memory for copies, which is kept: fresh pages cost more than the copying."""
        if not self._copies or any(
            a.device != b.device or a.dtype != b.dtype or a.shape != b.shape
            for a, b in zip(self._copies, tensors, strict=True)
        ):
            self._copies = [torch.empty_like(tensor) for tensor in tensors]
        return self._copies

    def forget(self) -> None:
        """Free the memory."""
        self._copies = []


class _OpenReading:
    """The known values of a step of an optimizer before it is made."""

    def __init__(self, plan: _Plan, rates: list[float] | Values) -> None:
        self.plan, self.rates = plan, rates
        self.gradients: Tensors = []  # as plain tensors, of those that have one
        self.has_gradient: Flags | None = None
        self.norms: Values | None = None
        self.total: float | None = None
        self.is_skipped: Values | None = None
        self.counts: dict[tuple[str, str], float] = {}
        self.part: _Part | None = None
        self.part_has_gradient: Flags | None = None
        self.weights: Tensors = []
        self.copies: Tensors = []
        self.weight_norms: Any = np.empty(0)  # a tensor, if it lies on a device
        self.sizes: list[Any] = []

    def count(self, name: str, tensor: torch.Tensor) -> int:
        """Note the number of elements that are not finite, and of NaN. Return the number that are not finite."""
        broken = tensor.numel() - int(torch.isfinite(tensor).sum().item())
        if broken:
            self.counts[name, "nonfinite_count"] = broken
            self.counts[name, "nan_count"] = int(torch.isnan(tensor).sum().item())
        return broken

    def has_gradient_in(self, part: _Part) -> Flags | None:
        return None if self.has_gradient is None else self.has_gradient[part.first : part.first + part.count]

    def gradients_in(self, part: _Part) -> Tensors:
        if self.has_gradient is None:
            return self.gradients[part.first : part.first + part.count]
        before = int(self.has_gradient[: part.first].sum())
        return self.gradients[before : before + int(self.has_gradient[part.first : part.first + part.count].sum())]


class _Spread:
    """Numbers of the flagged parameters, as numbers of all."""

    def __init__(self, numbers: Values, flags: Flags) -> None:
        self._numbers, self._flags = numbers, flags

    def is_here(self) -> bool:
        return self._numbers.is_here()

    def get(self) -> Numbers:
        return _filled(self._numbers.get(), self._flags)


class _Joined:
    """Several groups of numbers as one."""

    def __init__(self, parts: list[Values]) -> None:
        self._parts = parts

    def is_here(self) -> bool:
        return all(part.is_here() for part in self._parts)

    def get(self) -> Numbers:
        return np.concatenate([part.get() for part in self._parts])


def _present(gradients: list[torch.Tensor | None], reading: _OpenReading) -> Tensors:
    """Return the gradients that exist, as plain tensors. Note in `reading` which ones exist."""
    present = [gradient for gradient in gradients if gradient is not None]
    are_plain = all(type(gradient) is torch.Tensor and not gradient.is_sparse for gradient in present)
    if not (have_memory(present) if are_plain else all(map(has_memory, present))):
        gradients = [g if g is not None and has_memory(g) else None for g in gradients]
        present = with_memory(present)
    if len(present) < len(gradients):
        reading.has_gradient = np.array([gradient is not None for gradient in gradients])
    return present if are_plain else [_local(gradient) for gradient in present]


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor: this rank's part of a sharded one, the stored rows of a sparse one."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout == torch.strided:
        return tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return tensor.detach().coalesce().values()
    return tensor.detach().to_dense()


def _is_countable(parameter: torch.Tensor) -> bool:
    """Return False for a tensor without elements or memory here, or unfit for arithmetic: a class of its own."""
    try:
        if not has_memory(parameter):
            return False
        local = _local(parameter)
        return local.numel() > 0 and len(_norms([local])) == 1
    except Exception:  # noqa: BLE001 - one odd parameter must not cost the user the statistics of all others
        return False


def _is_freed(parameter: torch.Tensor) -> bool:
    return not parameter.is_meta and not has_memory(parameter)


def _is_sharded(tensor: torch.Tensor) -> bool:
    placements = getattr(tensor, "placements", None)
    return placements is not None and not all(placement.is_replicate() for placement in placements)


def _is_number(rate: Any) -> bool:
    return isinstance(rate, (int, float)) or (isinstance(rate, torch.Tensor) and rate.numel() == 1)


def _number(rate: float | torch.Tensor) -> torch.Tensor:
    """Return a rate as a tensor of one element, in double; NaN for one without memory."""
    if isinstance(rate, torch.Tensor) and not has_memory(rate):
        return torch.full((1,), math.nan, dtype=torch.float64, device=rate.device)
    return torch.as_tensor(rate).detach().reshape(1).double()


def _copy(copies: Tensors, tensors: Tensors) -> None:
    if copies:
        torch._foreach_copy_(copies, tensors)


def _norms(tensors: Tensors) -> torch.Tensor:
    """Return the L2 norm of each, shape (tensors,), on the device of the first; half precision is summed in single."""
    if not tensors:
        return torch.empty(0)
    dtype = tensors[0].dtype
    if all(tensor.dtype is dtype for tensor in tensors):
        if dtype in _REAL:
            return torch.stack(torch._foreach_norm(tensors, 2))
        if dtype in HALF:
            return torch.stack(torch._foreach_norm(tensors, 2, dtype=torch.float32))
    wide = [_wide(tensor.abs() if tensor.is_complex() else tensor) for tensor in tensors]
    device = tensors[0].device
    return torch.stack([norm.to(device, torch.float64, non_blocking=True) for norm in torch._foreach_norm(wide, 2)])


def _size(gradients: Tensors, elements: Sequence[int], scale: float) -> list[Any]:
    """Return mean |g|, share of zeros and max |g| of each, on the CPU: three arrays of shape (gradients,).

    `elements` counts those of the whole tensors: the missing rows of a sparse gradient are zeros.
    """
    buffer = torch.empty(max((min(gradient.numel(), _PIECE) for gradient in gradients), default=0))
    rows = np.empty((3, len(gradients)))
    for place, (gradient, count) in enumerate(zip(gradients, elements, strict=True)):
        flat = gradient.reshape(-1)
        pieces = (flat,) if len(flat) <= _PIECE else torch.split(flat, _PIECE)
        sums, largest, filled = zip(*[_piece(piece, buffer) for piece in pieces], strict=True)
        rows[:, place] = sum(sums) / count / scale, 1 - sum(filled) / count, np.max(largest) / scale
    return list(rows)


def _piece(piece: torch.Tensor, buffer: torch.Tensor) -> tuple[float, float, float]:
    """Return sum and maximum of the absolute values, and the number that are not zero."""
    if not len(piece):
        return 0.0, 0.0, 0.0
    sizes = torch.abs(piece, out=buffer[: len(piece)]) if piece.dtype is torch.float32 else _wide(piece.abs())
    total, largest = sizes.sum().item(), sizes.max().item()
    if math.isfinite(total):
        return total, largest, sizes.sign_().sum().item()  # faster than to count; but a NaN has no sign
    return total, largest, torch.count_nonzero(piece).item()


def _size_on_device(gradients: Tensors, elements: Sequence[int], scale: float | torch.Tensor) -> list[Any]:
    """Return the values of `_size`, by few kernels and without waiting: three tensors of shape (gradients,)."""
    if not gradients:
        return [torch.empty(0)] * 3
    wide = [_wide(gradient.abs() if gradient.is_complex() else gradient) for gradient in gradients]
    counts = torch.tensor(elements, dtype=torch.float32).to(gradients[0].device, non_blocking=True)
    total = torch.stack(torch._foreach_norm(wide, 1)).float()
    largest = torch.stack(torch._foreach_norm(wide, float("inf"))).float()
    filled = torch.stack([torch.count_nonzero(gradient) for gradient in wide]).float()
    return [total / counts / scale, 1 - filled / counts, largest / scale]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype in _REAL else tensor.float()


def _count_exactly(reading: _OpenReading, norms: Numbers, scale: float) -> None:
    """Count in gradients with a norm that is not finite. One that is only too large for its type gets its norm."""
    names = reading.plan.watched.gradients
    places = np.arange(len(names)) if reading.has_gradient is None else np.flatnonzero(reading.has_gradient)
    for place in np.flatnonzero(~np.isfinite(norms)):
        gradient = reading.gradients[place]
        if not reading.count(names[places[place]], gradient):
            norms[place] = torch.linalg.vector_norm(gradient.abs(), 2, dtype=torch.float64).item() / scale


def _count_weights(reading: _OpenReading, part: _Part, norms: Numbers) -> None:
    names = reading.plan.watched.parameters[part.first : part.first + part.count]
    for place in np.flatnonzero(~np.isfinite(norms)):
        reading.count(names[place], reading.weights[place])  # as the step left it; it was no better before


def _filled(numbers: Numbers, flags: Flags | None) -> Numbers:
    if flags is None:
        return numbers
    filled = np.full(len(flags), _NOT_MEASURED)
    filled[flags] = numbers
    return filled


def _spread(numbers: Values, flags: Flags | None) -> Values:
    return numbers if flags is None else _Spread(numbers, flags)


def _parts(tensors: Tensors) -> list[_Part]:
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    most = max(PART_BYTES, sum(sizes) // MOST_PARTS + 1)
    parts: list[list[int]] = [[]]
    for size in sizes:
        if parts[-1] and (sum(parts[-1]) + size > most or len(parts[-1]) == MOST_TENSORS_A_PART):
            parts.append([])
        parts[-1].append(size)
    firsts = np.cumsum([0, *map(len, parts)]).tolist()
    return [_Part(first, part) for first, part in zip(firsts, parts, strict=False) if part]
