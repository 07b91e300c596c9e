"""Whether gradients were cleared between two steps: every way to do so, and every way to forget it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook

from trackside.contracts.run.recorded_names import GRADIENTS_KEPT
from trackside.frameworks.pytorch.statistics.cleared_gradients import ClearedGradients
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers
from trackside.trial.trial import Trial

torch.set_num_threads(1)
STEPS = 4


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def loss(net: nn.Module) -> torch.Tensor:
    return functional.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 2))


def clears_before(**how: bool) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad(**how)
        loss(net).backward()
        optimizer.step()


def clears_after() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        loss(net).backward()
        optimizer.step()
        optimizer.zero_grad()


def clears_between_forward_and_backward() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        value = loss(net)
        net.zero_grad()
        value.backward()
        optimizer.step()


def clears_through_data() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad.data.zero_()
        loss(net).backward()
        optimizer.step()


def clears_by_hand() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        for parameter in net.parameters():
            parameter.grad = torch.zeros_like(parameter)
        loss(net).backward()
        optimizer.step()


def accumulates() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(3):
            (loss(net) / 3).backward()
        optimizer.step()


def adversaries() -> None:
    """The generator's pass leaves gradients in the critic, which clears them before its own."""
    makes, judges = nn.Linear(3, 4), model()
    of_making = torch.optim.Adam(makes.parameters(), 0.01)
    of_judging = torch.optim.Adam(judges.parameters(), 0.01)
    for _ in range(STEPS):
        of_judging.zero_grad()
        (loss(judges) - judges(makes(torch.randn(8, 3)).detach()).mean()).backward()
        of_judging.step()
        of_making.zero_grad()
        judges(makes(torch.randn(8, 3))).mean().backward()
        of_making.step()


def closure(optimizer_class: Any = torch.optim.LBFGS, *, clears: bool = True) -> None:
    net = model()
    optimizer = optimizer_class(net.parameters(), lr=0.1)
    values, labels = torch.randn(8, 4), torch.randn(8, 2)

    def run() -> Any:
        if clears:
            optimizer.zero_grad()
        value = functional.mse_loss(net(values), labels)
        value.backward()
        return value

    for _ in range(STEPS):
        optimizer.step(run)


