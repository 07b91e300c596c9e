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
from trackside.contracts.errors import ConfigurationError

FIRST, LAST = (datetime(2026, 11, 21, hour, tzinfo=timezone.utc) for hour in (1, 2))
OUTPUTS = ("NotifyQueueUrl", "NotifyDeadLettersUrl", "StopTrainingQueueUrl", "StopTrainingDeadLettersUrl")


class Account:
    """All services in one: two functions with a dead letter each, and a bus with an archive."""

    def __init__(
        self,
        *,
        refused: str = "",
        replays: list[dict[str, str]] | None = None,
        archives: tuple[str, ...] = ("archive",),
    ) -> None:
        self._refused, self._replays, self._archives = refused, replays or [], archives
        self.moved: list[str] = []
        self.started: list[str] = []
        self.replayed_from: list[str] = []

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
        return {"Archives": [{"ArchiveName": name} for name in self._archives]}

    def describe_archive(self, **request: Any) -> Any:
        return {"ArchiveArn": f"arn:{request['ArchiveName']}"}

    def list_replays(self, **request: Any) -> Any:
        return {
            "Replays": [{**one, "ReplayName": f"{request['NamePrefix']}{one['ReplayName']}"} for one in self._replays]
        }

    def start_replay(self, **request: Any) -> None:
        self.started.append(request["ReplayName"])
        self.replayed_from.append(request["EventSourceArn"])


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


@pytest.mark.parametrize(
    ("archives", "wanted", "replayed"),
    [
        pytest.param(("only",), "", "arn:only", id="only one"),
        pytest.param(("ours", "theirs"), "theirs", "arn:theirs", id="named"),
    ],
)
def test_the_archive_is_the_only_one_or_the_named_one(archives: tuple[str, ...], wanted: str, replayed: str) -> None:
    account = Account(archives=archives)
    Redelivery(client=lambda _: account, clock=lambda: LAST.timestamp() + 60).replay(FIRST, LAST, archive=wanted)
    assert account.replayed_from == [replayed]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param("", "the bus has 2: ours, theirs. Name one: --archive ours", id="not named"),
        pytest.param("our", "'our' is no archive of the bus. Did you mean 'ours'?", id="misspelt"),
    ],
)
def test_one_of_several_archives_is_never_guessed(wanted: str, message: str) -> None:
    account = Account(archives=("ours", "theirs"))
    redelivery = Redelivery(client=lambda _: account, clock=lambda: LAST.timestamp() + 60)
    with pytest.raises(ConfigurationError) as refused:
        redelivery.replay(FIRST, LAST, archive=wanted)
    assert message in str(refused.value)
    assert account.started == []
