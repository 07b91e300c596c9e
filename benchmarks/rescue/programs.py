"""Three small trainings, the faults that going back may cure, and those that it cannot.

A fault is told of each step before it, and may change the batch, gradients, weights, rate or state of the optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

STEPS = 300
FIRST_AT, SHIFT = 160, 17  # the step of the fault, and how much later it comes with each seed
LAST = 30  # losses whose mean is the final loss


class Program:
    """A training.

    Attributes:
        net: The model.
        optimizer: Its optimizer.
        scheduler: Changes the rate after each step; None for none.
        losses: The loss of each step so far.
        guard: Told of the loss before each step; returns True to leave the step out. None for none.
    """

    net: nn.Module
    optimizer: Any
    scheduler: Any = None
    clip = 0.0
    guard: Callable[[torch.Tensor], bool] | None = None

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.losses: list[float] = []
        self.negates = self.keeps_gradients = False
        self.build()

    def build(self) -> None:
        """Make model, optimizer and data."""
        raise NotImplementedError

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of a step, the same in each training of one seed."""
        raise NotImplementedError

    def loss(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        raise NotImplementedError

    def ended(self) -> None:
        """Do what follows a step."""

    def run(self, fault: Fault, at: int) -> None:
        """Train, with a fault at a step."""
        fault.begins(self)
        for step in range(STEPS):
            rows, targets = fault.batch(self, step - at, *self.batch(step))
            loss = fault.loss(step - at, self.loss(rows, targets))
            if not self.keeps_gradients:
                self.optimizer.zero_grad()
            loss.backward()
            self.losses.append(loss.item())
            fault.gradients(self, step - at)
            if self.clip:
                nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
            rates = [group["lr"] for group in self.optimizer.param_groups]
            factor = fault.rate(step - at)
            for group in self.optimizer.param_groups if factor != 1 else ():
                group["lr"] *= factor
            is_left_out = self.guard is not None and self.guard(loss)
            if not is_left_out:
                self.optimizer.step()
            for group, rate in zip(self.optimizer.param_groups if factor != 1 else (), rates, strict=False):
                group["lr"] = rate
            if is_left_out:
                continue
            fault.weights(self, step - at)
            if self.scheduler is not None:
                self.scheduler.step()
            self.ended()

    @property
    def final_loss(self) -> float:
        """The mean of the last losses."""
        return sum(self.losses[-LAST:]) / LAST


class Regression(Program):
    """A multilayer perceptron on numbers, by Adam."""

    def build(self) -> None:
        self._teacher = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        self.net = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=3e-3)
        self._data = torch.Generator().manual_seed(1)
        self._rows = torch.randn(STEPS, 64, 16, generator=self._data)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self._rows[step]
        with torch.no_grad():
            return rows, self._teacher(rows)

    def loss(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.net(rows), targets)


class Images(Program):
    """A convolutional classifier with batch norms, by SGD with momentum, a falling rate, and an average of weights."""

    def build(self) -> None:
        data = torch.Generator().manual_seed(2)
        self._patterns = torch.randn(6, 3, 8, 8, generator=data)
        self._labels = torch.randint(0, 6, (STEPS, 24), generator=data)
        self._noise = 1.5 * torch.randn(STEPS, 24, 3, 8, 8, generator=data)
        self.net = nn.Sequential(
            nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 6)
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 100, gamma=0.5)
        self._average = torch.optim.swa_utils.AveragedModel(self.net)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = self._labels[step]
        return self._patterns[labels] + self._noise[step], labels

    def loss(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.net(rows), targets)

    def ended(self) -> None:
        self._average.update_parameters(self.net)


