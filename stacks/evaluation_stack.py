"""The evaluators of runs: the rule container's image, its role, and the functions that start and end its jobs."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.note_news.settings import NoteNewsSettings
from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.start_evaluation.settings import StartEvaluationSettings
from stacks.constructs.acknowledge import accept_wildcard, acknowledge, name_in_findings
from stacks.constructs.allow import allow
from stacks.constructs.bus_guard import guard_bus
from stacks.constructs.custom_rule_role import CustomRuleRole
from stacks.constructs.drill_role import DrillRole
from stacks.constructs.evaluator_fleet import EvaluatorFleet
from stacks.constructs.evaluator_role import EvaluatorRole
from stacks.constructs.queue_backed_function import QueueBackedFunction, pause_milliseconds
from stacks.constructs.watching import let_settle_rules, rule_parameters_below, untagged_runs, watch_untagged_jobs
from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.event_patterns import (
    custom_rule_ended,
    evaluation_failed,
    evaluator_ended,
    run_written,
    training_started_or_ended,
)
from stacks.outputs import output
from trackside.contracts.deployment.evaluators import FLEET
from trackside.contracts.event import SOURCE
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    ENDING_KEY,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    TRAINING_JOB_KEY,
    VERDICTS_KEY,
)

MOST_IMAGES = 20
RUNS_ARE_ENCRYPTED = "Runs are encrypted with this key."


@dataclass(frozen=True)
class CustomRules:
    """The repository of the container that runs rules from files, its image, and the role of its jobs."""

    repository: ecr.Repository
    image_uri: str
    role: CustomRuleRole


class Evaluation:
    """The evaluators.

    - `repository`: repository of the rule container's image
    - `custom_rules`: the parts for rules from files; None, and nothing made, without the setting `custom_rules_from`
    - `fleet`: likewise, for the mode `fleet`
    - `reactions`: by name, as in lambdas/
    - `failed_evaluations`: a queue of the events of failed processing jobs without a successor: the only sign that a
      job
      is no longer watched
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: DeploymentSettings,
        runs: s3.IBucket,
        key: kms.IKey,
        bus: events.IEventBus,
        notify_owner: QueueBackedFunction,
        is_bus_shared: bool = False,
    ) -> None:
        self._scope = scope
        self._settings, self._runs, self._key = settings, runs, key
        self._notify_queue = notify_owner.queue
        self.repository = self._create_repository("Evaluator", settings.evaluator.repository)
        self.role = EvaluatorRole(self._scope, "EvaluatorRole", runs=runs, key=key, bus=bus, repository=self.repository)
        self.custom_rules = self._create_custom_rules() if settings.custom_rules.rules_from else None
        self.failed_evaluations = self._create_queue_of_failures()
        self.fleet = self._create_fleet(bus) if settings.evaluator.mode == FLEET else None
        self.reactions = {"start_evaluation": self._create_start_evaluation(bus)}
        self._keep_events_of_failures(self.reactions["start_evaluation"])
        if self.custom_rules:
            self.reactions["report_custom_rule"] = self._create_report_custom_rule(bus, self.custom_rules)
        if settings.drills:
            drill_role = DrillRole(self._scope, "DrillRole", runs=runs, key=key, repository=self.repository)
            output(
                self._scope, "DrillRoleArn", value=drill_role.role_arn, description="Of `trackside drill`'s training"
            )
        if self.fleet and self.fleet.has_news:
            self.reactions["note_news"] = self._create_note_news(self.fleet)
        functions = [notify_owner.function, *(reaction.function for reaction in self.reactions.values())]
        senders = [
            self.role,
            *([self.fleet.role] if self.fleet else []),
            *(each.role for each in functions if each.role),
        ]
        guard_bus(
            scope,
            bus.event_bus_name if is_bus_shared else settings.event_bus_name,
            senders=senders,
            is_shared=is_bus_shared,
        )
        self._write_outputs()

    @property
    def image_uri(self) -> str:
        """The image that judges runs."""
        return self.repository.repository_uri_for_tag(self._settings.evaluator.image_tag)

    def _create_fleet(self, bus: events.IEventBus) -> EvaluatorFleet:
        return EvaluatorFleet(
            self._scope,
            "Fleet",
            settings=self._settings,
            runs=self._runs,
            key=self._key,
            bus=bus,
            repository=self.repository,
            failed=self.failed_evaluations,
        )

    def _create_custom_rules(self) -> CustomRules:
        settings = self._settings
        repository = self._create_repository("CustomRule", settings.custom_rules.repository)
        role = CustomRuleRole(
            self._scope,
            "CustomRuleRole",
            runs=self._runs,
            key=self._key,
            repository=repository,
            place=settings.custom_rules.rules_from,
        )
        return CustomRules(repository, repository.repository_uri_for_tag(settings.custom_rules.image_tag), role)

    def _create_repository(self, construct_id: str, name: str) -> ecr.Repository:
        return ecr.Repository(
            self._scope,
            construct_id,
            repository_name=name,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            lifecycle_rules=[ecr.LifecycleRule(max_image_count=MOST_IMAGES)],
            # Images are built from this repository at any time; a kept one would stand in the next deployment's way.
            removal_policy=RemovalPolicy.DESTROY,
            empty_on_delete=True,
        )

    def _create_start_evaluation(self, bus: events.IEventBus) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self._scope,
            "StartEvaluation",
            name="start_evaluation",
            description="Trackside: starts the processing job that judges a training job, and marks the end of its run",
            settings=StartEvaluationSettings.of(
                self._settings.evaluator,
                self._settings.watching,
                self._settings.place,
                self._settings.accounts,
                image_uri=self.image_uri,
                role_arn=self.role.role_arn,
                run_bucket=self._runs.bucket_name,
                event_bus=bus.event_bus_name,
                pause_milliseconds=pause_milliseconds(
                    self._settings.control_calls_per_second, at_once=self._settings.evaluator.started_at_once
                ),
                cost_tags=tuple("=".join(tag) for tag in cost_tags(self._settings)),
                custom_rules_from=self._settings.custom_rules.rules_from,
                custom_rule_image_uri=self.custom_rules.image_uri if self.custom_rules else "",
                custom_rule_role_arn=self.custom_rules.role.role_arn if self.custom_rules else "",
                evaluator_mode=self._settings.evaluator.mode,
                lease_table=self.fleet.table.table_name if self.fleet else "",
                fleet_queue_url=self.fleet.queue.queue_url if self.fleet else "",
                failed_queue_url=self.failed_evaluations.queue_url,
                notify_queue_url=self._notify_queue.queue_url,
                untagged_runs=untagged_runs(self._settings, self._runs),
                rule_parameters_below=rule_parameters_below(self._settings),
            ),
            log_retention_days=self._settings.retention.log_days,
            # SageMaker's control plane takes one or two calls a second: the queue holds the rest.
            most_at_once=self._settings.evaluator.started_at_once,
            batch_size=1,  # calls that are throttled take seconds: ten of them would outlast the function
        )
        description = "A training job that opted in is running, or has ended"
        reaction.react_to("TrainingStartedOrEnded", training_started_or_ended(), description=description)
        description = "A processing job that judges a training job has ended: another may go on"
        reaction.react_to("EvaluatorEnded", evaluator_ended(self.role.role_arn), description=description)
        why = "Reports training jobs that are no longer watched."
        queues = [self.failed_evaluations.queue_arn, self._notify_queue.queue_arn]
        allow(reaction.function, "TellWhatFailed", ["sqs:SendMessage"], queues, why=why)
        jobs = Stack.of(self._scope).format_arn(
            service="sagemaker", resource="processing-job", resource_name="trackside-*"
        )
        why = "Its purpose; the names are ours. Describes one that judged an earlier job of the same name."
        actions = ["sagemaker:AddTags", "sagemaker:CreateProcessingJob", "sagemaker:DescribeProcessingJob"]
        allow(reaction.function, "StartEvaluators", actions, [jobs], why=why)
        allow(
            reaction.function,
            "PassTheRolesOfRuleContainers",
            ["iam:PassRole"],
            [role.role_arn for role in (self.role, self.custom_rules and self.custom_rules.role) if role],
            conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            why="A processing job runs with one of these roles, and with no other.",
        )
        accept_wildcard(
            reaction.function,
            "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:processing-job/trackside-*",
            reason="Each training job gets a processing job of its own, named so.",
        )
        if self.fleet:
            self.fleet.let_announce(reaction.function)
        self._let_read_requests(reaction.function)
        self._let_mark_ends(reaction.function)
        let_settle_rules(reaction, settings=self._settings, runs=self._runs, key=self._key, bus=bus)
        watch_untagged_jobs(reaction, self._settings)
        return reaction

    def _let_read_requests(self, function: lambda_.Function) -> None:
        """Let the function read the requests of runs. Listing separates an absent request from one without access."""
        why = "Reads rule requests of runs, and objects that many jobs refer to, also at the top of the bucket."
        objects = [self._runs.arn_for_objects(key) for key in (f"*/{RULE_REQUEST_KEY}", RULE_REQUEST_KEY)]
        allow(function, "ReadRuleRequests", ["s3:GetObject"], objects, why=why)
        notes = (f"*/{RULE_OUTPUT}/{ENDING_KEY}", f"*/{RULE_OUTPUT}/*/{ENDING_KEY}")
        why = "Reads the note of an evaluator about its end, if SageMaker's event does not contain it."
        objects = [self._runs.arn_for_objects(note) for note in notes]
        allow(function, "ReadNotesOfEnds", ["s3:GetObject"], objects, why=why)
        for note in notes:
            where = f"{name_in_findings(self._runs)}/{note}"
            accept_wildcard(function, where, reason="A run lies where its job's tag says, and rules have names.")
        why = "Tells a request that is absent from one that may not be read."
        allow(function, "SeeWhatIsThere", ["s3:ListBucket"], [self._runs.bucket_arn], why=why)
        allow(function, "DecryptRuns", ["kms:Decrypt"], [self._key.key_arn], why=RUNS_ARE_ENCRYPTED)

    def _let_mark_ends(self, function: lambda_.Function) -> None:
        marker, owner = f"*/{TENSORS}/{END_MARKER_KEY}", f"*/{RULE_OUTPUT}/{TRAINING_JOB_KEY}"
        why = "Marks the end of a run, so that a killed job's evaluator ends."
        allow(function, "MarkTheEnd", ["s3:PutObject"], [self._runs.arn_for_objects(marker)], why=why)
        objects = [self._runs.arn_for_objects(each) for each in (marker, owner)]
        why = "Only the job that a run is judged for ends it; another job may name the same run."
        allow(function, "SeeWhoseRunItIs", ["s3:GetObject"], objects, why=why)
        for each in (marker, owner):
            where = f"{name_in_findings(self._runs)}/{each}"
            accept_wildcard(
                function, where, reason="A run lies where its job's tag says; only end markers are written."
            )

    def _create_report_custom_rule(self, bus: events.IEventBus, custom_rules: CustomRules) -> QueueBackedFunction:
        role_arn = custom_rules.role.role_arn
        reaction = QueueBackedFunction(
            self._scope,
            "ReportCustomRule",
            name="report_custom_rule",
            description="Trackside: publishes the findings of a rule from a file",
            settings=ReportCustomRuleSettings(event_bus=bus.event_bus_name, role_arn=role_arn),
            log_retention_days=self._settings.retention.log_days,
        )
        reaction.react_to(
            "CustomRuleEnded", custom_rule_ended(role_arn), description="A job that judged by a rule from a file ended"
        )
        allow(
            reaction.function,
            "Report",
            ["events:PutEvents"],
            [bus.event_bus_arn],
            conditions={"StringEquals": {"events:source": SOURCE}},
            why="Its purpose: publishes the findings of the rule, in our name only.",
        )
        verdicts = f"*/{RULE_OUTPUT}/*/{VERDICTS_KEY}"
        why = "Verdicts lie beside their run, wherever that is."
        allow(reaction.function, "WriteVerdicts", ["s3:PutObject"], [self._runs.arn_for_objects(verdicts)], why=why)
        self._let_encrypt(reaction.function)
        where = f"{name_in_findings(self._runs)}/{verdicts}"
        accept_wildcard(reaction.function, where, reason="A run lies where its job's tag says, and rules have names.")
        return reaction

    def _create_note_news(self, fleet: EvaluatorFleet) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self._scope,
            "NoteNews",
            name="note_news",
            description="Trackside: notifies the worker that judges a run of new data",
            settings=NoteNewsSettings(lease_table=fleet.table.table_name),
            log_retention_days=self._settings.retention.log_days,
        )
        reaction.react_to("RunWritten", run_written(self._runs.bucket_name), description="A run was written to")
        fleet.let_note_news(reaction.function)
        return reaction

    def _let_encrypt(self, function: lambda_.Function) -> None:
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        allow(function, "EncryptRuns", actions, [self._key.key_arn], why=RUNS_ARE_ENCRYPTED)

    def _create_queue_of_failures(self) -> sqs.Queue:
        queue = sqs.Queue(
            self._scope,
            "FailedEvaluationsQueue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        why = "Only people take messages from it, so none can fail."
        acknowledge(queue, {"AwsSolutions-SQS3": why, "Serverless-SQSRedrivePolicy": why})
        return queue

    def _keep_events_of_failures(self, start_evaluation: QueueBackedFunction) -> None:
        """Keep the events of processing jobs that failed without a successor; else they are dead letters."""
        events.Rule(
            self._scope,
            "EvaluationFailed",
            description="A processing job that judges a training job failed: that job is no longer watched",
            event_pattern=evaluation_failed(self._runs.bucket_name, but_for=self.role.role_arn),
            targets=[targets.SqsQueue(self.failed_evaluations, dead_letter_queue=start_evaluation.dead_letters)],
        )

    def _write_outputs(self) -> None:
        output(
            self._scope,
            "EvaluatorRepositoryUri",
            value=self.repository.repository_uri,
            description="Push the image here",
        )
        output(self._scope, "EvaluatorImageUri", value=self.image_uri, description="The image that judges runs")
        output(self._scope, "EvaluatorRoleArn", value=self.role.role_arn)
        output(self._scope, "FailedEvaluationsUrl", value=self.failed_evaluations.queue_url)
        if self.custom_rules:
            uri = self.custom_rules.repository.repository_uri
            output(self._scope, "CustomRuleRepositoryUri", value=uri, description="Push the image of rule files here")
            output(
                self._scope, "CustomRuleImageUri", value=self.custom_rules.image_uri, description="It runs rule files"
            )
            role_arn = self.custom_rules.role.role_arn
            output(self._scope, "CustomRuleRoleArn", value=role_arn, description="Let it read the bucket of rule files")
        for name, reaction in self.reactions.items():
            title = "".join(word.capitalize() for word in name.split("_"))
            output(self._scope, f"{title}QueueUrl", value=reaction.queue.queue_url)
            output(self._scope, f"{title}DeadLettersUrl", value=reaction.dead_letters.queue_url)
