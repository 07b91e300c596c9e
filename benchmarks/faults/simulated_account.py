"""An account in one process under a simulated clock: the functions' own handlers, behind queues, under faults.

Real are the handlers, their wiring (`wiring.py`) and DynamoDB's conditions (moto). Everything else that functions call
is written here, and keeps a record of what was done; what the handlers never call does not exist.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import heapq
import importlib
import io
import json
import logging
import os
import random
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import Any
from unittest import mock

import boto3
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from benchmarks.faults.quick_tables import quick_tables
from benchmarks.faults.wiring import Function, Wiring
from lambdas.shared.clients import client
from lambdas.shared.observability import logger, metrics
from lambdas.start_evaluation import started
from trackside.contracts.deployment.metrics import ISSUE_METRIC
from trackside.contracts.deployment.run_table import SHELVES
from trackside_localaccount.event_pattern import matches
from trackside_localaccount.faults import CallFault, Faults, FaultSwitch

STOPPING_SECONDS = 60.0
STALE_SECONDS = 60.0
RESUMED_SECONDS = 5400.0  # after which a job that goes on in another's place ends by itself
TICK_SECONDS = 5.0  # what becomes visible within one is handed out together, in batches
BATCH = 10
REGION = "us-east-1"
_DYNAMODB = "dynamodb"
_READS = ("BatchGetItem", "GetItem", "Query")


class ProcessDied(BaseException):
    """The function's process is gone: no handler may catch it."""


@dataclass(order=True)
class _Message:
    visible_at: float
    number: int
    body: str = field(compare=False)
    received: int = field(default=0, compare=False)


@dataclass
class _Queue:
    function: Function
    waiting: list[_Message] = field(default_factory=list)
    dead: list[_Message] = field(default_factory=list)


@dataclass
class Job:
    """A training job in the simulated SageMaker. `ends_at`: when it would end by itself. `when_judged`: what happens
    once it has an evaluator."""

    name: str
    tags: Mapping[str, str]
    created_at: float
    ends_at: float
    statuses: list[dict[str, Any]] = field(default_factory=list)
    stops: int = 0  # StopTrainingJob calls of ours that were granted
    stop_asked_at: float | None = None  # when the first was, of whomever
    stopped_at: float | None = None
    when_judged: Callable[[], None] | None = None
    role: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    place_of: Job | None = None  # the job in whose place it goes on

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{REGION}:123456789012:training-job/{self.name}"

    def status(self, now: float) -> str:
        if self.stop_asked_at is not None and now >= self.stop_asked_at:
            return "Stopped" if self.stopped_at is not None and now >= self.stopped_at else "Stopping"
        return "Completed" if now >= self.ends_at else "InProgress"

    def description(self, now: float) -> dict[str, Any]:
        """As DescribeTrainingJob has it; moments are `datetime`."""
        status = self.status(now)
        ended = {"InProgress": None, "Stopping": None, "Completed": self.ends_at, "Stopped": self.stopped_at}[status]
        transitions = [{"Status": "Training", "StartTime": _moment(self.created_at)}]
        if status != "InProgress":
            since = self.ends_at if status == "Completed" else self.stop_asked_at or now
            transitions.append({"Status": status, "StartTime": _moment(since)})
        return {
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": status,
            "SecondaryStatus": {"InProgress": "Training"}.get(status, status),
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86_400},
            "RoleArn": self.role,
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://anywhere"},
            "CheckpointConfig": {"S3Uri": f"s3://anywhere/{self.name}"},
            "Environment": dict(self.variables),
            "CreationTime": _moment(self.created_at),
            "TrainingStartTime": _moment(self.created_at),
            "LastModifiedTime": _moment(ended or self.created_at),
            "SecondaryStatusTransitions": transitions,
            **({"TrainingEndTime": _moment(ended)} if ended else {}),
            **({"DebugRuleEvaluationStatuses": self.statuses} if self.statuses else {}),
        }