class Language(Program):
    """A transformer that predicts the next token, by AdamW with warm-up, clipping and dropout."""

    clip = 1.0

    def build(self) -> None:
        data = torch.Generator().manual_seed(3)
        follows = torch.randint(0, 24, (24, 3), generator=data)
        choices = torch.randint(0, 3, (STEPS, 12, 12), generator=data)
        texts = [torch.randint(0, 24, (STEPS, 12), generator=data)]
        for place in range(12):
            texts.append(follows[texts[-1], choices[:, :, place]])
        self._texts = torch.stack(texts, dim=2)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.05, batch_first=True)
        self.net = nn.ModuleDict(
            {"tokens": nn.Embedding(24, 16), "layers": nn.TransformerEncoder(layer, 1), "head": nn.Linear(16, 24)}
        )
        self._mask = nn.Transformer.generate_square_subsequent_mask(12)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / 30))

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        text = self._texts[step]
        return self._one_hot(text[:, :-1]), text[:, 1:]

    def loss(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        embedded = rows @ self.net["tokens"].weight  # type: ignore[index] # a ModuleDict
        hidden = self.net["layers"](embedded, mask=self._mask, is_causal=True)  # type: ignore[index] # as above
        return functional.cross_entropy(self.net["head"](hidden).flatten(0, 1), targets.flatten())  # type: ignore[index]

    def _one_hot(self, text: torch.Tensor) -> torch.Tensor:
        return functional.one_hot(text, 24).float()


PROGRAMS: Mapping[str, type[Program]] = {"regression": Regression, "images": Images, "language": Language}


class Fault:
    """A fault. `since` is the number of steps since its moment, negative before it. This one does nothing."""

    def begins(self, program: Program) -> None:
        """Change a program before its first step."""

    def batch(
        self, _program: Program, _since: int, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the batch of a step."""
        return rows, targets

    def loss(self, _since: int, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss of a step."""
        return loss

    def gradients(self, program: Program, since: int) -> None:
        """Change gradients before the optimizer's step."""

    def rate(self, _since: int) -> float:
        """Return the factor of the rate in a step."""
        return 1.0

    def weights(self, program: Program, since: int) -> None:
        """Change weights after the optimizer's step."""


class _Batch(Fault):
    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor], steps: int = 1) -> None:
        self._change, self._steps = change, steps

    def batch(
        self, _program: Program, since: int, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return (self._change(rows) if 0 <= since < self._steps else rows), targets


class _Loss(Fault):
    def __init__(self, factor: float) -> None:
        self._factor = factor

    def loss(self, since: int, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._factor if since == 0 else loss


class _Gradients(Fault):
    def __init__(self, change: Callable[[torch.Tensor], object], *, of_all: bool = False) -> None:
        self._change, self._of_all = change, of_all

    def gradients(self, program: Program, since: int) -> None:
        found = [p.grad for p in program.net.parameters() if p.grad is not None]
        for gradient in found if self._of_all else found[-2:-1]:
            if since == 0:
                self._change(gradient)


class _Rate(Fault):
    def __init__(self, factor: float, steps: int) -> None:
        self._factor, self._steps = factor, steps

    def rate(self, since: int) -> float:
        return self._factor if 0 <= since < self._steps else 1.0


class _Weights(Fault):
    """Weights, or the optimizer's state, that are torn after the step before the moment."""

    def __init__(
        self, change: Callable[[torch.Tensor], object], *, of_all: bool = False, of_state: bool = False
    ) -> None:
        self._change, self._of_all, self._of_state = change, of_all, of_state

    def weights(self, program: Program, since: int) -> None:
        if since != -1:
            return
        found = list(program.net.parameters())
        if self._of_state:
            states = [program.optimizer.state[p] for p in found]
            found = [state.get("exp_avg_sq", state.get("momentum_buffer")) for state in states]
        with torch.no_grad():
            for tensor in found if self._of_all else found[-2:-1]:
                self._change(tensor)


class _Begin(Fault):
    def __init__(self, change: Callable[[Program], object]) -> None:
        self._change = change

    def begins(self, program: Program) -> None:
        self._change(program)


class _Always(Fault):
    def __init__(
        self,
        change: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
        *,
        from_start: bool = True,
    ) -> None:
        self._change, self._from_start = change, from_start

    def batch(
        self, _program: Program, since: int, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._change(rows, targets) if self._from_start or since >= 0 else (rows, targets)


class _Negated(Fault):
    def loss(self, _since: int, loss: torch.Tensor) -> torch.Tensor:
        return -loss


class _AlwaysRate(Fault):
    def __init__(self, factor: float) -> None:
        self._factor = factor

    def rate(self, _since: int) -> float:
        return self._factor


def _first(tensor: torch.Tensor, value: float) -> None:
    tensor.view(-1)[0] = value


def _freeze(program: Program) -> None:
    for parameter in list(program.net.parameters())[:-2]:
        parameter.requires_grad_(False)


def _zero(program: Program) -> None:
    with torch.no_grad():
        for parameter in program.net.parameters():
            parameter.zero_()


def _elsewhere(program: Program) -> None:
    for group in program.optimizer.param_groups:
        group["params"] = [nn.Parameter(p.detach().clone()) for p in group["params"]]


def _shuffled(rows: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rows, targets[torch.randperm(len(targets))]


TRANSIENT: Mapping[str, Fault] = {
    "batch with NaN": _Batch(lambda rows: torch.where(torch.arange(rows.shape[-1]) == 0, math.nan, rows)),
    "batch of infinite numbers": _Batch(lambda rows: rows * math.inf),
    "batch times 1e6": _Batch(lambda rows: rows * 1e6),
    "batch times 1e25": _Batch(lambda rows: rows * 1e25),
    "three broken batches in a row": _Batch(lambda rows: rows * math.nan, steps=3),
    "loss that overflows": _Loss(1e38),
    "NaN in one gradient": _Gradients(lambda gradient: _first(gradient, math.nan)),
    "infinity in one gradient": _Gradients(lambda gradient: _first(gradient, math.inf)),
    "gradients times 1e6": _Gradients(lambda gradient: gradient.mul_(1e6), of_all=True),
    "one weight NaN": _Weights(lambda weight: _first(weight, math.nan)),
    "one weight times 1e30": _Weights(lambda weight: _first(weight, 1e30)),
    "noise on all weights": _Weights(lambda weight: weight.add_(torch.randn_like(weight) * 30), of_all=True),
    "optimizer state infinite": _Weights(lambda state: _first(state, math.inf), of_state=True),
    "rate times 3000 in one step": _Rate(3000, 1),
    "rate times 300 in 40 steps": _Rate(300, 40),
}
NOT_CURABLE: Mapping[str, Fault] = {
    "rate times 1e6 from the start": _AlwaysRate(1e6),
    "rate times 300 from the start": _AlwaysRate(300),
    "rate times 30 from the start": _AlwaysRate(30),
    "rate of nearly zero": _AlwaysRate(1e-6),
    "targets shuffled": _Always(_shuffled),
    "inputs of zero": _Always(lambda rows, targets: (rows * 0, targets)),
    "loss negated": _Negated(),
    "gradients never cleared": _Begin(lambda program: setattr(program, "keeps_gradients", True)),
    "all but the last layer frozen": _Begin(_freeze),
    "weights begin at zero": _Begin(_zero),
    "optimizer of other tensors": _Begin(_elsewhere),
    "each batch broken from a step on": _Always(lambda rows, targets: (rows * math.nan, targets), from_start=False),
}
SOUND = Fault()
