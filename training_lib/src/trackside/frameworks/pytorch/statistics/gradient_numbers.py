"""Numbers of a step about its gradients: new or not, cleared or not, and clipping.

`capture/statistics/step_numbers.py` declares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.script_lines import Place, user_place
from trackside.capture.ground.values import Numbers, Values
from trackside.capture.statistics.step_numbers import MOST_CLIPPINGS, clipping_name
from trackside.contracts.run.recorded_names import (
    BACKWARD_PASSES,
    BATCHES_CLEARED,
    BATCHES_WITHOUT_STEP,
    GRADIENTS_KEPT,
    PASSES_WITHOUT_STEP,
    SKIPPED_BEFORE,
    SKIPPED_STEP,
    WITHOUT_GRADIENTS,
)
from trackside.frameworks.pytorch.compiling.tracing import untraced
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.statistics.cleared_gradients import ClearedGradients
from trackside.frameworks.pytorch.statistics.own_skips import OwnSkips
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.step_order import FEWEST_WITHOUT_STEP, StepOrder
from trackside.frameworks.pytorch.statistics.unused_passes import UnusedPasses

MOST_LIMITS = 8  # that are remembered, for a limit that follows the gradients is another at each step

_SKIPPED_STEP, _SKIPPED_BEFORE = (SKIPPED_STEP, "mean"), (SKIPPED_BEFORE, "mean")


class AnyOf:
    """The number 1 if any of several flags is set, else 0; some are on their way from a device."""

    def __init__(self, flags: Sequence[float | Values]) -> None:
        self._flags = flags

    def is_here(self) -> bool:
        """Return True if all flags have arrived."""
        return all(isinstance(flag, (bool, float)) or flag.is_here() for flag in self._flags)

    def get(self) -> Numbers:
        """Return the number, shape (1,)."""
        known = [bool(flag) if isinstance(flag, (bool, float)) else bool(flag.get().any()) for flag in self._flags]
        return np.array([float(any(known))])


class GradientNumbers:
    """The gradient numbers of a step, while `statistics` are on.

    Nothing raises: the first error ends this, and nothing else.

    Call `before_backward` and `after_backward` around each backward pass while `cleared.is_waiting`, and
    `order.backward_ended` after each. `is_of_training` returns True for a place in the script where a training step
    computes its gradients; `outside` returns the trained parameters that no optimizer holds.
    """

    def __init__(
        self,
        statistics: PyTorchStatistics,
        *,
        is_of_training: Callable[[Place | None], bool],
        outside: Callable[[], Iterable[torch.Tensor]],
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._is_of_training = is_of_training
        self._statistics, self._record = statistics, statistics.record
        self.cleared = ClearedGradients(statistics.numbers)
        self.order = StepOrder(untraced(protect(self._without_step)))
        self.unused = UnusedPasses(self.cleared, outside=outside, protect=lambda function: untraced(protect(function)))
        self.own_skips = OwnSkips(statistics, protect=lambda function: untraced(protect(function)))
        self._clippings = 0
        self.clipping_places: dict[tuple[str, float], Place | None] = {}  # the first call of each kind and limit
        self.before_backward: Callable[[], None] = untraced(protect(self._before_backward))
        self.after_backward: Callable[[], None] = untraced(protect(self._after_backward))
        self.is_skipped = False  # the optimizer's step under way, as far as that is known
        self.before_step: Callable[[Optimizer, bool | Values | None], None] = protect(self._before_step)
        self.step_skipped: Callable[[str], None] = untraced(protect(self._step_skipped))
        self.batches_unused: Callable[[int], None] = untraced(protect(self._batches_unused))
        self.after_step: Callable[[Optimizer], None] = protect(self._after_step)
        self.end_step: Callable[[], None] = protect(self._end_step)
        self.clipped: Callable[[str, Any, Any, Any], None] = untraced(protect(self._clipped))

    def _before_backward(self) -> None:
        if (
            torch._C._current_graph_task_id() == -1
        ):  # not in a backward pass: reentrant checkpoints have their own there
            self.cleared.before_backward()

    def _after_backward(self) -> None:
        if torch._C._current_graph_task_id() == -1:
            self.cleared.after_backward()

    def _before_step(self, optimizer: Optimizer, is_skipped: bool | Values | None) -> None:
        """Look for a gradient, and note whether the step is skipped; None: it is not known to be made by a flag."""
        self.order.before_step(optimizer)
        self.is_skipped = is_skipped is True
        if is_skipped is None:
            return
        if is_skipped is True:
            self._drop_clippings()
        added = self._record.recorder.numbers.added
        flags = [flag for flag in (added.get(_SKIPPED_STEP), is_skipped) if flag is not None]
        late = [flag for flag in flags if not isinstance(flag, (bool, float))]
        added[_SKIPPED_STEP] = AnyOf(flags) if late else float(any(flags))

    def _step_skipped(self, mode: str) -> None:
        """Count a step that was skipped without a call of the optimizer. Drop the numbers of its passes."""
        recorder = self._record.recorder
        self.unused.forget()
        self.order.forget_passes()
        self._drop_clippings()
        recorder.drop_unsettled(mode)
        self._count_skip()

    def _count_skip(self) -> None:
        added = self._record.recorder.numbers.added
        before = added.get(_SKIPPED_BEFORE, 0.0)
        added[_SKIPPED_BEFORE] = (before if isinstance(before, float) else 0.0) + 1.0

    def _batches_unused(self, in_a_row: int) -> None:
        """Count a step that was skipped before its backward pass. Note the batches of a row that does not end."""
        self.unused.batch_drawn()
        if in_a_row:
            self._count_skip()
        if in_a_row >= FEWEST_WITHOUT_STEP and in_a_row & (in_a_row - 1) == 0:  # and again as their number has doubled
            self._record.recorder.note({(BATCHES_WITHOUT_STEP, "mean"): float(in_a_row)})
            self._statistics.last_look.at_all()

    def look_for_own_skip(self, optimizer: Optimizer, mode: str) -> None:
        """Note whether the optimizer skipped the step within its own `step`. Drop what led to it then.

        Call it right after the step.
        """
        is_skipped = self.own_skips.answer(optimizer)
        if is_skipped is None:
            return
        self.is_skipped = is_skipped
        added = self._record.recorder.numbers.added
        known = added.get(_SKIPPED_STEP, 0.0)
        if isinstance(known, float):
            added[_SKIPPED_STEP] = max(known, float(is_skipped))
        if is_skipped:
            self._drop_clippings()
            self._statistics.leave_out(optimizer)
            self._record.recorder.drop_unsettled(mode)
            self.own_skips.found()

    def _drop_clippings(self) -> None:
        added = self._record.recorder.numbers.added
        for number in range(self._clippings):
            for statistic in ("mean", "max_norm"):
                added.pop((clipping_name(number), statistic), None)
        self._clippings = 0

    def _after_step(self, optimizer: Optimizer) -> None:
        if self._record.is_on:
            if wasted := self.unused.step_ended():
                self._record.recorder.numbers.added[BATCHES_CLEARED, "mean"] = float(wasted)
            self.cleared.after_step(optimizer)
            self.order.after_step(optimizer)

    def forget(self) -> None:
        """Look at no gradient of the steps so far any more."""
        self.cleared.forget()
        self.unused.forget()

    def rest_ended(self, steps: int) -> None:
        """Forget the steps before a rest: those to come do not follow them."""
        self._clippings = 0
        self.unused.forget()
        self.order.forget()

    def begin_after(self, optimizer: Optimizer) -> None:
        """Begin with the step after this one, which an optimizer has just made and of which nothing is recorded."""
        self.after_step(optimizer)
        self.leave_out()

    def leave_out(self) -> None:
        """Record nothing of the step that ends now."""
        self._clippings, self.is_skipped = 0, False
        self.cleared.end_step()
        self.order.end_step()

    def _without_step(self, passes: int) -> None:
        if self._record.is_on and self._is_of_training(user_place()):
            self._record.recorder.note({(PASSES_WITHOUT_STEP, "mean"): float(passes)})
            self._statistics.last_look.at_all()

    def _clipped(self, function: str, args: Any, kwargs: Any, result: Any) -> None:
        """Note a call of a clipping function, with its arguments after the parameters."""
        self.order.clipped()
        self.unused.clipped()
        limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            return  # a tensor may lie on a device
        kind = "value" if function == "clip_grad_value_" else "norm"
        if (kind, float(limit)) not in self.clipping_places and len(self.clipping_places) < MOST_LIMITS:
            self.clipping_places[kind, float(limit)] = user_place()
        if kind == "norm":
            total_norm = kwargs.get("total_norm", args[1] if len(args) > 1 else None) if result is None else result
            self._add_norm(total_norm, float(limit))

    def _add_norm(self, total_norm: Any, limit: float) -> None:
        if not self._record.is_on or self._clippings >= MOST_CLIPPINGS:
            return
        if not isinstance(total_norm, torch.Tensor) or total_norm.numel() != 1 or hasattr(total_norm, "to_local"):
            return  # a sharded norm is to be had by a collective only
        if is_in_cuda_graph(total_norm) or not has_memory(total_norm):
            return
        number: float | Values
        if self._statistics.numbers.is_late(total_norm):
            number = self._statistics.numbers.take(total_norm.detach().reshape(1))
        else:
            number = float(total_norm.detach())
        name, added = clipping_name(self._clippings), self._record.recorder.numbers.added
        self._clippings += 1
        added[name, "mean"], added[name, "max_norm"] = number, limit

    def _end_step(self) -> None:
        self._clippings, self.is_skipped = 0, False
        kept = self.cleared.end_step()
        passes, is_without = self.order.end_step()
        if not self._record.is_on:
            return
        added = self._record.recorder.numbers.added
        if kept is not None:
            added[GRADIENTS_KEPT, "mean"] = kept
        if passes is not None:
            added[BACKWARD_PASSES, "mean"] = passes
        if is_without:
            added[WITHOUT_GRADIENTS, "mean"] = 1.0
