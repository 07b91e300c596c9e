"""gradients-reach-parameters: parameters that the loss depends on get a gradient, those of the last layer too."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.ground.initial_values import looks_untrained
from trackside.rehearsal.probe import NotTriedError, Probe
from trackside.rehearsal.subject import Subject

_SIZE = 2e-2  # of the parameter's root mean square
_SMALLEST = 1e-3
_RESOLUTION = 1e-6  # of the loss
_MOST_NAMED = 3
_BRANCH = 0.25  # of the numbers of all layers: a dead part that is smaller stands beside a way that learns


class ReachedParameters(Probe):
    """Move parameters without a gradient to both sides, and watch the loss."""

    name = "gradients-reach-parameters"
    place = 80
    what = "The loss depends on parameters that the optimizer holds, and no gradient reaches them."
    cures = (
        "Look for detach(), .data, .item(), torch.no_grad() or a new torch.tensor(...) between them and the loss.",
        "If they are kept as they are on purpose, leave them out of the optimizer.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for parameters on which the loss depends and that have no gradient in any loss of the step."""
        if subject.is_partial:
            raise NotTriedError("one of the step's losses cannot be replayed, and may be the one that reaches them")
        trained = subject.optimizer_parameters()
        named = {name: p for name, p in subject.named_parameters() if id(p) in trained and p.requires_grad}
        if not named:
            raise NotTriedError("no optimizer holds parameters of the models")
        reached = self._reached(subject, named)
        left = {name: p for name, p in named.items() if id(p) not in reached}
        guilty = self._guilty(subject, left)
        dead = [] if guilty or not reached else _dead(subject, left)
        if dead and (share := _share(subject, left, named)) < _BRANCH:
            return self.ok(f"all units of {_listed(dead)} are dead; they and what reads them alone hold {share:.0%}")
        if dead:
            return self.fault(
                f"no output of {len(dead)} layers is above zero for any sample; their gradients were zero at each step",
                where=_listed(dead),
                what="All units of a layer are dead: no sample gets through its activation.",
                cures=(
                    "Look at the biases and initial weights of these layers, and at the scale of their inputs.",
                    "If they were alive at first, lower the learning rate.",
                ),
            )
        if not guilty and (frozen := self._frozen_end(subject)):
            return self.fault(
                "it requires no gradient, is as an initializer draws it, and the loss depends on it",
                where=frozen,
                what="The last layer is frozen at its random start, and all layers before it train.",
                cures=(
                    "Freeze the layers before it, or none: look for requires_grad_(False) and requires_grad = False.",
                    "Replace the last layer after the model was frozen.",
                ),
            )
        if not guilty:
            return self.ok(f"{len(reached)} of {len(named)} parameters get gradients; the loss depends on no other")
        return self.fault(
            f"the loss depends on {len(guilty)} of {len(named)} parameters without a gradient",
            where=_listed(guilty),
        )

    def _frozen_end(self, subject: Subject) -> str:
        """Return the name of the last matrix, if it alone is frozen, at its random start; "" otherwise.

        What is to train later lies before what trains, from the output on, so this one waits for no turn.
        """
        matrices = [(name, p) for name, p in subject.named_parameters() if p.ndim > 1 and min(p.shape) > 1]
        frozen = [(name, p) for name, p in matrices if not p.requires_grad]
        if len(subject.models) > 1 or len(frozen) != 1 or len(matrices) < 2 or frozen[0][0] != matrices[-1][0]:
            return ""
        name, last = frozen[0]
        is_last = looks_untrained(last) and self._depends(subject, [last], is_slope_needed=False)
        return name if is_last else ""

    def _reached(self, subject: Subject, named: Mapping[str, torch.Tensor]) -> set[int]:
        reached: set[int] = set()
        for _, losses in subject.steps:
            for program in losses:
                for parameter in named.values():
                    parameter.grad = None
                torch.autograd.backward(subject.trained(program).loss)
                reached |= {id(p) for p in named.values() if p.grad is not None and bool((p.grad != 0).any())}
        return reached

    def _guilty(self, subject: Subject, left: Mapping[str, torch.Tensor]) -> list[str]:
        if not left or not self._depends(subject, list(left.values()), is_slope_needed=False):
            return []
        found = []
        for name, parameter in left.items():
            if subject.time_left() <= 0:
                break
            if self._depends(subject, [parameter], is_slope_needed=True):
                found.append(name)
        return found

    def _depends(self, subject: Subject, parameters: list[torch.Tensor], *, is_slope_needed: bool) -> bool:
        """Return True if any loss changes along a random direction; for a slope, to both sides in different senses."""
        generator = torch.Generator().manual_seed(7)
        values = [parameter.detach().clone() for parameter in parameters]
        moves = [torch.randn(v.shape, generator=generator).to(v) * max(_SIZE * _rms(v), _SMALLEST) for v in values]
        for _, losses in subject.steps:
            for program in losses:
                start = float(subject.trained(program).loss.detach())
                ends = []
                for sign in (1, -1):
                    with torch.no_grad():
                        for parameter, value, move in zip(parameters, values, moves, strict=True):
                            parameter.copy_(value + sign * move)
                    ends.append(float(subject.trained(program).loss.detach()) - start)
                with torch.no_grad():
                    for parameter, value in zip(parameters, values, strict=True):
                        parameter.copy_(value)
                smallest = _RESOLUTION * max(abs(start), 1e-3)
                has_slope = min(map(abs, ends)) > smallest and ends[0] * ends[1] < 0
                if has_slope or (not is_slope_needed and max(map(abs, ends)) > smallest):
                    return True
        return False


def _dead(subject: Subject, left: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names of weights with a zero gradient at each step, in layers without an output above zero.

    A part that the model did not choose, as an expert without samples, has outputs above zero.
    """
    given = {id(p) for changes in subject.changes.values() for p, _ in changes.final}
    moved = {key for changes in subject.changes.values() for key in changes.moved}
    still = {id(p): name for name, p in left.items() if p.ndim > 1 and id(p) in given - moved}
    highest: dict[int, float] = {}

    def see(module: torch.nn.Module, _args: object, output: object) -> None:
        key, bias = id(getattr(module, "weight", None)), getattr(module, "bias", None)
        if key in still and id(bias) not in moved and isinstance(output, torch.Tensor) and output.numel():
            highest[key] = max(highest.get(key, -torch.inf), float(output.detach().max()))

    handles = [module.register_forward_hook(see) for _, module in subject.named_modules() if still]
    try:
        if still:
            subject.trained(subject.program)
    finally:
        for handle in handles:
            handle.remove()
    return [name for key, name in still.items() if highest.get(key, torch.inf) <= 0]


def _share(subject: Subject, left: Mapping[str, torch.Tensor], named: Mapping[str, torch.Tensor]) -> float:
    """Return the share of the numbers of all layers that get no gradient; tables of embeddings are left out."""
    tables = {id(m.weight) for _, m in subject.named_modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    sizes = {name: p.numel() for name, p in named.items() if id(p) not in tables}
    return sum(size for name, size in sizes.items() if name in left) / max(1, sum(sizes.values()))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _rms(value: torch.Tensor) -> float:
    return float(value.double().square().mean().sqrt()) if value.numel() else 0.0
