"""Repairs of moto (5.2.5) that make it deliver, run and evaluate. CloudFormation's are in `moto_cloudformation`.

A repair replaces one function of moto's in this process. It acts only while a local account is attached: otherwise
what moto itself would do happens, so that `mock_aws` tests in the same process see stock moto. Each names the defect,
and has a test on stock moto that tells when upstream no longer needs it.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from moto.awslambda.exceptions import InvalidParameterValueException
from moto.awslambda.models import LambdaBackend, LambdaFunction, LambdaStorage
from moto.cloudwatch.models import CloudWatchBackend
from moto.core.parse import RequestParserError
from moto.core.responses import ActionResult, BaseResponse
from moto.dynamodb.responses import DynamoHandler
from moto.events.exceptions import InvalidEventPatternException
from moto.events.models import EventPattern, EventPatternParser, Rule
from moto.events.responses import EventsHandler
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend
from moto.iam.responses import IamResponse
from moto.s3.models import S3Backend
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse
from moto.sns.models import Subscription
from moto.sqs.models import Queue, SQSBackend
from moto.sqs.responses import SQSResponse

from trackside_localaccount import moto_cloudformation
from trackside_localaccount.alarm_state import INSUFFICIENT_DATA
from trackside_localaccount.event_delivery import envelope
from trackside_localaccount.event_pattern import PatternError, check_pattern, matches
from trackside_localaccount.job_record import PROCESSING, TRAINING, JobKind
from trackside_localaccount.jobs import Jobs
from trackside_localaccount.moto_cloudformation import Repair
from trackside_localaccount.queue_delivery import POLLING
from trackside_localaccount.queue_lock import QUEUE_LOCK
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.rights import Rights
from trackside_localaccount.sandbox import Outcome
from trackside_localaccount.strict.refusals import no_internal_error, refuse_wrong_request, unreadable


class Account(Protocol):
    """The part of an account that the repairs call."""

    @property
    def jobs(self) -> Jobs:
        """Training and processing jobs."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds since 1970."""

    @property
    def rights(self) -> Rights:
        """Decisions of IAM."""

    def send_event(self, rule: Any, event: Mapping[str, Any]) -> None:
        """An event came onto the rule's bus."""

    def invoke(self, function: Any, payload: bytes) -> Outcome:
        """Run a function, wait for its outcome."""

    def invoke_later(self, function: Any, payload: bytes) -> None:
        """Run a function some time, with retries."""

    def queues_changed(self) -> None:
        """Notice that a queue may have messages for a function."""

    def message_arrived(self, queue: str) -> None:
        """A message is in that queue."""

    def object_stored(self, bucket: str, key: str) -> None:
        """An object can be read in S3."""


_applied: list[str] = []
_attached: list[Account] = []


def apply() -> None:
    """Mend moto in this process, CloudFormation included. A second call does nothing."""
    moto_cloudformation.apply()
    if not _applied:
        _report_objects()
    for repair in REPAIRS:
        if repair.name not in _applied:
            repair.mend()
            _applied.append(repair.name)


def attach(account: Account) -> None:
    """From now on the repairs hand over to this account. Errors: `RuntimeError` if another one is attached."""
    if _attached:
        raise RuntimeError("Another local account is open in this process: moto's state belongs to the process.")
    _attached.append(account)


def detach() -> None:
    """From now on moto is as it was."""
    _attached.clear()


def _while_attached(owner: type[Any], name: str, mended: Callable[..., Any]) -> None:
    """Replace a method: `mended(account, stock, self, *args, **more)` while an account is attached."""
    stock = getattr(owner, name, None)

    def choose(self: Any, *args: Any, **more: Any) -> Any:
        if _attached:
            return mended(_attached[0], stock, self, *args, **more)
        if stock is None:
            raise NotImplementedError(f"The {name} action has not been implemented")
        return stock(self, *args, **more)

    if stock is not None:
        functools.update_wrapper(choose, stock)
    setattr(owner, name, choose)


# All services ---------------------------------------------------------------------------------------------------------


