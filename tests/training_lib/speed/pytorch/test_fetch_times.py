"""The times of DataLoaders' own work: in the training, in workers, of pinning; and how many batches were ready."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run.recorded_names import DATA_PROCESSOR_WAIT_SECONDS
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.shared.replaced_methods import StepHooks
from trackside.profiling.processor_wait import PATH
from trackside.speed.performance.profile import open_profile
from trackside.speed.performance.reading import measured_workers
from trackside.speed.pytorch.fetch_times import MOST_DATA_SETS, UNKNOWN, FetchTimes
from trackside.trial.trial import open_trial

NAP = 0.02


class Slow(Dataset[Any]):
    """Items that take a while."""

    def __init__(self, length: int = 12, nap: float = NAP) -> None:
        self.length, self.nap = length, nap

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.nap)
        return torch.ones(3) * index


class SlowStream(IterableDataset[Any]):
    """Batches that take a while."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(6):
            time.sleep(NAP)
            yield torch.ones(3) * index


class Busy(Dataset[Any]):
    """Items that take the processor for a while."""

    def __init__(self, length: int = 24) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        return torch.ones(3) * index


class Pinned:
    """A batch that can be pinned, on a machine without a GPU."""

    def pin_memory(self) -> Pinned:
        time.sleep(NAP)
        return self


@pytest.fixture
def rivals() -> Iterator[None]:
    """Two processes that want the one processor that this process and its workers may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    others = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(2)]
    yield
    for other in others:
        other.kill()
        other.communicate()
    os.sched_setaffinity(0, allowed)


def train(run: Path, loader: DataLoader[Any]) -> None:
    """Train for a pass over the data, with our capture."""
    capture = PyTorchAdapter(CaptureEnvironment(str(run), CaptureRequest(()).to_json(), 0, 1))
    capture.install()
    try:
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    finally:
        capture.uninstall()


@pytest.fixture
def times() -> Iterator[FetchTimes]:
    times = FetchTimes()
    hooks = StepHooks([*times.step_hooks()])
    hooks.put_in()
    yield times
    hooks.take_out()


@pytest.mark.parametrize(
    ("dataset", "workers", "batches", "processes"),
    [
        pytest.param(Slow(), 0, 6, 1, id="in the training"),
        pytest.param(Slow(), 2, 6, 2, id="in two workers"),
        pytest.param(SlowStream(), 0, 3, 1, id="a stream"),
        pytest.param(SlowStream(), 1, 3, 1, id="a stream in a worker"),
    ],
)
def test_batches_are_timed_where_they_are_made(
    times: FetchTimes, dataset: Any, workers: int, batches: int, processes: int
) -> None:
    row = times.row_of(dataset)
    # A worker is forked wherever it can be: it shares the memory of the times.
    loader = DataLoader(dataset, batch_size=2, num_workers=workers, multiprocessing_context="fork" if workers else None)
    assert len(list(loader)) == batches
    found = times.of(row)
    assert (found.batches, found.processes) == (batches, processes)
    assert 2 * NAP <= found.seconds / found.batches <= found.longest_seconds < found.seconds


@pytest.mark.usefixtures("rivals")
@pytest.mark.skipif(not os.path.exists(PATH), reason="the kernel has no such counter")
@pytest.mark.parametrize(
    ("dataset", "least", "most"),
    [
        pytest.param(Busy(), 0.2, 1.0, id="computes beside other work"),
        pytest.param(Slow(12, 0.05), 0.0, 0.5, id="sleeps beside other work"),
    ],
)
def test_workers_that_wait_for_a_processor_say_so(times: FetchTimes, dataset: Any, least: float, most: float) -> None:
    row = times.row_of(dataset)
    list(DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context="fork"))
    assert least <= times.of(row).waited_share <= most


@pytest.mark.usefixtures("rivals")
@pytest.mark.skipif(not os.path.exists(PATH), reason="the kernel has no such counter")
def test_a_long_fetch_has_its_wait_for_a_processor(tmp_path: Path) -> None:
    train(tmp_path / "run", DataLoader(Busy(60), batch_size=2))
    (worker,) = open_profile(str(tmp_path / "run")).steps()
    (column,) = open_trial(str(tmp_path / "run")).tensor(DATA_PROCESSOR_WAIT_SECONDS).columns("mean")
    waits = column.steps, column.values
    of_data = dict(zip(worker.steps.tolist(), worker.phases["data"].tolist(), strict=True))
    assert len(waits[0]) > 20
    assert sum(waits[1]) > 0.2 * sum(of_data.values())
    assert all(waited <= of_data[step] + 1e-6 for step, waited in zip(*waits, strict=True))


def test_a_worker_that_is_not_forked_is_unknown(times: FetchTimes) -> None:
    dataset = Slow(2, 0.0)
    row = times.row_of(dataset)
    assert len(list(DataLoader(dataset, num_workers=1, multiprocessing_context="spawn"))) == 2
    assert times.of(row).batches == 0


def test_data_sets_are_told_apart(times: FetchTimes) -> None:
    sets = [Slow(2, 0.0) for _ in range(MOST_DATA_SETS + 2)]
    for dataset in sets:
        list(DataLoader(dataset))
    assert [times.of(times.row_of(dataset)).batches for dataset in sets] == [2] * MOST_DATA_SETS + [0, 0]
    assert times.row_of(sets[-1]) == UNKNOWN


def test_pinning_is_timed_once_a_batch(times: FetchTimes) -> None:
    batch = {"inputs": [Pinned(), Pinned()], "label": "a"}
    pinning.pin_memory(batch)  # type: ignore[no-untyped-call] # torch's own omission
    assert times.pins.batches == 1
    assert 2 * NAP <= times.pins.seconds < 20 * NAP


def test_everything_is_put_back() -> None:
    before = fetching._MapDatasetFetcher.fetch, fetching._IterableDatasetFetcher.fetch, pinning.pin_memory
    hooks = StepHooks([*FetchTimes().step_hooks()])
    hooks.put_in()
    during = fetching._MapDatasetFetcher.fetch, fetching._IterableDatasetFetcher.fetch, pinning.pin_memory
    hooks.take_out()
    after = fetching._MapDatasetFetcher.fetch, fetching._IterableDatasetFetcher.fetch, pinning.pin_memory
    assert after == before
    assert not set(during) & set(before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_has_the_times_of_its_loader(tmp_path: Path, workers: int) -> None:
    run = tmp_path / "run"
    train(
        run,
        DataLoader(Slow(48), batch_size=2, num_workers=workers, multiprocessing_context="fork" if workers else None),
    )
    measured = measured_workers(str(run))["worker_0"]
    assert measured.facts is not None
    (found,) = measured.facts.loaders
    assert (found.fetches, found.fetch_processes) == (24, max(1, workers))
    assert found.fetch_seconds >= 2 * NAP
    (steps,) = open_profile(str(run)).steps()
    if workers:
        assert measured.batches_ready is not None
        assert 0 <= measured.batches_ready <= 2 * workers
        assert (steps.batches_ready[1:] >= 0).all()
    else:
        assert measured.batches_ready is None
        assert not (steps.batches_ready >= 0).any()
