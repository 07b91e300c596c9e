"""The network of the dashboard: an existing VPC, or a small one with a way to the internet."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.python_lambda import RETENTION


class DashboardNetwork(Construct):
    """The network of balancer and container.

    - `vpc_id`, `subnet_ids`: the place of both
    - `is_public`: True if the internet leads to the balancer
    - `balancer_group_id`: security group of the balancer: TLS from the given networks
    - `container_group_id`: security group of the container: the balancer alone
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: str,
        subnets: Sequence[str],
        reached_from: Sequence[str],
        port: int,
        log_retention_days: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc_id, self.subnet_ids, self.is_public = vpc, list(subnets), not vpc
        if not vpc:
            self._make(log_retention_days)
        rule = ec2.CfnSecurityGroup.IngressProperty
        balancer = ec2.CfnSecurityGroup(
            self,
            "Balancer",
            vpc_id=self.vpc_id,
            group_description="The balancer of the dashboard: TLS comes in",
            security_group_ingress=[
                rule(ip_protocol="tcp", from_port=443, to_port=443, cidr_ip=network, description="TLS of visitors")
                for network in reached_from
            ],
        )
        why = "Whoever reaches the balancer must sign in; team_dashboard_reached_from narrows the networks."
        acknowledge(balancer, {"AwsSolutions-EC23": why})
        self.balancer_group_id = balancer.attr_group_id
        container = ec2.CfnSecurityGroup(
            self,
            "Container",
            vpc_id=self.vpc_id,
            group_description="The container of the dashboard: its balancer comes in",
            security_group_ingress=[
                rule(
                    ip_protocol="tcp",
                    from_port=port,
                    to_port=port,
                    source_security_group_id=self.balancer_group_id,
                    description="The balancer",
                )
            ],
        )
        self.container_group_id = container.attr_group_id

    def _make(self, log_retention_days: int) -> None:
        """Make a VPC without NAT: the container has an address for its calls out, and only the balancer reaches it."""
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            restrict_default_security_group=False,  # else a function of CDK's own would be deployed to do it
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Dashboard", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24, map_public_ip_on_launch=False
                )
            ],
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
        )
        log_group = logs.LogGroup(
            self, "Log", retention=RETENTION[log_retention_days], removal_policy=RemovalPolicy.DESTROY
        )
        vpc.add_flow_log(
            "FlowLog",
            traffic_type=ec2.FlowLogTrafficType.REJECT,
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group),
        )
        acknowledge(vpc, {"AwsSolutions-VPC7": "What was refused is logged; the dashboard logs each visit itself."})
        self.vpc_id = vpc.vpc_id
        self.subnet_ids = [subnet.subnet_id for subnet in vpc.public_subnets]
