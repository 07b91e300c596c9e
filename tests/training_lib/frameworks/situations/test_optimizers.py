"""Several optimizers, optimizers inside of backward, accumulation and clipping, and none at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

ALL = {"losses": 1, "weights": 1, "biases": 1, "gradients": 1}


def net(inputs: int = 4, outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 3), nn.ReLU(), nn.Linear(3, outputs))


def array(tensor: torch.Tensor | None) -> np.ndarray:
    assert tensor is not None
    return tensor.detach().numpy().copy()


@pytest.mark.parametrize("set_to_none", [pytest.param(True, id="to-none"), pytest.param(False, id="to-zero")])
def test_accumulation_saves_the_sum_and_the_loss_of_the_step(set_to_none: bool, watching: Any) -> None:
    """Seven batches in groups of three: the rest of one makes no step, and its loss waits for the next."""
    torch.manual_seed(0)
    model, expected, losses = net(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with watching(losses=1, gradients=1) as saved:
        for number in range(7):
            loss = functional.mse_loss(model(torch.randn(5, 4)), torch.zeros(5, 2))
            losses.append(loss.item())
            (loss / 3).backward()
            if number % 3 == 2:
                expected.append(array(model[0].weight.grad))
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
    assert list(saved()) == [0, 1]
    for step, tensors in saved().items():
        np.testing.assert_array_equal(tensors["gradient/Sequential_0.weight"], expected[step])
        assert [name for name in tensors if "Loss" in name] == ["MSELoss_output_0"]
        np.testing.assert_allclose(tensors["MSELoss_output_0"], np.mean(losses[3 * step : 3 * step + 3]), rtol=1e-6)


@pytest.mark.parametrize(
    "clip",
    [
        pytest.param(lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.01), id="norm"),
        pytest.param(lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=False), id="one-by-one"),
        pytest.param(lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.001), id="value"),
        pytest.param(lambda model: model[0].weight.grad.mul_(0.5), id="by-hand"),
    ],
)
def test_clipped_gradients_are_those_of_the_update(clip: Any, watching: Any) -> None:
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with watching(weights=1, gradients=1) as saved:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(5, 4)).square().sum().backward()
            clip(model)
            optimizer.step()
    name = "Sequential_0.weight"
    update = saved()[0][name] - saved()[1][name]
    np.testing.assert_allclose(saved()[0][f"gradient/{name}"], update, rtol=1e-4, atol=1e-6)


def test_five_critic_steps_for_one_of_the_generator(watching: Any) -> None:
    """The one that comes once in a while is not waited for: its step counts to the critic's that is open then."""
    torch.manual_seed(0)
    critic, generator = nn.Sequential(nn.Linear(4, 1)), net(2, 4)
    of_critic = torch.optim.Adam(critic.parameters())
    of_generator = torch.optim.Adam(generator.parameters())
    of_both: dict[str, list[np.ndarray]] = {"Sequential": [], "Sequential2": []}
    with watching(**ALL) as saved:
        for _ in range(3):
            for _ in range(5):
                of_critic.zero_grad()
                critic(generator(torch.randn(3, 2)).detach()).mean().backward()
                of_both["Sequential"].append(array(critic[0].weight.grad))
                of_critic.step()
            of_generator.zero_grad()
            (-critic(generator(torch.randn(3, 2))).mean()).backward()
            of_both["Sequential2"].append(array(generator[0].weight.grad))
            of_generator.step()
    steps = saved()
    assert len(steps) <= 16
    for root, expected in of_both.items():
        name = f"gradient/{root}_0.weight"
        np.testing.assert_array_equal([tensors[name] for tensors in steps.values() if name in tensors], expected)
    assert sum(len([name for name in tensors if "oss" in name]) for tensors in steps.values()) == 18


@pytest.mark.parametrize("are_late", [pytest.param(False, id="built-while-watched"), pytest.param(True, id="before")])
def test_an_optimizer_for_each_parameter_inside_of_backward(are_late: bool, watching: Any) -> None:
    """Also where the optimizers are older than the capture, as in a notebook."""
    torch.manual_seed(0)
    model, expected = net(), []
    optimizers: dict[int, torch.optim.Optimizer] = {}

    def build() -> None:
        optimizers.update({id(p): torch.optim.SGD([p], lr=0.1) for p in model.parameters()})

    def step_at_once(parameter: torch.Tensor) -> None:
        if parameter is model[0].weight:
            expected.append(array(parameter.grad))
        optimizers[id(parameter)].step()
        optimizers[id(parameter)].zero_grad()

    hooks = [parameter.register_post_accumulate_grad_hook(step_at_once) for parameter in model.parameters()]
    if are_late:
        build()
    with watching(**ALL) as saved:
        if not are_late:
            build()
        for _ in range(3):
            functional.mse_loss(model(torch.randn(5, 4)), torch.zeros(5, 2)).backward()
    for hook in hooks:
        hook.remove()  # they keep the optimizers alive where no collector looks, for the captures of other tests
    assert list(saved()) == [0, 1, 2]
    parameters = {f"Sequential_{name}" for name, _ in model.named_parameters()}
    names = parameters | {f"gradient/{name}" for name in parameters} | {"MSELoss_output_0"}
    for step, tensors in saved().items():
        assert tensors.keys() == names
        np.testing.assert_array_equal(tensors["gradient/Sequential_0.weight"], expected[step])


def test_a_closure_of_an_ordinary_optimizer(watching: Any) -> None:
    """As Lightning calls every optimizer: at the hook before the step, the gradients are still the last step's."""
    torch.manual_seed(0)
    model, expected = net(), []
    optimizer = torch.optim.Adam(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
        expected.append(array(model[0].weight.grad))
        return loss

    with watching(losses=1, gradients=1) as saved:
        for _ in range(3):
            optimizer.step(closure)
    assert list(saved()) == [0, 1, 2]
    for step, tensors in saved().items():
        np.testing.assert_array_equal(tensors["gradient/Sequential_0.weight"], expected[step])
        assert [name for name in tensors if "oss" in name] == ["loss_output_0"]


def test_passes_that_no_update_follows_are_no_steps(capturing: Any) -> None:
    torch.manual_seed(0)
    model = net()
    with capturing(**ALL) as store:
        for _ in range(70):  # more than the losses that a step may hold
            functional.mse_loss(model(torch.randn(5, 4)), torch.zeros(5, 2)).backward()
            model.zero_grad()
    assert not list(store.list())


def test_autograd_grad_and_gradients_set_by_hand(watching: Any) -> None:
    """`torch.autograd.grad` calls no `backward`: the gradients are seen at the step, the loss is not."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(gradients=1, weights=1) as saved:
        gradients = torch.autograd.grad(model(torch.ones(1, 4)).sum(), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    np.testing.assert_array_equal(saved()[0]["gradient/Sequential_0.weight"], array(gradients[0]))
