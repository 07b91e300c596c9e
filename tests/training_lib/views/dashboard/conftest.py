from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, NODE, write_run
from tests.training_lib.views.dashboard.served import Served, served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs: one with an issue, one without, one whose files are damaged."""
    place = tmp_path_factory.mktemp("dashboard")
    tensors = (HOSTILE, "gradient/Net_fc.bias")
    write_run(place / ".trackside/runs/faulty", verdicts=(ISSUE,), tensors=tensors, has_weights=True)
    write_run(place / ".trackside/runs/right", slope=0.5, machines=("algo-1", NODE))
    broken = place / ".trackside/runs/torn"
    write_run(broken)
    (broken / "rule-output").mkdir(exist_ok=True)
    (broken / "rule-output/verdicts.jsonl").write_bytes(b"\xff\xfe not a verdict\n")
    (place / "secret.txt").write_text("secret of the machine")
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder) as running:
        yield running
