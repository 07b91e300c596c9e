"""Permissions of the evaluator's container: read runs, write verdicts beside them, report on the bus."""

from __future__ import annotations

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.allow import allow
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
        let_judge(self, runs=runs, key=key, bus=bus)


def let_judge(role: iam.Role, *, runs: s3.IBucket, key: kms.IKey, bus: events.IEventBus) -> None:
    """Let a role judge runs, wherever it does so."""
    allow(role, "FindRuns", ["s3:ListBucket"], [runs.bucket_arn], why="A trial lists what a run has written.")
    where = runs.arn_for_objects("*")
    allow(role, "ReadRuns", ["s3:GetObject"], [where], why="A run lies where its job's tag says.")
    where = runs.arn_for_objects(f"*/{RULE_OUTPUT}/*")
    allow(role, "WriteVerdicts", ["s3:PutObject"], [where], why="Verdicts lie beside their run, wherever that is.")
    actions = ["kms:Decrypt", "kms:GenerateDataKey"]
    allow(role, "UseTheKey", actions, [key.key_arn], why="Runs are encrypted with this key.")
    allow(
        role,
        "Report",
        ["events:PutEvents"],
        [bus.event_bus_arn],
        conditions={"StringEquals": {"events:source": SOURCE}},
        why="Publishes verdicts, in our name only.",
    )
    for resource, reason in (
        (f"{name_in_findings(runs)}/*", "A run lies where its job's tag says."),
        (f"{name_in_findings(runs)}/*/{RULE_OUTPUT}/*", "Verdicts lie beside their run, wherever that is."),
    ):
        accept_wildcard(role, resource, reason=reason)
