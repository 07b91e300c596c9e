"""What judges a run: the rule container's image, its role, and what starts and ends its processing jobs."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.finish_run.settings import FinishRunSettings
from lambdas.start_evaluation.settings import StartEvaluationSettings
from stacks.constructs.acknowledge import accept_wildcard, acknowledge, name_in_findings
from stacks.constructs.evaluator_role import EvaluatorRole
from stacks.constructs.python_lambda import PowertoolsLayer
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import evaluation_failed, training_ended, training_started
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS

MOST_IMAGES = 20


class EvaluationStack(Stack):
    """`repository`: of the rule container's image. `reactions`: by name, as in lambdas/. `failed_evaluations`: a queue
    that keeps the event of each processing job that failed, for nobody else notices that a job is no longer watched."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        runs: s3.IBucket,
        key: kms.IKey,
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, construct_id, description="Trackside: what judges a run")
        self._settings, self._runs, self._key = settings, runs, key
        self.repository = self._create_repository()
        self.role = EvaluatorRole(self, "EvaluatorRole", runs=runs, key=key, bus=bus, repository=self.repository)
        layer = PowertoolsLayer(self, "Layer")
        self.reactions = {
            "start_evaluation": self._create_start_evaluation(layer, bus),
            "finish_run": self._create_finish_run(layer),
        }
        self.failed_evaluations = self._keep_failed_evaluations()
        self._write_outputs()

    @property
    def image_uri(self) -> str:
        """The image that judges runs."""
        return self.repository.repository_uri_for_tag(self._settings.evaluator_image_tag)

    def _create_repository(self) -> ecr.Repository:
        return ecr.Repository(
            self,
            "Evaluator",
            repository_name=self._settings.evaluator_repository,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            lifecycle_rules=[ecr.LifecycleRule(max_image_count=MOST_IMAGES)],
            # Images are built from this repository at any time; a kept one would stand in the next deployment's way.
            removal_policy=RemovalPolicy.DESTROY,
            empty_on_delete=True,
        )

    def _create_start_evaluation(self, layer: lambda_.ILayerVersion, bus: events.IEventBus) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self,
            "StartEvaluation",
            name="start_evaluation",
            description="Trackside: starts the processing job that judges a training job",
            settings=StartEvaluationSettings(
                image_uri=self.image_uri,
                role_arn=self.role.role_arn,
                run_bucket=self._runs.bucket_name,
                event_bus=bus.event_bus_name,
                instance_type=self._settings.evaluator_instance_type,
                volume_gb=self._settings.evaluator_volume_gb,
                max_runtime_seconds=self._settings.evaluator_max_runtime_seconds,
            ),
            layer=layer,
            log_retention_days=self._settings.log_retention_days,
            # SageMaker's control plane takes one or two calls a second: the queue holds the rest.
            most_at_once=self._settings.evaluations_started_at_once,
        )
        reaction.react_to("TrainingStarted", training_started(), description="A training job that opted in is running")
        jobs = self.format_arn(service="sagemaker", resource="processing-job", resource_name="trackside-*")
        reaction.function.add_to_role_policy(
            iam.PolicyStatement(actions=["sagemaker:AddTags", "sagemaker:CreateProcessingJob"], resources=[jobs])
        )
        reaction.function.add_to_role_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            )
        )
        accept_wildcard(
            reaction.function,
            "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:processing-job/trackside-*",
            reason="Each training job gets a processing job of its own, named so.",
        )
        return reaction

    def _create_finish_run(self, layer: lambda_.ILayerVersion) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self,
            "FinishRun",
            name="finish_run",
            description="Trackside: marks the end of a run whose training job ended",
            settings=FinishRunSettings(run_bucket=self._runs.bucket_name),
            layer=layer,
            log_retention_days=self._settings.log_retention_days,
        )
        reaction.react_to("TrainingEnded", training_ended(), description="A training job that opted in has ended")
        marker = f"*/{TENSORS}/{END_MARKER_KEY}"
        reaction.function.add_to_role_policy(
            iam.PolicyStatement(actions=["s3:PutObject"], resources=[self._runs.arn_for_objects(marker)])
        )
        reaction.function.add_to_role_policy(
            iam.PolicyStatement(actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[self._key.key_arn])
        )
        accept_wildcard(
            reaction.function,
            f"{name_in_findings(self._runs)}/{marker}",
            reason="A run lies where its job's tag says; only end markers can be written.",
        )
        return reaction

    def _keep_failed_evaluations(self) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            "FailedEvaluationsQueue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        why = "Only people take messages from it, so none can fail."
        acknowledge(queue, {"AwsSolutions-SQS3": why, "Serverless-SQSRedrivePolicy": why})
        rule = events.Rule(
            self,
            "EvaluationFailed",
            description="A processing job that judges a training job failed: that job is no longer watched",
            event_pattern=evaluation_failed(),
            targets=[targets.SqsQueue(queue)],
        )
        acknowledge(rule, {"Serverless-EventBusDLQ": "Its target is itself a queue that keeps what went wrong."})
        return queue

    def _write_outputs(self) -> None:
        CfnOutput(
            self, "EvaluatorRepositoryUri", value=self.repository.repository_uri, description="Push the image here"
        )
        CfnOutput(self, "EvaluatorImageUri", value=self.image_uri, description="The image that judges runs")
        CfnOutput(self, "EvaluatorRoleArn", value=self.role.role_arn)
        CfnOutput(self, "FailedEvaluationsUrl", value=self.failed_evaluations.queue_url)
        for name, reaction in (("StartEvaluation", "start_evaluation"), ("FinishRun", "finish_run")):
            CfnOutput(self, f"{name}QueueUrl", value=self.reactions[reaction].queue.queue_url)
            CfnOutput(self, f"{name}DeadLettersUrl", value=self.reactions[reaction].dead_letters.queue_url)
