"""The subject of the probes: the recorded step, the models in it, and questions that several probes share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import (
    modules_of,
    named_modules_of,
    named_parameters_of,
    parameters_of,
)
from trackside.frameworks.pytorch.probes.random_state import seed_all
from trackside.frameworks.pytorch.probes.step_program import Replayed, StepProgram

SEED = 20
_REBUILT_WITHIN = 1e-3  # of the recorded loss; devices and thread counts change the last digits
_LOW_PRECISION = {torch.float16: 1e-3, torch.bfloat16: 8e-3}

Outputs = Mapping[tuple[int, int], torch.Tensor]


class Subject:
    """The models, optimizers and losses of the newest training step.

    Attributes:
        steps: Each optimizer with the losses of its newest step, those that can be replayed.
        program: The last of the losses.
        models: The root modules called in any of the losses.
        first_values: Buffers and tensors in attributes, by name, as after the first step.
        lacks: The reason for which no loss can be replayed; "" if one can.

    Args:
        programs: The recorded losses, with the optimizer that stepped after them.
        first_values: See the attribute.
        time_left: Returns the number of seconds left for the probes.
    """

    def __init__(
        self,
        programs: Sequence[tuple[Optimizer, tuple[StepProgram, ...]]],
        *,
        first_values: Mapping[str, torch.Tensor],
        time_left: Callable[[], float],
    ) -> None:
        everything = [program for _, losses in programs for program in losses]
        usable = [(optimizer, tuple(p for p in losses if not p.lacks)) for optimizer, losses in programs]
        self.steps = [pair for pair in usable if pair[1]]
        self.is_partial = any(program.lacks for program in everything)
        found = [program for _, losses in self.steps for program in losses]
        self.program = found[-1] if found else StepProgram((), -1, math.nan, "no loss was recorded")
        self.lacks = "" if found else next((p.lacks for p in everything), self.program.lacks)
        self.models = tuple({id(m): m for program in found for m in program.models}.values())
        if not self.lacks and not all(map(_has_its_values, self.models)):
            self.lacks = "the values of its parameters are not all in memory after the step"
        self.first_values = first_values
        self.time_left = time_left
        self._has_rows: bool | None = None

    def is_rebuilt(self) -> bool:
        """Return True if each loss comes out of a replay as it was recorded, with the recorded weights and states."""
        for _, losses in self.steps:
            for program in losses:
                program.set_recorded_modes()
                again = float(program.replay(as_recorded=True).loss.detach())
                tolerance = _REBUILT_WITHIN + 10 * self._resolution(program)
                both_lost = not math.isfinite(again) and not math.isfinite(program.value)
                if not both_lost and not math.isclose(again, program.value, rel_tol=tolerance, abs_tol=1e-6):
                    self.lacks = f"its loss comes out as {again:.6g} when replayed, and was {program.value:.6g}"
                    return False
        return True

    def evaluated(self, *, inputs: Mapping[int, torch.Tensor] | None = None, seed: int = SEED) -> Outputs:
        """Return the outputs of the models in evaluation mode."""
        self.program.evaluate()
        return self._outputs(lambda: self._seeded(self.program, inputs=inputs, seed=seed))

    def trained(
        self, program: StepProgram, *, inputs: Mapping[int, torch.Tensor] | None = None, seed: int = SEED
    ) -> Replayed:
        """Return loss and outputs in the modes of the training, always with the same random numbers."""
        program.set_recorded_modes()
        return self._seeded(program, inputs=inputs, seed=seed)

    def named_modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yield (name, module) of each module in the models; of the root, its class."""
        seen: set[int] = set()
        for root in self.models:
            for path, module in named_modules_of(root):
                if id(module) not in seen:
                    seen.add(id(module))
                    yield _joined(type(root).__name__, path), module

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield (name, parameter) of each parameter in the models."""
        seen: set[int] = set()
        for root in self.models:
            for path, parameter in named_parameters_of(root):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield _joined(type(root).__name__, path), parameter

    def optimizer_parameters(self) -> dict[int, torch.Tensor]:
        """Return the parameters that any of the optimizers updates, by id."""
        return {id(p): p for optimizer, _ in self.steps for group in optimizer.param_groups for p in group["params"]}

    def _outputs(self, replay: Callable[[], Replayed]) -> Outputs:
        """Return the outputs of the models; of models that return their loss only, the last rows computed in them."""
        if self._has_rows is not False:
            outputs = replay().outputs
            self._has_rows = any(each.ndim for each in outputs.values())
            if self._has_rows:
                return outputs
        last: list[torch.Tensor] = []

        def keep(_module: torch.nn.Module, _args: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.is_floating_point() and output.ndim > 1:
                last[:] = [output.detach().clone()]

        handles = [module.register_forward_hook(keep) for _, module in self.named_modules()]
        try:
            outputs = replay().outputs
        finally:
            for handle in handles:
                handle.remove()
        return {**outputs, (0, -1): last[0]} if last else outputs

    def _seeded(self, program: StepProgram, *, inputs: Mapping[int, torch.Tensor] | None, seed: int) -> Replayed:
        seed_all(seed)
        return program.replay(inputs=inputs)

    def _resolution(self, program: StepProgram) -> float:
        used = {each.dtype for call in program.calls for each in call.autocast if each.is_enabled}
        used |= {p.dtype for model in program.models for p in parameters_of(model)}
        return max((_LOW_PRECISION.get(dtype, 0.0) for dtype in used), default=0.0)


def _has_its_values(model: torch.nn.Module) -> bool:
    held = [t for module in modules_of(model) for t in (*module._parameters.values(), *module._buffers.values())]
    return all(tensor is None or tensor.is_meta or has_memory(tensor) for tensor in held)


def named_state(models: Sequence[torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Return buffers and tensors in attributes of the modules, by name. Parameters are left out."""
    found: dict[str, torch.Tensor] = {}
    for root in models:
        for path, module in named_modules_of(root):
            held = {**module._buffers, **module.__dict__}
            for name, value in held.items():
                is_kept = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
                if is_kept and has_memory(value) and (value.is_leaf or not value.requires_grad):
                    found[_joined(type(root).__name__, _joined(path, name))] = value
    return found


def difference(one: Outputs, other: Outputs) -> float:
    """Return the largest difference between two results, relative to the largest value; infinite if shapes differ."""
    worst = 0.0
    for key, value in one.items():
        against = other.get(key)
        if against is None or against.shape != value.shape:
            return math.inf
        worst = max(worst, gap(value, against))
    return worst


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference between two tensors, relative to their largest finite value."""
    if not one.numel():
        return 0.0
    a, b = one.double(), other.double()
    same = (a == b) | (a.isnan() & b.isnan())
    distance = torch.where(same, torch.zeros_like(a), (a - b).abs())
    scale = torch.cat([a[a.isfinite()].abs().reshape(-1), b[b.isfinite()].abs().reshape(-1)])
    largest = float(scale.max()) if scale.numel() else 0.0
    worst = float(distance.nan_to_num(math.inf).max())
    return worst / largest if largest > 0 else (math.inf if worst else 0.0)


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
