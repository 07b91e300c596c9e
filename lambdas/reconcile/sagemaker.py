"""SageMaker's data about jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from botocore.exceptions import ClientError

from lambdas.reconcile.logic import Listed
from lambdas.reconcile.settings import ReconcileSettings
from lambdas.shared.clients import client, is_missing
from trackside.contracts.job_choice import TAG_PREFIX

LONGEST_DAYS = 60  # a job may run for 28 days, and wait for capacity before
MOST_PAGES_OF_EVALUATORS = 5  # of 100


def running_jobs(settings: ReconcileSettings, *, now: float) -> tuple[list[Listed], bool]:
    """Return training jobs in progress, newest first, and True if these are all."""
    request: dict[str, Any] = {
        "StatusEquals": "InProgress",
        "CreationTimeAfter": datetime.fromtimestamp(now - LONGEST_DAYS * 24 * 3600, tz=timezone.utc),
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
        "MaxResults": 100,
    }
    found: list[Listed] = []
    for page in range(settings.most_pages):
        if page:
            time.sleep(settings.list_pause_seconds)
        answer = client("sagemaker").list_training_jobs(**request)
        found += [
            Listed(each["TrainingJobName"], each["TrainingJobArn"], each["CreationTime"].timestamp())
            for each in answer["TrainingJobSummaries"]
        ]
        if not answer.get("NextToken"):
            return found, True
        request["NextToken"] = answer["NextToken"]
    return found, False


def describe(name: str) -> Mapping[str, Any] | None:
    """Return the training job of that name; None if it does not exist any more."""
    try:
        description: Mapping[str, Any] = client("sagemaker").describe_training_job(TrainingJobName=name)
    except ClientError as error:
        if not is_missing(error):
            raise
        return None
    return description


def tags_of(arn: str) -> dict[str, str]:
    """Return the tags of a training job that we use."""
    pages = client("sagemaker").get_paginator("list_tags").paginate(ResourceArn=arn)
    tags = {str(tag["Key"]): str(tag["Value"]) for page in pages for tag in page["Tags"]}
    return {key: value for key, value in tags.items() if key.startswith(TAG_PREFIX)}


def is_processing_job_since(processing_job: str, since: int) -> bool:
    """Return True if a processing job of that name was created at or after that second."""
    try:
        answer = client("sagemaker").describe_processing_job(ProcessingJobName=processing_job)
    except ClientError as error:
        if not is_missing(error):
            raise
        return False
    return bool(answer["CreationTime"].timestamp() >= since)


def processing_jobs(name_contains: str, *, since: int) -> list[Mapping[str, Any]]:
    """Return summaries of the processing jobs of such a name, created since that second, newest first, at most 500.

    The limit is high because the oldest link of a hundred chains may be one that works.
    """
    request: dict[str, Any] = {
        "NameContains": name_contains,
        "CreationTimeAfter": datetime.fromtimestamp(max(since - 1, 0), tz=timezone.utc),
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
        "MaxResults": 100,
    }
    found: list[Mapping[str, Any]] = []
    for _ in range(MOST_PAGES_OF_EVALUATORS):
        answer = client("sagemaker").list_processing_jobs(**request)
        found += answer["ProcessingJobSummaries"]
        if not answer.get("NextToken"):
            break
        request["NextToken"] = answer["NextToken"]
    return found


def describe_processing(name: str) -> Mapping[str, Any]:
    """Return the processing job of that name. Errors: `ClientError`."""
    description: Mapping[str, Any] = client("sagemaker").describe_processing_job(ProcessingJobName=name)
    return description
