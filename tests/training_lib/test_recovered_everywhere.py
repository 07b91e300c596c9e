"""An issue that recovered is shown as recovered in every place that shows issues (issue 16).

Each place shows a run with an issue twice: while the issue stands, when no place may call it recovered, and after its
recovery, when each place must.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.training_lib.local.verdicts import finding, issue, no_issue
from trackside.cli import main
from trackside.cli.terminal.views.run_summary import summary_lines
from trackside.contracts import issue_group
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import State, Verdict
from trackside.integrations import issue_sinks, issue_text
from trackside.local.run import LocalRunResult
from trackside.runs.problem_text import rows_of, title_of
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.views.dashboard.app import Dashboard
from trackside.views.dashboard.run_list import RunList

SOURCES = Path(issue_group.__file__).parents[1]
RUNS = Path(".trackside/runs")
LOSS = "CrossEntropyLoss_output_0"
OPENED = replace(issue(findings=(finding(LOSS),)), group="g1")
BACK = replace(no_issue("vanishing-gradient"), state=State.RECOVERED, group="g1", step=30)
OTHER = no_issue("exploding-tensor")
Place = Callable[[RecordedRun], str]


def write_run(name: str, *verdicts: Verdict) -> None:
    run = RunLocation(str(RUNS / name))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {LOSS: 2.0})
    write_statistics(LocalStore(run.statistics), {LOSS: {"mean": {step: 2.0 - step / 40 for step in range(40)}}})
    request = RuleRequest((RuleConfiguration("vanishing-gradient"), RuleConfiguration("exploding-tensor")))
    (Path(run.uri) / RULE_REQUEST_KEY).write_text(request.to_json())
    LocalStore(run.rule_output).put(VERDICTS_KEY, "".join(f"{each.to_json()}\n" for each in verdicts).encode())
    end_run(tensors)


def cli(*words: str) -> Place:
    def place(_: RecordedRun) -> str:
        result = CliRunner().invoke(main, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return place


def page(path: str, query: str = "") -> Place:
    def place(_: RecordedRun) -> str:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        address = {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""}
        scope = {"type": "http", "method": "GET", "scheme": "http", "headers": [], "http_version": "1.1", **address}
        application = Dashboard(RunList(str(RUNS)), is_stopping=lambda: True).application()
        asyncio.run(application(scope, receive, send))
        assert sent[0]["status"] == 200
        return b"".join(message.get("body", b"") for message in sent[1:]).decode()

    return place


def end_of_run(recorded: RecordedRun) -> str:
    result = LocalRunResult(Path(), 0, None, recorded.verdicts, recorded.rules, recorded.steps, "", "", 40)
    return "\n".join(summary_lines(result, run="latest", exit_code=0, fail_on="never", ascii_only=False))


def end_of_callback(recorded: RecordedRun) -> str:
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(issue_sinks, "write_message", lines.append)
        issue_sinks.StderrSink().finish(recorded.groups, "somewhere")
    return "\n".join(lines)


PLACES: dict[str, Place] = {
    "the end of trackside run": end_of_run,
    "the end of a callback": end_of_callback,
    "findings": cli("findings", "a"),
    "findings as json": cli("findings", "a", "--format", "json"),
    "findings as json lines": cli("findings", "a", "--format", "jsonl"),
    "findings for GitHub": cli("findings", "a", "--format", "github"),
    "findings as SARIF": cli("findings", "a", "--format", "sarif"),
    "findings as JUnit": cli("findings", "a", "--format", "junit"),
    "the live view": cli("watch", "a", "--once"),
    "runs": cli("runs"),
    "runs as json": cli("runs", "--format", "json"),
    "runs as csv": cli("runs", "--format", "csv"),
    "a comparison": cli("compare", "a", "b"),
    "a comparison as json": cli("compare", "a", "b", "--format", "json"),
    "the report": cli("report", "a", "--output", "-"),
    "the report in short": cli("report", "a", "--format", "markdown"),
    "the dashboard, runs": page("/"),
    "the dashboard, a run": page("/runs/a"),
    "the dashboard, a comparison": page("/compare", "run=a&run=b"),
    "the dashboard, several runs": page("/compare", "run=a&run=b&run=b"),
    "a notebook": lambda recorded: str([(title_of(group), *rows_of(group)) for group in recorded.groups]),
    "a message": lambda recorded: str([issue_text.issue_title(group) for group in recorded.groups]),
    "a short card": lambda recorded: str([issue_text.short_card(group) for group in recorded.groups]),
    "a tracker": lambda recorded: str(issue_text.outcome_of(recorded.groups, recorded.location.uri)),
}


def shows_recovery(text: str) -> bool:
    """Return True if a text shows that something recovered; an empty column or a count of 0 shows nothing."""
    text = re.sub(r"""recovered["'\w]*(?:: |=)(0|\{\}|null|None)(?=[,}\s])""", "", text)
    head, _, rows = text.partition("\n")
    if head.startswith("name,uri,"):
        (row,) = [line.split(",") for line in rows.splitlines() if line.startswith("a,")]
        return dict(zip(head.split(","), row, strict=True))["recovered"] != "0"
    text = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL)
    return "recovered" in text.lower()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Return a folder with a run whose issue stands (False), and one with a run whose issue recovered (True)."""
    found = {}
    with pytest.MonkeyPatch.context() as patched:
        for is_over in (False, True):
            found[is_over] = tmp_path_factory.mktemp("runs")
            patched.chdir(found[is_over])
            write_run("a", OPENED, OTHER, *([BACK] if is_over else []))
            write_run("b", OTHER)
    return found


@pytest.mark.parametrize("is_over", [pytest.param(True, id="recovered"), pytest.param(False, id="standing")])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_place_shows_a_recovery_and_only_a_recovery(
    place: Place, is_over: bool, runs: dict[bool, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs[is_over])
    text = place(read_run(str(RUNS / "a")))
    assert shows_recovery(text) is is_over, text


def test_a_recovered_issue_is_no_result_of_code_scanning(
    runs: dict[bool, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SARIF 2.1.0, 3.27.10: a result that is no failure has the level `none`."""
    monkeypatch.chdir(runs[True])
    (result,) = json.loads(PLACES["findings as SARIF"](read_run(str(RUNS / "a"))))["runs"][0]["results"]
    assert (result["kind"], result["level"]) == ("informational", "none")


