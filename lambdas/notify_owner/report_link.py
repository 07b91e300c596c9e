"""Links from a message to its run: the dashboard, where the deployment has one, else the report; and to its picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.runs import is_in
from trackside.contracts.event import RuleEvaluation
from trackside.contracts.run_layout import REPORT_KEY, RULE_OUTPUT, picture_key

_SOON: dict[str, Any] = {"retries": {"total_max_attempts": 2}, "connect_timeout": 1, "read_timeout": 2}


@dataclass(frozen=True)
class ReportLink:
    """A link. `about`: who may open it, and for how long."""

    url: str = ""
    about: str = ""

    @property
    def lines(self) -> str:
        """The end of a message, or nothing."""
        return f"\n{self.about}\n  {self.url}\n" if self.url else ""


def report_link(run_uri: str, settings: NotifyOwnerSettings) -> ReportLink:
    """Return the link to a run; an empty one if the settings want none, or the run lies in another place."""
    run = run_uri.rstrip("/")
    if not settings.run_bucket or not is_in(settings.run_bucket, run):
        return ReportLink()
    parent, _, name = run.rpartition("/")
    if settings.dashboard_url and parent == settings.dashboard_runs.rstrip("/"):
        return ReportLink(f"{settings.dashboard_url}/runs/{quote(name, safe='')}", "The run, for those who may sign in")
    if not settings.report_link_hours:
        return ReportLink()
    url = _signed(_key(run, REPORT_KEY, settings), "text/html; charset=utf-8", settings)
    hours = f"{settings.report_link_hours} hour{'' if settings.report_link_hours == 1 else 's'}"
    return ReportLink(url, f"The report, once the run has ended; this link opens it to anybody, for {hours} at most")


def picture_link(evaluation: RuleEvaluation, settings: NotifyOwnerSettings) -> str:
    """Return a signed link to the picture of an issue; "" without one, or if the settings want no signed links."""
    run = evaluation.run_uri.rstrip("/")
    if not settings.report_link_hours or not settings.run_bucket or not is_in(settings.run_bucket, run):
        return ""
    name = picture_key(evaluation.configuration_name, evaluation.evidence.since_step)
    key = _key(run, name, settings)
    try:
        _signer().head_object(Bucket=settings.run_bucket, Key=key)
    except (ClientError, BotoCoreError):  # without the right to list, S3 answers 403 where nothing is
        return ""
    return _signed(key, "image/png", settings)


def _key(run: str, name: str, settings: NotifyOwnerSettings) -> str:
    return f"{run.removeprefix(f's3://{settings.run_bucket}/')}/{RULE_OUTPUT}/{name}"


def _signed(key: str, content_type: str, settings: NotifyOwnerSettings) -> str:
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html: it ends with the credentials of
    # this function, if these end earlier.
    url: str = _signer().generate_presigned_url(
        "get_object",
        Params={"Bucket": settings.run_bucket, "Key": key, "ResponseContentType": content_type},
        ExpiresIn=settings.report_link_hours * 3600,
    )
    return url


@cache
def _signer() -> Any:
    """Return a client that signs, and gives up soon: a message waits. Objects encrypted with a key need version 4."""
    return boto3.client("s3", config=Config(signature_version="s3v4", **_SOON))
