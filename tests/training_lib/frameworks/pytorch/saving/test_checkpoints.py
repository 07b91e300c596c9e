"""Where the script writes its checkpoints: by the writers of torch and safetensors, and at which step."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as sharded
from torch import nn

from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import CaptureEnvironment
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.records.checkpoints_file import read_checkpoints
from trackside.storage.local import LocalStore

torch.set_num_threads(1)


class Odd(dict[str, Any]):
    """A mapping that does not show what it holds."""

    def values(self) -> Any:
        raise ValueError("not today")


Write = Callable[[nn.Module, torch.optim.Optimizer, Path], object]


@dataclass
class Run:
    """A run that captures this process, and its folder."""

    folder: Path
    adapter: PyTorchAdapter

    def end(self) -> list[Checkpoint]:
        """Close the run, and return what it lists."""
        self.adapter.close()
        listed = read_checkpoints(LocalStore(RunLocation(str(self.folder)).tensors), "worker_0")
        return [replace(one, path=Path(one.path).name) for one in listed]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    adapter = adapter_of(tmp_path / "run")
    adapter.install()
    yield Run(tmp_path / "run", adapter)
    adapter.uninstall()


def adapter_of(folder: Path) -> PyTorchAdapter:
    request = CaptureRequest(statistics=StatisticsRequest(budget=1.0)).to_json()
    return PyTorchAdapter(CaptureEnvironment(str(folder), request, 0, 1))


def train(folder: Path, write: Write, *, steps: int = 40, at: int = 30, spike: int | None = None) -> None:
    """Train for some steps, and write after one of them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    given = torch.randn(64, 8)
    for step in range(steps):
        if step == spike:
            optimizer.param_groups[0]["lr"] = 50.0
        optimizer.zero_grad()
        nn.functional.mse_loss(model(given), given.sum(1, keepdim=True)).backward()
        optimizer.step()
        if step == at:
            write(model, optimizer, folder)


def _to_open_file(model: nn.Module, _: object, folder: Path) -> None:
    with (folder / "a.pt").open("wb") as file:
        torch.save(model.state_dict(), file)


def _by_a_wrapper(model: nn.Module, _: object, folder: Path) -> None:
    torch.save({f"module.{name}": value for name, value in model.state_dict().items()}, folder / "a.pt")


def _shards(model: nn.Module, _: object, folder: Path) -> None:
    sharded.save({"model": model.state_dict()}, checkpoint_id=folder / "shards")


MODEL = [
    pytest.param(lambda m, _, to: torch.save(m.state_dict(), to / "a.pt"), "a.pt", id="state"),
    pytest.param(lambda m, _, to: torch.save(obj=m.state_dict(), f=str(to / "a.pt")), "a.pt", id="by-keyword"),
    pytest.param(lambda m, _, to: torch.save(m, to / "a.pt"), "a.pt", id="module"),
    pytest.param(
        lambda m, o, to: torch.save({"run": {"net": m.state_dict(), "optim": o.state_dict()}, "step": 7}, to / "a.pt"),
        "a.pt",
        id="nested",
    ),
    pytest.param(lambda m, _, to: torch.save(m[0].state_dict(prefix="0."), to / "a.pt"), "a.pt", id="a-shard"),
    pytest.param(_to_open_file, "a.pt", id="open-file"),
    pytest.param(_by_a_wrapper, "a.pt", id="data-parallel"),
    pytest.param(
        lambda m, _, to: torch.save({k: v.half() for k, v in m.state_dict().items()}, to / "a.pt"), "a.pt", id="copies"
    ),
    pytest.param(
        lambda m, _, to: safetensors.torch.save_file(m.state_dict(), to / "a.safetensors"), "a.safetensors", id="safe"
    ),
    pytest.param(_shards, "shards", id="sharded"),
]

