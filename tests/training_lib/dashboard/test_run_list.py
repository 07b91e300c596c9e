from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trackside.contracts.run_layout import RunLocation
from trackside.dashboard.run_list import RunList
from trackside.local.run_folder import RunRecord, write_record
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections


@pytest.mark.parametrize(
    ("started", "names"),
    [
        pytest.param({"b": 1.0, "a": 3.0, "c": 2.0}, ["a", "c", "b"], id="newest-first-whatever-the-name"),
        pytest.param({"20260101-1": None, "20260102-1": None}, ["20260102-1", "20260101-1"], id="by-name"),
        pytest.param({"b": 1.0, "z": None}, ["b", "z"], id="without-a-moment-last"),
        pytest.param({}, [], id="none"),
    ],
)
def test_runs_are_listed_newest_first(tmp_path: Path, started: Mapping[str, float | None], names: list[str]) -> None:
    for name, moment in started.items():
        write_collections(LocalStore(RunLocation(str(tmp_path / name)).tensors))
        if moment is not None:
            write_record(tmp_path / name, RunRecord(("python", "train.py"), started_at=moment))
    assert list(RunList(str(tmp_path)).names()) == names
