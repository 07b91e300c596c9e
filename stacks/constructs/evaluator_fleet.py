"""The fleet: workers on ECS that share all runs through a table of leases."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, acknowledge
from stacks.constructs.allow import allow
from stacks.constructs.evaluator_role import let_judge
from stacks.constructs.fleet_network import FleetNetwork
from stacks.constructs.lease_table import LeaseTable
from stacks.constructs.private_bucket import PrivateBucket
from stacks.constructs.processing_job_role import let_pull
from stacks.constructs.python_lambda import RETENTION
from stacks.constructs.run_table import KEY_ACTIONS
from stacks.deployment_settings import DeploymentSettings
from trackside.contracts.deployment.lease import OPEN_INDEX
from trackside.contracts.deployment.metrics import FLEET_DIMENSION, FLEET_NAMESPACE, LOAD

TARGET_LOAD_PERCENT = 70
STOP_SECONDS = 120  # the longest that Fargate waits between SIGTERM and SIGKILL
GRACE_SECONDS = 90
NEWS_SECONDS = 5
UNREAD_ATTEMPTS = 5
WORKER_MEMORY_MB = 256  # of the worker itself, beside the runs that it judges
SCRATCH = "scratch"  # the only folder in which a worker writes
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-service-linked-roles.html
SCALING_ROLE = (
    "role/aws-service-role/ecs.application-autoscaling.amazonaws.com",
    "AWSServiceRoleForApplicationAutoScaling_ECSService",
)


class EvaluatorFleet(Construct):
    """The fleet.

    - `table`: the leases
    - `queue`: the queue in which runs are announced
    - `has_news`: S3 sends an event for each write to a run
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        runs: s3.IBucket,
        key: kms.IKey,
        bus: events.IEventBus,
        repository: ecr.Repository,
        failed: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._key = settings, key
        self.has_news = isinstance(
            runs, PrivateBucket
        )  # the notifications of an existing bucket are its owner's choice
        self.table = LeaseTable(self, "Leases", key=key)
        self.queue, self.dead_letters = self._create_queue()
        self.role = self._create_role(runs=runs, bus=bus, failed=failed)
        self._start_role = self._create_execution_role(repository)
        self.service = self._create_service(
            self._create_task(repository, failed=failed),
            FleetNetwork(
                self,
                "Network",
                subnets=settings.place.subnets,
                security_groups=settings.place.security_groups,
                log_retention_days=settings.retention.log_days,
            ),
        )
        self._scale()

    def let_announce(self, function: lambda_.Function) -> None:
        """Let a function that starts evaluations put runs into the table, and into the queue."""
        why = "Its purpose in the mode `fleet`: a run that is to be judged, once."
        allow(function, "OpenLeases", ["dynamodb:PutItem"], [self.table.table_arn], why=why)
        self._let_open_table(function)
        allow(function, "AnnounceRuns", ["sqs:SendMessage"], [self.queue.queue_arn], why="So that a worker looks now.")

    def let_note_news(self, function: lambda_.Function) -> None:
        """Let a function that gets writes to runs note them."""
        why = "Its purpose: the moment of the last write to a run."
        allow(function, "NoteNews", ["dynamodb:PutItem"], [self.table.table_arn], why=why)
        self._let_open_table(function)

    def let_see(self, function: lambda_.Function) -> None:
        """Let a function that looks for unjudged runs read the table."""
        why = "Reads the list of runs of the fleet, judged ones included."
        allow(function, "SeeLeases", ["dynamodb:GetItem"], [self.table.table_arn], why=why)
        self._let_open_table(function)

    def fleet_metric(self, name: str, statistic: str, *, minutes: int) -> cloudwatch.Metric:
        """Return a metric that workers publish about themselves (`trackside.contracts.deployment.metrics`)."""
        return cloudwatch.Metric(
            namespace=FLEET_NAMESPACE,
            metric_name=name,
            dimensions_map={FLEET_DIMENSION: self._settings.event_bus_name},
            statistic=statistic,
            period=Duration.minutes(minutes),
        )

    def _let_open_table(self, principal: lambda_.Function | iam.Role) -> None:
        allow(
            principal,
            "OpenTheLeases",
            KEY_ACTIONS,
            [self._key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{Stack.of(self).region}.amazonaws.com"}},
            why="DynamoDB uses the key of the table in the name of whoever reads or writes it.",
        )

    def _create_queue(self) -> tuple[sqs.Queue, sqs.Queue]:
        dead_letters = sqs.Queue(
            self,
            "UnreadAnnouncements",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(dead_letters, {"Serverless-SQSRedrivePolicy": "This is where others' dead letters go."})
        queue = sqs.Queue(
            self,
            "Announcements",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(30),
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=UNREAD_ATTEMPTS),
        )
        return queue, dead_letters

    def _create_role(self, *, runs: s3.IBucket, bus: events.IEventBus, failed: sqs.IQueue) -> iam.Role:
        tasks = iam.ServicePrincipal(
            "ecs-tasks.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        )
        role = iam.Role(self, "Role", description="Trackside: judges runs, as workers of the fleet", assumed_by=tasks)
        let_judge(role, runs=runs, key=self._key, bus=bus)
        actions = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"]
        leases = [self.table.table_arn, f"{self.table.table_arn}/index/{OPEN_INDEX}"]
        allow(role, "Lease", actions, leases, why="Takes runs, renews its leases, and marks judged runs.")
        self._let_open_table(role)
        actions = ["sqs:DeleteMessage", "sqs:ReceiveMessage"]
        allow(role, "ReadAnnouncements", actions, [self.queue.queue_arn], why="Hears of new runs.")
        allow(
            role,
            "TellWhatFailed",
            ["sqs:SendMessage"],
            [failed.queue_arn],
            why="Reports runs that are no longer watched.",
        )
        return role

    def _create_task(self, repository: ecr.Repository, *, failed: sqs.IQueue) -> ecs.FargateTaskDefinition:
        settings = self._settings
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=settings.fleet.cpu_units,
            memory_limit_mib=settings.fleet.memory_mb,
            task_role=self.role,
            execution_role=self._start_role,
        )
        log_group = logs.LogGroup(
            self, "Log", retention=RETENTION[settings.retention.log_days], removal_policy=RemovalPolicy.DESTROY
        )
        news = {"TRACKSIDE_FLEET_NEWS_SECONDS": str(NEWS_SECONDS)} if self.has_news else {}
        # The image's VOLUME sets its owner: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/bind-mounts.html
        task.add_volume(name=SCRATCH)
        worker = task.add_container(
            "Worker",
            readonly_root_filesystem=True,
            user="65534:65534",  # from the start: only SageMaker's folders need root for a moment
            image=ecs.ContainerImage.from_registry(repository.repository_uri_for_tag(settings.evaluator.image_tag)),
            logging=ecs.LogDrivers.aws_logs(stream_prefix="worker", log_group=log_group),
            stop_timeout=Duration.seconds(STOP_SECONDS),
            environment={
                "TRACKSIDE_EVENT_BUS": settings.event_bus_name,
                "TRACKSIDE_FLEET_TABLE": self.table.table_name,
                "TRACKSIDE_FLEET_QUEUE_URL": self.queue.queue_url,
                "TRACKSIDE_FLEET_FAILED_QUEUE_URL": failed.queue_url,
                "TRACKSIDE_FLEET_RUNS": str(settings.fleet.runs_per_worker),
                "TRACKSIDE_FLEET_GRACE_SECONDS": str(GRACE_SECONDS),
                "TRACKSIDE_FLEET_MEMORY_MB": str(settings.fleet.memory_mb - WORKER_MEMORY_MB),
                "TRACKSIDE_CUSTOM_RULES_FROM": settings.custom_rules.rules_from,
                "AWS_DEFAULT_REGION": Stack.of(self).region,
                **news,
            },
        )
        scratch = ecs.MountPoint(container_path="/tmp", source_volume=SCRATCH, read_only=False)  # noqa: S108 - the container's
        worker.add_mount_points(scratch)
        acknowledge(task, {"AwsSolutions-ECS2": "Names of a table, a queue and a bus; no secret is among them."})
        return task

    def _create_execution_role(self, repository: ecr.IRepository) -> iam.Role:
        """Return the role of ECS itself, which starts the containers. The log's own grant comes with the log."""
        tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        role = iam.Role(self, "Start", description="Trackside: starts workers of the fleet", assumed_by=tasks)
        let_pull(role, repository)
        accept_wildcard(role, "*", reason="ecr:GetAuthorizationToken knows no resources.")
        return role

    def _create_service(self, task: ecs.FargateTaskDefinition, network: FleetNetwork) -> ecs.CfnService:
        """Return the service, made from the ids of the network alone, as every part that joins an existing VPC."""
        self.cluster = ecs.CfnCluster(
            self,
            "Cluster",
            cluster_settings=[ecs.CfnCluster.ClusterSettingsProperty(name="containerInsights", value="enabled")],
        )
        service = ecs.CfnService(
            self,
            "Service",
            cluster=self.cluster.ref,
            task_definition=task.task_definition_arn,
            launch_type="FARGATE",
            desired_count=None,  # the scaling decides; a deployment must not undo it
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            deployment_configuration=ecs.CfnService.DeploymentConfigurationProperty(
                minimum_healthy_percent=100,
                maximum_percent=200,
                deployment_circuit_breaker=ecs.CfnService.DeploymentCircuitBreakerProperty(enable=True, rollback=True),
            ),
            network_configuration=ecs.CfnService.NetworkConfigurationProperty(
                awsvpc_configuration=ecs.CfnService.AwsVpcConfigurationProperty(
                    subnets=network.subnet_ids,
                    security_groups=network.security_group_ids,
                    assign_public_ip="DISABLED",
                )
            ),
        )
        # Ids alone make no order: the first worker needs its permissions, and a way to AWS, before it starts.
        service.node.add_dependency(task, task.task_role, self._start_role, network)
        return service

    def _scale(self) -> None:
        """Scale on the load of the workers, and on the announced runs: without a worker no load is published."""
        resource, name = SCALING_ROLE
        role_arn = Stack.of(self).format_arn(service="iam", region="", resource=resource, resource_name=name)
        target = scaling.ScalableTarget(
            self,
            "Workers",
            service_namespace=scaling.ServiceNamespace.ECS,
            resource_id=f"service/{self.cluster.ref}/{self.service.attr_name}",
            scalable_dimension="ecs:service:DesiredCount",
            min_capacity=self._settings.fleet.least_workers,
            max_capacity=self._settings.fleet.most_workers,
            # AWS's own for it; without this CDK makes one that nothing uses.
            role=iam.Role.from_role_arn(self, "ScalingRole", role_arn, mutable=False),
        )
        target.scale_to_track_metric(
            "Load",
            custom_metric=self.fleet_metric(LOAD, cloudwatch.Stats.AVERAGE, minutes=1),
            target_value=TARGET_LOAD_PERCENT,
            scale_in_cooldown=Duration.minutes(5),
            scale_out_cooldown=Duration.minutes(1),
        )
        target.scale_on_metric(
            "Announced",
            metric=self.queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic=cloudwatch.Stats.MAXIMUM
            ),
            scaling_steps=[
                scaling.ScalingInterval(lower=1, upper=50, change=1),
                scaling.ScalingInterval(lower=50, change=5),
            ],
            cooldown=Duration.minutes(2),
        )
