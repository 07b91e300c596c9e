"""Puts a run into the fleet's table, and announces it in its queue."""

from __future__ import annotations

import json

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.start_evaluation.evaluators import OpenLease
from lambdas.start_evaluation.settings import StartEvaluationSettings

# The lease of an earlier job of that name is replaced: an older one, or one of a former release that is over.
_UNKNOWN = (
    "attribute_not_exists(pk) OR created_at < :created_at OR "
    "(attribute_not_exists(created_at) AND attribute_not_exists(shelf))"
)


def open_lease(lease: OpenLease, settings: StartEvaluationSettings) -> Done | Nothing:
    """Open the lease. The table counts: without the announcement a worker finds the run a little later.

    Errors: `ClientError`.
    """
    job = lease.record.job
    try:
        client("dynamodb").put_item(
            TableName=settings.lease_table,
            Item=lease.record.to_item(),
            ConditionExpression=_UNKNOWN,
            ExpressionAttributeValues={":created_at": {"N": str(job.created_at)}},
        )
    except ClientError as error:
        if code_of(error) != "ConditionalCheckFailedException":
            raise
        return Nothing(f"The fleet knows {job.name} from an earlier delivery.")
    client("sqs").send_message(QueueUrl=settings.fleet_queue_url, MessageBody=json.dumps({"TrainingJobArn": job.arn}))
    return Done(f"The fleet judges {job.name}.")
