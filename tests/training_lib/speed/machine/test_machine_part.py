"""The machine's metrics of a run that nobody samples from outside: the real sampler, and a store."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.training_lib.profiling.samples import samples_in
from trackside.contracts.errors import StorageUnavailableError
from trackside.environment import inherited
from trackside.speed.machine.machine_part import FLUSH_SECONDS, MachinePart
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store


class Outage(MemoryStore):
    """A store that is away at first."""

    is_away = True

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if self.is_away:
            raise StorageUnavailableError("The store is away")
        super().put(key, data)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def part(store: Store, *, clock: Mapping[str, float] | None = None) -> MachinePart:
    now = clock or {"now": 0.0}
    return MachinePart(
        lambda: store, interval_ms=100, node="algo-2", environment=inherited(), monotonic=lambda: now["now"]
    )


def has_samples(place: Path) -> bool:
    return any(path.stat().st_size > 2000 for path in place.rglob("*.open"))


def test_samples_reach_the_store_at_the_end(place: Path) -> None:
    store = MemoryStore()
    one = part(store)
    assert one.flush_if_due()
    wait_until(lambda: has_samples(place))
    assert not list(store.list("")), "the original's readers take whole files only"
    one.close()
    (key,) = store.list("")
    assert key.startswith("system/incremental/")
    assert key.endswith(".algo-2.json")
    samples = samples_in(store)
    assert {sample.node for sample in samples} == {"algo-2"}
    assert {"CPUUtilization", "MemoryUsedPercent", "ProcessMemoryBytes"} & {s.dimension for s in samples}
    assert not list(place.iterdir())


def test_it_is_due_now_and_then() -> None:
    clock = {"now": 100.0}
    one = part(MemoryStore(), clock=clock)
    assert one.due_in_seconds == 0
    one.flush()
    assert one.due_in_seconds == FLUSH_SECONDS
    assert not one.flush_if_due()
    clock["now"] += FLUSH_SECONDS
    assert one.flush_if_due()
    one.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_does_not_keep_the_sampler(place: Path) -> None:
    """A worker of a DataLoader is a fork, and holds every pipe of the training."""
    store = MemoryStore()
    one = part(store)
    one.flush()
    wait_until(lambda: has_samples(place))
    reader, writer = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    began = time.monotonic()
    one.close()
    assert list(store.list("")), f"closed after {time.monotonic() - began:.1f} s, without the last file"
    os.close(writer)
    os.waitpid(worker, 0)


def test_an_outage_loses_nothing(place: Path) -> None:
    store = Outage()
    one = part(store)
    one.flush()
    wait_until(lambda: has_samples(place))
    with pytest.raises(StorageUnavailableError):
        one.close()
    store.is_away = False
    one.close()
    assert samples_in(store)


def test_nothing_is_left_of_a_part_that_never_ran(place: Path) -> None:
    part(MemoryStore()).close()
    assert not list(place.iterdir())
