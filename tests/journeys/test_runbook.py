"""The runbook is followed: an outage makes dead letters, its commands put them right, and nothing is done twice."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from typing import Any

import pytest
from click.testing import CliRunner

from stacks.assembly import assembly
from tests.journeys.waiting import eventually
from trackside.cli import main
from trackside_localaccount.deploy import deploy
from trackside_localaccount.faults import Faults
from trackside_localaccount.provision import create_inbox
from trackside_localaccount.server import LocalAccount

ROOT = Path(__file__).parents[2]
RUNBOOK = ROOT / "docs" / "runbook.md"
COMMANDS = [
    line.strip()
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", RUNBOOK.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
pytestmark = pytest.mark.xdist_group("local-account")
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"


class Shell:
    """Follows the lines of the runbook: `trackside` by its own command line, `aws` by boto3's names for the same."""

    def __init__(self, account: LocalAccount, variables: dict[str, str]) -> None:
        self.account, self.variables = account, variables

    def run(self, line: str) -> str:
        words = shlex.split(Template(line).substitute(self.variables))
        if words[0] == "aws":
            return self._aws(words[1], words[2], words[3:])
        assert words[0] == "trackside"
        result = CliRunner().invoke(main, words[1:], env=self.account.environment(), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    def _aws(self, service: str, operation: str, options: list[str]) -> str:
        client = self.account.client(service)
        method = operation.replace("-", "_")
        shapes = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
        asked: dict[str, Any] = {}
        while options:
            name = options.pop(0).removeprefix("--").replace("-", "").lower()
            (member,) = [member for member in shapes.members if member.lower() == name]
            kind = shapes.members[member].type_name
            asked[member] = True if kind == "boolean" else options.pop(0)
            if kind == "integer":
                asked[member] = int(asked[member])
        return json.dumps(getattr(client, method)(**asked), default=str)

    def line(self, words: str) -> str:
        """The command of the runbook that begins so."""
        (found,) = {line for line in COMMANDS if line.startswith(words)}
        return str(found)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with LocalAccount(stop_grace_seconds=1) as account:
        stacks = deploy(assembly(), account)
        yield Shell(account, {name: value for outputs in stacks.values() for name, value in outputs.items()})


def issue(shell: Shell, name: str) -> None:
    detail = {
        "Version": 1,
        "TrainingJobName": name,
        "TrainingJobArn": f"{JOB}{name}",
        "RuleConfigurationName": "overfit",
        "RuleEvaluationStatus": "IssuesFound",
        "LastModifiedTime": round(time.time() * 1000),
        "Severity": "warning",
        "Actions": ["Notify"],
        "Evidence": {"SinceStep": 4},
    }
    entry = {
        "Source": "trackside",
        "DetailType": "Rule Evaluation Status Change",
        "Detail": json.dumps(detail),
        "EventBusName": shell.variables["EventBusName"],
    }
    assert shell.account.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def letters(shell: Shell) -> Mapping[str, int]:
    found = json.loads(shell.run("trackside aws redrive --all --dry-run --json"))
    return {row["function"]: row["dead_letters"] for row in found["queues"]}


def test_an_outage_is_put_right_by_redrive_and_replay_and_nobody_is_told_twice(shell: Shell) -> None:
    sqs = shell.account.client("sqs")
    inbox = create_inbox(shell.account, "inbox", shell.variables["IssueTopicArn"])
    mails: list[str] = []

    def told() -> list[str]:
        for message in sqs.receive_message(QueueUrl=inbox, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=inbox, ReceiptHandle=message["ReceiptHandle"])
            mails.append(message["Body"])
        return mails

    began = datetime.now(timezone.utc)  # noqa: TID251 - the account's archive goes by the same clock
    shell.account.faults.set(Faults(outage=("sns",)))
    issue(shell, "digits-01")
    eventually(shell.account, lambda: letters(shell)["notify"], "the message is given up")
    shell.account.faults.set(Faults())
    assert told() == []

    assert "notify" in shell.run(shell.line("trackside aws redrive --all --dry-run"))
    assert letters(shell)["notify"] == 1, "a dry run moves nothing"
    shell.run("trackside aws redrive --all")
    eventually(shell.account, told, "the owner is told after all")
    assert not any(letters(shell).values())

    shell.variables["OUTAGE_BEGAN"] = began.isoformat()
    eventually(
        shell.account,
        lambda: time.time() > began.timestamp() + 1,
        "the replay's end has another name than its beginning",
    )
    shell.variables["OUTAGE_ENDED"] = datetime.now(timezone.utc).isoformat()  # noqa: TID251 - likewise
    batches = len(shell.account.hops.find("queue-batch"))
    assert "has begun" in shell.run(shell.line("trackside aws replay"))
    eventually(shell.account, lambda: len(shell.account.hops.find("queue-batch")) > batches, "functions see it again")
    assert "asked for before" in shell.run(shell.line("trackside aws replay"))
    eventually(
        shell.account,
        lambda: shell.account.function_log(_notify(shell)).count("an earlier delivery did Notify"),
        "handled",
    )
    assert len(told()) == 1


def test_every_other_line_of_the_runbook_can_be_followed(shell: Shell) -> None:
    others = [line for line in COMMANDS if line.startswith("aws ")]
    assert len(others) >= 5
    for line in others:
        shell.run(line)
    switch = shell.account.client("ssm").get_parameter(Name=shell.variables["DryRunParameterName"])
    assert switch["Parameter"]["Value"] == "true"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param("redrive", "Name functions", id="nothing named"),
        pytest.param("redrive notfy", "Did you mean 'notify'", id="a name mistyped"),
        pytest.param("replay --from 2020-01-01 --to 2020-01-02", "would be repeated", id="too long ago"),
        pytest.param("replay --from 2020-01-02 --to 2020-01-01", "is not before", id="turned round"),
        pytest.param("replay --from yesterday --to 2020-01-01", "is no moment", id="no moment"),
        pytest.param("replay --from 2020-01-02 --to 2999-01-01", "still to come", id="the future"),
    ],
)
def test_what_makes_no_sense_is_refused(shell: Shell, words: str, says: str) -> None:
    result = CliRunner().invoke(main, ["aws", *words.split()], env=shell.account.environment())
    assert result.exit_code != 0
    assert says in result.output


def _notify(shell: Shell) -> str:
    functions = shell.account.client("lambda").list_functions()["Functions"]
    (name,) = [one["FunctionName"] for one in functions if one["Handler"].startswith("lambdas.notify_owner")]
    return str(name)
