"""What the tests of adapters share: reading a run back, and a capture that is taken off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchCapture
from trackside.records.index_file import decode_index
from trackside.records.tfevents import decode_record
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store

Run = dict[int, dict[str, np.ndarray]]
ModesRun = dict[tuple[str, int], dict[str, np.ndarray]]


@pytest.fixture(scope="session")
def read_run() -> Callable[[Store], Run]:
    """Reads a store of tensors: {step: {name: value}}, by index and offset as every reader does."""

    def read(store: Store) -> Run:
        run: Run = {}
        for key in store.list(run_layout.INDEX_PREFIX):
            parsed = run_layout.parse_index_key(key)
            assert parsed is not None
            index = decode_index(store.get(key), key=key)
            assert index.event_key is not None
            assert (index.mode, index.mode_step) == ("TRAIN", parsed[0])
            run[parsed[0]] = {
                entry.name: decode_record(
                    store.get(index.event_key, start=entry.start, length=entry.length),
                    key=index.event_key,
                    offset=entry.start,
                ).value
                for entry in index.entries
            }
        return run

    return read


@pytest.fixture(scope="session")
def read_modes() -> Callable[[Store], ModesRun]:
    """Reads a store of tensors: {(mode, step within the mode): {name: value}}."""

    def read(store: Store) -> ModesRun:
        run: ModesRun = {}
        for key in store.list(run_layout.INDEX_PREFIX):
            index = decode_index(store.get(key), key=key)
            assert index.event_key is not None
            data = store.get(index.event_key)
            run[index.mode, index.mode_step] = {
                entry.name: decode_record(
                    data[entry.start : entry.start + entry.length], key=index.event_key, offset=entry.start
                ).value
                for entry in index.entries
            }
        return run

    return read


@pytest.fixture(scope="session")
def request_json() -> Callable[..., str]:
    """A capture request from intervals: `request_json(losses=1, weights=10)`."""

    def build(compiled: str = "eager_step", **intervals: int) -> str:
        return CaptureRequest(
            tuple(CollectionRequest(name, Schedule(interval)) for name, interval in intervals.items()),
            compiled=compiled,
        ).to_json()

    return build


Capturing = Callable[..., AbstractContextManager[MemoryStore]]


@pytest.fixture(scope="session")
def capturing(request_json: Callable[..., str]) -> Capturing:
    """`with capturing(losses=1) as store:` captures the training within; the store is complete after the block."""

    @contextmanager
    def capture(store: MemoryStore | None = None, **intervals: Any) -> Iterator[MemoryStore]:
        store = MemoryStore() if store is None else store
        environment = CaptureEnvironment("memory://run", request_json(**intervals), 0, 1)
        capture = PyTorchCapture(environment, open_store=lambda _: store)
        capture.install()
        try:
            yield store
        finally:
            capture.uninstall()

    return capture