def _mend_requests() -> None:
    def setup_class(account: Account, stock: Any, response: Any, *args: Any, **more: Any) -> None:
        try:
            stock(response, *args, **more)
        except (ValueError, TypeError, AttributeError, RequestParserError) as error:  # of moto's own parser
            refuse_wrong_request(response, now=account.clock(), rights=account.rights)  # says more
            raise unreadable(response, error) from error
        with no_internal_error(response):
            refuse_wrong_request(response, now=account.clock(), rights=account.rights)

    def call_action(account: Account, stock: Any, response: Any) -> Any:
        with no_internal_error(response):
            return stock(response)

    _while_attached(BaseResponse, "setup_class", setup_class)
    _while_attached(BaseResponse, "call_action", call_action)


# EventBridge ----------------------------------------------------------------------------------------------------------


def _mend_reserved_sources() -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsRequestEntry.html"""

    def put_events(account: Account, stock: Any, handler: Any) -> str:
        entries = handler._get_param("Entries")
        taken = [entry for entry in entries if not str(entry.get("Source", "")).startswith("aws.")]
        answered = iter(handler.events_backend.put_events(taken) if taken else ())
        refused = {"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."}
        answers = [refused if str(entry.get("Source", "")).startswith("aws.") else next(answered) for entry in entries]
        failed = sum(1 for answer in answers if "ErrorCode" in answer)
        return json.dumps({"FailedEntryCount": failed, "Entries": answers})

    _while_attached(EventsHandler, "put_events", put_events)


def _mend_patterns() -> None:
    def matches_event(account: Account, stock: Any, pattern: Any, event: Mapping[str, Any]) -> bool:
        wanted = pattern.get_pattern()
        return not wanted or matches(wanted, envelope(event, account="", region=""))

    _while_attached(EventPattern, "matches_event", matches_event)


def _mend_pattern_check() -> None:
    def parse(account: Account, stock: Any, parser: Any) -> dict[str, Any]:
        try:
            pattern: dict[str, Any] = json.loads(parser.pattern) if parser.pattern else {}
            if parser.pattern:
                check_pattern(pattern)
        except PatternError as error:
            raise InvalidEventPatternException(reason=str(error)) from error
        except ValueError as error:
            raise InvalidEventPatternException(reason="Invalid JSON") from error
        return pattern

    def test_event_pattern(account: Account, stock: Any, handler: Any) -> str:
        event = json.loads(handler._get_param("Event"))
        pattern = EventPattern.load(handler._get_param("EventPattern")).get_pattern()
        return json.dumps({"Result": matches(pattern, event)})

    _while_attached(EventPatternParser, "parse", parse)
    _while_attached(EventsHandler, "test_event_pattern", test_event_pattern)


def _mend_delivery() -> None:
    def send_to_targets(
        account: Account, stock: Any, rule: Any, event: Mapping[str, Any], *args: Any, **more: Any
    ) -> None:
        if rule.managed_by:  # an archive's
            stock(rule, event, *args, **more)
        else:
            account.send_event(rule, event)

    _while_attached(Rule, "send_to_targets", send_to_targets)


# SQS ------------------------------------------------------------------------------------------------------------------


def _mend_queue_races() -> None:
    def with_lock(account: Account, stock: Any, queue: Any, *args: Any, **more: Any) -> Any:
        with QUEUE_LOCK:
            return stock(queue, *args, **more)

    def receive(account: Account, stock: Any, backend: Any, *requested: Any, **more: Any) -> Any:
        queue_name, count, wait_seconds, *others = requested
        until = time.monotonic() + int(wait_seconds or 0)
        while True:
            with QUEUE_LOCK:
                messages = stock(backend, queue_name, count, 0, *others, **more)
            left = until - time.monotonic()
            if messages or left <= 0:
                return messages
            queue = backend.get_queue(queue_name)
            with queue._messages_lock:  # 0.1 s: a message may also become visible, which tells nobody
                queue._messages_lock.wait(min(left, 0.1))

    _while_attached(Queue, "delete_message", with_lock)
    _while_attached(SQSBackend, "receive_message", receive)


def _mend_queue_delivery() -> None:
    def add_message(account: Account, stock: Any, queue: Any, message: Any) -> None:
        queue.lambda_event_source_mappings.clear()  # by these moto would call the functions here and now
        with QUEUE_LOCK:
            stock(queue, message)
        account.message_arrived(queue.name)

    def then_wake(account: Account, stock: Any, backend: Any, *args: Any, **more: Any) -> Any:
        answer = stock(backend, *args, **more)
        account.queues_changed()
        return answer

    _while_attached(Queue, "add_message", add_message)
    _while_attached(LambdaBackend, "update_event_source_mapping", then_wake)
    _while_attached(SQSBackend, "change_message_visibility", then_wake)


def _mend_queue_attributes() -> None:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html"""

    def set_attributes(account: Account, stock: Any, queue: Any, attributes: Mapping[str, Any], *args: Any) -> None:
        kept = getattr(queue, "policy", None)  # not while it is made
        stock(queue, attributes, *args)
        if "Policy" not in attributes:
            queue.policy = kept

    _while_attached(Queue, "_set_attributes", set_attributes)


