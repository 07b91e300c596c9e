"""custom-backward-is-right: the backward of the user's autograd functions agrees with numerical derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.random_state import seed_all
from trackside.rehearsal.contents import tensors_in
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import SEED, Subject

_MOST_ENTRIES = 24  # of a tensor, that are moved one by one
_AGREES = 1e-2
_SMALLEST = 1e-7
_STEPS = (1e-5, 2e-5)
_COARSE_STEPS = (1e-2, 2e-2)  # for functions of float32
_COARSE_AGREES = 5e-2


class CustomBackward(Probe):
    """Call each of the user's autograd functions in double precision, and move single entries of its inputs."""

    name = "custom-backward-is-right"
    place = 70
    what = "A custom autograd.Function returns gradients that are not those of its forward."
    cures = (
        "Check its backward with torch.autograd.gradcheck in double precision.",
        "Typical: a factor left out, a saved tensor changed afterwards, gradients in the order of other arguments.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for the first function with wrong gradients."""
        calls = _calls(subject)
        if not calls:
            raise DoesNotApplyError("the step calls no autograd.Function of the user's")
        notes = []
        for name, (function, args) in calls.items():
            found = _compare(function, args)
            if found.is_wrong:
                return self.fault(found.observed, where=name)
            notes.append(f"{function.__name__}: {found.observed}")
        return self.ok("; ".join(notes))


@dataclass(frozen=True)
class Comparison:
    """The result for one function."""

    observed: str
    is_wrong: bool = False


def _calls(subject: Subject) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return one call of each function: (class, arguments) by its full name."""
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for _, losses in subject.steps:
        for program in losses:
            functions = _functions_behind(subject.trained(program).loss)
            with _watched(functions, found):
                subject.trained(program)
    return found


def _functions_behind(loss: torch.Tensor) -> list[Any]:
    """Return the classes of the user's functions in the graph of a loss. PyTorch's own are left out."""
    waiting, seen, found = [loss.grad_fn], {loss.grad_fn}, []
    while waiting:
        node: Any = waiting.pop()
        function = getattr(node, "_forward_cls", None)
        if function is not None and not function.__module__.startswith("torch."):
            found.append(function)
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(dict.fromkeys(found))


@contextmanager
def _watched(functions: list[Any], found: dict[str, tuple[Any, tuple[Any, ...]]]) -> Iterator[None]:
    """Keep the arguments of the first call of each function.

    Its `forward` is replaced, since scripts often keep `Function.apply` under a name of their own.
    """
    undo = []
    for function in functions:
        own = function.__dict__.get("forward")
        setattr(function, "forward", staticmethod(_keeping(function, found)))  # noqa: B010 - for mypy
        undo.append((function, own))
    try:
        yield
    finally:
        for function, own in undo:
            if own is None:
                delattr(function, "forward")
            else:
                setattr(function, "forward", own)  # noqa: B010 - for mypy


def _keeping(function: Any, found: dict[str, tuple[Any, tuple[Any, ...]]]) -> Callable[..., Any]:
    forward = function.forward
    has_context = function.setup_context is torch.autograd.Function.setup_context

    def keep(*args: Any) -> Any:
        given = args[1:] if has_context else args
        kept = tuple(a.detach().clone().requires_grad_(a.requires_grad) if _can_be_copied(a) else a for a in given)
        found.setdefault(f"{function.__module__}.{function.__qualname__}", (function, kept))
        return forward(*args)

    return keep


def _compare(function: Any, args: tuple[Any, ...]) -> Comparison:
    try:
        doubled = tuple(a.double().detach().requires_grad_(a.requires_grad) if _is_float(a) else a for a in args)
        return _compared(function, doubled, _STEPS, _AGREES)
    except Exception:  # noqa: BLE001 - not every function takes double precision
        return _compared(function, args, _COARSE_STEPS, _COARSE_AGREES)


def _compared(function: Any, args: tuple[Any, ...], steps: tuple[float, float], agrees: float) -> Comparison:
    moved = [place for place, each in enumerate(args) if _is_float(each) and each.requires_grad]
    value = _WeightedSum(function)
    start = value(args)
    if not moved or not start.requires_grad:
        return Comparison("takes no gradient")
    gradients = torch.autograd.grad(start, [args[place] for place in moved], allow_unused=True)
    slopes = [
        _Slopes(place, numeric, 0.0 if gradient is None else float(gradient.reshape(-1)[entry]))
        for place, gradient in zip(moved, gradients, strict=True)
        for entry in _entries(args[place])
        if (numeric := _numeric(value, args, place, entry, steps)) is not None
    ]
    if not slopes:
        return Comparison("its derivative jumps at every entry that was tried")
    gap = [each for each in slopes if not each.agrees(agrees)]
    wrong = [each for each in gap if abs(each.numeric) > _SMALLEST]
    if not wrong:
        straight = "passes gradients straight through a function of steps"
        return Comparison(straight if gap else f"right at {len(slopes)} entries")
    if len(wrong) == len(slopes) and _is_meant(function, args, [each.analytic / each.numeric for each in wrong]):
        return Comparison("returns its input and scales or turns the gradient on purpose")
    return Comparison(f"{wrong[0]} ({len(wrong)} of {len(slopes)} entries)", is_wrong=True)


@dataclass(frozen=True)
class _Slopes:
    """The derivative by one entry of the argument `place`: by differences of the forward, and by the backward."""

    place: int
    numeric: float
    analytic: float

    def agrees(self, share: float) -> bool:
        return abs(self.numeric - self.analytic) <= share * max(abs(self.numeric), abs(self.analytic)) + _SMALLEST

    def __str__(self) -> str:
        found = f"its backward gives {self.analytic:.4g}, the forward's derivative is {self.numeric:.4g}"
        return f"argument {self.place}: {found}"


class _WeightedSum:
    """The sum of a function's outputs with fixed random weights, as a function of its arguments."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, args: tuple[Any, ...]) -> torch.Tensor:
        seed_all(SEED)
        outputs = [each for each in tensors_in(self._function.apply(*args)) if each.is_floating_point()]
        generator = torch.Generator().manual_seed(SEED)
        weights = [torch.rand(each.shape, generator=generator, dtype=torch.float64) + 0.5 for each in outputs]
        return torch.stack([(each * w.to(each)).sum() for each, w in zip(outputs, weights, strict=True)]).sum()


def _is_meant(function: Any, args: tuple[Any, ...], ratios: list[float]) -> bool:
    """Return True for a function that returns its input, with one factor on every gradient (a gradient reversal)."""
    outputs = tensors_in(function.apply(*args))
    is_identity = any(
        _is_float(a) and len(outputs) == 1 and a.shape == outputs[0].shape and torch.equal(a, outputs[0]) for a in args
    )
    return is_identity and max(ratios) - min(ratios) <= _AGREES * max(map(abs, ratios))


def _numeric(
    value: Callable[[tuple[Any, ...]], torch.Tensor],
    args: tuple[Any, ...],
    place: int,
    entry: int,
    steps: tuple[float, float],
) -> float | None:
    """Return the derivative by one entry; None at a corner or jump, where steps to both sides do not agree."""
    middle = float(value(args).detach())
    slopes = []
    for step in steps:
        size = step * max(1.0, abs(float(args[place].detach().reshape(-1)[entry])))
        for sign in (1, -1):
            tensor = args[place].detach().clone(memory_format=torch.contiguous_format)
            tensor.view(-1)[entry] += sign * size
            end = float(value((*args[:place], tensor.requires_grad_(True), *args[place + 1 :])).detach())
            slopes.append((end - middle) / (sign * size))
    tolerance = _COARSE_AGREES if steps is _COARSE_STEPS else _AGREES
    spread = max(slopes) - min(slopes)
    is_smooth = all(map(math.isfinite, slopes)) and spread <= tolerance * max(map(abs, slopes)) + _SMALLEST
    return sum(slopes) / len(slopes) if is_smooth else None


def _entries(tensor: torch.Tensor) -> list[int]:
    generator = torch.Generator().manual_seed(SEED)
    return torch.randperm(tensor.numel(), generator=generator)[:_MOST_ENTRIES].tolist()


def _can_be_copied(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and has_memory(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
