"""Where a step begins and ends when that is hard to tell: idle optimizers, skipped steps, the very first one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

EVERYTHING = dict.fromkeys(
    (
        "losses", "weights", "biases", "gradients", "inputs", "outputs", "labels", "predictions", "metrics",
        "raw_gradients", "activation_gradients",
    ), 1
)  # fmt: skip


class Net(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc(values)


def array(tensor: torch.Tensor | None) -> np.ndarray:
    assert tensor is not None
    return tensor.detach().numpy().copy()


class Training:
    """An ordinary loop, and what it notes itself of each step: the oracle."""

    def __init__(self, model: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        self.model = model or Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        self.noted: list[dict[str, np.ndarray]] = []

    def step(self) -> None:
        values, labels = torch.randn(5, 4), torch.randint(0, 3, (5,))
        self.optimizer.zero_grad()
        scores = self.model(values)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        right = (scores.argmax(1) == labels).float().mean()
        self.noted.append(
            {
                "CrossEntropyLoss_output_0": array(loss),
                "CrossEntropyLoss_input_1": array(labels),
                "metrics/accuracy": array(right),
                "Net_input_0": array(values),
                "Net_output_0": array(scores),
                "fc_output_0": array(scores),
                "Net_fc.weight": array(self.model.fc.weight),
                "gradient/Net_fc.weight": array(self.model.fc.weight.grad),
                "raw_gradient/Net_fc.weight": array(self.model.fc.weight.grad),
            }
        )
        nn.utils.clip_grad_norm_(self.model.parameters(), 1e3)
        self.optimizer.step()


def assert_as_noted(saved: dict[int, dict[str, np.ndarray]], noted: list[dict[str, np.ndarray]]) -> None:
    assert len(saved) == len(noted)
    for tensors, expected in zip(saved.values(), noted, strict=True):
        for name, value in expected.items():
            np.testing.assert_allclose(tensors[name], value, rtol=1e-6, err_msg=name)
        assert not [name for name in tensors if name.endswith(("_output_1", "_input_2"))]
        assert "activation_gradient/fc_output_0" in tensors


@pytest.mark.parametrize(
    "idle",
    [
        pytest.param(lambda model: torch.optim.Adam(nn.Linear(2, 2).parameters()), id="for-a-later-phase"),
        pytest.param(lambda model: torch.optim.SGD(model.parameters(), lr=1e-3), id="for-fine-tuning-the-same-model"),
    ],
)
def test_an_optimizer_that_never_steps_takes_nothing_from_the_steps(idle: Any, watching: Any) -> None:
    """Step 0 is known to have ended once the other one steps again: what came in between is that step's."""
    with watching(**EVERYTHING) as saved:
        training = Training()
        waiting = idle(training.model)
        for _ in range(3):
            training.step()
    assert waiting.param_groups
    assert list(saved()) == [0, 1, 2]
    assert_as_noted(saved(), training.noted)


def test_an_optimizer_that_begins_later(watching: Any) -> None:
    """It is built in the middle of the training, and steps from its third step on."""
    with watching(**EVERYTHING) as saved:
        training, second = Training(), nn.Sequential(nn.Linear(2, 1))
        for number in range(7):
            if number == 2:
                later = torch.optim.Adam(second.parameters())
            training.step()
            if number >= 5:
                second(torch.ones(1, 2)).sum().backward()
                later.step()
                later.zero_grad()
    steps = saved()
    assert list(steps) == list(range(8))  # the last step of the later one stands alone: nothing comes after it
    of_first = {number: tensors for number, tensors in steps.items() if "Net_fc.weight" in tensors}
    assert list(of_first) == list(range(7))
    assert_as_noted(of_first, training.noted)
    assert [number for number, tensors in steps.items() if "Sequential_0.weight" in tensors] == [6, 7]