def _mend_redrive() -> None:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html. Without a
    destination AWS looks where each message came from; here the destination must be named. The task is done at once."""

    def start_message_move_task(account: Account, stock: Any, response: Any) -> ActionResult:
        requested = json.loads(response.body)
        backend = response.sqs_backend
        source, target = (requested[name].rpartition(":")[2] for name in ("SourceArn", "DestinationArn"))
        moved = backend.get_queue(source)
        backend.get_queue(target)
        with QUEUE_LOCK:
            letters = [message for message in moved._messages if message.visible]
            moved._messages = [message for message in moved._messages if not message.visible]
        for message in letters:
            backend.send_message(target, message.body, message_attributes=message.message_attributes)
        return ActionResult({"TaskHandle": f"move-{source}"})

    _while_attached(SQSResponse, "start_message_move_task", start_message_move_task)


# SNS ------------------------------------------------------------------------------------------------------------------


def _mend_subscriptions() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/subscribe-sqs-queue-to-sns-topic.html: a queue's, or a function's,
    policy lets the topic in; else the message is lost."""
    actions = {"sqs": "sqs:SendMessage", "lambda": "lambda:InvokeFunction"}

    def publish(account: Account, stock: Any, subscription: Any, *args: Any, **more: Any) -> None:
        action, topic = actions.get(subscription.protocol), subscription.topic.arn
        access = Access(action or "", subscription.endpoint)
        if not action or not account.rights.service_refusal("sns", access, source_arn=topic):
            stock(subscription, *args, **more)

    _while_attached(Subscription, "publish", publish)


# S3: nothing to mend; the account learns what was stored --------------------------------------------------------------


def _report_objects() -> None:
    def put_object(account: Account, stock: Any, backend: Any, *args: Any, **more: Any) -> Any:
        stored = stock(backend, *args, **more)
        account.object_stored(stored.bucket_name, stored.name)
        return stored

    _while_attached(S3Backend, "put_object", put_object)


# DynamoDB -------------------------------------------------------------------------------------------------------------

TABLE_LOCK = threading.RLock()


def _mend_table_races() -> None:
    def call_action(account: Account, stock: Any, response: Any, *args: Any, **more: Any) -> Any:
        with TABLE_LOCK:
            return stock(response, *args, **more)

    _while_attached(DynamoHandler, "call_action", call_action)


# Lambda ---------------------------------------------------------------------------------------------------------------


def _mend_invocation() -> None:
    def invoke(account: Account, stock: Any, function: Any, body: Any, *headers: Any) -> bytes:
        request, response = headers
        payload = body if isinstance(body, bytes) else (body or "{}").encode()
        kind = request.get("x-amz-invocation-type", "RequestResponse")
        if kind == "DryRun":
            return b""
        if kind == "Event":
            account.invoke_later(function, payload)
            return b""
        outcome = account.invoke(function, payload)
        if not outcome.succeeded:
            response["x-amz-function-error"] = "Unhandled"
        return outcome.payload

    _while_attached(LambdaFunction, "invoke", invoke)


