"""What the evaluator's container may do: read runs, write verdicts beside them, report on the bus."""

from __future__ import annotations

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.processing_job_role import ProcessingJobRole
from trackside.contracts.event import SOURCE
from trackside.contracts.run_layout import RULE_OUTPUT


class EvaluatorRole(ProcessingJobRole):
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
        description = "Trackside: judges runs, in SageMaker processing jobs"
        super().__init__(scope, construct_id, description=description, repository=repository)
        self.allow("FindRuns", ["s3:ListBucket"], [runs.bucket_arn])
        self.allow("ReadRuns", ["s3:GetObject"], [runs.arn_for_objects("*")])
        self.allow("WriteVerdicts", ["s3:PutObject"], [runs.arn_for_objects(f"*/{RULE_OUTPUT}/*")])
        self.allow("UseTheKey", ["kms:Decrypt", "kms:GenerateDataKey"], [key.key_arn])
        self.add_to_policy(
            iam.PolicyStatement(
                sid="Report",
                actions=["events:PutEvents"],
                resources=[bus.event_bus_arn],
                conditions={"StringEquals": {"events:source": SOURCE}},
            )
        )
        for resource, reason in (
            (f"{name_in_findings(runs)}/*", "A run lies where its job's tag says."),
            (f"{name_in_findings(runs)}/*/{RULE_OUTPUT}/*", "Verdicts lie beside their run, wherever that is."),
        ):
            accept_wildcard(self, resource, reason=reason)
