"""The skip list: batches of loss spikes, in the form of Lightning's file, kept over a resume."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler

from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RESCUE_KEY, SKIP_LIST_KEY, RunLocation
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.environment import CaptureEnvironment
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.sinks.sink import UndeliveredError
from trackside.evaluation.sinks.skip_list import SkipListSink
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore


def issue(
    first: float | None,
    last: float | None,
    *,
    outcome: Outcome = Outcome.ISSUE_FOUND,
    severity: Severity = Severity.WARNING,
) -> Verdict:
    numbers = {} if first is None or last is None else {"first_batch": first, "last_batch": last, "epoch": 0.0}
    finding = Finding("loss", 9, 7, "training loss", 9.0, ">", 1.0, statistics=numbers)
    return Verdict("run", "loss-spike", "loss-spike", outcome, severity, 9, "It rose.", 0.0, findings=(finding,))


@pytest.mark.parametrize(
    ("before", "verdicts", "after"),
    [
        pytest.param(None, [issue(3, 5)], [3, 4, 5], id="the-first"),
        pytest.param([1, 4], [issue(3, 5)], [1, 3, 4, 5], id="added-to-those-of-before"),
        pytest.param([1], [issue(3, 3), issue(8, 9)], [1, 3, 8, 9], id="two"),
        pytest.param("no list", [issue(3, 3)], [3], id="not-a-list"),
        pytest.param([1], [issue(None, None)], [1], id="no-batches-known"),
        pytest.param([1], [issue(3, 5, severity=Severity.INFO)], [1], id="a-remark"),
        pytest.param([1], [issue(3, 5, outcome=Outcome.CLEAN)], [1], id="recovered"),
        pytest.param([1], [issue(0, 5000)], [1], id="too-many-to-be-to-blame"),
        pytest.param(None, [], None, id="nothing"),
    ],
)
def test_what_is_listed(before: Any, verdicts: list[Verdict], after: list[int] | None) -> None:
    store = MemoryStore()
    if before is not None:
        store.put(SKIP_LIST_KEY, json.dumps(before).encode())
    for _ in range(2):  # delivered again after a crash, it is the same
        SkipListSink(store).emit(verdicts)
    assert _listed(store) == after


def test_an_outage_is_said_and_the_list_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    SkipListSink(store).emit([issue(1, 1)])

    def refuse(*_: object) -> None:
        raise StorageUnavailableError("not today")

    monkeypatch.setattr(store, "put", refuse)
    with pytest.raises(UndeliveredError):
        SkipListSink(store).emit([issue(3, 3)])
    assert _listed(store) == [1]


class Table(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A straight line, and rows that are far off it."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 400

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        given = torch.tensor([row / 400, 1.0])
        return given, given[:1] * (1e4 if row // 4 in self.bad else 2)


def test_it_survives_a_resume(tmp_path: Path) -> None:
    """Two processes train in one run; the second goes on from a checkpoint, and meets other bad batches."""
    _train_and_die(tmp_path, bad={60, 61, 62, 63})
    first = _judged(tmp_path)
    assert first is not None
    assert set(range(60, 63)) <= set(first) <= set(range(59, 67))  # three suffice
    _train_and_die(tmp_path, bad={80, 81, 82, 83})
    second = _judged(tmp_path)
    assert second is not None
    assert set(first) | {63} | set(range(80, 83)) <= set(second) <= set(range(59, 67)) | set(range(79, 87))


def test_a_training_that_leaves_the_listed_batches_out_does_not_spike(tmp_path: Path) -> None:
    bad = {60, 61, 62}  # what is bad behind the alarm is listed by the next one
    _train_and_die(tmp_path / "first", bad=bad)
    listed = _judged(tmp_path / "first")
    assert listed is not None
    assert bad <= set(listed)
    _train_and_die(tmp_path / "second", bad=bad, skip=set(listed))
    assert _judged(tmp_path / "second") is None


ORDERS: dict[str, Callable[[Table], dict[str, Any]]] = {
    "its-own-seed": lambda _: {"shuffle": True},
    "a-generator": lambda _: {"shuffle": True, "generator": torch.Generator().manual_seed(2**40 + 7)},
    "a-share": lambda table: {"sampler": DistributedSampler(table, 1, 0, seed=5)},
}


@pytest.mark.parametrize("order", ORDERS)
def test_all_batches_of_a_long_spike_and_the_seed_of_their_order(tmp_path: Path, order: str) -> None:
    """A spike goes on behind its alarm, and ends. With the kept seed the rows of its batches are drawn again."""
    drawn: list[list[int]] = []
    bad = set(range(60, 76))

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        table = Table(set())
        for number, (given, wanted) in enumerate(DataLoader(table, batch_size=4, **ORDERS[order](table))):
            drawn.append((given[:, 0] * 400).round().int().tolist())
            yield given, wanted + (40 if number in bad else 0)

    torch.manual_seed(3)
    capture = PyTorchAdapter(CaptureEnvironment(str(tmp_path), CaptureRequest().to_json(), 0, 1))
    capture.install()
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for given, wanted in batches():
        optimizer.zero_grad()
        functional.mse_loss(model(given), wanted).backward()
        optimizer.step()
    capture.uninstall()
    listed = _judged(tmp_path)
    assert listed is not None
    assert bad <= set(listed) <= set(range(58, 86))
    (entry,) = json.loads(LocalStore(tmp_path / "rule-output").get(RESCUE_KEY))
    assert entry["recovered_step"] is not None
    generator = torch.Generator().manual_seed(entry["order_seed"])
    if order == "a-generator":  # the DataLoader has drawn the seed of its workers from it
        torch.empty((), dtype=torch.int64).random_(generator=generator)
    again = torch.randperm(400, generator=generator).split(4)
    assert entry["seed_is_of_first_pass"] is (order == "a-generator")
    for number in range(entry["first_batch"], entry["last_batch"] + 1):
        assert again[number].tolist() == drawn[number]


def _train_and_die(run: Path, *, bad: set[int], skip: Container[int] = ()) -> None:
    """Train in a process that ends as if it were killed: so a run stays open, and a later process goes on with it."""
    child = os.fork()
    if not child:
        try:
            _train(run, bad=bad, skip=skip)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _train(run: Path, *, bad: set[int], skip: Container[int]) -> None:
    """One pass over the table, from the checkpoint of the pass before if there is one."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, checkpoint = nn.Linear(2, 1), run / "checkpoint.pt"
    if checkpoint.exists():
        model.load_state_dict(torch.load(checkpoint))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    request = CaptureRequest(statistics=StatisticsRequest(budget=1.0)).to_json()
    capture = PyTorchAdapter(CaptureEnvironment(str(run), request, 0, 1))
    capture.install()
    for step, (given, wanted) in enumerate(_batches(bad)):
        if step in skip:
            continue
        loss = functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 50:
            torch.save(model.state_dict(), checkpoint)
    capture.flush()


def _batches(bad: set[int]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield from torch.utils.data.DataLoader(Table(bad), batch_size=4)


def _judged(run: Path) -> list[int] | None:
    """Judge the run as an evaluator does, and return the list."""
    store = LocalStore(run / "rule-output")
    evaluate(
        RunLocation(str(run)),
        RuleRequest((RuleConfiguration("loss-spike"),)),
        [SkipListSink(store, run=RunLocation(str(run)))],
        poll_seconds=0.01,
        clock=lambda: 0.0,
        sleep=lambda _: None,
        should_stop=lambda: True,
    )
    return _listed(store)


def _listed(store: MemoryStore | LocalStore) -> list[int] | None:
    if SKIP_LIST_KEY not in list(store.list("")):
        return None
    found: list[int] = json.loads(store.get(SKIP_LIST_KEY))
    return found
