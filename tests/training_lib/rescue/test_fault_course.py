"""With `--rescue restart` a process reports faults and what became of them, and changes nothing of itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training_lib.rescue import trainings
from tests.training_lib.rescue.trainings import AT, STEPS, Training
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run.restart import LeftOut, Met, Order, Report
from trackside.environment import CaptureEnvironment, RescueEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.rescue import fault_reports
from trackside.rescue.rescue import install_around

Fault = Callable[[Training, int, torch.Tensor], Any]


@contextmanager
def reporting(folder: Path, *, ranks_here: int = 0, ranks: int = 1) -> Iterator[Callable[[], Report | None]]:
    """Capture trainings in this block, which report. Yield the function that reads the newest report."""
    environment = CaptureEnvironment(str(folder), CaptureRequest(()).to_json(), 0, ranks, local_world_size=ranks_here)
    adapter = PyTorchAdapter(environment)
    rescue = install_around(
        adapter, RescueEnvironment(is_on=True, restarts=True), clock=lambda: 1.0, thread_clock=lambda: 1.0
    )
    path = folder / "restart" / "worker_0.json"
    try:
        yield lambda: Report.from_json(path.read_bytes()) if path.exists() else None
    finally:
        rescue.remove()
        adapter.uninstall()


_FAULTS: dict[str, tuple[Fault, bool, str]] = {  # whether the batch may be the cause, a word of the cause
    "broken batch": (trainings.broken_batch, True, "not finite"),
    "huge update": (trainings.huge_batch, True, "a spike"),
    "torn weights": (trainings.torn_weights, False, "tore"),
    "rate jump": (trainings.rate_jump, False, "rate"),
}


@pytest.mark.parametrize(("fault", "is_of_batch", "cause"), _FAULTS.values(), ids=_FAULTS)
def test_a_fault_is_reported_once_and_nothing_else_changes(
    fault: Fault, is_of_batch: bool, cause: str, tmp_path: Path
) -> None:
    with reporting(tmp_path) as report:
        watched = Training()
        watched.run(fault)
    found = report()
    assert found is not None
    assert (found.met, found.refusal, found.is_of_batch) == (Met.FAULT, "", is_of_batch)
    assert cause in found.cause
    assert AT - 1 <= found.first_step <= AT + 1
    assert found.first_step < found.at_step
    alone = Training()
    alone.run(fault)
    assert all(torch.equal(a, b) or bool(a.isnan().any()) for a, b in zip(watched.weights, alone.weights, strict=True))


_SILENT: dict[str, Fault] = {"sound": trainings.sound}
_REFUSED: dict[str, Fault] = {"rate from the start": trainings.rate_from_the_start}


@pytest.mark.parametrize("fault", _SILENT.values(), ids=_SILENT)
def test_a_sound_training_reports_nothing(fault: Fault, tmp_path: Path) -> None:
    with reporting(tmp_path) as report:
        Training().run(fault)
    assert report() is None


@pytest.mark.parametrize("fault", _REFUSED.values(), ids=_REFUSED)
def test_what_going_back_does_not_cure_is_reported_as_such(fault: Fault, tmp_path: Path) -> None:
    with reporting(tmp_path) as report:
        Training().run(fault)
    found = report()
    assert found is None or found.refusal


def _started_for(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_reports, "order_of_environment", lambda: order)


@pytest.mark.parametrize(
    ("usual_loss", "fault", "met"),
    [
        (1e9, trainings.sound, Met.CONFIRMED),
        (None, trainings.sound, Met.CONFIRMED),
        (1e-9, trainings.sound, Met.UNLIKE),
        (1e9, trainings.broken_batch, Met.FAULT),
    ],
    ids=["as before", "no loss known", "not as before", "the fault comes again"],
)
def test_a_process_that_was_started_again_reports_what_became_of_the_fault(
    usual_loss: float | None, fault: Fault, met: Met, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _started_for(Order("good", undone_steps=AT, usual_loss=usual_loss), monkeypatch)
    with reporting(tmp_path) as report:
        Training().run(fault)
    found = report()
    assert found is not None
    assert found.met is met


def test_a_fault_soon_after_a_start_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _started_for(Order("good", undone_steps=AT, usual_loss=1.0), monkeypatch)
    with reporting(tmp_path) as report:
        Training().run(lambda _training, step, rows: rows * math.nan if step == 3 else None, steps=20)
    found = report()
    assert found is not None
    assert (found.met, found.refusal) == (Met.FAULT, "")


def test_a_second_start_from_one_place_has_half_the_rate_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _started_for(Order("good", undone_steps=10, is_again=True, most_gradient=1e9), monkeypatch)
    with reporting(tmp_path):
        watched = Training(kind="SGD")
        watched.run(trainings.sound, steps=2)
    alone = Training(kind="SGD")
    alone.run(trainings.sound, steps=2)
    before = torch.nn.utils.parameters_to_vector(Training(kind="SGD").net.parameters()).detach()
    torch.testing.assert_close(2 * (watched.weights[0] - before), alone.weights[0] - before, rtol=1e-3, atol=1e-7)
    assert watched.optimizer.param_groups[0]["lr"] == 1e-2


@pytest.mark.parametrize(("here", "is_refused"), [(2, True), (4, False), (0, False)], ids=["two", "all", "not known"])
def test_ranks_of_several_machines_are_refused(here: int, is_refused: bool, tmp_path: Path) -> None:
    with reporting(tmp_path, ranks=4, ranks_here=here) as report:
        Training().run(trainings.broken_batch)
    record = tmp_path / "rescue" / "worker_0.json"
    assert record.exists() is is_refused
    assert (report() is None) is is_refused


def test_rows_of_the_fault_are_reported(tmp_path: Path) -> None:
    class Rows(torch.utils.data.Dataset[torch.Tensor]):
        def __init__(self) -> None:
            self.rows = torch.randn(8 * STEPS, 8, generator=torch.Generator().manual_seed(0))

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> torch.Tensor:
            return self.rows[index]

    with reporting(tmp_path) as report:
        training = Training()
        batches = iter(torch.utils.data.DataLoader(Rows(), batch_size=8))
        training.run(lambda _training, step, rows: next(batches)[0].expand_as(rows) * (math.nan if step == AT else 1))
    found = report()
    assert found is not None
    (left_out,) = found.left_out
    assert left_out.data.endswith(f"Rows of {8 * STEPS}")
    assert set(range(8 * AT, 8 * AT + 8)) <= set(left_out.rows)
    assert len(left_out.rows) <= 4 * 8
    assert isinstance(left_out, LeftOut)
