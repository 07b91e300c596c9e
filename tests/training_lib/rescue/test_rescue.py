"""A training whose numbers break goes back where that may cure it, and nowhere else."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tests.training_lib.rescue import trainings
from tests.training_lib.rescue.trainings import AT, STEPS, Training, rescued
from trackside.contracts.run.rescue import RescueState, TryOutcome

_TRANSIENT = {
    "broken batch": trainings.broken_batch,
    "huge update": trainings.huge_batch,
    "torn weights": trainings.torn_weights,
    "jump of the rate": trainings.rate_jump,
}
_NOT_CURABLE = {
    "rate wrong from the start": (trainings.rate_from_the_start, RescueState.REFUSED),
    "comes again at each step": (trainings.comes_again, RescueState.LOST),
}


@functools.cache
def _unwatched_loss(kind: str, fault: Callable[..., Any]) -> float:
    training = Training(kind=kind, draws=False)
    training.run(fault)
    return training.last_loss


@pytest.mark.parametrize("fault", _TRANSIENT.values(), ids=_TRANSIENT)
@pytest.mark.parametrize("kind", ["Adam", "SGD"])
def test_a_transient_fault_ends_as_its_sound_twin(fault: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    twin, lost = _unwatched_loss(kind, trainings.sound), _unwatched_loss(kind, fault)
    saved = Training(kind=kind, draws=False)
    with rescued(tmp_path) as record:
        saved.run(fault)
        found = record()
    assert found is not None
    assert found.state is RescueState.RESCUED, found
    assert found.tries[-1].outcome is TryOutcome.RESCUED
    assert saved.last_loss < 3 * twin
    assert not lost < 3 * twin or kind == "SGD"


@pytest.mark.parametrize(("fault", "state"), _NOT_CURABLE.values(), ids=_NOT_CURABLE)
def test_what_going_back_cannot_cure_is_not_rescued(fault: Any, state: RescueState, tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        Training().run(fault)
        found = record()
    assert found is not None
    assert found.state is state, found
    assert all(each.outcome is not TryOutcome.RESCUED for each in found.tries)


@pytest.mark.parametrize(("seed", "kind"), list(enumerate(["Adam", "SGD", "RMSprop"])))
def test_a_sound_training_is_left_alone_to_the_bit(kind: str, seed: int, tmp_path: Path) -> None:
    twin = Training(kind=kind, seed=seed)
    twin.run(trainings.sound)
    with rescued(tmp_path) as record:
        watched = Training(kind=kind, seed=seed)
        watched.run(trainings.sound)
        assert record() is None
    assert torch.equal(twin.weights[-1], watched.weights[-1])


@pytest.mark.parametrize("kind", ["Adam", "SGD", "AdamW"])
def test_with_nothing_left_out_the_training_is_replayed_to_the_bit(kind: str, tmp_path: Path) -> None:
    twin, saved = Training(kind=kind), None
    twin.run(trainings.sound)
    with rescued(tmp_path) as record:
        saved = Training(kind=kind)
        saved.run(trainings.torn_weights)
        found = record()
    assert found is not None
    assert found.is_rescued
    assert not found.tries[0].left_out
    back = found.tries[0].undone_steps
    assert back > 0
    assert torch.equal(saved.weights[-1], twin.weights[STEPS - 1 - back])


def test_the_tries_are_bounded(tmp_path: Path) -> None:
    with rescued(tmp_path, tries=3, place_tries=1) as record:
        training = Training()
        training.run(trainings.comes_again)
        found = record()
    assert found is not None
    assert len(found.tries) <= 3
    assert len({each.back_to_step for each in found.tries}) == len(found.tries)  # one try a place
    assert not math.isfinite(training.losses[-1])  # as without us


def test_the_scripts_own_rate_is_never_changed_for_it(tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        training = Training()
        rates = []

        def fault(training: Training, step: int, rows: torch.Tensor) -> torch.Tensor | None:
            rates.append(training.optimizer.param_groups[0]["lr"])
            return rows * math.nan if step in (AT, AT + 3) else None

        training.run(fault)
        found = record()
    assert found is not None
    assert found.is_rescued
    assert len(found.tries) == 2
    assert found.tries[1].softened
    assert set(rates) == {1e-2}


def test_ranks_without_a_common_store_never_go_back(tmp_path: Path) -> None:
    with rescued(tmp_path, ranks=2) as record:
        Training().run(trainings.broken_batch)
        found = record()
    assert found is not None
    assert found.state is RescueState.REFUSED
    assert "several processes" in found.reason


def test_a_loop_with_closures_goes_back(tmp_path: Path) -> None:
    """A trainer hands the whole pass to `step`, as Lightning does."""
    with rescued(tmp_path) as record:
        training = Training()
        for step in range(STEPS):
            rows = torch.randn(32, 8) * (math.nan if step == AT else 1)

            def loss(rows: torch.Tensor = rows) -> torch.Tensor:
                training.optimizer.zero_grad()
                found = (training.net(rows) - training.target(rows).detach()).square().mean()
                found.backward()
                return found

            newest = training.optimizer.step(loss)
        found = record()
    assert found is not None
    assert found.is_rescued
    assert math.isfinite(newest.item())


def test_several_optimizers_go_back_together(tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        first, second = Training(), Training(seed=1)
        for step in range(STEPS):
            for training in (first, second):
                rows = torch.randn(32, 8) * (math.nan if step == AT and training is second else 1)
                training.optimizer.zero_grad()
                (training.net(rows) - training.target(rows).detach()).square().mean().backward()
                training.optimizer.step()
        found = record()
    assert found is not None
    assert found.is_rescued, found
    for training in (first, second):
        assert all(bool(p.isfinite().all()) for p in training.net.parameters())


def test_hooks_of_others_are_never_disturbed(tmp_path: Path) -> None:
    """PyTorch's tables of hooks may not change while they are called, and the script has hooks behind ours."""
    for fault in (trainings.comes_again, trainings.broken_batch, trainings.rate_from_the_start):
        calls: list[int] = []
        with rescued(tmp_path / fault.__name__) as record:
            handles = [
                register(functools.partial(_count, calls))
                for register in (register_optimizer_step_pre_hook, register_optimizer_step_post_hook)
            ]
            training = Training()
            twice = [AT, AT + 3]  # so that the second try changes steps, and ends to
            training.run(fault if fault is not trainings.broken_batch else _broken_at(twice))
            assert record() is not None
        for handle in handles:
            handle.remove()
        assert len(calls) == 2 * STEPS


def _count(calls: list[int], *_: Any) -> None:
    calls.append(1)


def _broken_at(steps: list[int]) -> Callable[..., torch.Tensor | None]:
    return lambda _training, step, rows: rows * math.nan if step in steps else None
