"""The network of the fleet's workers: an existing VPC, or a small one without a way to the internet."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.python_lambda import RETENTION

# Services that a worker calls. S3 and DynamoDB have gateways, which cost nothing.
INTERFACES = {
    "Registry": ec2.InterfaceVpcEndpointAwsService.ECR,
    "Images": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Queues": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Events": ec2.InterfaceVpcEndpointAwsService.EVENTBRIDGE,
}


class FleetNetwork(Construct):
    """The network. A service takes `subnet_ids` and `security_group_ids`. Existing ones are used as they are."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        subnets: Sequence[str],
        security_groups: Sequence[str],
        log_retention_days: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.subnet_ids, self.security_group_ids = list(subnets), list(security_groups)
        if not subnets:
            self._make(log_retention_days)

    def _make(self, log_retention_days: int) -> None:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            restrict_default_security_group=False,  # else a function of CDK's own would be deployed to do it
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Workers", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "DynamoDB": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
        )
        log_group = logs.LogGroup(
            self, "Log", retention=RETENTION[log_retention_days], removal_policy=RemovalPolicy.DESTROY
        )
        vpc.add_flow_log(
            "FlowLog",
            traffic_type=ec2.FlowLogTrafficType.REJECT,
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group),
        )
        workers = ec2.SecurityGroup(self, "Workers", vpc=vpc, description="Workers of the fleet: nothing comes in")
        endpoints = ec2.SecurityGroup(self, "Endpoints", vpc=vpc, description="Endpoints of AWS, for the workers only")
        endpoints.add_ingress_rule(workers, ec2.Port.tcp(443), "TLS from workers")
        for name, service in INTERFACES.items():
            vpc.add_interface_endpoint(name, service=service, security_groups=[endpoints], open=False)
        self.subnet_ids = [subnet.subnet_id for subnet in vpc.isolated_subnets]
        self.security_group_ids = [workers.security_group_id]
        acknowledge(vpc, {"AwsSolutions-VPC7": "What was refused is logged; the rest is the workers' own, to AWS."})
