"""A recorded loss as a program: the calls of modules and functions that led from a batch to it, to be replayed.

A replay calls the user's own modules with their present weights and modes, and then the recorded functions of PyTorch
with the new results in the places of the recorded ones. Python code between the calls is not repeated: branches and
plain numbers stay as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.random_state import RandomState
from trackside.frameworks.pytorch.ground.script_objects import has_parameters, set_to_evaluation
from trackside.rehearsal.contents import rebuilt, tensors_in
from trackside.rehearsal.kept_tensors import ReplayError

_CROSS_ENTROPIES = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})
_LIKELIHOODS = frozenset({"nll_loss", "NLLLoss", "kl_div", "KLDivLoss"})
_ERRORS = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"}
)


@dataclass(frozen=True)
class Autocast:
    """The state of autocast for one type of device."""

    device_type: str
    dtype: torch.dtype
    is_enabled: bool


@dataclass(frozen=True)
class Call:
    """One call of a root module, or of a function of PyTorch outside of any module.

    call           the module or function
    arguments      (args, kwargs); the results of earlier calls are replaced by marks
    slots          number of the result by id of its mark
    outputs        numbers of its own results, in the order of `tensors_in`
    changes_first  True if it changes its first argument and returns nothing
    random         random state right before the call
    state          parameters and buffers of the module right before the call, with their values then
    modes          `training` of the module and each module in it, during the call
    """

    call: Callable[..., Any]
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    slots: Mapping[int, int]
    outputs: tuple[int, ...]
    changes_first: bool
    has_gradients: bool
    autocast: tuple[Autocast, ...]
    random: RandomState
    state: tuple[tuple[torch.Tensor, torch.Tensor], ...] = ()
    modes: tuple[tuple[torch.nn.Module, bool], ...] = ()

    @property
    def module(self) -> torch.nn.Module | None:
        """The called module; None for a function."""
        return self.call if isinstance(self.call, torch.nn.Module) else None

    @property
    def is_model(self) -> bool:
        """True if it is a module with parameters."""
        return self.module is not None and has_parameters(self.module)

    @property
    def is_cross_entropy(self) -> bool:
        """True if it compares scores or log-probabilities with the numbers of classes."""
        return self.name in _CROSS_ENTROPIES

    @property
    def takes_log_probabilities(self) -> bool:
        """True if its first argument has to be logarithms of probabilities, which are never above zero."""
        return self.name in _LIKELIHOODS

    @property
    def is_error(self) -> bool:
        """True if it is a loss of the differences between outputs and numbers."""
        return self.name in _ERRORS

    @property
    def name(self) -> str:
        """The name of the function, or of the module's class."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    @property
    def needs(self) -> frozenset[int]:
        """Numbers of the earlier results that it takes."""
        return frozenset(self.slots.values())

    @property
    def first_slot(self) -> int | None:
        """Number of the earlier result that is its first argument; None if that is no result."""
        args = self.arguments[0]
        return self.slots.get(id(args[0])) if args else None

    def constants(self) -> list[torch.Tensor]:
        """Return the tensors among its arguments that no earlier call has returned, without parameters."""
        found = tensors_in(*self.arguments)
        return [each for each in found if id(each) not in self.slots and not isinstance(each, torch.nn.Parameter)]


@dataclass(frozen=True)
class Replayed:
    """The result of a replay.

    loss     the loss, with its graph
    results  the results of all calls, by their number
    outputs  floating-point results of models, call by call, by (number of the call, number of the tensor)
    """

    loss: torch.Tensor
    outputs: dict[tuple[int, int], torch.Tensor]
    results: dict[int, torch.Tensor]


@dataclass
class StepProgram:
    """The calls that led to one loss.

    loss    number of the loss among the results
    value   its recorded value
    lacks   the reason for which it cannot be replayed; "" if it can
    """

    calls: tuple[Call, ...]
    loss: int
    value: float
    lacks: str = ""
    models: tuple[torch.nn.Module, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.models = tuple({id(c.module): c.module for c in self.calls if c.module is not None}.values())

    def inputs(self) -> list[torch.Tensor]:
        """Return the recorded tensors that models were called with, each once."""
        found = [each for call in self.calls if call.is_model for each in call.constants()]
        return list({id(each): each for each in found}.values())

    def set_recorded_modes(self) -> None:
        """Set each module to training or evaluation mode, as during the recording."""
        for call in self.calls:
            for module, mode in call.modes:
                module.training = mode

    def evaluate(self) -> None:
        """Set the models to evaluation mode by their own `eval`."""
        for call in self.calls:
            if call.module is not None:
                set_to_evaluation(call.module)

    def replay(self, *, inputs: Mapping[int, torch.Tensor] | None = None, as_recorded: bool = False) -> Replayed:
        """Return the loss and the outputs of models, computed again.

        Args:
            inputs: Other tensors in the places of recorded ones, by id of these.
            as_recorded: Repeat it with the recorded weights, buffers and random states.

        Raises:
            ReplayError: A call returns another number of tensors than recorded.
        """
        results: dict[int, torch.Tensor] = {}
        outputs: dict[tuple[int, int], torch.Tensor] = {}
        changed = inputs or {}
        for number, call in enumerate(self.calls):
            if as_recorded:
                _restore(call)
            found = repeated(call, results, changed)
            if len(found) != len(call.outputs):
                raise ReplayError(f"{call.name} returned {len(found)} tensors, and {len(call.outputs)} when recorded")
            results.update(zip(call.outputs, found, strict=True))
            if call.is_model:
                floats = [(place, each) for place, each in enumerate(found) if each.is_floating_point()]
                outputs.update({(number, place): each.detach() for place, each in floats})
        return Replayed(results[self.loss], outputs, results)


def repeated(
    call: Call, results: Mapping[int, torch.Tensor], changed: Mapping[int, torch.Tensor]
) -> list[torch.Tensor]:
    """Return the results of a call that is made again.

    Args:
        call: The call.
        results: The results of earlier calls, by their number.
        changed: Other tensors in the places of recorded ones, by id of these.
    """

    def actual(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in call.slots:
            return results[call.slots[id(tensor)]]
        if isinstance(tensor, torch.nn.Parameter):
            return tensor
        # The call may write over its arguments.
        return changed.get(id(tensor), tensor).detach().clone().requires_grad_(tensor.requires_grad)

    args, kwargs = rebuilt(call.arguments[0], actual), rebuilt(call.arguments[1], actual)
    with _surroundings(call):
        result = call.call(*args, **kwargs)
    return tensors_in(args[0] if call.changes_first else result)


@contextmanager
def _surroundings(call: Call) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(call.has_gradients))
        for each in call.autocast:
            stack.enter_context(torch.autocast(each.device_type, dtype=each.dtype, enabled=each.is_enabled))
        yield


def _restore(call: Call) -> None:
    call.random.restore()
    with torch.no_grad():
        for tensor, value in call.state:
            tensor.data.copy_(value)