def scaled(*, clears: bool = True) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    for _ in range(STEPS):
        if clears:
            optimizer.zero_grad()
        scaler.scale(loss(net)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


def master_copies() -> None:
    """Mixed precision by hand: what the optimizer holds is never reached by a backward pass."""
    net = model()
    masters = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer = torch.optim.SGD(masters, 0.1)
    for _ in range(STEPS):
        net.zero_grad()
        loss(net).backward()
        for master, parameter in zip(masters, net.parameters(), strict=True):
            if master.grad is None:
                master.grad = torch.empty_like(master)
            master.grad.data.copy_(parameter.grad.data)
        optimizer.step()


def steps_in_the_backward_pass() -> None:
    net = model()
    optimizers = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in net.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    handles = [parameter.register_post_accumulate_grad_hook(step) for parameter in net.parameters()]
    for _ in range(STEPS):
        loss(net).backward()
    for handle in handles:  # else the parameters keep the optimizers for good, and these the parameters
        handle.remove()


def compiled(*, clears: bool = True) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    fast = torch.compile(net, backend="aot_eager")
    for _ in range(STEPS):
        if clears:
            optimizer.zero_grad()
        loss(fast).backward()
        optimizer.step()


def unused_head() -> None:
    """A head that one task leaves out keeps no gradient of the other's."""
    body, heads = nn.Linear(4, 4), [nn.Linear(4, 2), nn.Linear(4, 2)]
    optimizer = torch.optim.SGD([p for m in (body, *heads) for p in m.parameters()], 0.1)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        functional.mse_loss(heads[step % 2](body(torch.randn(8, 4))), torch.randn(8, 2)).backward()
        optimizer.step()


def never_clears(optimizer_class: Any = torch.optim.SGD) -> None:
    net = model()
    optimizer = optimizer_class(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss(net).backward()
        optimizer.step()


def clears_another_model() -> None:
    net, other = model(), model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        other.zero_grad()
        loss(net).backward()
        optimizer.step()


def accumulates_without_clearing() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        for _ in range(3):
            (loss(net) / 3).backward()
        optimizer.step()


def one_of_two_is_never_cleared() -> None:
    first, second = model(), model()
    of_first, of_second = torch.optim.SGD(first.parameters(), 0.1), torch.optim.SGD(second.parameters(), 0.1)
    for _ in range(STEPS):
        of_first.zero_grad()
        (loss(first) + loss(second)).backward()
        of_first.step()
        of_second.step()


def keeps_the_graph() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(STEPS):
        loss(net).backward(create_graph=True)
        optimizer.step()
    for parameter in net.parameters():  # a cycle that torch warns of
        parameter.grad = None


def sparse(*, clears: bool) -> None:
    torch.manual_seed(0)
    embedding = nn.Embedding(9, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters(), 0.01)
    for _ in range(STEPS):
        if clears:
            optimizer.zero_grad()
        embedding(torch.randint(0, 9, (5,))).pow(2).sum().backward()
        optimizer.step()


CLEARED = [
    pytest.param(clears_before, id="before, to none"),
    pytest.param(lambda: clears_before(set_to_none=False), id="before, to zero"),
    pytest.param(clears_after, id="after the step"),
    pytest.param(clears_between_forward_and_backward, id="between forward and backward, by the model"),
    pytest.param(clears_through_data, id="through .data, as old scripts do"),
    pytest.param(clears_by_hand, id="replaced by hand"),
    pytest.param(accumulates, id="accumulation"),
    pytest.param(adversaries, id="two models against each other"),
    pytest.param(closure, id="a closure that LBFGS calls many times"),
    pytest.param(lambda: closure(torch.optim.SGD), id="a closure"),
    pytest.param(scaled, id="GradScaler and clipping"),
    pytest.param(steps_in_the_backward_pass, id="steps within the backward pass"),
    pytest.param(compiled, id="compiled"),
    pytest.param(unused_head, id="heads by turns"),
    pytest.param(lambda: sparse(clears=True), id="sparse"),
]
KEPT = [
    pytest.param(never_clears, id="never"),
    pytest.param(lambda: never_clears(torch.optim.Adam), id="never, Adam"),
    pytest.param(lambda: never_clears(torch.optim.AdamW), id="never, AdamW"),
    pytest.param(lambda: never_clears(torch.optim.RMSprop), id="never, RMSprop"),
    pytest.param(clears_another_model, id="another model's are cleared"),
    pytest.param(accumulates_without_clearing, id="accumulation"),
    pytest.param(one_of_two_is_never_cleared, id="one of two optimizers"),
    pytest.param(lambda: closure(clears=False), id="LBFGS"),
    pytest.param(lambda: closure(torch.optim.SGD, clears=False), id="a closure"),
    pytest.param(lambda: scaled(clears=False), id="GradScaler and clipping"),
    pytest.param(lambda: compiled(clears=False), id="compiled"),
    pytest.param(lambda: sparse(clears=False), id="sparse"),
    pytest.param(
        keeps_the_graph, id="gradients with a graph", marks=pytest.mark.filterwarnings("ignore:Using backward")
    ),
]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def recorded(capturing: Any, body: Callable[[], None]) -> dict[int, float]:
    with capturing(losses=100) as store:
        body()
    trial = Trial(store, store)
    trial.refresh()
    columns = trial.columns(GRADIENTS_KEPT, "mean", last_step=100, mode="TRAIN")
    return dict(zip(columns[0].steps.tolist(), columns[0].values.tolist(), strict=True)) if columns else {}


@pytest.mark.parametrize("body", CLEARED)
def test_cleared_gradients_are_no_news(capturing: Any, body: Callable[[], None]) -> None:
    assert recorded(capturing, body) == dict.fromkeys(range(1, STEPS), 0.0)


@pytest.mark.parametrize("body", KEPT)
def test_gradients_that_are_kept(capturing: Any, body: Callable[[], None]) -> None:
    assert recorded(capturing, body) == dict.fromkeys(range(1, STEPS), 1.0)


def test_what_no_backward_pass_reaches_tells_nothing(capturing: Any) -> None:
    assert recorded(capturing, master_copies) == {}


def test_one_step_that_forgets_is_told(capturing: Any) -> None:
    def forgets_once() -> None:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(6):
            if step != 3:
                optimizer.zero_grad()
            loss(net).backward()
            optimizer.step()

    assert recorded(capturing, forgets_once) == {1: 0.0, 2: 0.0, 3: 1.0, 4: 0.0, 5: 0.0}


@pytest.mark.parametrize("clears", [True, False], ids=["cleared", "kept"])
def test_on_a_device_nothing_is_waited_for(clears: bool) -> None:
    numbers = DeviceNumbers(is_late=lambda _: True)
    cleared = ClearedGradients(numbers)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    found: list[Any] = []
    handle = register_optimizer_step_post_hook(lambda *_: cleared.after_step(optimizer))
    try:
        for _ in range(5):
            if clears:
                optimizer.zero_grad()
            value = loss(net)
            cleared.before_backward()
            value.backward()
            cleared.after_backward()
            optimizer.step()
            found.append(cleared.end_step())
            numbers.send()
    finally:
        handle.remove()
    assert found[0] is None
    numbers.wait(1.0)
    told = [answer if isinstance(answer, float) else float(answer.get()[0]) for answer in found[1:]]
    assert told == [0.0 if clears else 1.0] * 4


def test_nothing_of_the_training_is_held() -> None:
    cleared = ClearedGradients(DeviceNumbers())
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loss(net).backward()
    optimizer.step()
    cleared.after_step(optimizer)
    del optimizer, net
    assert not cleared._remembered


def test_training_computes_the_same(capturing: Any) -> None:
    def trained() -> list[np.ndarray]:
        net = model()
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        for _ in range(5):
            loss(net).backward()
            optimizer.step()
        return [parameter.detach().numpy().copy() for parameter in net.parameters()]

    plain = trained()
    with capturing(losses=2):
        watched = trained()
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))
