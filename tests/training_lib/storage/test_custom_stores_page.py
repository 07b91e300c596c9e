"""docs/custom-stores.md: its store passes the contract, and holds a run that a trial can read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.patience import HANGS_SECONDS

PAGE = (Path(__file__).parents[3] / "docs" / "custom-stores.md").read_text(encoding="utf-8")
A_RUN = """
from sqlite_store import SqliteStore
from trackside import Trial
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

store = SqliteStore("run.db")
write_collections(store)
write_tensors(store, 0, {"loss": 2.5})
end_run(store)
trial = Trial(SqliteStore("run.db"))
trial.refresh()
print(trial.tensor("loss").value(0).item())
"""


def test_the_store_passes_its_test_and_holds_a_run(tmp_path: Path) -> None:
    for name, code in re.findall(r"```python file=(\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_sqlite_store.py"]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    assert tested.returncode == 0, tested.stdout[-3000:]
    assert re.search(r"\b[4-9]\d passed|\b\d{3} passed", tested.stdout), tested.stdout

    command = [sys.executable, "-c", A_RUN]
    read = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    assert read.stdout == "2.5\n", read.stderr
