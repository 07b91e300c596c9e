"""The loop that most scripts have: a model, a loss, an optimizer, epochs of batches, an evaluation after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from benchmarks.detection.corpus.data import Data, Part
from benchmarks.detection.corpus.program import Evaluation, Trained

EVALUATION_BATCH = 256

Schedule = Callable[[Optimizer, int], Any]  # the optimizer and how many steps there will be


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The share of right classes; of those places that count, where there are several."""
    found = outputs.argmax(-1) if outputs.shape[-1] > 1 else (outputs > 0).to(targets.dtype)
    counts = targets != -100
    return float((found == targets)[counts].float().mean())


def explained(outputs: Tensor, targets: Tensor) -> float:
    """R squared: 1 for all, 0 for what the mean explains."""
    return float(1 - ((outputs - targets) ** 2).mean() / targets.var(0, unbiased=False).mean())


def of_model(model: nn.Module) -> Iterable[nn.Parameter]:
    """What an optimizer is usually given."""
    return model.parameters()


@dataclass(frozen=True)
class Recipe:
    """What such a script decides.

    `optimizer` is called with the parameters and `lr`. `prepare` may change the training batch of a step. `accumulate`
    batches make a step. `after_epoch` may do what some scripts do then, and says which model is trained on. Training
    ends early once the validation loss has not improved for `patience` epochs. The switches at the end are what a
    careful script has, and a careless one forgets.
    """

    data: Callable[[int], Data]
    model: Callable[[], nn.Module]
    optimizer: Callable[..., Optimizer]
    rate: float
    epochs: int
    criterion: Callable[[Any, Tensor], Tensor] = field(default_factory=nn.CrossEntropyLoss)
    metric: Callable[[Tensor, Tensor], float] = accuracy
    batch_size: int = 32
    accumulate: int = 1
    parameters: Callable[[nn.Module], Iterable[Any]] = of_model
    schedule: Schedule | None = None
    clip_norm: float | None = None
    prepare: Callable[[int, Tensor, Tensor], Part] | None = None
    after_epoch: Callable[[int, Evaluation, nn.Module, Optimizer], nn.Module] | None = None
    patience: int | None = None
    autocast: torch.dtype | None = None
    clears_gradients: bool = True
    shuffles: bool = True
    trains_in_training_mode: bool = True
    evaluates_in_evaluation_mode: bool = True


def regression(
    data: Callable[[int], Data],
    model: Callable[[], nn.Module],
    optimizer: Callable[..., Optimizer],
    rate: float,
    epochs: int,
    **settings: Any,
) -> Recipe:
    """A recipe for numbers: squared errors, and the share of the variance explained; `settings` go before."""
    return Recipe(data, model, optimizer, rate, epochs, **{"criterion": nn.MSELoss(), "metric": explained, **settings})


def fit(recipe: Recipe, seed: int) -> Trained:
    """Trains by the recipe."""
    torch.manual_seed(seed)
    data = recipe.data(seed)
    model = recipe.model()
    optimizer = recipe.optimizer(recipe.parameters(model), lr=recipe.rate)
    inputs, targets = data.train
    batches_per_epoch = math.ceil(len(inputs) / recipe.batch_size)
    schedule = recipe.schedule(optimizer, recipe.epochs * batches_per_epoch) if recipe.schedule else None
    step, history = 0, []
    for epoch in range(recipe.epochs):
        model.train(recipe.trains_in_training_mode)
        order = torch.randperm(len(inputs)) if recipe.shuffles else torch.arange(len(inputs))
        total = 0.0
        for number, rows in enumerate(order.split(recipe.batch_size)):
            batch, answers = inputs[rows], targets[rows]
            if recipe.prepare:
                batch, answers = recipe.prepare(step, batch, answers)
            if recipe.clears_gradients and number % recipe.accumulate == 0:
                optimizer.zero_grad()
            with _precision(recipe):
                loss = recipe.criterion(model(batch), answers)
            (loss / recipe.accumulate if recipe.accumulate > 1 else loss).backward()
            total += loss.item() * len(rows)
            if (number + 1) % recipe.accumulate:
                continue
            if recipe.clip_norm is not None:
                clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            step += 1
            if schedule:
                schedule.step()
        history.append(Evaluation(step, total / len(inputs), _evaluate(recipe, model, data.valid)[0]))
        if recipe.after_epoch:
            model = recipe.after_epoch(epoch, history[-1], model, optimizer)
        if recipe.patience is not None and _has_not_improved(history, recipe.patience):
            break
    return Trained(lambda: _evaluate(recipe, model, data.test)[1], tuple(history))


def _has_not_improved(history: list[Evaluation], patience: int) -> bool:
    best = min(range(len(history)), key=lambda epoch: history[epoch].valid_loss)
    return len(history) - 1 - best >= patience


@torch.no_grad()
def _evaluate(recipe: Recipe, model: nn.Module, part: Part) -> tuple[float, float]:
    """Mean loss and metric."""
    model.train(not recipe.evaluates_in_evaluation_mode)
    losses, outputs = [], []
    for inputs, targets in zip(*(values.split(EVALUATION_BATCH) for values in part), strict=True):
        with _precision(recipe):
            output = model(inputs)
            losses.append(recipe.criterion(output, targets).item())
        outputs.append(output.float() if output.dtype is torch.bfloat16 else output)
    return sum(losses) / len(losses), recipe.metric(torch.cat(outputs), part[1])


def _precision(recipe: Recipe) -> torch.autocast:
    return torch.autocast("cpu", dtype=recipe.autocast or torch.bfloat16, enabled=recipe.autocast is not None)
