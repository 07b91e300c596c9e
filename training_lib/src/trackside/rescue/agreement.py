"""The agreement of several ranks: one announces an act before its next step, all carry it out later.

Gradients are averaged over all ranks in each step, so a rank that ends a step knows all that any rank wrote before it
began that step. Nothing waits for anything:

    at step T    a rank writes a message into the key-value store that `torch.distributed` has open anyway
    at P > T     a multiple of `PERIOD`: each rank reads it, and counts itself in if it can do what it says
    at P+PERIOD  each rank reads the same count: all do it, or, if one is missing, nobody
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.live_objects import instances
from trackside.frameworks.pytorch.ground.script_objects import parameters_of

PERIOD = 4  # steps between two looks into the store
MOMENT = "moment"
_KEY = "trackside/rescue"

Message = Mapping[str, Any]


class Agreement:
    """The messages of all ranks, in one order.

    Args:
        store: The key-value store of the ranks.
        ranks: Number of them.
        training: Number of this training in its process.
        can_do: Returns True if this rank can do what a message says.
    """

    def __init__(self, store: Any, ranks: int, *, training: int, can_do: Callable[[Message], bool]) -> None:
        self._store, self._ranks, self._can_do = store, ranks, can_do
        self._prefix = f"{_KEY}/{training}"
        self._read = 0
        self._counted: list[tuple[int, Message]] = []  # messages that all ranks have read

    def post(self, message: Message, moment: int) -> None:
        """Announce something. It is done a few steps later, by all ranks or by none.

        Args:
            message: What is to be done.
            moment: Number of steps of this training so far, the same in each rank.
        """
        number = self._store.add(f"{self._prefix}/count", 1)
        self._store.set(f"{self._prefix}/{number}", json.dumps({**message, MOMENT: moment}))

    def due(self, moment: int) -> tuple[list[Message], bool]:
        """Return the messages that are to be obeyed now, and False if a rank could not obey one of them.

        Args:
            moment: As in `post`, a multiple of `PERIOD`. Each rank asks at each of them.
        """
        counts = [self._store.add(f"{self._prefix}/{number}/ready", 0) for number, _ in self._counted]
        found = [message for _, message in self._counted]
        self._counted = []
        while (message := self._next()) is not None and message[MOMENT] < moment:  # a newer one is not yet seen by all
            self._read += 1
            if self._can_do(message):
                self._store.add(f"{self._prefix}/{self._read}/ready", 1)
            self._counted.append((self._read, message))
        return found, all(count == self._ranks for count in counts)

    def _next(self) -> Message | None:
        key = f"{self._prefix}/{self._read + 1}"
        if not self._store.check([key]):  # `get` alone would wait for it
            return None
        found: Message = json.loads(self._store.get(key))
        return found


def why_not_together(optimizer: Optimizer) -> str:
    """Return a clause why the ranks cannot go back together; "" if they can.

    Args:
        optimizer: The leading one of this rank.
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    trained, ranks = {id(each) for each in parameters}, torch.distributed.get_world_size()
    if any(hasattr(each, "to_local") for each in parameters):
        meshes = {each.device_mesh.size() for each in parameters if hasattr(each, "to_local")}
        return "" if max(meshes) == ranks else "the processes of several groups train together"
    for module in instances(torch.nn.parallel.DistributedDataParallel):
        if trained & {id(each) for each in parameters_of(module)}:
            is_whole = torch.distributed.get_world_size(module.process_group) == ranks
            return "" if is_whole else "the processes of several groups train together"
    return "several processes train, and no DistributedDataParallel has the weights"
