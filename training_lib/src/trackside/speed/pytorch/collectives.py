"""The time in which gradients are averaged over ranks, as DistributedDataParallel measures it by itself.

It samples its first ten backward passes and every hundredth. Nothing of ours is in place there.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch.distributed as ranks
from torch.nn.parallel import DistributedDataParallel

from trackside.frameworks.pytorch.ground.live_objects import instances
from trackside.records.machine.performance_facts import CollectiveFacts

_NANOSECONDS = 1e-9
_ALL, _HIDDEN = "avg_backward_comm_time", "avg_backward_compute_comm_overlap_time"


class GradientAverages:
    """The wrappers of one training that average gradients, as they are when the training begins."""

    def __init__(self) -> None:
        is_one_of_many = ranks.is_available() and ranks.is_initialized()  # a wrapper needs it, a search costs 10 ms
        wrappers = instances(DistributedDataParallel) if is_one_of_many else []
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]

    def facts(self) -> CollectiveFacts | None:
        """Return the seconds of a step; None without such a wrapper, or before it has measured."""
        seconds = exposed = 0.0
        steps = 0
        for reference in self._wrappers:
            wrapper: Any = reference()
            measured = wrapper._get_ddp_logging_data() if wrapper is not None else {}
            if measured.get(_ALL):
                seconds += _NANOSECONDS * measured[_ALL]
                exposed += _NANOSECONDS * max(0, measured[_ALL] - measured.get(_HIDDEN, 0))
                steps = max(steps, int(measured.get("iteration", 0)))
        return CollectiveFacts(seconds, exposed, steps) if steps else None
