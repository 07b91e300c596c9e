"""What the situations share: scripts in processes of their own, and a run read back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import trackside
from tests.warm_python import WarmPython
from trackside.environment import inherited
from trackside.storage.store import Store

Saved = dict[int, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Done:
    """How a script ended; `lines` are our lines on its stderr."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("trackside: ")]


Script = Callable[..., Done]
Watching = Callable[..., AbstractContextManager[Callable[[], Saved]]]


def saved_in(run: str | Store, *, worker: str | None = None, mode: str = "TRAIN") -> Saved:
    """{step: {name: value}} as a user reads it; of several workers one must be named."""
    trial = trackside.open_trial(run)
    found: Saved = {}
    for series in trial.tensors(worker=worker, mode=mode):
        for saved in series:
            found.setdefault(saved.step, {})[series.name] = saved.value
    assert not trial.damaged
    return dict(sorted(found.items()))


@pytest.fixture(scope="session")
def read() -> Callable[..., Saved]:
    return saved_in


@pytest.fixture(scope="session")
def watching(capturing: Callable[..., AbstractContextManager[Store]]) -> Watching:
    """`with watching(weights=1) as saved:` captures the training within; `saved()` after the block is what it left."""

    @contextmanager
    def watch(**intervals: int) -> Iterator[Callable[[], Saved]]:
        with capturing(**intervals) as store:
            yield lambda: saved_in(store)

    return watch


@pytest.fixture(scope="session")
def script(
    request_json: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython
) -> Script:
    """Runs a script unmodified; captured where `run` names a folder, by `intervals` or, without any, by default.

    With another Python it starts that one.
    """
    folder = tmp_path_factory.mktemp("situations")

    def run_it(
        source: str,
        run: object = None,
        intervals: Mapping[str, int] | None = None,
        python: Path | None = None,
        **more: str,
    ) -> Done:
        path = folder / f"train_{abs(hash(source))}.py"
        path.write_text(source)
        environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
        environment |= {"OMP_NUM_THREADS": "1", **more}
        if run is not None:
            environment["TRACKSIDE_RUN"] = str(run)
        if intervals is not None:
            environment["TRACKSIDE_CAPTURE_REQUEST"] = request_json(**intervals)
        if python is None:
            done = warm_python.run(path, env=environment, cwd=folder)
        else:
            done = subprocess.run(
                [python, path], capture_output=True, text=True, env=environment, cwd=folder, check=False
            )
        return Done(done.returncode, done.stdout, done.stderr)

    return run_it