@dataclass
class Done:
    """What functions did to the world."""

    mails: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))  # job -> messages
    notes: Counter[str] = field(default_factory=Counter)  # job -> messages about what followed a stop
    counts: Counter[str] = field(default_factory=Counter)  # job -> issues counted
    evaluators: dict[str, tuple[Job, float]] = field(default_factory=dict)  # name of one -> its job, its start
    end_markers: Counter[str] = field(default_factory=Counter)  # key -> times written
    repeatable: Counter[str] = field(default_factory=Counter)  # job -> times that nobody can know whether it was told
    late: set[Any] = field(default_factory=set)  # (job, second of creation) of requests to stop one that was deleted


class SimulatedAccount:
    """`with SimulatedAccount(wiring, ...) as account`. One at a time in a process."""

    def __init__(self, wiring: Wiring, *, faults: Faults, started_at: float, settings: Mapping[str, str]) -> None:
        self.now = started_at
        self.switch = FaultSwitch(faults)
        self.jobs: dict[str, Job] = {}  # by name, those that were not deleted
        self.done = Done()
        self.when_created: Callable[[Job], None] | None = None  # of a job that a function created
        self.reached: Counter[tuple[str, str]] = Counter()  # (job, function) -> deliveries that arrived
        self.handled: Counter[str] = Counter()
        self.deaths = 0
        self._wiring, self._settings = wiring, settings
        self._queues = {name: _Queue(function) for name, function in wiring.functions.items()}
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._lives: dict[tuple[str, int], Job] = {}  # (ARN, second of creation) -> job
        self._answers: dict[str, Any] = {}  # of DynamoDB, by request, for reads that need not be consistent
        self._random = random.Random(faults.seed)  # noqa: S311 - repeatable, not secret
        self._subject = ""  # the job that the call at hand is about
        self._notified_job = ""  # the job that somebody was told of in the call before
        self._open = contextlib.ExitStack()

    # Life -------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> SimulatedAccount:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TRACKSIDE_"))}  # noqa: TID251 - it stands for Lambda's
        named = {f"AWS_{name}": "testing" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")}
        enter = self._open.enter_context
        environment = {**clean, **named, "AWS_DEFAULT_REGION": REGION, "POWERTOOLS_TRACE_DISABLED": "true"}
        enter(mock.patch.dict(os.environ, environment, clear=True))  # noqa: TID251 - it stands for Lambda's
        enter(mock_aws())
        enter(quick_tables())
        client.cache_clear()
        started.forget_all()  # of another account
        self._open.callback(client.cache_clear)
        self._create_tables()
        self._handlers = {name: _handler(name) for name in self._queues}
        enter(mock.patch.object(time, "time", self._read_clock))
        enter(mock.patch.object(time, "sleep"))  # nobody waits here
        for module in [name for name in sys.modules if name.startswith("aws_lambda_powertools.utilities.idempotency")]:
            self._set_clock_of(module, enter)
        self._open.callback(logger.setLevel, logger.log_level)
        logger.setLevel(logging.CRITICAL)  # what failed is seen in what came of it
        for service in (_DYNAMODB, "s3", "sagemaker", "sns", "sqs", "ssm", "events"):
            self._listen(service)
        for name, seconds in self._wiring.every_seconds.items():
            self._tick_every(name, seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._open.close()

    def _read_clock(self) -> float:
        return self.now

    def _set_clock_of(self, module: str, enter: Callable[[Any], Any]) -> None:
        account = self

        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                return datetime.datetime.fromtimestamp(account.now, tz)

        clock = SimpleNamespace(datetime=Clock, timedelta=datetime.timedelta)
        for name in ("dt", "datetime"):
            if getattr(sys.modules[module], name, None) is datetime:
                enter(mock.patch.object(sys.modules[module], name, clock))

    def _create_tables(self) -> None:
        self._tables = dynamodb = boto3.client(_DYNAMODB)
        dynamodb.create_table(
            TableName="done",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        kinds = {"pk": "S", "sk": "S", "shelf": "S", "created_at": "N"}
        dynamodb.create_table(
            TableName="runs",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()],
            KeySchema=_key("pk", "sk"),
            GlobalSecondaryIndexes=[
                {
                    "IndexName": SHELVES,
                    "KeySchema": _key("shelf", "created_at"),
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    # Training jobs ----------------------------------------------------------------------------------------------------

    def create_job(self, job: Job) -> None:
        """A training job, which takes the place of one of that name: that was deleted."""
        self._lives[job.arn, int(job.created_at)] = self.jobs[job.name] = job

    def stop_by_person(self, job: Job) -> None:
        """A person stops the job, if it still runs."""
        if job.status(self.now) == "InProgress":
            self._stop(job)

    # What happens, and when -------------------------------------------------------------------------------------------

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Does it then."""
        self._number += 1
        heapq.heappush(self._later, (moment, self._number, act))

    def put_event(self, bus: str, event: Mapping[str, Any]) -> None:
        """EventBridge takes the event, unless it is lost on its way there."""
        if self.switch.drops(str(event["source"]), str(event["id"])):
            return
        for rule in self._wiring.rules:
            if rule.bus != bus or not matches(rule.pattern, event):
                continue
            for function in rule.functions:
                copies = self.switch.delivery()
                self.reached[event["detail"]["TrainingJobName"], function] += len(copies)
                if function == "stop_training":
                    self.at(self.now + min(copies), partial(self._note_if_deleted, event["detail"]))
                for pause in copies:
                    self.send(function, json.dumps(event), after_seconds=pause)

    def _note_if_deleted(self, detail: Mapping[str, Any]) -> None:
        """The first copy of a request to stop arrives now, and its job may be gone: then nobody can stop it."""
        name, created_at = detail["TrainingJobName"], detail.get("TrainingJobCreationTime", 0) // 1000
        if created_at and int(self.jobs[name].created_at) != created_at:
            self.done.late.add((name, created_at))

    def send(self, queue: str, body: str, *, after_seconds: float = 0.0) -> None:
        """A message into a function's queue."""
        self._number += 1
        heapq.heappush(self._queues[queue].waiting, _Message(self.now + after_seconds, self._number, body))

    def run_until(self, moment: float) -> None:
        """Lets time pass, and everything happen that is due."""
        while self.now < moment:
            due = [self._later[0][0]] if self._later else []
            due += [queue.waiting[0].visible_at for queue in self._queues.values() if queue.waiting]
            self.now = min(moment, max(self.now + TICK_SECONDS, min(due, default=moment)))
            while self._later and self._later[0][0] <= self.now:
                heapq.heappop(self._later)[2]()
            for name in self._random.sample(sorted(self._queues), len(self._queues)):
                self._serve(name)

    def redrive(self) -> int:
        """Puts dead letters back, as `trackside aws redrive --all` does. Returns how many."""
        moved = 0
        for queue in self._queues.values():
            for message in queue.dead:
                self.send(queue.function.name, message.body)
            moved += len(queue.dead)
            queue.dead.clear()
        return moved

    def dead_letters(self) -> list[str]:
        """Bodies of the messages that were given up."""
        return [message.body for queue in self._queues.values() for message in queue.dead]

    def waiting(self) -> int:
        """Messages that were not handled yet."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def items(self, arn: str, prefix: str) -> list[Mapping[str, Any]]:
        """What the table of runs holds of a job."""
        page = self._tables.query(
            TableName="runs",
            KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
            ExpressionAttributeValues={":pk": {"S": arn}, ":prefix": {"S": prefix}},
        )
        return list(page["Items"])

    def put_item(self, item: Mapping[str, Any]) -> None:
        """A person writes into the table of runs."""
        self._tables.put_item(TableName="runs", Item=item)

    def send_state(self, job: Job) -> None:
        """SageMaker's event: the job is in another state, or said so again."""
        detail = {name: _plain(value) for name, value in job.description(self.now).items()}
        event = {
            "id": str(uuid.UUID(int=self._random.getrandbits(128))),
            "source": "aws.sagemaker",
            "detail-type": "SageMaker Training Job State Change",
            "time": _written(self.now),
            "detail": {**detail, "Tags": dict(job.tags)},
        }
        self.put_event("default", event)

    def _tick_every(self, name: str, seconds: float) -> None:
        def tick() -> None:
            schedule = {
                "source": "aws.events",
                "detail-type": "Scheduled Event",
                "time": _written(self.now),
                "detail": {},
            }
            event = {"id": f"{name}-{self.now}", **schedule}
            self.send(name, json.dumps(event))
            self.at(self.now + seconds, tick)

        self.at(self.now + seconds, tick)

    # Functions --------------------------------------------------------------------------------------------------------

    def _serve(self, name: str) -> None:
        queue = self._queues[name]
        visible = []
        while queue.waiting and queue.waiting[0].visible_at <= self.now:
            visible.append(heapq.heappop(queue.waiting))
        self._random.shuffle(visible)
        for first in range(0, len(visible), BATCH):
            self._run_batch(queue, visible[first : first + BATCH])

    def _run_batch(self, queue: _Queue, batch: list[_Message]) -> None:
        for message in batch:
            message.received += 1
        failed = self._invoke(queue.function, batch)
        for message in batch:
            is_back = str(message.number) in failed or self.switch.redelivers()
            if not is_back:
                self.handled[queue.function.name] += 1
            elif message.received >= queue.function.attempts:
                queue.dead.append(message)
            else:
                message.visible_at = self.now + queue.function.visibility_seconds
                heapq.heappush(queue.waiting, message)

    def _invoke(self, function: Function, batch: list[_Message]) -> set[str]:
        """The numbers of the messages that return to the queue."""
        records = [_record(message) for message in batch]
        variables = {**function.variables, **self._settings}
        with (
            mock.patch.dict(os.environ, variables),  # noqa: TID251 - it stands for Lambda's
            contextlib.redirect_stdout(_Log(self._read_log)),
        ):
            try:
                answer = self._handlers[function.name]({"Records": records}, _Context())
            except ProcessDied:
                self.deaths += 1
                started.forget_all()
                metrics.clear_metrics()
                return {str(message.number) for message in batch}
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    # Services ---------------------------------------------------------------------------------------------------------

    def _listen(self, service: str) -> None:  # noqa: C901 - three hooks of one call, which share what befalls it
        events = client(service).meta.events
        fault: list[CallFault | None] = [None]

        def before(model: Any, params: Any, **_: Any) -> Any:
            fault[0] = self.switch.call(service)
            notified, self._notified_job = self._notified_job, ""
            if notified and fault[0]:  # it was told, and may not be remembered
                self.done.repeatable[notified] += 1
            if fault[0] is CallFault.CRASH_BEFORE:
                raise ProcessDied
            if fault[0] is CallFault.OUTAGE:
                return _refusal("ServiceUnavailable", status=503)
            if fault[0] is CallFault.THROTTLE:
                return _refusal("ThrottlingException")
            if service == _DYNAMODB:
                return self._stale_answer(model.name, context["params"])  # None: moto answers
            return self._answer(service, model.name, context["params"])

        def note(params: Any, **_: Any) -> None:
            context["params"] = params

        def after(http_response: Any, parsed: Any, model: Any, **_: Any) -> None:
            taken, fault[0] = fault[0], None
            if service == _DYNAMODB and http_response.status_code < 300:
                self._keep_answer(model.name, context["params"], parsed)
            if service == "sns" and http_response.status_code < 300:
                self._notified_job = self._subject
            if taken not in (CallFault.CRASH_AFTER, CallFault.LOST_ANSWER) or http_response.status_code >= 300:
                return
            if service == "sns":
                self.done.repeatable[self._subject] += 1
                self._notified_job = ""
            if taken is CallFault.CRASH_AFTER:
                raise ProcessDied
            raise ReadTimeoutError(endpoint_url=f"https://{service}.local")

        context: dict[str, Any] = {}
        events.register(f"provide-client-params.{service}", note)
        events.register_first(f"before-call.{service}", before)
        events.register_first(f"after-call.{service}", after)

    def _stale_answer(self, operation: str, request: Mapping[str, Any]) -> Any:
        """The answer to the same request before, now and then; None: as things are now."""
        if operation not in _READS or request.get("ConsistentRead") or not self.switch.is_stale():
            return None
        earlier = self._answers.get(_request_key(operation, request))
        return None if earlier is None else (SimpleNamespace(status_code=200), copy.deepcopy(earlier))

    def _keep_answer(self, operation: str, request: Mapping[str, Any], answer: Any) -> None:
        if self.switch.faults.stale and operation in _READS and not request.get("ConsistentRead"):
            self._answers[_request_key(operation, request)] = copy.deepcopy(answer)

    def _answer(self, service: str, operation: str, request: Mapping[str, Any]) -> Any:
        answer = getattr(self, f"_{service}_{_snake(operation)}", None)
        if answer is None:
            raise NotImplementedError(f"The simulated account has no {service}:{operation}: write it.")
        try:
            return SimpleNamespace(status_code=200), {"ResponseMetadata": {}, **(answer(request) or {})}
        except _Refused as error:
            return _refusal(error.code, error.message)

    def _sns_publish(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        attributes = {name: value["StringValue"] for name, value in request.get("MessageAttributes", {}).items()}
        self._subject = attributes.get("job") or request["Message"].rpartition("training-job/")[2].strip()
        if "finding" in attributes:
            self.done.mails[self._subject].append({"subject": request.get("Subject", ""), **attributes})
        else:
            self.done.notes[self._subject] += 1
        return {"MessageId": "message"}

    def _read_log(self, text: str) -> None:
        """Count the issue in a line of the log, as CloudWatch does."""
        if '"_aws"' in text and ISSUE_METRIC in (record := json.loads(text)):
            self._subject = self._notified_job = record["TrainingJobName"]
            self.done.counts[self._subject] += record[ISSUE_METRIC]

    def _ssm_get_parameter(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"Parameter": {"Name": request["Name"], "Value": "false"}}

    def _sqs_send_message(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.send(request["QueueUrl"], request["MessageBody"], after_seconds=float(request.get("DelaySeconds", 0)))
        return {"MessageId": "message"}

    def _s3_put_object(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request.get("IfNoneMatch") == "*" and self.done.end_markers[request["Key"]]:
            raise _Refused("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        self.done.end_markers[request["Key"]] += 1
        return {"ETag": "tag"}

    def _s3_list_objects_v2(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Every evaluator gives signs of life."""
        return {"Contents": [{"Key": request["Prefix"], "LastModified": _moment(self.now)}]}

    def _s3_get_object(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        raise _Refused("NoSuchKey", "The specified key does not exist.")

    def _sagemaker_create_processing_job(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name, variables = request["ProcessingJobName"], request["Environment"]
        if name in self.done.evaluators:
            raise _Refused("ResourceInUse", f"{name} exists.")
        job = self._lives[variables["TRAINING_JOB_ARN"], int(variables["TRAINING_JOB_CREATED_AT"])]
        self.done.evaluators[name] = job, self.now
        if job.when_judged:
            job.when_judged()
        return {"ProcessingJobArn": name}

    def _sagemaker_describe_processing_job(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["ProcessingJobName"] not in self.done.evaluators:
            raise _Refused("ValidationException", "Could not find requested job.")
        _, began = self.done.evaluators[request["ProcessingJobName"]]
        return {"ProcessingJobStatus": "InProgress", "CreationTime": _moment(began)}

    def _sagemaker_describe_training_job(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._job(request["TrainingJobName"]).description(self._read_time())

    def _sagemaker_list_training_jobs(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        seen = self._read_time()
        running = [job for job in self.jobs.values() if job.created_at <= seen and job.status(seen) == "InProgress"]
        running.sort(key=lambda job: -job.created_at)
        first, size = int(request.get("NextToken", 0)), int(request["MaxResults"])
        page = [
            {"TrainingJobName": job.name, "TrainingJobArn": job.arn, "CreationTime": _moment(job.created_at)}
            for job in running[first : first + size]
        ]
        more = {"NextToken": str(first + size)} if len(running) > first + size else {}
        return {"TrainingJobSummaries": page, **more}

    def _sagemaker_list_tags(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        job = self._job(request["ResourceArn"].rpartition("/")[2])
        return {"Tags": [{"Key": name, "Value": value} for name, value in job.tags.items()]}

    def _sagemaker_stop_training_job(self, request: Mapping[str, Any]) -> None:
        job = self._job(request["TrainingJobName"])
        status = job.status(self.now)
        if status != "InProgress":
            message = f"The request was rejected because the training job is in status {status}."
            raise _Refused("ValidationException", message)
        job.stops += 1
        self._stop(job)

    def _sagemaker_create_training_job(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name, tags = request["TrainingJobName"], {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        if name in self.jobs:
            raise _Refused("ResourceInUse", f"{name} exists.")
        arn, _, created_at = tags["trackside:resumed-from"].partition("@")
        before = self._lives[arn, int(created_at)]
        job = Job(name, tags, self.now, self.now + RESUMED_SECONDS, role=request["RoleArn"], place_of=before)
        job.variables = request["Environment"]
        self.create_job(job)
        for after in (30.0, 90.0, RESUMED_SECONDS):
            self.at(self.now + after, partial(self.send_state, job))
        if self.when_created:
            self.when_created(job)
        return {"TrainingJobArn": job.arn}

    def _stop(self, job: Job) -> None:
        job.stop_asked_at, job.stopped_at = self.now, self.now + STOPPING_SECONDS
        self.at(job.stopped_at, lambda: self.send_state(job))

    def _job(self, name: str) -> Job:
        if name not in self.jobs or self.jobs[name].created_at > self.now:
            raise _Refused("ValidationException", "Requested resource not found.")
        return self.jobs[name]

    def _read_time(self) -> float:
        """The moment that an answer of SageMaker shows: reads are not consistent."""
        return self.now - self._random.uniform(0, STALE_SECONDS) if self.switch.is_stale() else self.now


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class _Log(io.TextIOBase):
    """The log of a function: hands on each text."""

    def __init__(self, read: Callable[[str], None]) -> None:
        self._read = read

    def write(self, text: str) -> int:
        self._read(text)
        return len(text)


@dataclass
class _Context:
    function_name: str = "reaction"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:reaction"
    aws_request_id: str = "c0ffee00-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def _handler(name: str) -> Callable[[Any, Any], Any]:
    handle: Callable[[Any, Any], Any] = importlib.import_module(f"lambdas.{name}.handler").handle
    return handle


def _record(message: _Message) -> dict[str, Any]:
    return {
        "messageId": str(message.number),
        "receiptHandle": "handle",
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.received)},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:queue",
        "awsRegion": REGION,
    }


def _refusal(code: str, message: str = "Rate exceeded", *, status: int = 400) -> tuple[Any, dict[str, Any]]:
    return SimpleNamespace(status_code=status), {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


def _written(seconds: float) -> str:
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _key(hash_name: str, range_name: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_name, "KeyType": "HASH"}, {"AttributeName": range_name, "KeyType": "RANGE"}]


def _request_key(operation: str, request: Mapping[str, Any]) -> str:
    return f"{operation} {json.dumps(request, sort_keys=True)}"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
