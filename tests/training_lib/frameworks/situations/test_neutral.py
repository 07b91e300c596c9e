"""With a fixed seed, every loss and every final weight is bit for bit what it is without us."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS

STEPS = 5
EVERYTHING = dict.fromkeys(BUILT_IN_COLLECTIONS, 1)
DEFAULT = {"losses": 500}


class Outcome(NamedTuple):
    """What a training leaves: its losses, its weights, and where its random numbers stand."""

    losses: list[float]
    state: dict[str, torch.Tensor]
    random_state: torch.Tensor


class Net(nn.Module):
    """Everything that keeps state or draws numbers: dropout, batch norm, convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(24, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = self.drop(torch.relu(self.norm(self.conv(values.unsqueeze(1)))))
        return self.head(hidden.flatten(1))


class Checkpointed(Net):
    """Computes its activations twice."""

    use_reentrant = False

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values.requires_grad_()
        outcome = checkpoint(super().forward, values, use_reentrant=self.use_reentrant)
        assert isinstance(outcome, torch.Tensor)
        return outcome


class ReentrantlyCheckpointed(Checkpointed):
    """The older of the two ways."""

    use_reentrant = True


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for _ in range(STEPS):
        yield torch.randn(6, 8), torch.randint(0, 3, (6,))


def train(
    model_class: Callable[[], nn.Module] = Net,
    *,
    optimizer_class: type[torch.optim.Optimizer] = torch.optim.AdamW,
    wrap: Callable[[nn.Module], Any] = lambda model: model,
    accumulate: int = 1,
    clip: float | None = None,
    autocast: torch.dtype | None = None,
    scale: float | None = None,
    spoil: int | None = None,
    **settings: Any,
) -> Outcome:
    torch.manual_seed(0)
    model = model_class()
    used = wrap(model)
    optimizer = optimizer_class(model.parameters(), **{"lr": 0.01, **settings})
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    scaler = torch.amp.GradScaler("cpu", enabled=scale is not None, init_scale=scale or 1.0, growth_interval=2)
    losses = []
    for number, (values, labels) in enumerate(batches()):
        with torch.autocast("cpu", autocast) if autocast else nullcontext():
            loss = functional.cross_entropy(used(values), labels)
        losses.append(loss.item())
        factor = float("inf") if number == spoil else 1.0
        scaler.scale(loss * factor / accumulate).backward()
        if (number + 1) % accumulate:
            continue
        if clip is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if spoil is None:
            scheduler.step()
    model.eval()
    with torch.no_grad():
        losses.append(functional.cross_entropy(used(torch.randn(6, 8)), torch.randint(0, 3, (6,))).item())
    return Outcome(losses, copy.deepcopy(model.state_dict()), torch.random.get_rng_state())


def train_with_closures() -> Outcome:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    losses = []
    for values, labels in batches():

        def closure(values: torch.Tensor = values, labels: torch.Tensor = labels) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(values), labels)
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    return Outcome(losses, copy.deepcopy(model.state_dict()), torch.random.get_rng_state())


def compiled(model: nn.Module) -> Any:
    torch.compiler.reset()
    return torch.compile(model, backend="aot_eager")


def same(first: Outcome, second: Outcome) -> bool:
    """Bit for bit; a NaN is itself."""
    return (
        repr(first.losses) == repr(second.losses)
        and first.state.keys() == second.state.keys()
        and all(first.state[name].equal(second.state[name]) for name in first.state)
        and first.random_state.equal(second.random_state)
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
@pytest.mark.parametrize(
    "training",
    [
        pytest.param(train, id="plain"),
        pytest.param(
            lambda: train(lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 3))), id="dropout"
        ),
        pytest.param(lambda: train(fused=True), id="fused"),
        pytest.param(lambda: train(accumulate=2, clip=0.1), id="accumulation-and-clipping"),
        pytest.param(lambda: train(autocast=torch.bfloat16), id="autocast-bfloat16"),
        pytest.param(lambda: train(scale=1024.0, spoil=2, clip=1.0), id="scaler-with-a-skipped-step"),
        pytest.param(lambda: train(scale=1024.0, spoil=2, fused=True), id="scaler-and-fused"),
        pytest.param(lambda: train(Checkpointed), id="checkpointing"),
        pytest.param(lambda: train(ReentrantlyCheckpointed), id="checkpointing-reentrant"),
        pytest.param(lambda: train(wrap=compiled), id="compiled"),
        pytest.param(train_with_closures, id="closures"),
    ],
)
def test_everything_captured_changes_no_bit(training: Callable[[], Outcome], capturing: Any) -> None:
    bare = training()
    assert same(bare, training())  # else this machine could not tell
    with capturing(**EVERYTHING) as store:
        assert same(bare, training())
    assert len(list(store.list("index/"))) >= 2
    with capturing(**DEFAULT) as store:
        assert same(bare, training())
    assert len(list(store.list("index/"))) >= 1
