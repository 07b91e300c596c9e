"""The wheel `trackside-cdk` in another team's app: installed by pip, synthesized, deployed, and at work."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
import venv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.waiting import eventually
from trackside_localaccount.deploy import deploy
from trackside_localaccount.provision import create_inbox
from trackside_localaccount.server import LocalAccount

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "foreign_app"
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
pytestmark = pytest.mark.xdist_group("local-account")


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cloud assembly of the app, made by a Python that has both wheels, CDK, and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("foreign")
    for project in (ROOT, ROOT / "stacks"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
        subprocess.run(build, cwd=project, check=True, capture_output=True)
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    wheels = [str(path) for path in (folder / "wheels").glob("*.whl")]
    assert len(wheels) == 2
    # CDK itself is a gigabyte: it is lent from here. A line in a .pth file lends no editable install along.
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True
    )
    site = Path(packages.stdout.decode().strip())
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    subprocess.run([*install, *wheels], check=True, capture_output=True)
    (site / "lent.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    made = subprocess.run(
        [python, APP / "app.py", str(folder / "cdk.out")], cwd=APP, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert (
        str(ROOT)
        not in subprocess.run(
            [python, "-c", "import trackside_cdk, trackside; print(trackside_cdk.__file__, trackside.__file__)"],
            cwd=APP,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    return folder / "cdk.out"


@pytest.fixture(scope="module")
def template(assembly: Path) -> Mapping[str, Any]:
    (file,) = assembly.glob("*.template.json")
    found: Mapping[str, Any] = json.loads(file.read_text())
    return found


def test_all_parts_are_in_the_teams_stack_and_nothing_exists_twice(template: Mapping[str, Any]) -> None:
    kinds = Counter(body["Type"] for body in template["Resources"].values())
    once = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::Events::EventBus")
    assert [kinds[kind] for kind in once] == [1, 1, 1]
    assert kinds["AWS::Lambda::Function"] == 5
    assert "Fn::ImportValue" not in json.dumps(template)
    assert not any("Export" in output for output in template["Outputs"].values())
    assert {"RunTableName", "FailedEvaluationsUrl", "NotifyDeadLettersUrl", "EventBusName"} <= set(template["Outputs"])


def test_others_may_still_send_their_own_events_on_the_teams_bus(template: Mapping[str, Any]) -> None:
    (guard,) = [b["Properties"] for b in template["Resources"].values() if b["Type"] == "AWS::Events::EventBusPolicy"]
    assert guard["Statement"]["Effect"] == "Deny"
    assert guard["Statement"]["Condition"]["StringEquals"] == {"events:source": "trackside"}


def test_settings_and_objects_reach_the_functions(template: Mapping[str, Any]) -> None:
    functions = [b["Properties"] for b in template["Resources"].values() if b["Type"] == "AWS::Lambda::Function"]
    variables = {each["Handler"].split(".")[1]: each["Environment"]["Variables"] for each in functions}
    assert variables["stop_training"]["TRACKSIDE_STOPS_PER_HOUR"] == "5"
    assert variables["notify_owner"]["TRACKSIDE_DEFAULT_ACTIONS"] == "Notify"
    assert "Pager" in json.dumps(variables["notify_owner"]["TRACKSIDE_TOPIC_ARN"])
    assert "Runs" in json.dumps(variables["start_evaluation"]["TRACKSIDE_RUN_BUCKET"])


@pytest.fixture
def account() -> Iterator[LocalAccount]:
    with LocalAccount() as account:
        yield account


def test_a_verdict_on_the_teams_bus_reaches_the_teams_topic_and_the_metric(
    account: LocalAccount, assembly: Path
) -> None:
    outputs = deploy(assembly, account)["MachineLearning"]
    sqs = account.client("sqs")
    inbox = create_inbox(account, "inbox", outputs["TopicOfStops"])
    detail = {
        "Version": 1,
        "TrainingJobName": "digits-01",
        "TrainingJobArn": JOB,
        "RuleConfigurationName": "overfit",
        "RuleEvaluationStatus": "IssuesFound",
        "LastModifiedTime": round(time.time() * 1000),
        "Severity": "warning",
        "Actions": ["Notify", "PublishMetric"],
        "Evidence": {"SinceStep": 4},
    }
    entry = {"Source": "trackside", "DetailType": "Rule Evaluation Status Change", "Detail": json.dumps(detail)}
    sent = account.client("events").put_events(Entries=[{**entry, "EventBusName": "team-vision"}])
    assert sent["FailedEntryCount"] == 0

    mails = eventually(account, lambda: sqs.receive_message(QueueUrl=inbox).get("Messages"), "the team is notified")
    assert "overfit in digits-01" in mails[0]["Body"]
    metrics = eventually(
        account, lambda: account.client("cloudwatch").list_metrics(Namespace="Trackside")["Metrics"], "it is counted"
    )
    assert {metric["MetricName"] for metric in metrics} == {"IssuesFound"}
    table = account.client("dynamodb")
    eventually(account, lambda: table.scan(TableName=outputs["RunTableName"])["Count"], "the verdict is recorded")
