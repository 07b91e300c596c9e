"""What a worker does with the runs that it leases: real processes, a table as moto has it, a clock that is turned."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from benchmarks.fleet_kills import create_lease_table
from tests.patience import HANGS_SECONDS
from trackside.cloud.fleet.inbox import Inbox
from trackside.cloud.fleet.judging import Judging
from trackside.cloud.fleet.leases import Leases, LeaseTerms
from trackside.cloud.fleet.run import metric_reporter
from trackside.cloud.fleet.worker import MOST_CRASHES, OUTAGE_SECONDS, Load, Worker, WorkerSettings
from trackside.contracts.deployment.lease import LeaseRecord, LeaseState, NewsRecord
from trackside.contracts.event import TrainingJob

TERMS = LeaseTerms(seconds=60, margin_seconds=15)
JOB = TrainingJob("digits", "arn:digits")
START = 1_000_000.0
# In place of an evaluator: says what it was told, leaves a message, and ends as it should.
ENDS = "import os, pathlib; f = pathlib.Path(os.environ['TRACKSIDE_ML_ROOT'], 'output', 'message'); f.parent.mkdir(); "
ENDS += "f.write_text('about ' + os.environ['TRACKSIDE_RUN']); raise SystemExit({code})"
WAITS = "import sys; sys.stdin.read()"  # until its worker is gone, or SIGTERM
LEAVES_OFF = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('on', flush=True); "
LEAVES_OFF += "signal.pause()"


# Of a fleet of three runs one misbehaves, by its name.
ONE = "import ctypes, os, pathlib, sys; name = os.environ['TRACKSIDE_RUN'].rpartition('/')[2]; "
HOLDS_THE_INTERPRETER = ONE + "name == 'odd' and ctypes.PyDLL(None).sleep(600); "
HOLDS_THE_INTERPRETER += "import time\nwhile True: pathlib.Path(os.environ['TRACKSIDE_ML_ROOT'], 'progress').touch(); "
HOLDS_THE_INTERPRETER += "time.sleep(0.05)"
FILLS_MEMORY = ONE + "kept = bytearray((400 if name == 'odd' else 20) << 20); kept[::4096] = kept[1::4096]; "
FILLS_MEMORY += "sys.stdin.read()"
ASKS_FOR_TOO_MUCH = ONE + "kept = bytearray((1 << 31) if name == 'odd' else 1); sys.stdin.read()"


class Fleet:
    """One worker, and all that it touches."""

    def __init__(self, program: str) -> None:
        self.now = START
        self.dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
        create_lease_table(self.dynamodb, "leases")
        self.queue, self.failed = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("runs", "failed"))
        self.sqs, self.judgings = sqs, list[Judging]()
        self.program, self.most_memory_bytes = program, 0
        self.worker = self.make("a")

    def make(self, owner: str, **settings: Any) -> Worker:
        return Worker(
            Leases(self.dynamodb, "leases", owner=owner, terms=TERMS),
            Inbox(self.sqs, queue_url=self.queue, failed_queue_url=self.failed),
            self._judge,
            WorkerSettings(**{"queue_wait_seconds": 0, "look_seconds": 1.0, "grace_seconds": 20.0, **settings}),
            clock=lambda: self.now,
        )

    def put(self, name: str = JOB.name, **more: Any) -> None:
        record = LeaseRecord(TrainingJob(name, f"arn:{name}"), f"s3://runs/{name}", free_at=START, **more)
        self.dynamodb.put_item(TableName="leases", Item=record.to_item())

    def lease(self, name: str = JOB.name) -> LeaseRecord:
        item = self.dynamodb.get_item(TableName="leases", Key={"pk": {"S": f"arn:{name}"}})["Item"]
        return LeaseRecord.from_item(item)

    def turn_until(self, is_so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + HANGS_SECONDS
        while not is_so():
            assert time.monotonic() < deadline
            self.worker.turn()

    def failures(self) -> list[dict[str, Any]]:
        found = self.sqs.receive_message(QueueUrl=self.failed, MaxNumberOfMessages=10).get("Messages", ())
        return [json.loads(message["Body"])["detail"] for message in found]

    def close(self) -> None:
        for judging in self.judgings:
            judging.kill()
            judging.close()

    def _judge(self, lease: LeaseRecord) -> Judging:
        command = [sys.executable, "-S", "-c", self.program]
        self.judgings.append(Judging(lease, command, most_memory_bytes=self.most_memory_bytes))
        return self.judgings[-1]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Fleet]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    made: list[Fleet] = []

    def make(program: str) -> Fleet:
        made.append(Fleet(program))
        return made[-1]

    with mock_aws():
        yield make
        for each in made:
            each.close()


def test_a_run_that_was_judged_is_done(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(ENDS.format(code=0))
    ours.put()
    ours.turn_until(lambda: not ours.lease().is_open)
    assert (ours.lease().state, ours.lease().reason) == (LeaseState.DONE, "about s3://runs/digits")
    assert ours.failures() == []
    assert ours.worker.load.judged == 0


@pytest.mark.parametrize("code", [2, 5])
def test_what_would_repeat_fails_and_somebody_is_told(fleet: Callable[[str], Fleet], code: int) -> None:
    ours = fleet(ENDS.format(code=code))
    ours.put()
    ours.turn_until(lambda: not ours.lease().is_open)
    assert ours.lease().state is LeaseState.FAILED
    (failures,) = ours.failures()
    assert (failures["TrainingJobName"], failures["ExitMessage"]) == ("digits", "about s3://runs/digits")


@pytest.mark.parametrize("code", [1, 3, 4, 6])
def test_what_broke_off_is_tried_again_later(fleet: Callable[[str], Fleet], code: int) -> None:
    ours = fleet(ENDS.format(code=code))
    ours.put()
    ours.turn_until(lambda: ours.lease().crashes == 1)
    lease = ours.lease()
    assert (lease.owner, lease.is_open, lease.free_at) == ("", True, START + 30)
    ours.now = START + 30
    ours.turn_until(lambda: ours.lease().crashes == 2)
    assert ours.lease().free_at == START + 90, "twice as long as before"
    assert ours.failures() == []


def test_what_breaks_off_again_and_again_is_given_up(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.put(crashes=MOST_CRASHES, owner="a worker that was lost")
    ours.turn_until(lambda: not ours.lease().is_open)
    assert ours.judgings == [], "not tried once more"
    assert "6 times in a row" in ours.failures()[0]["ExitMessage"]


def test_a_lease_is_renewed_while_the_run_is_judged(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.put()
    ours.turn_until(lambda: ours.lease().owner)
    for seconds in (20, 40, 60, 80):
        ours.now = START + seconds
        ours.worker.turn()
        assert ours.lease().free_at == START + seconds + 60
    assert ours.lease().token == 1


def test_who_lost_a_lease_ends_its_process_and_leaves_the_item_alone(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.put()
    ours.turn_until(lambda: ours.lease().owner)
    ours.now = START + 100  # it was frozen, and the other was not
    other = Leases(ours.dynamodb, "leases", owner="b", terms=TERMS)
    assert other.take(ours.lease(), now=ours.now)
    ours.worker.turn()
    assert ours.judgings[0].ended() is not None
    assert (ours.lease().owner, ours.lease().token) == ("b", 2)


def test_no_more_runs_than_there_is_room_for(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.worker = ours.make("a", runs=2)
    for name in ("one", "two", "three"):
        ours.put(name)
    ours.turn_until(lambda: ours.worker.load.judged)
    assert ours.worker.load == Load(judged=2, room=2, waiting=1, longest_wait_seconds=0.0)
    ours.now += 5
    ours.worker.turn()
    assert (ours.worker.load.waiting, ours.worker.load.longest_wait_seconds) == (1, 5.0)


def test_an_announced_run_is_taken_and_the_announcement_forgotten(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.worker = ours.make("a", look_seconds=1e9)
    ours.worker.turn()  # has looked into the table, and will not for long
    ours.put()
    for body in ('{"TrainingJobArn": "arn:digits"}', '{"TrainingJobArn": "arn:unknown"}', "no announcement"):
        ours.sqs.send_message(QueueUrl=ours.queue, MessageBody=body)
    ours.turn_until(lambda: ours.worker.load.judged)
    ours.worker.turn()
    names = ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessages"]
    counts = ours.sqs.get_queue_attributes(QueueUrl=ours.queue, AttributeNames=names)["Attributes"]
    assert sum(map(int, counts.values())) == 1, "what is none goes to the dead letters"


def test_sigterm_hands_everything_back(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(LEAVES_OFF)
    ours.put()
    ours.turn_until(lambda: ours.lease().owner)
    ours.worker.work(should_stop=lambda: True, sleep=lambda seconds: None)
    lease = ours.lease()
    assert (lease.owner, lease.is_open, lease.free_at, lease.crashes) == ("", True, START, 0)
    assert ours.judgings[0].ended() is not None


def test_news_wake_the_run_that_they_are_about(fleet: Callable[[str], Fleet], monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    monkeypatch.setattr(Judging, "look_now", lambda self: woken.append(self.lease.job.name))
    ours = fleet(WAITS)
    ours.worker = ours.make("a", news_seconds=5.0)
    ours.put("one")
    ours.put("two")
    ours.turn_until(lambda: ours.worker.load.judged)
    ours.dynamodb.put_item(TableName="leases", Item=NewsRecord("s3://runs/two", START).to_item())
    for seconds in (5, 6, 10, 15):
        ours.now = START + seconds
        ours.worker.turn()
    assert woken == ["two"], "once for each news"


def test_an_outage_is_waited_out(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.put()
    ours.turn_until(lambda: ours.lease().owner)
    ours.dynamodb.delete_table(TableName="leases")
    turns = iter([False, False, True])
    ours.now = START + 20
    ours.worker.work(should_stop=lambda: next(turns), sleep=lambda seconds: setattr(ours, "now", ours.now + 1))
    assert ours.judgings[0].ended() is not None


def test_the_load_is_a_line_that_cloudwatch_reads() -> None:
    stream = io.StringIO()
    metric_reporter(stream, fleet="trackside", clock=lambda: 5.0)(Load(3, 4, 2, 7.25))
    line = json.loads(stream.getvalue())
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert line["_aws"]["Timestamp"] == 5000
    assert (directive["Namespace"], directive["Dimensions"]) == ("Trackside/Fleet", [["Fleet"]])
    failures = {metric["Name"]: line[metric["Name"]] for metric in directive["Metrics"]}
    assert failures == {"WorkerLoad": 75.0, "JudgedRuns": 3, "WaitingRuns": 2, "LongestWait": 7.2}
    assert line["Fleet"] == "trackside"


class Down:
    """A service that cannot be reached, or one that refuses what is about the run of that name."""

    def __init__(self, client: Any, *operations: str, about: str = "") -> None:
        self._client, self._operations, self._about = client, operations, about

    def __getattr__(self, name: str) -> Any:
        def call(**request: Any) -> Any:
            if name in self._operations and self._about in str(request):
                raise EndpointConnectionError(endpoint_url="https://down")
            return getattr(self._client, name)(**request)

        return call


def test_an_outage_of_the_queue_does_not_hide_the_table(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.sqs = Down(ours.sqs, "receive_message")
    ours.worker = ours.make("a")
    ours.put()
    ours.worker.turn()
    assert ours.lease().owner == "a"


def test_a_run_whose_lease_cannot_be_renewed_does_not_cost_others_theirs(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(WAITS)
    ours.put("first")
    ours.put("second")
    ours.turn_until(lambda: ours.worker.load.judged == 2)
    ours.dynamodb = Down(ours.dynamodb, "update_item", about="arn:first")
    ours.worker._leases._client = ours.dynamodb
    ours.now = START + 25
    ours.worker.turn()
    assert (ours.lease("first").free_at, ours.lease("second").free_at) == (START + 60, START + 85)


@pytest.mark.parametrize("announced", [True, False])
def test_an_item_that_cannot_be_read_harms_no_other_run(fleet: Callable[[str], Fleet], announced: bool) -> None:
    ours = fleet(WAITS)
    item = {**LeaseRecord(TrainingJob("odd", "arn:odd"), "s3://runs/odd", free_at=START - 1).to_item()}
    item["state"] = {"S": "of a later version"}
    ours.dynamodb.put_item(TableName="leases", Item=item)
    ours.put()
    if announced:
        ours.sqs.send_message(QueueUrl=ours.queue, MessageBody=json.dumps({"TrainingJobArn": "arn:odd"}))
    ours.worker.turn()
    assert ours.lease().owner == "a"


def test_whoever_must_be_told_is_told_after_an_outage_of_that_queue(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet(ENDS.format(code=2))
    up, ours.sqs = ours.sqs, Down(ours.sqs, "send_message")
    ours.worker = ours.make("a")
    ours.put()
    deadline = time.monotonic() + HANGS_SECONDS
    while ours.lease().is_open:
        assert time.monotonic() < deadline
        ours.worker.turn()
    assert ours.failures() == []
    ours.worker._inbox._client = ours.sqs = up
    ours.worker.turn()
    assert ours.failures() == [], "not at each turn"
    ours.now += OUTAGE_SECONDS
    ours.worker.turn()
    assert [failures["TrainingJobName"] for failures in ours.failures()] == ["digits"]
    ours.worker.turn()
    assert ours.failures() == []


@pytest.mark.parametrize(
    ("program", "limits", "most_memory_bytes", "message"),
    [
        pytest.param(
            HOLDS_THE_INTERPRETER, {"silent_seconds": 2.0}, 0, "made no progress", id="a call in C, which hears nothing"
        ),
        pytest.param(
            FILLS_MEMORY, {"most_memory_bytes": 256 << 20}, 0, "MB of memory", id="more memory than the runs may take"
        ),
        pytest.param(ASKS_FOR_TOO_MUCH, {}, 512 << 20, "(1)", id="one allocation beyond the limit fails by itself"),
    ],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of other processes are Linux's")
def test_a_run_that_hangs_or_fills_the_memory_costs_no_other_run(
    fleet: Callable[[str], Fleet],
    caplog: pytest.LogCaptureFixture,
    *,
    program: str,
    limits: dict[str, Any],
    most_memory_bytes: int,
    message: str,
) -> None:
    ours = fleet(program)
    ours.most_memory_bytes = most_memory_bytes
    ours.worker = ours.make("a", **limits)
    for name in ("one", "odd", "two"):
        ours.put(name)
    ours.turn_until(lambda: ours.lease("odd").crashes == 1)
    assert message in next(text for text in caplog.messages if "odd broke off" in text)
    assert [ours.lease(name).owner for name in ("one", "odd", "two")] == ["a", "", "a"]
    assert sum(judging.ended() is None for judging in ours.judgings) == 2
    assert ours.lease("odd").is_open, "it is tried again"


def test_a_process_that_does_not_listen_holds_up_nobody(fleet: Callable[[str], Fleet]) -> None:
    ours = fleet("import time; time.sleep(3600)")
    ours.put()
    ours.turn_until(lambda: ours.judgings)
    judging, done = ours.judgings[0], threading.Event()

    def report() -> None:
        for _ in range(20_000):  # more than a pipe holds
            judging.look_now()
        done.set()

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    assert done.wait(HANGS_SECONDS)
    thread.join()
    ours.turn_until(lambda: ours.lease().crashes == 1)
