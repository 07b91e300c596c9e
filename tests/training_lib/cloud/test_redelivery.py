"""What is redriven and replayed where not all of it goes well."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from trackside.cli import main
from trackside.cloud import calls
from trackside.cloud.redelivery import Redelivery

FIRST, LAST = (datetime(2026, 11, 21, hour, tzinfo=timezone.utc) for hour in (1, 2))
OUTPUTS = ("NotifyQueueUrl", "NotifyDeadLettersUrl", "StopTrainingQueueUrl", "StopTrainingDeadLettersUrl")


class Account:
    """All services in one: two functions with a dead letter each, and a bus with an archive."""

    def __init__(self, *, refused: str = "", replays: list[dict[str, str]] | None = None) -> None:
        self._refused, self._replays = refused, replays or []
        self.moved: list[str] = []
        self.started: list[str] = []

    def describe_stacks(self, **_: Any) -> Any:
        outputs = [{"OutputKey": name, "OutputValue": name} for name in (*OUTPUTS, "EventBusName")]
        return {"Stacks": [{"Outputs": outputs}]}

    def get_queue_attributes(self, **request: Any) -> Any:
        return {"Attributes": {"QueueArn": request["QueueUrl"], "ApproximateNumberOfMessages": "1"}}

    def start_message_move_task(self, **request: Any) -> Any:
        source = request["SourceArn"]
        if self._refused and self._refused in source:
            error = {"Code": "ResourceNotFoundException", "Message": "There is already a task running."}
            raise ClientError({"Error": error}, "StartMessageMoveTask")
        self.moved.append(source)
        return {"TaskHandle": "handle"}

    def describe_event_bus(self, **_: Any) -> Any:
        return {"Arn": "arn:bus"}

    def list_archives(self, **_: Any) -> Any:
        return {"Archives": [{"ArchiveName": "archive"}]}

    def describe_archive(self, **_: Any) -> Any:
        return {"ArchiveArn": "arn:archive"}

    def list_replays(self, **request: Any) -> Any:
        return {
            "Replays": [{**one, "ReplayName": f"{request['NamePrefix']}{one['ReplayName']}"} for one in self._replays]
        }

    def start_replay(self, **request: Any) -> None:
        self.started.append(request["ReplayName"])


def test_a_queue_that_cannot_be_redriven_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(refused="Notify")
    monkeypatch.setattr(calls, "_connect", lambda _: account)
    result = CliRunner().invoke(main, ["aws", "redrive", "--all", "--json"])
    rows = {row["function"]: row["redriven"] for row in json.loads(result.stdout)["queues"]}
    assert rows == {"notify": False, "stop_training": True}
    assert account.moved == ["StopTrainingDeadLettersUrl"]
    assert "notify: " in result.stderr
    assert "There is already a task running" in result.stderr
    assert result.exit_code == 4


@pytest.mark.parametrize(
    ("replays", "started"),
    [
        pytest.param([], [""], id="never asked for"),
        pytest.param([{"ReplayName": "", "State": "COMPLETED"}], [], id="done"),
        pytest.param([{"ReplayName": "", "State": "RUNNING"}], [], id="under way"),
        pytest.param([{"ReplayName": "", "State": "FAILED"}], ["-again-1"], id="failed"),
        pytest.param(
            [{"ReplayName": "", "State": "FAILED"}, {"ReplayName": "-again-1", "State": "CANCELLED"}],
            ["-again-2"],
            id="failed, then cancelled",
        ),
        pytest.param(
            [{"ReplayName": "", "State": "FAILED"}, {"ReplayName": "-again-1", "State": "COMPLETED"}],
            [],
            id="failed, then done",
        ),
    ],
)
def test_moments_are_replayed_once_unless_that_failed(replays: list[dict[str, str]], started: list[str]) -> None:
    account = Account(replays=replays)
    redelivery = Redelivery(client=lambda _: account, clock=lambda: LAST.timestamp() + 60)
    replay = redelivery.replay(FIRST, LAST)
    assert replay.is_new is bool(started)
    assert account.started == [f"trackside-20261121T010000-20261121T020000{end}" for end in started]
