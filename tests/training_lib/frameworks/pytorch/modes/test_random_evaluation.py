"""A dropout that is live in eval mode is counted; Monte-Carlo dropout is not, and torch is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import dropout

from trackside.contracts.model_facts import ProgramFacts
from trackside.contracts.observations import RANDOM_EVALUATIONS, RANDOM_LINE
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
VALUES, LABELS = torch.arange(24.0).reshape(4, 6) / 10, torch.tensor([0, 1, 2, 1])


class Net(nn.Module):
    """Two layers, with a function between them."""

    def __init__(self, between: Callable[[Any, nn.Module], Any] = lambda hidden, _: hidden) -> None:
        super().__init__()
        self.fc, self.out, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.5)
        self.between = between

    def forward(self, values: torch.Tensor) -> Any:
        return self.out(self.between(torch.relu(self.fc(values)), self))


def always(hidden: Any, _: nn.Module) -> Any:
    return functional.dropout(hidden, 0.5)


def imported(hidden: Any, _: nn.Module) -> Any:
    return dropout(hidden, p=0.5)


def by_mode(hidden: Any, net: nn.Module) -> Any:
    return functional.dropout(hidden, 0.5, training=net.training)


def without(hidden: Any, _: nn.Module) -> Any:
    return functional.dropout(hidden, 0.0)


def module(hidden: Any, net: nn.Module) -> Any:
    return net.drop(hidden)


def attention(hidden: Any, _: nn.Module) -> Any:
    hidden = hidden.reshape(1, 1, 4, 8)
    return functional.scaled_dot_product_attention(hidden, hidden, hidden, dropout_p=0.2).reshape(4, 8)


def attention_by_mode(hidden: Any, net: nn.Module) -> Any:
    hidden = hidden.reshape(1, 1, 4, 8)
    p = 0.2 if net.training else 0.0
    return functional.scaled_dot_product_attention(hidden, hidden, hidden, None, p).reshape(4, 8)


def noisy(hidden: Any, _: nn.Module) -> Any:
    return hidden + torch.randn_like(hidden)


class Hidden:
    """A module that no model knows."""

    def __init__(self) -> None:
        self.drops = [nn.Dropout(0.5)]

    def __call__(self, hidden: Any, _: nn.Module) -> Any:
        return self.drops[0](hidden)


def evaluates(model: nn.Module) -> None:
    model.eval()
    with torch.no_grad():
        functional.cross_entropy(model(VALUES), LABELS)
    model.train()


def counts_hits(model: nn.Module) -> None:
    """Evaluates without a loss, a batch at a time."""
    model.eval()
    with torch.no_grad():
        for half in (slice(0, 2), slice(2, 4)):
            (model(VALUES[half].clone()).argmax(1) == LABELS[half]).sum()
    model.train()


def samples_predictions(model: nn.Module) -> None:
    """Monte-Carlo dropout with a function: the same input several times."""
    model.eval()
    with torch.no_grad():
        torch.stack([model(VALUES) for _ in range(4)]).mean(0)
    model.train()


def samples_with_modules(model: nn.Module) -> None:
    """Monte-Carlo dropout with modules."""
    model.eval()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.train()
    with torch.no_grad():
        for half in (slice(0, 2), slice(2, 4)):
            model(VALUES[half].clone())
    model.train()


def facts_of(capturing: Any, model: nn.Module, evaluate: Callable[[nn.Module], None], *, trains_in: bool = True) -> Any:
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.train(trains_in)
        for step in range(25):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            optimizer.step()
            if step % 5 == 4:
                evaluate(model)
                model.train(trains_in)
    return read_facts(store, "worker_0")[-1]


def program_of(capturing: Any, *args: Any, **kwargs: Any) -> ProgramFacts:
    program = facts_of(capturing, *args, **kwargs).program
    assert isinstance(program, ProgramFacts)
    return program


LIVE = [
    pytest.param(always, evaluates, id="a function without the mode"),
    pytest.param(imported, evaluates, id="a function by its own name"),
    pytest.param(always, counts_hits, id="an evaluation without a loss"),
    pytest.param(attention, evaluates, id="inside of attention"),
    pytest.param(Hidden(), evaluates, id="a module in a list"),
]
NOT_LIVE = [
    pytest.param(by_mode, evaluates, id="a function with the mode"),
    pytest.param(without, evaluates, id="a probability of zero"),
    pytest.param(module, evaluates, id="a module"),
    pytest.param(module, counts_hits, id="a module, without a loss"),
    pytest.param(attention_by_mode, evaluates, id="attention with the mode"),
    pytest.param(noisy, evaluates, id="noise"),
    pytest.param(always, samples_predictions, id="the same input several times"),
    pytest.param(module, samples_with_modules, id="modules in training mode again"),
]


@pytest.mark.parametrize(("between", "evaluate"), LIVE)
def test_a_live_dropout_is_counted(capturing: Any, between: Any, evaluate: Callable[[nn.Module], None]) -> None:
    program = program_of(capturing, Net(between), evaluate)
    assert RANDOM_EVALUATIONS.of(program) == 3
    assert RANDOM_LINE.of(program).startswith("test_random_evaluation.py:")


@pytest.mark.parametrize(("between", "evaluate"), NOT_LIVE)
def test_other_randomness_is_none(capturing: Any, between: Any, evaluate: Callable[[nn.Module], None]) -> None:
    assert RANDOM_EVALUATIONS.of(program_of(capturing, Net(between), evaluate)) == 0


def test_a_training_in_eval_mode_is_no_evaluation(capturing: Any) -> None:
    program = program_of(capturing, Net(always), lambda _: None, trains_in=False)
    assert RANDOM_EVALUATIONS.of(program) == 0


def test_torch_is_left_as_it_was(capturing: Any) -> None:
    code, of_attention = dropout.__code__, functional.scaled_dot_product_attention
    program_of(capturing, Net(attention), evaluates)
    assert (dropout.__code__, functional.scaled_dot_product_attention) == (code, of_attention)


@pytest.mark.parametrize("between", [always, attention])
def test_random_numbers_are_the_same_with_and_without_capture(capturing: Any, between: Any) -> None:
    def outcome() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model, seen = Net(between), list[torch.Tensor]()
        facts_of(capturing, model, lambda net: seen.append(_evaluated(net)))
        return [*seen, *model.state_dict().values(), torch.get_rng_state()]

    def bare() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model, seen = Net(between), list[torch.Tensor]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.train()
        for step in range(25):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            optimizer.step()
            if step % 5 == 4:
                seen.append(_evaluated(model))
                model.train()
        return [*seen, *model.state_dict().values(), torch.get_rng_state()]

    for ours, theirs in zip(outcome(), bare(), strict=True):
        assert torch.equal(ours, theirs)


def _evaluated(model: nn.Module) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        found = model(VALUES)
    model.train()
    assert isinstance(found, torch.Tensor)
    return found
