"""The size of each step's change of all weights, relative to the weights: from a fixed sample of their elements.

A few hundred elements of a few tensors are copied into one buffer after an optimizer's step, and compared with those of
the measurement before. The change of the whole model would need a copy of the model at every step. Of a rate that runs
away, or of weights that jump, any element shows the same as all.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.values import Numbers, Values
from trackside.capture.statistics.budget import UPDATES
from trackside.capture.statistics.one_pass import LOOPS, Loops, Sample
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics

MOST_TENSORS = 16
MOST_ELEMENTS = 256  # of a tensor
_KEY = UPDATE_SIZE, "mean"
_LOOK_EVERY = 16  # measurements
_FLOATING = {torch.float32, torch.float64, torch.float16, torch.bfloat16}

Size = tuple[float, float]  # the norm of the change, and that of the weights
Parts = Sequence[Size | Values]


class UpdateSize:
    """The samples of the optimizers of one training. Nothing raises: the first error ends this, and nothing else.

    Only plain tensors are looked at: not the shards of a distributed one, and none within a CUDA graph.

    Attributes:
        after_step: Measures the change by an optimizer's step, if the open step takes it. Call it right after the step.
    """

    def __init__(
        self, statistics: PyTorchStatistics, *, protect: Callable[[Callable[..., None]], Callable[..., None]]
    ) -> None:
        self._record, self._numbers = statistics.record, statistics.numbers
        self._samples: dict[int, _Sample] = {}
        self._parts: list[Size | Values] = []  # of the open step
        self.after_step: Callable[[Optimizer], None] = protect(self._after_step)

    def rest_ended(self) -> None:
        """Begin with the weights as they are now, of each optimizer: its steps at rest are none of the next one's."""
        for sample in [*self._samples.values()]:
            optimizer = sample.optimizer()
            if optimizer is not None:
                self.after_step(optimizer)

    def _after_step(self, optimizer: Optimizer) -> None:
        recorder, budget = self._record.recorder, self._record.budget
        if not self._record.is_on or not recorder.takes_update:
            return
        started = budget.clock()
        part = self._measured(optimizer)
        if part is not None:
            added = recorder.numbers.added
            if _KEY not in added:
                self._parts = []
            self._parts.append(part)
            if len(self._parts) == 1 and isinstance(part, tuple):  # nearly every step of nearly every training
                added[_KEY] = part[0] / part[1] if part[1] != 0 else 0.0
            else:
                relative = _Relative(tuple(self._parts))
                added[_KEY] = relative.relative() if relative.is_here() else relative
        budget.spend(UPDATES, started)

    def _measured(self, optimizer: Optimizer) -> Size | Values | None:
        """Return the norm of the change since the last call for this optimizer, and that of its weights."""
        number = id(optimizer)
        sample = self._samples.get(number)
        if sample is None or sample.optimizer() is not optimizer or not sample.is_current():
            samples = self._samples
            reference = weakref.ref(optimizer, lambda _: samples.pop(number, None))
            sample = samples[number] = _Sample(reference, chosen_weights(optimizer), self._numbers.is_late)
        if sample.loops is not None:
            return sample.measured_by_loops(sample.loops)
        with torch.no_grad():
            found = sample.measured(self._numbers.is_late)
        return self._numbers.take(found) if isinstance(found, torch.Tensor) else found