def _mend_function_roles() -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html"""

    def put_function(account: Account, stock: Any, backend: Any, function: Any) -> None:
        if not account.rights.can_assume(function.role, "lambda"):
            raise InvalidParameterValueException("The role defined for the function cannot be assumed by Lambda.")
        stock(backend, function)

    def create_event_source_mapping(account: Account, stock: Any, backend: Any, spec: Mapping[str, Any]) -> Any:
        source = str(spec["EventSourceArn"])
        function = backend.get_function(spec["FunctionName"], None)
        for action in POLLING if source.split(":")[2] == "sqs" else ():
            if account.rights.role_refusal(function.role, function.function_name, Access(f"sqs:{action}", source)):
                raise InvalidParameterValueException(
                    f"The provided execution role does not have permissions to call {action} on SQS"
                )
        answer = stock(backend, spec)
        account.queues_changed()
        return answer

    _while_attached(LambdaStorage, "put_function", put_function)
    _while_attached(LambdaBackend, "create_event_source_mapping", create_event_source_mapping)


def _mend_function_failures() -> None:
    stock_init = LambdaFunction.__init__
    stock_create = LambdaFunction.create_from_cloudformation_json  # bound to the class

    @functools.wraps(stock_init)
    def initialize(function: Any, account_id: str, spec: dict[str, Any], *args: Any, **more: Any) -> None:
        function.dead_letter_config = spec.get("DeadLetterConfig")
        stock_init(function, account_id, spec, *args, **more)

    def create(resource_name: str, cloudformation_json: Any, *args: Any, **more: Any) -> Any:
        function = stock_create(resource_name, cloudformation_json, *args, **more)
        function.__dict__["dead_letter_config"] = cloudformation_json["Properties"].get("DeadLetterConfig")
        return function

    setattr(LambdaFunction, "__init__", initialize)  # noqa: B010 - mypy knows that this is not done
    setattr(LambdaFunction, "create_from_cloudformation_json", staticmethod(create))  # noqa: B010 - likewise


# SageMaker ------------------------------------------------------------------------------------------------------------


def _mend_jobs() -> None:
    for kind in (TRAINING, PROCESSING):
        _mend_jobs_of(kind)


def _account_of(response: Any) -> str:
    return str(response.sagemaker_backend.account_id)


def _mend_jobs_of(kind: JobKind) -> None:
    def create(account: Account, stock: Any, response: Any) -> ActionResult:
        backend = response.sagemaker_backend
        prefix = f"arn:{backend.partition}:sagemaker:{backend.region_name}:{backend.account_id}"
        job = account.jobs.create(kind, json.loads(response.body), arn_prefix=prefix)
        held = backend.training_jobs if kind is TRAINING else backend.processing_jobs
        held[job.name] = job  # moto's ListTags and AddTags look here
        return ActionResult({f"{kind.name}JobArn": job.arn})

    def describe(account: Account, stock: Any, response: Any) -> ActionResult:
        name = json.loads(response.body)[f"{kind.name}JobName"]
        return ActionResult(account.jobs.describe(kind, name, requested_in=_account_of(response)))

    def stop(account: Account, stock: Any, response: Any) -> ActionResult:
        account.jobs.stop(kind, json.loads(response.body)[f"{kind.name}JobName"], requested_in=_account_of(response))
        return ActionResult({})

    def delete(account: Account, stock: Any, response: Any) -> ActionResult:
        name = json.loads(response.body)[f"{kind.name}JobName"]
        account.jobs.delete(kind, name, requested_in=_account_of(response))
        backend = response.sagemaker_backend
        (backend.training_jobs if kind is TRAINING else backend.processing_jobs).pop(name, None)
        return ActionResult({})

    def list_jobs(account: Account, stock: Any, response: Any) -> ActionResult:
        return ActionResult(account.jobs.summaries(kind, json.loads(response.body), requested_in=_account_of(response)))

    noun = f"{kind.name.lower()}_job"
    _while_attached(SageMakerResponse, f"create_{noun}", create)
    _while_attached(SageMakerResponse, f"describe_{noun}", describe)
    _while_attached(SageMakerResponse, f"stop_{noun}", stop)
    _while_attached(SageMakerResponse, f"list_{noun}s", list_jobs)
    _while_attached(SageMakerResponse, f"delete_{noun}", delete)


def _mend_updates() -> None:
    def update(account: Account, stock: Any, response: Any) -> ActionResult:
        arn = account.jobs.update_training_job(json.loads(response.body))
        return ActionResult({"TrainingJobArn": arn})

    _while_attached(SageMakerResponse, "update_training_job", update)


def _mend_tags() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AddTags.html"""

    def find(account: Account, stock: Any, backend: Any, arn: str) -> Any:
        if (resource := stock(backend, arn)) is None:
            raise AWSValidationException("Requested resource not found.")
        return resource

    _while_attached(SageMakerModelBackend, "_get_resource_from_arn", find)


# IAM ------------------------------------------------------------------------------------------------------------------


