"""One moment of a training, kept in memory, and put back into the same tensors."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.random_state import RandomState
from trackside.rescue.kept_trees import fits, own_part, put_back, skeleton_of, write
from trackside.rescue.members import Members
from trackside.rescue.room import NoRoomError, Room


class Snapshot:
    """Copies of all parts of a training at one moment. The memory of its tensors is used again by the next `take`.

    Attributes:
        steps: Number of training steps that had ended.
        size_bytes: Size of the copies.
        tries: Number of returns to it.

    Args:
        room: For the copies.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.steps = -1
        self.size_bytes = self.tries = 0
        self._values: list[torch.Tensor] = []
        self._tensors: list[tuple[weakref.ref[torch.Tensor], int]] = []
        self._optimizers: list[tuple[weakref.ref[Optimizer], tuple[int, ...], Any]] = []
        self._others: list[tuple[weakref.ref[Any], Any]] = []
        self._random: RandomState | None = None

    def take(self, members: Members, steps: int) -> None:
        """Keep the present moment.

        Args:
            members: The parts of the training.
            steps: Number of training steps that have ended.

        Raises:
            NoRoomError: There is no memory for it.
        """
        self.steps, self.tries = -1, 0  # until it is whole
        tensors: list[torch.Tensor] = []
        self._tensors = []
        for tensor in members.tensors():
            self._tensors.append((weakref.ref(tensor), len(tensors)))
            tensors.append(own_part(tensor))
        self._optimizers = [
            (weakref.ref(each), _parameters_of(each), skeleton_of(_tree_of(each), tensors))
            for each in members.optimizers()
        ]
        self._others = [(weakref.ref(each), copy.deepcopy(each.state_dict())) for each in members.others()]
        self._random = RandomState.now()
        try:
            self._copy(tensors)
        except (MemoryError, RuntimeError) as error:  # PyTorch raises the latter, on a processor and on a device
            self._values = []
            raise NoRoomError(str(error)) from error
        self.steps = steps

    def is_usable(self) -> bool:
        """Return True if the moment is whole, and optimizers train the same parameters as then."""
        alive = [(optimizer(), numbers) for optimizer, numbers, _ in self._optimizers]
        return self.steps >= 0 and all(each is not None and _parameters_of(each) == numbers for each, numbers in alive)

    def put_back(self, *, with_random: bool) -> None:
        """Write the moment into the tensors, optimizers, schedulers and scalers of the training.

        Args:
            with_random: False leaves the random states as they are, so that the next draws are others than then.
        """
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        for reference, number in self._tensors:
            tensor = reference()
            if tensor is not None and fits(tensor, self._values[number]):
                copies.append((tensor, self._values[number]))
        for held, _, kept in self._optimizers:
            optimizer = held()
            if optimizer is not None:
                _put_back_optimizer(optimizer, kept, self._values, copies)
        write(copies)
        for other, state in self._others:
            found = other()
            if found is not None and state:
                found.load_state_dict(copy.deepcopy(state))
        if with_random and self._random is not None:
            self._random.restore()

    def _copy(self, tensors: list[torch.Tensor]) -> None:
        """Copy the tensors into the memory of the copies before, or into new memory."""
        have = self._values
        if len(have) != len(tensors) or not all(map(fits, tensors, have)):
            self._values = have = []
            self._values = have = self._room.like(tensors)
        self.size_bytes = sum(each.nbytes for each in have)
        write(list(zip(have, tensors, strict=True)))
        if any(each.is_cuda for each in tensors):
            torch.cuda.synchronize()


def _parameters_of(optimizer: Optimizer) -> tuple[int, ...]:
    return tuple([id(each) for group in optimizer.param_groups for each in group["params"]])


def _tree_of(optimizer: Optimizer) -> dict[str, Any]:
    settings = [{name: each for name, each in group.items() if name != "params"} for group in optimizer.param_groups]
    counters = {name: each for name, each in vars(optimizer).items() if type(each) in (int, float, bool)}
    return {"state": optimizer.state, "settings": settings, "counters": counters}


def _put_back_optimizer(
    optimizer: Optimizer,
    kept: dict[str, Any],
    values: list[torch.Tensor],
    copies: list[tuple[torch.Tensor, torch.Tensor]],
) -> None:
    put_back(optimizer.state, kept["state"], values, copies)
    for group, settings in zip(optimizer.param_groups, kept["settings"], strict=True):
        for name in group.keys() - settings.keys() - {"params"}:
            del group[name]
        for name, each in settings.items():
            group[name] = put_back(group.get(name), each, values, copies)
    vars(optimizer).update(kept["counters"])
