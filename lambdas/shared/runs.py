"""The address of a training job's run: its tag `trackside:run`."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any

from lambdas.shared.decisions import Nothing
from trackside.contracts.deployment.custom_rule_job import JOB_NAME
from trackside.contracts.event import TrainingJobStateChange
from trackside.contracts.job_choice import RUN_TAG
from trackside.contracts.run_layout import RunLocation, run_of_job

_S3_URI = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<prefix>[^\s?#]*[^\s?#/])/*")


def find_run(
    change: TrainingJobStateChange, *, bucket: str, spoke_accounts: Container[str] = ()
) -> RunLocation | Nothing:
    """Return the run that the job's tag names, or the reason why this deployment may not touch it.

    `/@job` stands for a run below the address, with the job's name. A job of another account, one of `spoke_accounts`,
    may name only `<its account>/...`: that account can write nowhere else, and one spoke's job could request another's
    run.
    """
    job, uri = change.job.name, change.tags.get(RUN_TAG, "")
    if not uri:
        return Nothing(f"{job} carries no tag {RUN_TAG}, so Trackside does not watch it.")
    match = _S3_URI.fullmatch(uri)
    if match is None or not uri.isprintable() or {".", ".."} & set(match["prefix"].split("/")):
        what = f"it must be s3://{bucket}/<prefix>, without blanks, dots as folders, ? and #."
        return Nothing(f"{job} is tagged {RUN_TAG}={uri!r}; {what}", surprising=True)
    if match["bucket"] != bucket:
        why = f"{job} is tagged {RUN_TAG}={uri!r}; this deployment may read runs in s3://{bucket} only."
        return Nothing(why, surprising=True)
    account = account_of(change.job.arn)
    if account in spoke_accounts and not match["prefix"].startswith(f"{account}/"):
        why = f"{job} is tagged {RUN_TAG}={uri!r}; a job of the account {account} must lie in s3://{bucket}/{account}/."
        return Nothing(why, surprising=True)
    return RunLocation(run_of_job(uri, job))


def is_in(bucket: str, uri: str) -> bool:
    """Return True if the run that a tag names is in this deployment's bucket: another may share the account."""
    return uri.startswith(f"s3://{bucket}/")


def account_of(arn: str) -> str:
    """Return the account that an ARN names; "" for none."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 5 else ""


def job_name_in(event: Mapping[str, Any]) -> str:
    """Return the training job that an event of any shape is about; "" if it names none."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return ""
    environment = detail.get("Environment")  # of a processing job that judges a training job
    judged = environment.get(JOB_NAME) if isinstance(environment, Mapping) else None
    name = detail.get("TrainingJobName") or judged
    return name if isinstance(name, str) else ""


def sent_at(event: Mapping[str, Any]) -> float:
    """Return the time at which EventBridge took the event, in seconds since the epoch; 0 if it is not given."""
    try:
        # Python 3.10 knows no Z.
        return datetime.fromisoformat(str(event.get("time")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def split_uri(run: RunLocation) -> tuple[str, str]:
    """Return (bucket, prefix) of a run that `find_run` found."""
    bucket, _, prefix = run.uri.removeprefix("s3://").partition("/")
    return bucket, prefix
