"""The subject of the probes: the recorded step, the models in it, and questions that several probes share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.random_state import seed_all
from trackside.frameworks.pytorch.ground.script_objects import (
    modules_of,
    named_modules_of,
    named_parameters_of,
    parameters_of,
)
from trackside.rehearsal.gradient_changes import GradientChanges, norm_of
from trackside.rehearsal.seen_draws import SeenDraws
from trackside.rehearsal.seen_labels import SeenLabels
from trackside.rehearsal.step_program import Replayed, StepProgram

SEED = 20
_REBUILT_WITHIN = 1e-3  # of the recorded loss; devices and thread counts change the last digits
_SAME_GRADIENT = 1e-2  # of its norm: as above, and gradients are sums of many terms
_LOW_PRECISION = {torch.float16: 1e-3, torch.bfloat16: 8e-3}

NO_LABELS, NO_DRAWS = SeenLabels(), SeenDraws()

Outputs = Mapping[tuple[int, int], torch.Tensor]


class Subject:
    """The models, optimizers and losses of the newest training step.

    Attributes:
        steps: Each optimizer with the losses of its newest step, those that can be replayed.
        program: The last of the losses.
        models: The root modules called in any of the losses.
        first_values: Buffers and tensors in attributes, by name, as after the first step.
        changes: What the script does to gradients before a step, by the id of the optimizer.
        labels: The labels of all losses of the rehearsal.
        draws: The random states of all its steps.
        lacks: The reason for which no loss can be replayed; "" if one can.

    Args:
        programs: The recorded losses, with the optimizer that stepped after them.
        first_values: See the attribute.
        time_left: Returns the number of seconds left for the probes.
        changes: See the attribute.
        labels: See the attribute.
        draws: See the attribute.
    """

    def __init__(
        self,
        programs: Sequence[tuple[Optimizer, tuple[StepProgram, ...]]],
        *,
        first_values: Mapping[str, torch.Tensor],
        time_left: Callable[[], float],
        changes: Mapping[int, GradientChanges] = MappingProxyType({}),
        labels: SeenLabels = NO_LABELS,
        draws: SeenDraws = NO_DRAWS,
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
        self.changes = changes
        self.labels, self.draws = labels, draws
        self._has_rows: bool | None = None

    @property
    def is_lost(self) -> bool:
        """True if the newest loss is no number, and outputs of the model mean nothing."""
        return not math.isfinite(self.program.value)

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

    def gradient_scale(self, program: StepProgram, optimizer: Optimizer) -> float | None:
        """Return the factor by which the script scales gradients before it clips them; 1 for most scripts.

        None if a replay of the step, with the clipping that was observed, does not give the gradients of the
        optimizer: the script changes them by hand, adds to those of earlier steps, or computes them elsewhere.
        """
        changes = self.changes.get(id(optimizer))
        if changes is None or not changes.is_observable:
            return 1.0
        parameters = tuple(p for group in optimizer.param_groups for p in group["params"])
        for parameter in (*parameters, *changes.arrived[0]):
            parameter.grad = None
        program.set_recorded_modes()
        torch.autograd.backward(program.replay(as_recorded=True).loss)
        norm = norm_of(changes.arrived[0])
        ratio = changes.arrived[1] / norm if norm > 0 and math.isfinite(norm) else 1.0
        tolerance = _SAME_GRADIENT + 10 * self._resolution(program)
        scale = 1.0 if math.isclose(ratio, 1.0, rel_tol=tolerance) or not math.isfinite(ratio) else ratio
        if not changes.is_without_effect:
            changes.repeat(parameters, scale=scale)
        elif scale != 1.0:
            return None
        agree = all(_is_close(p.grad, gradient, tolerance) for p, gradient in changes.final)
        return scale if agree else None

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


def _is_close(gradient: torch.Tensor | None, recorded: torch.Tensor, tolerance: float) -> bool:
    if gradient is None or gradient.shape != recorded.shape:
        return False
    one, other = gradient.detach().double(), recorded.double()
    if not bool(other.isfinite().all()):
        return not bool(one.isfinite().all())
    return float((one - other).norm()) <= tolerance * max(float(one.norm()), float(other.norm()))


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
