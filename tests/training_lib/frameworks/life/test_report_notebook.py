"""`trackside report --format notebook`: checked by Jupyter's own schema, and run to its end by a real kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, NODE, write_run
from trackside.cli import main

pytestmark = pytest.mark.slow

# Runs in the notebook's environment, in another folder than the run's.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

book = nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT)
assert (book.nbformat, book.nbformat_minor) == (4, 5)
nbformat.validate(book)
NotebookClient(book, timeout=600, kernel_name="python3").execute()  # raises the error of a cell
for cell in book.cells:
    for output in cell.get("outputs", ()):
        print(output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"])
"""


def faulty(folder: Path) -> None:
    write_run(folder, verdicts=(ISSUE,), tensors=(HOSTILE, "gradient/a"), has_weights=True, machines=("algo-1", NODE))


def bare(folder: Path) -> None:
    write_run(folder, steps=1, tensors=())


@pytest.mark.parametrize(
    ("write", "words"),
    [
        pytest.param(
            faulty,
            ("CPUUtilization ", "CrossEntropyLoss_output_0", "step 77: 2 s", "Gradient norm: 2 tensors over steps"),
            id="a-faulty-run-with-hostile-names",
        ),
        pytest.param(bare, ("CrossEntropyLoss_output_0",), id="one-step"),
    ],
)
def test_each_cell_of_the_notebook_runs(
    write: Callable[[Path], None], words: tuple[str, ...], notebook_python: Path, tmp_path: Path
) -> None:
    name = 'it\'s a "run"'
    write(tmp_path / "runs" / name)
    book = tmp_path / "report.ipynb"
    made = CliRunner().invoke(main, ["report", str(tmp_path / "runs" / name), "--format", "notebook", "-o", str(book)])
    assert made.exit_code == 0, made.output
    assert "Open it in Jupyter." in made.output
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [notebook_python, "-W", "ignore", "-c", EXECUTE, str(book)],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout
