"""What the tests of adapters share: reading a run back, a capture that is taken off again, environments of peers."""

from __future__ import annotations

import fcntl
import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trackside.capture.session import SessionOptions
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.records.index_file import decode_index
from trackside.records.tfevents import decode_record
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store

Run = dict[int, dict[str, np.ndarray]]
ENVIRONMENTS = Path(__file__).parents[3] / ".venv"
TRAINERS = ("transformers==5.23.0", "accelerate==1.15.0", "lightning==2.6.6", "trl==1.16.0")
NOTEBOOK = ("ipykernel==7.4.0", "jupyter-client==8.10.0", "nbclient==0.11.0", "nbconvert==7.17.2")

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
        capture = PyTorchAdapter(environment, options=SessionOptions(open_store=lambda _: store))
        capture.install()
        try:
            yield store
        finally:
            capture.uninstall()

    return capture


@pytest.fixture(scope="session")
def trainers_python() -> Path:
    """An interpreter with Lightning, transformers, accelerate and TRL beside our own packages; torch is ours."""
    return _python_with("trainers-peer", TRAINERS)


@pytest.fixture(scope="session")
def notebook_python() -> Path:
    """An interpreter with Jupyter's kernel of Python, and what talks to it, beside our own packages."""
    return _python_with("notebook-peer", NOTEBOOK)


def _python_with(name: str, packages: tuple[str, ...]) -> Path:
    """Built once and kept. Fails, never skips, where it cannot be built."""
    environment = ENVIRONMENTS / name
    ready = environment / "ready"
    recipe = f"{sys.version_info[:2]} torch {importlib.metadata.version('torch')} {packages}"
    environment.parent.mkdir(exist_ok=True)
    python = environment / "bin" / "python"
    with environment.with_suffix(".lock").open("w") as lock:  # several test processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != recipe:
            shutil.rmtree(environment, ignore_errors=True)
            _run_or_fail([sys.executable, "-m", "venv", "--without-pip", environment], packages)
            folder = sysconfig.get_paths(vars={"base": str(environment)})["purelib"]
            # `addsitedir` also reads the .pth files there, ours among them.
            ours = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
            Path(folder, "beside.pth").write_text(ours)
            pip: list[str | Path] = [python, "-m", "pip", "install", "--no-compile", "--quiet"]
            _run_or_fail([*pip, "--disable-pip-version-check", *packages], packages)
            ready.write_text(recipe)
    return python


def _run_or_fail(command: list[str | Path], packages: tuple[str, ...]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        pytest.fail(
            f"These tests need {', '.join(packages)} from the package index.\n"
            f"This failed: {' '.join(map(str, command))}\n{done.stderr[-3000:]}",
            pytrace=False,
        )