def _mend_managed_policies() -> None:
    """https://docs.aws.amazon.com/aws-managed-policy/latest/reference/about-managed-policy-reference.html"""

    def attach(account: Account, stock: Any, backend: Any, policy_arn: str, *args: Any, **more: Any) -> None:
        name = policy_arn.removeprefix("arn:aws:iam::aws:policy/").rpartition("/")[2]
        if ":iam::aws:" in policy_arn and policy_arn not in backend.managed_policies and name in _policies_of_aws():
            data = _policies_of_aws()[name]
            made = AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, data)
            backend.managed_policies[made.arn] = made
        stock(backend, policy_arn, *args, **more)

    for kind in ("role", "user", "group"):
        _while_attached(IAMBackend, f"attach_{kind}_policy", attach)


@functools.cache
def _policies_of_aws() -> Mapping[str, Any]:
    policies: Mapping[str, Any] = json.loads(aws_managed_policies_data)
    return policies


def _mend_policy_simulation() -> None:
    def simulate(account: Account, stock: Any, response: Any) -> ActionResult:
        role, resources = response._get_param("PolicySourceArn"), response._get_param("ResourceArns") or ["*"]
        results = [
            {
                "EvalActionName": action,
                "EvalResourceName": resource,
                "EvalDecision": account.rights.simulate(role, Access(action, resource)),
            }
            for action in response._get_param("ActionNames", [])
            for resource in resources
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})

    _while_attached(IamResponse, "simulate_principal_policy", simulate)


# CloudWatch -----------------------------------------------------------------------------------------------------------


def _mend_first_alarm_state() -> None:
    def put_metric_alarm(account: Account, stock: Any, backend: Any, *args: Any, **more: Any) -> Any:
        before = backend.alarms.get(more.get("name"))
        alarm = stock(backend, *args, **more)
        alarm.state_value = before.state_value if before else INSUFFICIENT_DATA
        return alarm

    _while_attached(CloudWatchBackend, "put_metric_alarm", put_metric_alarm)


REPAIRS = (
    Repair(
        "requests", "takes most of what the services' models and limits forbid, or answers with 500", _mend_requests
    ),
    Repair("reserved-sources", "anybody may send events of AWS's services", _mend_reserved_sources),
    Repair("event-patterns", "cannot look into lists of objects, and takes true for 1", _mend_patterns),
    Repair(
        "event-pattern-check", "takes unknown operators for matches; TestEventPattern is missing", _mend_pattern_check
    ),
    Repair("event-delivery", "fails on Lambda and SNS targets, fires disabled rules, ignores Input", _mend_delivery),
    Repair(
        "table-races",
        "conditions race, and a transaction that fails undoes what others wrote meanwhile",
        _mend_table_races,
    ),
    Repair("queue-races", "loses a message that is sent while another is deleted", _mend_queue_races),
    Repair(
        "queue-delivery", "calls functions inside SendMessage, one message each, without retries", _mend_queue_delivery
    ),
    Repair("queue-attributes", "forgets a queue's policy when another attribute is set", _mend_queue_attributes),
    Repair("queue-redrive", "no StartMessageMoveTask", _mend_redrive),
    Repair("topic-subscriptions", "delivers to queues and functions that let no topic in", _mend_subscriptions),
    Repair("lambda-invocation", "needs Docker to run a function", _mend_invocation),
    Repair(
        "lambda-roles", "takes a role that Lambda cannot assume, or that may not read the queue", _mend_function_roles
    ),
    Repair("lambda-failures", "forgets a function's DeadLetterConfig", _mend_function_failures),
    Repair(
        "sagemaker-jobs",
        "jobs are Completed at once, run nothing, say nothing; no StopTrainingJob, no DeleteTrainingJob",
        _mend_jobs,
    ),
    Repair("sagemaker-updates", "UpdateTrainingJob is missing", _mend_updates),
    Repair("sagemaker-tags", "fails at tags of what does not exist", _mend_tags),
    Repair("managed-policies", "AWS's own policies are missing", _mend_managed_policies),
    Repair(
        "policy-simulation",
        "SimulatePrincipalPolicy is missing, which the SDK's version 3 asks",
        _mend_policy_simulation,
    ),
    Repair("alarm-first-state", "a new alarm is OK, not INSUFFICIENT_DATA", _mend_first_alarm_state),
)
