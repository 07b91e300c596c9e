"""The record of runs: the function that writes the table, and the one that finds changes without an event."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.reconcile.settings import ReconcileSettings
from lambdas.record_verdict.settings import RecordVerdictSettings
from stacks.actions.stop_training import switch_name
from stacks.constructs.acknowledge import accept_wildcard
from stacks.constructs.allow import allow
from stacks.constructs.evaluator_fleet import EvaluatorFleet
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.constructs.run_table import RunTable
from stacks.constructs.watching import watches_untagged
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import official_rule_status_changed, rule_status_changed, training_changed
from stacks.outputs import output
from trackside.contracts.deployment.evaluators import JOB_NAME_PREFIX
from trackside.contracts.run_layout import RULE_OUTPUT

SWEEP_SECONDS = 300  # 10,000 jobs are a hundred pages, one a second
LEAST_AT_ONCE = 2  # Lambda's least for a queue; one sweep at a time is intended


class Records:
    """The parts of the record. `reactions`: by name, as in lambdas/."""

    def __init__(
        self,
        scope: Construct,
        *,
        settings: DeploymentSettings,
        table: RunTable,
        runs: s3.IBucket,
        start_queue: sqs.IQueue,
        fleet: EvaluatorFleet | None = None,
        bus: events.IEventBus | None = None,
    ) -> None:
        self._scope = scope
        self._settings, self._table, self._runs = settings, table, runs
        # By its name: with a reference, the template would stay the same when the bus gets another name.
        bus = bus or events.EventBus.from_event_bus_name(self._scope, "Bus", settings.event_bus_name)
        record_verdict = self._create_record_verdict(bus)
        self.reactions = {
            "record_verdict": record_verdict,
            "reconcile": self._create_reconcile(
                runs=runs,
                start_queue=start_queue,
                record_queue=record_verdict.queue,
                fleet=fleet,
            ),
        }
        for name, reaction in self.reactions.items():
            title = "".join(word.capitalize() for word in name.split("_"))
            output(self._scope, f"{title}QueueUrl", value=reaction.queue.queue_url)
            output(self._scope, f"{title}DeadLettersUrl", value=reaction.dead_letters.queue_url)

    def _create_record_verdict(self, bus: events.IEventBus) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self._scope,
            "RecordVerdict",
            name="record_verdict",
            description="Trackside: records verdicts and the states of jobs",
            settings=RecordVerdictSettings(
                run_table=self._table.table_name,
                run_bucket=self._runs.bucket_name,
                retention_days=self._settings.retention.record_days,
            ),
            log_retention_days=self._settings.retention.log_days,
        )
        reaction.react_to(
            "RuleStatusChanged", rule_status_changed(), event_bus=bus, description="A rule has a verdict on a job"
        )
        reaction.react_to(
            "OfficialRuleStatusChanged",
            official_rule_status_changed(),
            description="A rule of SageMaker Debugger itself may have a verdict",
        )
        reaction.react_to(
            "TrainingChanged", training_changed(), description="A training job that opted in is in another state"
        )
        why = "Its purpose: writes verdicts, and never an earlier state over a later one."
        self._table.let(reaction.function, "GetItem", "PutItem", "UpdateItem", why=why)
        return reaction

    def _create_reconcile(
        self,
        *,
        runs: s3.IBucket,
        start_queue: sqs.IQueue,
        record_queue: sqs.IQueue,
        fleet: EvaluatorFleet | None,
    ) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self._scope,
            "Reconcile",
            name="reconcile",
            description="Trackside: finds changes without an event",
            settings=ReconcileSettings.of(
                self._settings.monitoring,
                run_table=self._table.table_name,
                start_queue_url=start_queue.queue_url,
                record_queue_url=record_queue.queue_url,
                run_bucket=runs.bucket_name,
                evaluator_mode=self._settings.evaluator.mode,
                lease_table=fleet.table.table_name if fleet else "",
                every_minutes=self._settings.monitoring.reconcile_minutes,
                retention_days=self._settings.retention.record_days,
                sends_untagged=watches_untagged(self._settings),
                dry_run_parameter=switch_name(self._settings),
            ),
            log_retention_days=self._settings.retention.log_days,
            most_at_once=LEAST_AT_ONCE,
            batch_size=1,
            timeout_seconds=SWEEP_SECONDS,
        )
        # Behind a queue like all others: a sweep that fails is tried again, and one that keeps failing raises an alarm.
        reaction.run_every(
            self._settings.monitoring.reconcile_minutes, description="What may have been missed is looked for"
        )
        function = reaction.function
        why = "Knows the jobs that run, and records tags that it has read and the evaluator of each job."
        self._table.let(function, "BatchGetItem", "PutItem", "Query", "UpdateItem", and_shelves=True, why=why)
        jobs = Stack.of(self._scope).format_arn(service="sagemaker", resource="training-job", resource_name="*")
        evaluators = Stack.of(self._scope).format_arn(
            service="sagemaker", resource="processing-job", resource_name=f"{JOB_NAME_PREFIX}*"
        )
        switch = Stack.of(self._scope).format_arn(
            service="ssm", resource="parameter", resource_name=switch_name(self._settings).lstrip("/")
        )
        why = "Remembers that a person forbade all stops, for the next deployment."
        allow(function, "RememberTheSwitch", ["ssm:GetParameter"], [switch], why=why)
        queues = [queue.queue_arn for queue in (start_queue, record_queue)]
        why = "Finds jobs without an event. The call knows no resources."
        allow(function, "ListTrainingJobs", ["sagemaker:ListTrainingJobs"], ["*"], why=why)
        why = "Who asked for Trackside is not known before its tags are read. Reads only."
        allow(function, "AskAboutJobs", ["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"], [jobs], why=why)
        why = "Sees whether a job is judged. Reads only our own jobs."
        allow(function, "AskAboutEvaluators", ["sagemaker:DescribeProcessingJob"], [evaluators], why=why)
        why = "Finds all evaluators of a training job. The call knows no resources."
        allow(function, "ListEvaluators", ["sagemaker:ListProcessingJobs"], ["*"], why=why)
        if fleet:
            fleet.let_see(function)
        why = "Puts a lost event on the bus again, in the place where it would have arrived."
        allow(function, "TellWhatWasMissed", ["sqs:SendMessage"], queues, why=why)
        allow(
            function,
            "ListenToEvaluators",
            ["s3:ListBucket"],
            [runs.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"*/{RULE_OUTPUT}/"}},
            why="The age of an evaluator's progress is its sign of life; its content cannot be read.",
        )
        prefix = "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>"
        reason = "Reads only; whoever asked for Trackside is not known before its tags are read."
        accept_wildcard(reaction.function, f"{prefix}:training-job/*", reason=reason)
        accept_wildcard(
            reaction.function, f"{prefix}:processing-job/{JOB_NAME_PREFIX}*", reason="Reads only our own jobs."
        )
        return reaction
