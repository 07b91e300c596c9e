"""A reaction as a Lambda function: its own role with only the permissions it needs, its own log with an end, traces."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from lambdas.shared.settings import EnvironmentSettings
from stacks.constructs.acknowledge import accept_wildcard, acknowledge
from stacks.lambda_code import prepare_lambda_code

TIMEOUT_SECONDS = 30
PYTHON_IS = "3.12: the wheels in its code are for it, and AWS supports it until October 2028."

RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
}


class PythonLambda(lambda_.Function):
    """The function of lambdas/<name>, with the variables of its settings. `calls_itself`: it may, by its queue."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        description: str,
        settings: EnvironmentSettings,
        log_retention_days: int,
        timeout_seconds: int = TIMEOUT_SECONDS,
        calls_itself: bool = False,
    ) -> None:
        self.reaction = name
        log_group = logs.LogGroup(
            scope,
            f"{construct_id}Log",
            retention=RETENTION[log_retention_days],
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(scope, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(role)
        super().__init__(
            scope,
            construct_id,
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_12,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(str(prepare_lambda_code()), exclude=["**/__pycache__", "bin"]),
            handler=f"lambdas.{name}.handler.handle",
            role=role,
            log_group=log_group,
            environment={"POWERTOOLS_SERVICE_NAME": name, **settings.to_environment()},
            tracing=lambda_.Tracing.ACTIVE,
            timeout=Duration.seconds(timeout_seconds),
            memory_size=256,
            # https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
            recursive_loop=lambda_.RecursiveLoop.ALLOW if calls_itself else None,
        )
        accept_wildcard(role, "*", reason="X-Ray's PutTraceSegments and PutTelemetryRecords know no resources.")
        acknowledge(
            self,
            {
                "AwsSolutions-L1": PYTHON_IS,
                "Serverless-LambdaLatestVersion": PYTHON_IS,
                "Serverless-LambdaDLQ": "It is called by its queue, which has a dead-letter queue.",
                "Serverless-LambdaEventSourceMappingDestination": "SQS sources have none: the queue has a redrive.",
            },
        )
