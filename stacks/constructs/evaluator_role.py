"""What the rule container may do: read runs, write verdicts beside them, report on the bus, and write its log."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from trackside.contracts.event import SOURCE
from trackside.contracts.run_layout import RULE_OUTPUT

LOG_GROUP = "/aws/sagemaker/ProcessingJobs"  # SageMaker's own, for all processing jobs of an account
LOG_GROUP_IN_FINDINGS = f"arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:{LOG_GROUP}"


class EvaluatorRole(iam.Role):
    """The role of the processing jobs that judge runs."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        runs: s3.IBucket,
        key: kms.IKey,
        bus: events.IEventBus,
        repository: ecr.IRepository,
    ) -> None:
        stack = Stack.of(scope)
        super().__init__(
            scope,
            construct_id,
            description="Trackside: judges runs, in SageMaker processing jobs",
            # A service may take on this role for this account only, else any account's job could ask for it.
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        log_group = stack.format_arn(service="logs", resource=f"log-group:{LOG_GROUP}")
        for sid, actions, resources in (
            ("FindRuns", ["s3:ListBucket"], [runs.bucket_arn]),
            ("ReadRuns", ["s3:GetObject"], [runs.arn_for_objects("*")]),
            ("WriteVerdicts", ["s3:PutObject"], [runs.arn_for_objects(f"*/{RULE_OUTPUT}/*")]),
            ("UseTheKey", ["kms:Decrypt", "kms:GenerateDataKey"], [key.key_arn]),
            (
                "PullTheImage",
                ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
                [repository.repository_arn],
            ),
            ("LogIn", ["ecr:GetAuthorizationToken"], ["*"]),  # it knows no resources
            (
                "WriteLog",
                ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                [log_group, f"{log_group}:log-stream:*"],
            ),
        ):
            self.add_to_policy(iam.PolicyStatement(sid=sid, actions=actions, resources=resources))
        self.add_to_policy(
            iam.PolicyStatement(
                sid="Report",
                actions=["events:PutEvents"],
                resources=[bus.event_bus_arn],
                conditions={"StringEquals": {"events:source": SOURCE}},
            )
        )
        for resource, reason in (
            ("*", "ecr:GetAuthorizationToken knows no resources."),
            (f"{name_in_findings(runs)}/*", "A run lies where its job's tag says."),
            (f"{name_in_findings(runs)}/*/{RULE_OUTPUT}/*", "Verdicts lie beside their run, wherever that is."),
            (f"{LOG_GROUP_IN_FINDINGS}:log-stream:*", "Streams are named by SageMaker, after the job."),
        ):
            accept_wildcard(self, resource, reason=reason)
