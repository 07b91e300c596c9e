"""The last losses of a run: the list, the report, SQL and what is stored with the run say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from trackside.contracts.run.last_losses import LastLoss, LastLosses
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RunLocation
from trackside.diagnosis.learning import learning_of
from trackside.evaluation.results.run_learning import read_learning, store_learning
from trackside.runs.read_losses import read_losses
from trackside.runs.run_folder import RunRecord, write_record
from trackside.runs.run_summary import RunSummary
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import open_trial
from trackside.views.dashboard.run_list import RunList
from trackside.views.query.tables import run_tables, write_run_tables
from trackside.views.report.gathered import gather
from trackside.views.report.page import key_numbers

LOSS = "CrossEntropyLoss_output_0"
FALLS = {step: 2.0 - step / 100 for step in range(100)}


def write(folder: Path, training: Mapping[int, float], evaluation: Mapping[int, float]) -> Path:
    run = RunLocation(str(folder))
    saved, statistics = LocalStore(run.tensors), LocalStore(run.statistics)
    write_collections(saved)
    for step in {0, *training, *evaluation} if len(training) < 9 else {0, max(training)}:
        write_tensors(saved, step, {"Net_fc.weight": 1.0})
    write_statistics(statistics, {LOSS: {"mean": training}})
    write_statistics(statistics, {LOSS: {"mean": evaluation}}, mode="EVAL")
    end_run(saved)
    write_record(folder, RunRecord(("python", "train.py"), WALL_TIME, WALL_TIME + 1, 0))
    return folder


def lasts(found: LastLosses) -> list[float | None]:
    return [None if one is None else one.last for one in (found.training, found.evaluation)]


@pytest.mark.parametrize(
    ("training", "evaluation", "expected"),
    [
        pytest.param(FALLS, {99: 1.25}, [1.01, 1.25], id="both"),
        pytest.param(FALLS, {}, [1.01, None], id="never-evaluated"),
        pytest.param({0: 2.0, 1: math.inf}, {1: math.nan}, [math.inf, math.nan], id="not-finite"),
        pytest.param({}, {}, [None, None], id="no-loss"),
    ],
)
def test_every_view_has_the_same_last_losses(
    tmp_path: Path, training: Mapping[int, float], evaluation: Mapping[int, float], expected: list[float | None]
) -> None:
    run = write(tmp_path / "runs" / "a", training, evaluation)
    read = read_losses(str(run))
    for _ in ("read from the run", "stored by its evaluator"):
        runs = RunList(str(run.parent))
        ((_, listed),) = runs.summaries(["a"])
        assert isinstance(listed, RunSummary)
        found = runs.losses([listed])["a"]
        assert isinstance(found, LastLosses)
        assert repr(found) == repr(read)
        assert lasts(found) == pytest.approx(expected, nan_ok=True)
        (row,) = run_tables(str(run.parent)).tables["runs"].to_pylist()
        assert [row["last_loss"], row["last_evaluation_loss"]] == pytest.approx(expected, nan_ok=True)
        trial = open_trial(str(run))
        shown = dict(key_numbers(gather(str(run), trial, clock=lambda: WALL_TIME)))["last loss"]
        assert shown == ("unknown" if expected[0] is None else f"{expected[0]:.4g}")
        window = trial.window(trial.recorded_through, now=WALL_TIME)
        store_learning(LocalStore(RunLocation(str(run)).rule_output), learning_of(window))
    (stored,) = [one for _, one in RunList(str(run.parent)).summaries(["a"]) if isinstance(one, RunSummary)]
    assert repr(stored.judged.learning.losses) == repr(read)


@pytest.mark.parametrize("points", ["7", "[[1]]", '[["a",1,1,1,1,1,0]]', "[null]", "[]"])
def test_what_is_torn_counts_as_not_stored(tmp_path: Path, points: str) -> None:
    loss = LastLoss("Loss_output_0", 1.0, ((0, 1, 1, 1, 1, 2, 0),))
    store = LocalStore(str(tmp_path))
    store_learning(store, Learning(losses=LastLosses(loss)))
    assert read_learning(store).losses == LastLosses(loss)
    file = tmp_path / "learning.json"
    file.write_text(file.read_text().replace("[[0,1,1,1,1,2,0]]", points))
    assert read_learning(store).losses is None


def test_sql_finds_a_last_loss_of_nan_in_written_tables(tmp_path: Path) -> None:
    for name, last in {"a": 1.0, "b": math.nan, "c": 0.5}.items():
        write(tmp_path / "runs" / name, {0: 2.0, 1: last}, {})
    written = write_run_tables(run_tables(str(tmp_path / "runs")), tmp_path / "tables")
    files = f"{written.places['runs'].removeprefix('file://')}/*/*.parquet"
    assert duckdb.read_parquet(files).filter("isnan(last_loss)").project("run").fetchall() == [("b",)]
