"""What a careless hand does to a recipe. Each function gives an edit: a recipe in, the faulty recipe out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks.detection.corpus.data import Data, Part
from benchmarks.detection.corpus.optimizers import by_step
from benchmarks.detection.corpus.program import Evaluation
from benchmarks.detection.corpus.registry import Edit
from benchmarks.detection.corpus.supervised import Recipe


def settings(**changes: Any) -> Edit:
    """Other values for what a recipe says."""
    return lambda recipe: replace(recipe, **changes)


def both(*edits: Edit) -> Edit:
    """One after the other."""

    def edit(recipe: Recipe) -> Recipe:
        for each in edits:
            recipe = each(recipe)
        return recipe

    return edit


def rate(value: float) -> Edit:
    """Another learning rate."""
    return settings(rate=value)


def optimizer(**changes: Any) -> Edit:
    """Other settings of the optimizer."""
    return lambda recipe: replace(recipe, optimizer=partial(recipe.optimizer, **changes))


def in_model(change: Callable[[nn.Module], object]) -> Edit:
    """A change of the model right after it was built."""

    def edit(recipe: Recipe) -> Recipe:
        def build() -> nn.Module:
            model = recipe.model()
            with torch.no_grad():
                change(model)
            return model

        return replace(recipe, model=build)

    return edit


def weights(change: Callable[[Tensor], object], *layers: str) -> Edit:
    """A change of the weight matrices, of these layers or all."""
    return in_model(lambda model: [change(weight) for weight in _matrices(model, layers)])


def biases(value: float, *layers: str) -> Edit:
    """The biases of these layers start with a value."""

    def change(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            if "bias" in name and name.rpartition(".")[0] in layers:
                parameter.fill_(value)

    return in_model(change)


def all_equal(value: float) -> Edit:
    """Every parameter that is drawn at random starts with one value."""

    def change(model: nn.Module) -> None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.fill_(value)
            elif value == 0:
                parameter.zero_()

    return in_model(change)


def frozen(*layers: str) -> Edit:
    """`requires_grad` is off for these layers."""
    return in_model(lambda model: [model.get_submodule(name).requires_grad_(False) for name in layers])


def only_optimized(*layers: str) -> Edit:
    """The optimizer is given the parameters of these layers alone."""

    def chosen(model: nn.Module) -> Iterable[nn.Parameter]:
        return [parameter for name in layers for parameter in model.get_submodule(name).parameters()]

    return settings(parameters=chosen)


def data(change: Callable[[Data], Data]) -> Edit:
    """Other data."""
    return lambda recipe: replace(recipe, data=lambda seed: change(recipe.data(seed)))


def inputs(change: Callable[[Tensor], Tensor]) -> Edit:
    """Other inputs, in all parts."""
    return data(lambda found: found.with_inputs(change))


def targets(change: Callable[[Tensor], Tensor]) -> Edit:
    """Other targets, in all parts."""
    return data(lambda found: found.with_targets(change))


def shuffled_labels() -> Edit:
    """Inputs and targets were sorted apart: training and validation targets belong to other rows."""

    def mixed(part: Part) -> Part:
        return part[0], part[1][torch.randperm(len(part[1]), generator=torch.Generator().manual_seed(1))]

    return data(lambda found: replace(found, train=mixed(found.train), valid=mixed(found.valid)))


def few_rows(count: int) -> Edit:
    """Most of the training data is left out."""
    return data(lambda found: found.with_train(lambda rows, answers: (rows[:count], answers[:count])))


def rare_classes(one_in: int, *rare: int) -> Edit:
    """In the training data these classes are rare."""

    def kept(rows: Tensor, answers: Tensor) -> Part:
        flat = answers.flatten()
        is_rare = torch.isin(flat, torch.tensor(rare, dtype=flat.dtype))
        keep = ~is_rare | (is_rare.cumsum(0) % one_in == 0)
        return rows[keep], answers[keep]

    return data(lambda found: found.with_train(kept))


def sorted_by_label() -> Edit:
    """The training data lie sorted, and nobody shuffles them."""

    def in_order(rows: Tensor, answers: Tensor) -> Part:
        order = answers.flatten().argsort(stable=True)
        return rows[order], answers[order]

    return both(data(lambda found: found.with_train(in_order)), settings(shuffles=False))


def leaking(leak: Callable[[Tensor, Tensor], Tensor]) -> Edit:
    """Training and validation inputs hold the answer, made by `leak(inputs, targets)`; those of the test do not."""

    def change(found: Data) -> Data:
        train, valid = ((leak(rows.clone(), answers), answers) for rows, answers in (found.train, found.valid))
        return replace(found, train=train, valid=valid)

    return data(change)


def batches(change: Callable[[Tensor, Tensor], Part], *, since: int = 0) -> Edit:
    """Training batches are other ones from some step on."""

    def edit(recipe: Recipe) -> Recipe:
        def prepare(step: int, rows: Tensor, answers: Tensor) -> Part:
            if recipe.prepare:
                rows, answers = recipe.prepare(step, rows, answers)
            return change(rows, answers) if step >= since else (rows, answers)

        return replace(recipe, prepare=prepare)

    return edit


def one_value(value: float, *, since: int = 0) -> Edit:
    """One value of each training batch is another one, from some step on."""

    def spoilt(rows: Tensor, answers: Tensor) -> Part:
        rows = rows.clone()
        rows.view(len(rows), -1)[0, 3] = value
        return rows, answers

    return batches(spoilt, since=since)


def one_target(value: float, *, since: int = 0) -> Edit:
    """One target of each training batch is another one, from some step on."""

    def spoilt(rows: Tensor, answers: Tensor) -> Part:
        answers = answers.clone()
        answers[0] = value
        return rows, answers

    return batches(spoilt, since=since)


def same_batch_again(since: int) -> Edit:
    """From some step on the loader serves the batch that it served then."""
    kept: list[Part] = []

    def again(rows: Tensor, answers: Tensor) -> Part:
        kept.append((rows, answers)) if not kept else None
        return kept[0]

    return batches(again, since=since)


def copied_model(after_epoch: int) -> Edit:
    """After that epoch training goes on with a copy of the model; the optimizer still holds the old one."""

    def change(epoch: int, _evaluation: Evaluation, model: nn.Module, _optimizer: Optimizer) -> nn.Module:
        return copy.deepcopy(model) if epoch == after_epoch else model

    return settings(after_epoch=change)


def frozen_after(epoch: int) -> Edit:
    """After that epoch all matrices are frozen, as for a fine-tuning that never comes."""

    def change(now: int, _evaluation: Evaluation, model: nn.Module, _optimizer: Optimizer) -> nn.Module:
        if now == epoch:
            for parameter in model.parameters():
                parameter.requires_grad_(parameter.dim() < 2)
        return model

    return settings(after_epoch=change)


def growing_rate(factor: float) -> Edit:
    """A decay with the wrong exponent: the rate grows at each step."""
    return settings(schedule=by_step(lambda step, _: factor**step))


def rate_jump(factor: float, *, since: int) -> Edit:
    """The rate is multiplied from some step on."""
    return settings(schedule=by_step(lambda step, _: factor if step >= since else 1.0))


def criterion(change: Callable[[Callable[[Any, Tensor], Tensor]], Callable[[Any, Tensor], Tensor]]) -> Edit:
    """Another loss, made of the right one."""
    return lambda recipe: replace(recipe, criterion=change(recipe.criterion))


def penalty(factor: float) -> Edit:
    """The loss gets a factor times the sum of all squared parameters: a weight decay by hand."""

    def edit(recipe: Recipe) -> Recipe:
        built: list[nn.Module] = []

        def build() -> nn.Module:
            built.append(recipe.model())
            return built[-1]

        def loss(outputs: Any, answers: Tensor) -> Tensor:
            squares = sum((parameter**2).sum() for parameter in built[-1].parameters())
            return recipe.criterion(outputs, answers) + factor * squares

        return replace(recipe, model=build, criterion=loss)

    return edit


def wrong_sign() -> Edit:
    """The loss, with a minus."""
    return criterion(lambda right: lambda outputs, answers: -right(outputs, answers))


def softmax_before_loss() -> Edit:
    """The loss is given probabilities where it wants logits."""
    return criterion(lambda right: lambda outputs, answers: right(outputs.softmax(-1), answers))


def ends_in_softmax() -> Edit:
    """The model ends in a softmax, and the loss has one too."""

    def edit(recipe: Recipe) -> Recipe:
        return replace(recipe, model=lambda: nn.Sequential(recipe.model(), nn.Softmax(-1)))

    return edit


def in_half(recipe: Recipe) -> Recipe:
    """Model and inputs in float16."""

    def half(values: Tensor) -> Tensor:
        return values.half() if values.is_floating_point() else values

    return replace(
        recipe,
        model=lambda: recipe.model().half(),
        data=lambda seed: recipe.data(seed).with_inputs(half).with_targets(half),
    )


def _matrices(model: nn.Module, layers: Iterable[str]) -> list[nn.Parameter]:
    chosen = tuple(layers)
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and (not chosen or name.rpartition(".")[0] in chosen)
    ]
