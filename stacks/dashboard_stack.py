"""The dashboard of a team: a container behind a balancer that signs people in (docs/decisions/0109-*.md)."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as balancing
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, acknowledge, name_in_findings
from stacks.constructs.allow import allow
from stacks.constructs.dashboard_network import DashboardNetwork
from stacks.constructs.processing_job_role import let_pull
from stacks.constructs.python_lambda import RETENTION
from stacks.constructs.sign_on_pool import SESSION_HOURS, SignOnPool
from stacks.deployment_settings import DeploymentSettings
from stacks.outputs import output
from stacks.standing import warn_that_it_stays

PORT = 8080
CPU_UNITS, MEMORY_MB = 512, 2048
SCRATCH = "scratch"  # the only folder in which the container writes
NAMELESS = "421"  # answer of the dashboard to a request that does not call it by its name, as health checks do


class TeamDashboard:
    """The dashboard.

    - `role`: the role of its container, which reads the bucket of runs and writes nothing
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: DeploymentSettings,
        runs: s3.IBucket,
        key: kms.IKey,
    ) -> None:
        self._scope, self._settings = scope, settings
        warn_that_it_stays(scope, "team_dashboard_host")
        of_team = settings.team_dashboard
        self._network = DashboardNetwork(
            scope,
            "Network",
            vpc=of_team.vpc,
            subnets=settings.place.subnets,
            reached_from=of_team.reached_from,
            port=PORT,
            log_retention_days=settings.retention.log_days,
        )
        self._sign_on = SignOnPool(
            scope, "SignOn", host=of_team.host, environment=settings.environment, keep=settings.keep_data
        )
        self.role = self._create_role(runs=runs, key=key)
        listener, target = self._create_balancer()
        self._create_service(self._create_task(runs), listener, target)
        output(scope, "DashboardUrl", value=f"https://{of_team.host}/", description="The dashboard of the team")
        output(scope, "DashboardPoolId", value=self._sign_on.pool.user_pool_id, description="Who may open it")

    def _create_role(self, *, runs: s3.IBucket, key: kms.IKey) -> iam.Role:
        stack = Stack.of(self._scope)
        tasks = iam.ServicePrincipal(
            "ecs-tasks.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        )
        role = iam.Role(self._scope, "Role", description="Trackside: shows runs", assumed_by=tasks)
        allow(role, "FindRuns", ["s3:ListBucket"], [runs.bucket_arn], why="Lists the runs, and what they wrote.")
        where = runs.arn_for_objects("*")
        allow(role, "ReadRuns", ["s3:GetObject"], [where], why="A run lies where its job's tag says.")
        allow(role, "DecryptRuns", ["kms:Decrypt"], [key.key_arn], why="Runs are encrypted with this key.")
        accept_wildcard(role, f"{name_in_findings(runs)}/*", reason="A run lies where its job's tag says.")
        return role

    def _create_task(self, runs: s3.IBucket) -> ecs.FargateTaskDefinition:
        settings, of_team = self._settings, self._settings.team_dashboard
        # By its name: the stack of evaluators makes the repository, and must stay free to replace it.
        repository = ecr.Repository.from_repository_name(self._scope, "Image", settings.evaluator.repository)
        tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        start = iam.Role(self._scope, "Start", description="Trackside: starts the dashboard", assumed_by=tasks)
        let_pull(start, repository)
        accept_wildcard(start, "*", reason="ecr:GetAuthorizationToken knows no resources.")
        task = ecs.FargateTaskDefinition(
            self._scope, "Task", cpu=CPU_UNITS, memory_limit_mib=MEMORY_MB, task_role=self.role, execution_role=start
        )
        log_group = logs.LogGroup(
            self._scope, "Log", retention=RETENTION[settings.retention.log_days], removal_policy=RemovalPolicy.DESTROY
        )
        task.add_volume(name=SCRATCH)
        place = of_team.place(runs.bucket_name)
        container = task.add_container(
            "Dashboard",
            readonly_root_filesystem=True,
            user="65534:65534",
            image=ecs.ContainerImage.from_registry(repository.repository_uri_for_tag(settings.evaluator.image_tag)),
            entry_point=["python", "-m", "trackside", "serve"],
            command=[
                *(place, "--host", "0.0.0.0", "--port", str(PORT), "--allow-host", of_team.host),  # noqa: S104 - in its VPC
                *("--issuer", self._sign_on.issuer, "--client", self._sign_on.client.user_pool_client_id),
            ],
            logging=ecs.LogDrivers.aws_logs(stream_prefix="dashboard", log_group=log_group),
            environment={"AWS_DEFAULT_REGION": Stack.of(self._scope).region},
            port_mappings=[ecs.PortMapping(container_port=PORT)],
        )
        container.add_mount_points(
            ecs.MountPoint(container_path="/tmp", source_volume=SCRATCH, read_only=False)  # noqa: S108 - the container's
        )
        acknowledge(task, {"AwsSolutions-ECS2": "The name of a region, which is no secret."})
        return task

    def _create_balancer(self) -> tuple[balancing.CfnListener, balancing.CfnTargetGroup]:
        network, sign_on = self._network, self._sign_on
        attribute = balancing.CfnLoadBalancer.LoadBalancerAttributeProperty
        balancer = balancing.CfnLoadBalancer(
            self._scope,
            "Balancer",
            type="application",
            scheme="internet-facing" if network.is_public else "internal",
            subnets=network.subnet_ids,
            security_groups=[network.balancer_group_id],
            load_balancer_attributes=[attribute(key="routing.http.drop_invalid_header_fields.enabled", value="true")],
        )
        balancer.node.add_dependency(network)  # with its way to the internet
        why = "The dashboard logs each visitor and address itself, and those that it refuses."
        acknowledge(balancer, {"AwsSolutions-ELB2": why})
        target = balancing.CfnTargetGroup(
            self._scope,
            "Target",
            target_type="ip",
            protocol="HTTP",
            port=PORT,
            vpc_id=network.vpc_id,
            health_check_path="/",
            # Healthy is who refuses: there is no address that needs no proof.
            matcher=balancing.CfnTargetGroup.MatcherProperty(http_code=NAMELESS),
            target_group_attributes=[
                balancing.CfnTargetGroup.TargetGroupAttributeProperty(
                    key="deregistration_delay.timeout_seconds", value="5"
                )
            ],
        )
        action = balancing.CfnListener.ActionProperty
        listener = balancing.CfnListener(
            self._scope,
            "Listener",
            load_balancer_arn=balancer.ref,
            port=443,
            protocol="HTTPS",
            ssl_policy="ELBSecurityPolicy-TLS13-1-2-2021-06",
            certificates=[
                balancing.CfnListener.CertificateProperty(certificate_arn=self._settings.team_dashboard.certificate_arn)
            ],
            default_actions=[
                action(
                    type="authenticate-cognito",
                    order=1,
                    authenticate_cognito_config=balancing.CfnListener.AuthenticateCognitoConfigProperty(
                        user_pool_arn=sign_on.pool.user_pool_arn,
                        user_pool_client_id=sign_on.client.user_pool_client_id,
                        user_pool_domain=sign_on.domain.domain_name,
                        on_unauthenticated_request="authenticate",
                        scope="openid",
                        session_timeout=str(SESSION_HOURS * 3600),
                    ),
                ),
                action(type="forward", order=2, target_group_arn=target.ref),
            ],
        )
        output(
            self._scope,
            "DashboardBalancerName",
            value=balancer.attr_dns_name,
            description="Let your DNS lead the dashboard's name here",
        )
        return listener, target

    def _create_service(
        self, task: ecs.FargateTaskDefinition, listener: balancing.CfnListener, target: balancing.CfnTargetGroup
    ) -> None:
        network = self._network
        cluster = ecs.CfnCluster(
            self._scope,
            "Cluster",
            cluster_settings=[ecs.CfnCluster.ClusterSettingsProperty(name="containerInsights", value="enabled")],
        )
        service = ecs.CfnService(
            self._scope,
            "Service",
            cluster=cluster.ref,
            task_definition=task.task_definition_arn,
            launch_type="FARGATE",
            desired_count=1,
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            deployment_configuration=ecs.CfnService.DeploymentConfigurationProperty(
                minimum_healthy_percent=100,
                maximum_percent=200,
                deployment_circuit_breaker=ecs.CfnService.DeploymentCircuitBreakerProperty(enable=True, rollback=True),
            ),
            load_balancers=[
                ecs.CfnService.LoadBalancerProperty(
                    container_name="Dashboard", container_port=PORT, target_group_arn=target.ref
                )
            ],
            network_configuration=ecs.CfnService.NetworkConfigurationProperty(
                awsvpc_configuration=ecs.CfnService.AwsVpcConfigurationProperty(
                    subnets=network.subnet_ids,
                    security_groups=[network.container_group_id],
                    assign_public_ip="ENABLED" if network.is_public else "DISABLED",
                )
            ),
        )
        # Ids alone make no order: the container needs its permissions, and a balancer that leads to it.
        starts = [task.execution_role] if task.execution_role else []
        service.node.add_dependency(task, task.task_role, *starts, listener, network)
