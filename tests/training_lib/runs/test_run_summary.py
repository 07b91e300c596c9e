"""The summary that is stored with a run that has ended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import finding, issue, no_issue
from tests.training_lib.views.dashboard.runs import write_judged_run
from tests.work import bytecodes
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RULE_REQUEST_KEY, VERDICTS_KEY
from trackside.contracts.verdict import State, Verdict
from trackside.evaluation.results.run_learning import store_learning
from trackside.runs.recorded_run import read_run
from trackside.runs.run_folder import RECORD_FILE, RunRecord, write_record
from trackside.runs.run_summary import SUMMARY_FILE, store_summary, stored_summary, summarize, summary_of
from trackside.storage.local import LocalStore

ENDED = RunRecord(("python", "train.py"), 1.0, 2.0, 0)
CLEAN = [no_issue(f"rule-{number}") for number in range(20)]
STANDING = issue(findings=(finding("gradient/Net_fc.weight"),))
RECOVERED = replace(no_issue(STANDING.rule_id), state=State.RECOVERED, group=STANDING.group)


def write(folder: Path, *verdicts: Verdict, learning: Learning | None = None, record: RunRecord = ENDED) -> Path:
    write_judged_run(folder, verdicts=verdicts)
    request = RuleRequest(tuple([RuleConfiguration(one) for one in dict.fromkeys(v.rule_id for v in verdicts)]))
    (folder / RULE_REQUEST_KEY).write_text(request.to_json())
    store_learning(LocalStore(str(folder / "rule-output")), learning)
    write_record(folder, record)
    return folder


@pytest.mark.parametrize(
    ("verdicts", "learning", "record"),
    [
        pytest.param(CLEAN, None, ENDED, id="sound"),
        pytest.param([*CLEAN, STANDING], None, ENDED, id="an-issue"),
        pytest.param([*CLEAN, STANDING, RECOVERED], None, ENDED, id="recovered"),
        pytest.param(CLEAN, Learning(level="the loss ended at 2"), ENDED, id="nothing-learned"),
        pytest.param(CLEAN, None, replace(ENDED, status=-11), id="died-of-a-signal"),
        pytest.param([], None, replace(ENDED, judging_problem="killed by SIGKILL"), id="not-judged"),
    ],
)
def test_what_is_stored_is_what_is_read(
    tmp_path: Path, verdicts: list[Verdict], learning: Learning | None, record: RunRecord
) -> None:
    run = write(tmp_path / "a", *verdicts, learning=learning, record=record)
    read = summary_of(read_run(str(run)))
    store_summary(run)
    assert stored_summary(run) == summarize(str(run)) == read


def test_a_list_reads_little_of_a_run_that_has_ended(tmp_path: Path) -> None:
    run = write(tmp_path / "a", *CLEAN)
    before = bytecodes(lambda: summarize(str(run)))
    store_summary(run)
    assert bytecodes(lambda: summarize(str(run))) < before / 5


def _judge(run: Path) -> None:
    with (run / "rule-output" / VERDICTS_KEY).open("a") as file:
        file.write(f"{STANDING.to_json()}\n")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_judge, id="judged-again"),
        pytest.param(lambda run: write_record(run, replace(ENDED, ended_at=None)), id="goes-on"),
        pytest.param(lambda run: store_learning(LocalStore(str(run / "rule-output")), Learning("a")), id="learned"),
        pytest.param(lambda run: (run / "debug-output/training_job_end.ts").unlink(), id="no-end-marker"),
        pytest.param(lambda run: os.utime(run / RULE_REQUEST_KEY, (1.0, 1.0)), id="other-rules"),
        pytest.param(lambda run: (run / SUMMARY_FILE).write_text("{"), id="torn"),
        pytest.param(lambda run: (run / SUMMARY_FILE).write_text("[]"), id="no-object"),
        pytest.param(lambda run: (run / SUMMARY_FILE).unlink(), id="removed"),
        pytest.param(
            lambda run: (run / SUMMARY_FILE).write_text(
                (run / SUMMARY_FILE).read_text().replace('"trackside":"', '"trackside":"9')
            ),
            id="by-another-version",
        ),
    ],
)
def test_a_run_that_has_changed_is_read_again(tmp_path: Path, change: Callable[[Path], object]) -> None:
    run = write(tmp_path / "a", *CLEAN)
    store_summary(run)
    assert stored_summary(run) is not None
    change(run)
    assert stored_summary(run) is None
    assert summarize(str(run)) == summary_of(read_run(str(run)))


def test_a_run_that_was_moved_or_copied_has_its_new_name(tmp_path: Path) -> None:
    run = write(tmp_path / "a", record=replace(ENDED, judging_problem="killed by SIGKILL"))
    store_summary(run)
    for place in ("copied", "moved"):
        there = tmp_path / place
        shutil.copytree(run, there) if place == "copied" else run.rename(there)
        found = stored_summary(there)
        assert found is not None
        assert (found.name, found.uri) == (place, str(there))
        assert found.judged.command.endswith(place)


@pytest.mark.parametrize("record", [replace(ENDED, ended_at=None, status=None), None], ids=["running", "no-record"])
def test_nothing_is_stored_of_a_run_without_an_end(tmp_path: Path, record: RunRecord | None) -> None:
    run = write(tmp_path / "a", *CLEAN, record=record or ENDED)
    if record is None:
        (run / RECORD_FILE).unlink()
    store_summary(run)
    assert not (run / SUMMARY_FILE).exists()