OTHER = [
    pytest.param(lambda m, _, to: torch.save(m.state_dict(), io.BytesIO()), id="memory"),
    pytest.param(lambda *_: None, id="nothing"),
    pytest.param(lambda _, __, to: torch.save([0.5, 0.25], to / "losses.pt"), id="losses"),
    pytest.param(lambda _, __, to: torch.save(torch.zeros(16, 8), to / "rows.pt"), id="a-tensor"),
    pytest.param(lambda _, __, to: torch.save({"rows": torch.zeros(16, 8)}, to / "rows.pt"), id="of-no-such-name"),
    pytest.param(lambda _, __, to: torch.save({"0.weight": torch.zeros(3)}, to / "rows.pt"), id="of-no-such-shape"),
    pytest.param(lambda _, __, to: torch.save(nn.Conv2d(1, 1, 1).state_dict(), to / "b.pt"), id="another-model"),
    pytest.param(
        lambda _, __, to: safetensors.torch.save_file({"rows": torch.zeros(3)}, to / "b.safetensors"), id="safe-rows"
    ),
]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # as of any sharded save in one process
@pytest.mark.parametrize(("write", "name"), MODEL)
def test_a_model_that_is_written_is_listed(run: Run, tmp_path: Path, write: Write, name: str) -> None:
    train(tmp_path, write)
    assert run.end() == [Checkpoint(30, name)]


@pytest.mark.parametrize("write", OTHER)
def test_other_files_are_not(run: Run, tmp_path: Path, write: Write) -> None:
    train(tmp_path, write)
    assert run.end() == []


def test_the_state_of_an_optimizer_holds_no_weights(run: Run, tmp_path: Path) -> None:
    train(tmp_path, lambda _, o, to: torch.save(o.state_dict(), to / "optimizer.pt"))
    assert run.end() == [Checkpoint(30, "optimizer.pt", has_model=False)]


@pytest.mark.parametrize("at", [0, 1, 17, 39])
def test_the_step_is_the_one_that_has_ended(run: Run, tmp_path: Path, at: int) -> None:
    train(tmp_path, lambda m, _, to: torch.save(m.state_dict(), to / "a.pt"), at=at)
    assert run.end() == [Checkpoint(at, "a.pt")]


def test_errors_of_the_writer_reach_the_script_and_list_nothing(run: Run, tmp_path: Path) -> None:
    def write(model: nn.Module, _: object, folder: Path) -> None:
        with pytest.raises(RuntimeError, match="does not exist"):
            torch.save(model.state_dict(), folder / "no" / "such" / "folder.pt")

    train(tmp_path, write)
    assert run.end() == []


def test_content_that_cannot_be_looked_at_harms_nobody(run: Run, tmp_path: Path) -> None:
    train(tmp_path, lambda *_: torch.save(Odd(a=1), tmp_path / "odd.pt"))
    assert (tmp_path / "odd.pt").exists()
    assert run.end() == []


def test_the_writers_are_as_before_afterwards(tmp_path: Path) -> None:
    before = torch.save, safetensors.torch.serialize_file, sharded.save
    adapter = adapter_of(tmp_path / "run")
    adapter.install()
    train(tmp_path, lambda *_: None, steps=2)
    assert torch.save is not before[0]
    adapter.uninstall()
    assert (torch.save, safetensors.torch.serialize_file, sharded.save) == before


def test_an_issue_names_the_checkpoint_before_it(run: Run, tmp_path: Path) -> None:
    train(tmp_path, lambda m, _, to: torch.save(m.state_dict(), to / "a.pt"), steps=400, at=250, spike=300)
    run.end()
    store = LocalStore(tmp_path / "verdicts")
    request = RuleRequest((RuleConfiguration("loss-spike"),))
    sinks = [JsonLinesSink(store)]
    evaluate(
        RunLocation(str(run.folder)),
        request,
        sinks,
        poll_seconds=0.01,
        clock=lambda: 0.0,
        sleep=lambda _: None,
        should_stop=lambda: True,
    )
    verdicts = [Verdict.from_json(line) for line in store.get(VERDICTS_KEY).decode().splitlines()]
    found = [one for one in verdicts if one.outcome is Outcome.ISSUE_FOUND]
    assert found
    for issue in found:
        assert (issue.checkpoint, issue.checkpoint_step) == (str(tmp_path / "a.pt"), 250)
        assert issue.advice[-1].endswith(f"{tmp_path / 'a.pt'}, of step 250")
        assert json.loads(issue.to_json())["checkpoint_step"] == 250