def test_an_evaluation_after_the_first_step_follows_it(watching: Any, capturing: Any, read_modes: Any) -> None:
    """Not even an optimizer that never steps holds step 0 open over it."""
    with capturing(losses=1, outputs=1) as store:
        training = Training()
        waiting = torch.optim.Adam(nn.Linear(2, 2).parameters())
        training.step()
        training.model.eval()
        with torch.no_grad():
            functional.cross_entropy(training.model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
        training.model.train()
        training.step()
    assert waiting.param_groups
    assert list(read_modes(store)) == [("TRAIN", 0), ("EVAL", 0), ("TRAIN", 1)]


def overflowing(number: int) -> float:
    return float("inf") if number in {0, 2, 3} else 1.0


def test_what_led_to_a_step_that_amp_skips_is_dropped_with_it(watching: Any) -> None:
    """Steps 1 and 4 of the loop are made: their values alone are saved, under the names of a step of one pass."""
    noted = []
    with watching(losses=1, inputs=1, outputs=1, predictions=1, labels=1, metrics=1, gradients=1) as saved:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(5):
            optimizer.zero_grad()
            values, labels = torch.randn(5, 4), torch.randint(0, 3, (5,))
            scores = model(values)
            loss = functional.cross_entropy(scores, labels)
            scaler.scale(loss * overflowing(number)).backward()
            if overflowing(number) == 1.0:
                noted.append((array(loss), array(values), array(scores), array(labels)))
            scaler.step(optimizer)
            scaler.update()
    steps = list(saved().values())
    assert [len(steps), len(noted)] == [2, 2]
    for tensors, expected in zip(steps, noted, strict=True):
        names = ("CrossEntropyLoss_output_0", "Net_input_0", "Net_output_0", "CrossEntropyLoss_input_1")
        for name, value in zip(names, expected, strict=True):
            np.testing.assert_allclose(tensors[name], value, rtol=1e-6, err_msg=name)
        assert not [name for name in tensors if name.endswith(("_output_1", "_input_2"))]
    assert [float(tensors["scalar/amp_skipped_steps"][0]) for tensors in steps] == [1, 3]


def test_a_skipped_step_of_one_of_two_optimizers(watching: Any) -> None:
    """In the second round AMP skips the second optimizer: the step ends all the same, and the rounds stay in step."""
    with watching(weights=1, outputs=1) as saved:
        torch.manual_seed(0)
        models = [nn.Sequential(nn.Linear(4, 1)) for _ in range(2)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(4):
            for which, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                optimizer.zero_grad()
                factor = float("inf") if (number, which) in {(1, 1), (2, 0)} else 1.0
                scaler.scale(model(torch.ones(1, 4)).sum() * factor).backward()
                scaler.step(optimizer)
            scaler.update()
    both = ["Sequential2_0.weight", "Sequential_0.weight"]
    held = [sorted(name for name in tensors if name.endswith("weight")) for tensors in saved().values()]
    assert held == [both, ["Sequential_0.weight"], ["Sequential2_0.weight"], both]
    outputs = [sorted(name for name in tensors if "output" in name) for tensors in saved().values()]
    first, second = ["0_output_0", "Sequential_output_0"], ["Sequential2.0_output_0", "Sequential2_output_0"]
    assert outputs == [sorted(first + second), first, second, sorted(first + second)]


def test_an_optimizer_built_after_the_first_pass(watching: Any) -> None:
    """Before there is one nobody watches: step 0 lacks inputs and outputs, and has all else. None has another's."""
    with watching(**EVERYTHING) as saved:
        torch.manual_seed(0)
        model, noted = Net(), []
        optimizer = None
        for _ in range(2):
            scores, labels = model(torch.randn(5, 4)), torch.randint(0, 3, (5,))
            loss = nn.CrossEntropyLoss()(scores, labels)
            optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.5)
            optimizer.zero_grad()
            loss.backward()
            noted.append((array(loss), array(labels), array(scores)))
            optimizer.step()
    first, second = saved().values()
    for tensors, (loss_value, labels_value, _) in zip((first, second), noted, strict=True):
        np.testing.assert_array_equal(tensors["CrossEntropyLoss_output_0"], loss_value)
        np.testing.assert_array_equal(tensors["CrossEntropyLoss_input_1"], labels_value)
        assert "gradient/Net_fc.weight" in tensors
    assert not [name for name in first if name.startswith(("Net_input", "Net_output", "fc_", "activation"))]
    np.testing.assert_array_equal(second["Net_output_0"], noted[1][2])
    assert "Net_output_1" not in second


def tried(model: nn.Module) -> None:
    assert model(torch.ones(2, 4)).shape == (2, 3)


def tried_without_gradients(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(3):
            shape = model(torch.ones(2, 4)).shape
    assert shape == (2, 3)


def tried_with_a_loss(model: nn.Module) -> None:
    loss = nn.CrossEntropyLoss()(model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
    assert loss.item() > 0


def evaluated(model: nn.Module) -> None:
    """As Lightning's sanity check."""
    model.eval()
    with torch.no_grad():
        nn.CrossEntropyLoss()(model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
        functional.cross_entropy(model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
    model.train()


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(tried, id="tried-out"),
        pytest.param(tried_without_gradients, id="tried-out-without-gradients"),
        pytest.param(tried_with_a_loss, id="tried-out-with-a-loss"),
        pytest.param(evaluated, id="evaluated"),
    ],
)
def test_a_model_called_before_it_is_trained(before: Any, watching: Any) -> None:
    """The first step holds what it was trained on, and nothing else."""
    with watching(**EVERYTHING) as saved:
        training = Training()
        before(training.model)
        for _ in range(2):
            training.step()
    assert list(saved()) == [0, 1]
    assert_as_noted(saved(), training.noted)


def test_lazy_modules_tried_out_before_the_optimizer_is_built(watching: Any) -> None:
    class Lazy(Net):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.LazyLinear(3)  # type: ignore[assignment] # it becomes a Linear

    with watching(**EVERYTHING) as saved:
        model = Lazy()
        tried(model)
        model.__class__ = Net  # whose names the oracle has
        training = Training(model)
        for _ in range(2):
            training.step()
    assert_as_noted(saved(), training.noted)


def test_passes_that_belong_to_the_first_step_stay(watching: Any) -> None:
    """Several passes of one model before the first backward: none is a trial, for each is used, or at hand."""
    with watching(outputs=1) as saved:
        torch.manual_seed(0)
        model, teacher = Net(), Net()
        optimizer = torch.optim.SGD([*model.parameters(), *teacher.parameters()], lr=0.1)
        with torch.no_grad():
            target = model(torch.ones(2, 4))
        expected = [array(target)]
        first, second = model(torch.zeros(2, 4)), model(torch.full((2, 4), 3.0))
        expected += [array(first), array(second)]
        discarded = array(teacher(torch.ones(2, 4)).detach())
        (functional.mse_loss(first, target) + second.sum()).backward()
        optimizer.step()
    (tensors,) = saved().values()
    for k, value in enumerate(expected):
        np.testing.assert_array_equal(tensors[f"Net_output_{k}"], value)
    np.testing.assert_array_equal(tensors["Net2_output_0"], discarded)
