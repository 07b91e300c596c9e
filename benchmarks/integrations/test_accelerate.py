"""The tracker in a loop with the real accelerate."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch.utils.data import DataLoader, TensorDataset

from trackside.integrations.accelerate import TracksideTracker

MANY_STEPS = 20_000


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    AcceleratorState._reset_state()
    PartialState._reset_state()


@pytest.mark.parametrize(
    ("learning_rate", "max_steps", "stops"),
    [pytest.param(1e5, MANY_STEPS, True, id="broken"), pytest.param(0.05, 300, False, id="healthy")],
)
def test_the_loop_stops_by_the_accelerators_trigger(
    learning_rate: float, max_steps: int, stops: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    tracker = TracksideTracker(on_issue="stop")
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("project", {"learning_rate": learning_rate})
    inputs = torch.randn(512, 10)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    data = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, data)
    step, is_stopped = 0, False
    while step < max_steps and not is_stopped:
        for batch, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
            accelerator.backward(loss)
            optimizer.step()
            accelerator.log({"loss": loss.item()}, step=step)
            step += 1
            if tracker.should_stop:
                accelerator.set_trigger()
            if accelerator.check_trigger():
                accelerator.save_state("stopped")
                is_stopped = True
                break
    accelerator.end_training()
    assert is_stopped is stops
    assert (tmp_path / "stopped").is_dir() is stops
    assert tracker.tracker.should_stop is stops
    assert accelerator.get_tracker("trackside").tracker is tracker.tracker
