"""The content of the script's checkpoints beside the trained models: left out, altered, or whole."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.observations import CHECKPOINTS, CheckpointFacts
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.frameworks.pytorch.saving.checkpoint_contents import bare
from trackside.records.model_facts import read_facts
from trackside.storage.local import LocalStore

torch.set_num_threads(1)
Write = Callable[["Net", Path], object]


class Net(nn.Module):
    """A stem, a body and a head; the head's weights are the stem's if they are tied."""

    def __init__(self, *, is_tied: bool = False) -> None:
        super().__init__()
        self.stem, self.body, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        if is_tied:
            self.head.weight = self.stem.weight

    def forward(self, values: torch.Tensor) -> Any:
        return self.head(torch.relu(self.body(torch.relu(self.stem(values)))))


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[PyTorchAdapter]:
    request = CaptureRequest(statistics=StatisticsRequest(budget=1.0)).to_json()
    adapter = PyTorchAdapter(CaptureEnvironment(str(tmp_path / "run"), request, 0, 1))
    adapter.install()
    yield adapter
    adapter.uninstall()


def contents(
    adapter: PyTorchAdapter, folder: Path, write: Write, *, net: Net | None = None, at: tuple[int, ...] = (19,)
) -> CheckpointFacts | None:
    """Train for 20 steps, write after some of them, and return what the newest facts hold of it."""
    torch.manual_seed(0)
    model = net or Net()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()
        if step in at:
            write(model, folder / f"{step}.pt")
    adapter.close()
    facts = read_facts(LocalStore(RunLocation(str(folder / "run")).tensors), "worker_0")
    return CHECKPOINTS.of(facts[-1].program)


def _without(word: str) -> Write:
    return lambda model, path: torch.save({k: v for k, v in model.state_dict().items() if word not in k}, path)


def _altered(model: Net, path: Path) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["body.weight"][:] = 0
    torch.save(state, path)


def _averaged(model: Net, path: Path) -> None:
    torch.save({name: 0.9 * value for name, value in model.state_dict().items()}, path)


def _averaged_and_rounded(model: Net, path: Path) -> None:
    with torch.no_grad():
        averaged = {name: (value * 1.00001).half() for name, value in model.state_dict().items()}
    torch.save(averaged, path)


def _earlier(model: Net, path: Path) -> None:
    """Save a state in which one element of each parameter differs, as of embeddings that hardly change."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for value in state.values():
        value.view(-1)[-1] += 1
    torch.save(state, path)


def _in_two_files(model: Net, path: Path) -> None:
    state = model.state_dict()
    torch.save({k: v for k, v in state.items() if "head" not in k}, path)
    torch.save({k: v for k, v in state.items() if "head" in k}, path.with_suffix(".2"))


def _frozen_stem() -> Net:
    net = Net()
    net.stem.requires_grad_(False)
    return net


@pytest.mark.parametrize(
    ("write", "missing", "ends_early"),
    [
        pytest.param(_without("stem"), ("Net_stem.weight", "Net_stem.bias"), False, id="stem"),
        pytest.param(_without("body.bias"), ("Net_body.bias",), False, id="one-bias"),
        pytest.param(_without("head"), ("Net_head.weight", "Net_head.bias"), True, id="head"),
    ],
)
def test_what_is_left_out(
    adapter: PyTorchAdapter, tmp_path: Path, write: Write, missing: tuple[str, ...], ends_early: bool
) -> None:
    assert contents(adapter, tmp_path, write) == CheckpointFacts(
        str(tmp_path / "19.pt"), 6, missing=missing, missing_count=len(missing), ends_early=ends_early
    )


def test_a_correction_without_its_head_is_no_export(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    """As of an adapter whose file leaves out what is frozen: the trained head is nowhere else."""

    def without_both(model: Net, path: Path) -> None:
        torch.save({name: value for name, value in model.state_dict().items() if "body" in name}, path)

    found = contents(adapter, tmp_path, without_both, net=_frozen_stem())
    assert found is not None
    assert (found.missing, found.ends_early) == (("Net_head.weight", "Net_head.bias"), False)


def test_an_encoder_with_its_frozen_part_is_an_export(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    found = contents(adapter, tmp_path, _without("head"), net=_frozen_stem())
    assert found is not None
    assert found.ends_early


@pytest.mark.parametrize(
    ("write", "net"),
    [
        pytest.param(lambda m, to: torch.save(m.state_dict(), to), Net, id="whole"),
        pytest.param(lambda m, to: torch.save(obj=m, f=to), Net, id="module"),
        pytest.param(lambda m, to: torch.save(copy.deepcopy(m).half().state_dict(), to), Net, id="half-precision"),
        pytest.param(lambda m, to: torch.save(copy.deepcopy(m).double().state_dict(), to), Net, id="double"),
        pytest.param(_averaged, Net, id="averages"),
        pytest.param(_averaged_and_rounded, Net, id="averages-in-half-precision"),
        pytest.param(_earlier, Net, id="an-earlier-state"),
        pytest.param(_in_two_files, Net, id="two-files"),
        pytest.param(_without("stem"), _frozen_stem, id="frozen-is-left-out"),
        pytest.param(lambda m, to: safetensors.torch.save_file(m.state_dict(), to), Net, id="safetensors"),
        pytest.param(safetensors.torch.save_model, lambda: Net(is_tied=True), id="tied"),
    ],
)
def test_whole_checkpoints(adapter: PyTorchAdapter, tmp_path: Path, write: Write, net: Callable[[], Net]) -> None:
    found = contents(adapter, tmp_path, write, net=net())
    assert found is not None
    assert not found.missing
    assert not found.altered


def test_other_values(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    found = contents(adapter, tmp_path, _altered)
    assert found == CheckpointFacts(str(tmp_path / "19.pt"), 6, altered=("Net_body.weight",), altered_count=1)


def test_what_is_saved_later_is_not_missing(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    def write(model: Net, path: Path) -> None:
        _without("stem" if path.stem == "5" else "nothing")(model, path)

    assert contents(adapter, tmp_path, write, at=(5, 19)) == CheckpointFacts("", 6)


def test_nothing_is_known_of_a_small_part(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    found = contents(adapter, tmp_path, lambda m, to: torch.save({"stem.bias": m.stem.bias}, to))
    assert found == CheckpointFacts()


def test_none_was_written(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    assert contents(adapter, tmp_path, lambda *_: None) is None


def test_a_whole_checkpoint_at_each_step_makes_no_revision(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    contents(adapter, tmp_path, lambda m, to: torch.save(m.state_dict(), to), at=tuple(range(20)))
    facts = read_facts(LocalStore(RunLocation(str(tmp_path / "run")).tensors), "worker_0")
    assert len(facts) <= 2


def test_random_numbers_and_the_saved_file_are_those_of_the_script(adapter: PyTorchAdapter, tmp_path: Path) -> None:
    contents(adapter, tmp_path, lambda m, to: torch.save(m.state_dict(), to))
    after = torch.rand(3)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()
    assert torch.equal(after, torch.rand(3))
    loaded = torch.load(tmp_path / "19.pt")
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "path",
    [
        "base_model.model.embed.weight",
        "base_model.model.embed.modules_to_save.default.weight",
        "module.base_model.model.embed.modules_to_save.weight",
    ],
)
def test_a_module_that_peft_trains_whole_has_its_own_path(path: str) -> None:
    assert bare(path) == "base_model.model.embed.weight"