def test_no_place_is_forgotten() -> None:
    """Each file that reads problems is behind a place above, or stands here with its reason."""
    others = {
        "agents/problems.py": "says `standing` or `recovered` of each problem",
        "local/passing_observer.py": "passes problems on",
        "local/event_lines.py": "a problem is written as it comes, and a recovery is a note of `local/run.py`",
        "runs/mending/repair.py": "the change for a problem, whatever became of it",
        "runs/run_waiting.py": "waits for problems that stand",
        "cli/terminal/views/check_view.py": "a rehearsal of minutes has the cards of `findings`",
        "evaluation/results/final_verdict.py": "decides that a rule with an issue, recovered or not, has its end",
        "integrations/judged_test.py": "fails a test by what stands, with the cards of `findings`",
        "integrations/judged_training.py": "gives problems to the sinks",
        "integrations/mlflow.py": "a tracker: `outcome_of`, and the title of each problem",
        "integrations/notifying_observer.py": "sends messages: `issue_title`",
        "integrations/open_telemetry.py": "sends the number of those that stand, and an event as a problem comes",
        "integrations/tracker_sink.py": "gives problems to a tracker, as its base class",
        "integrations/trackio.py": "a tracker: `outcome_of`",
        "integrations/wandb.py": "a tracker: `outcome_of`",
        "runs/judgement.py": "an object for notebooks: `problem_text`",
        "local/run.py": "notes a recovery as it comes, and ends with the summary",
        "local/watched_run.py": "the same, while a training runs",
        "views/dashboard/watched.py": "keeps how the problems that stand began, for their pages",
        "views/report/distribution.py": "draws the tensors of problems that stand, and no others of problems",
        "views/report/incident.py": "shows how problems began that stand, and no others",
        "local/rescue_watch.py": "hands on the issues that stand, to the training and to nobody else",
        "views/query/tables.py": "its table of findings has the columns `state` and `recovered_at`",
        "cli/terminal/views/run_view.py": "cards of `trackside run`, with the note of `local/run.py` and the summary",
    }
    behind_places = {
        "cli/terminal/views/card.py", "cli/terminal/views/frame.py", "views/report/other_tools.py",
        "runs/run_document.py",
        "cli/terminal/views/run_summary.py", "contracts/issue_group.py", "integrations/issue_sinks.py",
        "integrations/issue_text.py", "views/comparing/comparison.py", "runs/first_failure.py", "runs/live_run.py",
        "views/comparing/side_by_side.py", "runs/problem_text.py", "runs/recorded_run.py",
        "runs/rule_state.py", "runs/run_summary.py", "rehearsal/check.py", "views/report/gathered.py",
        "views/report/markdown.py",
        "views/report/page.py",
    }  # fmt: skip
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"\b(IssueGroup|issue_groups|standing_issues)\b", path.read_text(encoding="utf-8"))
    }
    assert found == behind_places | set(others)