class _Relative:
    """The relative change of several optimizers together; numbers may be on their way from a device."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def is_here(self) -> bool:
        return all(isinstance(part, tuple) or part.is_here() for part in self._parts)

    def get(self) -> Numbers:
        return torch.tensor([self.relative()], dtype=torch.float64).numpy()

    def relative(self) -> float:
        pairs = [part if isinstance(part, tuple) else part.get().tolist() for part in self._parts]
        size = math.hypot(*[size for _, size in pairs])
        return math.hypot(*[change for change, _ in pairs]) / size if size != 0 else 0.0


_address = torch.Tensor.data_ptr


class _Sample:
    """The sampled elements of one optimizer's weights, after its last measured step.

    `loops`: the compiled loops, if they can read these weights.
    """

    def __init__(
        self,
        optimizer: weakref.ref[Optimizer],
        tensors: Sequence[torch.Tensor],
        is_late: Callable[[torch.Tensor], bool],
    ) -> None:
        self.optimizer = optimizer
        can_read = all(tensor.dtype is torch.float32 and not is_late(tensor) for tensor in tensors)
        self.loops = LOOPS if tensors and can_read else None
        self._parameters = [weakref.ref(tensor) for tensor in tensors]
        self._addresses = [tensor.data_ptr() for tensor in tensors]
        self._views = [some_elements(tensor) for tensor in tensors]
        self._view_addresses = list(map(_address, self._views))
        self._buffers: list[torch.Tensor] = []  # the elements before, and those that follow
        self._arrays: list[NDArray[np.float32]] = []  # the same memory; none on a device
        self._has_before = False
        self._calls = 0
        self._for_loops: Sample | None = None

    def is_current(self) -> bool:
        """Return False if a tensor's values lie elsewhere by now. After `model.to` that is seen now and then."""
        if list(map(_address, self._views)) != self._view_addresses:
            return False  # their memory was freed: looked at before each reading
        self._calls += 1
        if self._calls % _LOOK_EVERY:
            return True
        if not self._parameters:
            return False  # perhaps some have memory by now
        for reference, address in zip(self._parameters, self._addresses, strict=True):
            parameter = reference()
            if parameter is None or parameter.data_ptr() != address:
                return False
        return True

    def measured_by_loops(self, loops: Loops) -> Size | None:
        """Return what `measured` does, for single precision on the CPU."""
        sample = self._for_loops
        if sample is None:
            views = self._views
            strides = [view.stride(0) for view in views]
            sample = self._for_loops = Sample(self._view_addresses, strides, [len(view) for view in views])
        change, size = loops.sampled_change(sample)
        if not self._has_before:
            self._has_before = True
            return None
        return math.sqrt(change), math.sqrt(size)

    def measured(self, is_late: Callable[[torch.Tensor], bool]) -> Size | torch.Tensor | None:
        """Return the norm of the change since the last call, and of the sample; on a device both in a tensor.

        None at the first call.
        """
        if not self._views or is_in_cuda_graph(self._views[0]):
            return None
        if not self._buffers:
            count = sum(map(len, self._views))
            self._buffers = [self._views[0].new_empty(count, dtype=torch.float32) for _ in range(2)]
            self._arrays = [] if is_late(self._views[0]) else [buffer.numpy() for buffer in self._buffers]
        before, now = self._buffers
        torch.cat(self._views, out=now)
        self._buffers.reverse()
        if not self._has_before:
            self._has_before = True
            self._arrays.reverse()
            return None
        if not self._arrays:
            return torch.stack(torch._foreach_norm([torch.sub(now, before, out=before), now], 2))
        old, new = self._arrays
        self._arrays.reverse()
        with np.errstate(all="ignore"):  # weights may be infinite, or NaN
            np.subtract(new, old, out=old)
            return math.sqrt(old @ old), math.sqrt(new @ new)


def chosen_weights(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return tensors from all over the optimizer's list, weights rather than biases."""
    plain = [p for group in optimizer.param_groups for p in group["params"] if is_plain(p)]
    fitting = [p for p in plain if p.device == plain[0].device]
    weights = [p for p in fitting if p.dim() > 1] or fitting
    stride = -(-len(weights) // MOST_TENSORS) or 1
    return weights[::stride]


def is_plain(parameter: torch.Tensor, *, is_trained: bool = True) -> bool:
    """Return True for a contiguous tensor of floating point numbers that is `is_trained` and has memory."""
    if type(parameter) not in {torch.Tensor, torch.nn.Parameter} or parameter.dtype not in _FLOATING:
        return False
    if parameter.requires_grad < is_trained or parameter.layout is not torch.strided:
        return False
    return parameter.numel() > 0 and parameter.is_contiguous() and has_memory(parameter)


def some_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of at most `MOST_ELEMENTS` elements of a contiguous tensor; shape (n,)."""
    flat = tensor.detach().view(-1)
    return flat[:: max(1, len(flat) // MOST_ELEMENTS)][:MOST_ELEMENTS]
