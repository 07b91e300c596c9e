"""The account of a training job: this one and its region, a spoke that this hub watches, or another."""

from __future__ import annotations

from typing import Any

import boto3

from lambdas.shared.clients import PATIENT, client
from lambdas.shared.decisions import Nothing
from lambdas.stop_training.settings import StopTrainingSettings

SESSION_SECONDS = 900  # the least that STS offers; a stop takes a second
SESSION_NAME = "trackside-stop-training"  # in the spoke's CloudTrail


def account_to_enter(job_arn: str, settings: StopTrainingSettings, *, function_arn: str) -> str | Nothing:
    """Return the spoke in which the job must be stopped; "" for this account.

    SageMaker takes only a name, so a job of another account or region must never be taken for one of the same name
    here.
    """
    _, _, _, region, account, _ = job_arn.split(":", 5)
    _, _, _, own_region, own_account, _ = function_arn.split(":", 5)
    if region == own_region and account == own_account:
        return ""
    if region == own_region and account in settings.spoke_accounts:
        return account
    why = f"{job_arn} is a training job of another account or region: this deployment stops those of {own_account}"
    spokes = f" and {','.join(settings.spoke_accounts)}" if settings.spoke_accounts else ""
    return Nothing(f"{why}{spokes} in {own_region} only.", surprising=True)


def sagemaker_in(account: str, settings: StopTrainingSettings, *, function_arn: str) -> Any:
    """Return SageMaker's client in this account (""), or in a spoke by the role in it. Errors: `ClientError` of STS."""
    if not account:
        return client("sagemaker")
    partition = function_arn.split(":")[1]
    credentials = client("sts").assume_role(
        RoleArn=f"arn:{partition}:iam::{account}:role/{settings.spoke_role}",
        RoleSessionName=SESSION_NAME,
        ExternalId=settings.external_id,
        DurationSeconds=SESSION_SECONDS,
    )["Credentials"]
    return boto3.client(
        "sagemaker",
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        config=PATIENT,
    )
