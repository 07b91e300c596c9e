"""A hook that is made again in one process, as by a notebook's cell, writes a run of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import trackside

STEPS = 3


def train(folder: str, *, closes: bool, steps: int = STEPS) -> trackside.Hook:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    hook = trackside.Hook(folder, save={"losses": 1})
    hook.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        nn.functional.mse_loss(model(torch.ones(4, 2)), torch.zeros(4, 1)).backward()
        optimizer.step()
    if closes:
        hook.close()
    return hook


def losses(folder: Path) -> int:
    return len(trackside.open_trial(str(folder)).tensor("MSELoss_output_0").statistic("mean").values)


@pytest.mark.parametrize("closes", [pytest.param(True, id="closed"), pytest.param(False, id="interrupted")])
def test_a_cell_that_is_run_again_is_a_new_run(tmp_path: Path, closes: bool) -> None:
    # Issue 41: one run held the steps of all trainings, or the second was not recorded.
    hooks = [train(str(tmp_path / "run"), closes=closes) for _ in range(3)]
    hooks[-1].close()
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["run", "run-2", "run-3"]
    assert [losses(tmp_path / name) for name in ("run", "run-2", "run-3")] == [STEPS] * 3
    assert all(hook.is_closed for hook in hooks)


def test_a_hook_that_never_saw_a_step_leaves_its_address_to_the_next(tmp_path: Path) -> None:
    train(str(tmp_path / "run"), closes=False, steps=0)
    train(str(tmp_path / "run"), closes=True)
    assert [folder.name for folder in tmp_path.iterdir()] == ["run"]


def test_hooks_of_other_addresses_stay_open(tmp_path: Path) -> None:
    first = train(str(tmp_path / "a"), closes=False)
    train(str(tmp_path / "b"), closes=True)
    assert not first.is_closed
    first.close()


def test_where_the_environment_names_the_run_it_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ENDED_BY", "trackside-run")
    for _ in range(2):
        train(str(tmp_path / "other"), closes=True)
    assert [folder.name for folder in tmp_path.iterdir()] == ["run"]
    assert losses(tmp_path / "run") == 2 * STEPS
