"""A second hook of a folder, right behind the first: it goes on, however late the first one's steps are stored."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import smdebug.pytorch as smd
import torch

from tests.patience import wait_until

STEPS = 3


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    smd.del_hook()


def train(folder: Path) -> smd.Hook:
    hook = smd.Hook(str(folder), save_config=smd.SaveConfig(save_interval=1), include_collections=["losses"])
    model, loss = torch.nn.Linear(3, 1), torch.nn.MSELoss()
    hook.register_module(model)
    hook.register_loss(loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(torch.ones(2, 3)), torch.zeros(2, 1)).backward()
        optimizer.step()
    return hook


@pytest.mark.parametrize("attempt", range(2))
def test_at_once_nothing_is_lost(tmp_path: Path, attempt: int) -> None:
    train(tmp_path / "run")
    train(tmp_path / "run").close()
    assert smd.create_trial(str(tmp_path / "run")).steps() == list(range(2 * STEPS)), attempt


def test_in_a_folder_that_the_script_has_emptied_it_begins_anew(tmp_path: Path) -> None:
    train(tmp_path / "run")
    wait_until(lambda: len(list((tmp_path / "run").glob("index/*/*.json"))) >= 1)
    time.sleep(0.05)  # until the writer knows, too
    shutil.rmtree(tmp_path / "run")
    train(tmp_path / "run").close()
    assert smd.create_trial(str(tmp_path / "run")).steps() == list(range(STEPS))
