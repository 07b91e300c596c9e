"""Links in messages: opened in the local account, and their signatures checked by hand."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import boto3
import pytest

from lambdas.notify_owner import report_link as module
from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.report_link import ReportLink, picture_link, report_link
from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob
from trackside.contracts.run_layout import picture_key
from trackside_localaccount.server import LocalAccount

BUCKET, RUN = "runs-bucket", "s3://runs-bucket/team/digits-01"
SIGNED = made(NotifyOwnerSettings, run_bucket=BUCKET, report_link_hours=3)
DASHBOARD = replace(SIGNED, dashboard_url="https://runs.example.com", dashboard_runs="s3://runs-bucket/team")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (("ACCESS_KEY_ID", "AKIATESTING"), ("SECRET_ACCESS_KEY", "of the test"), ("SESSION_TOKEN", "t")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    module._signer.cache_clear()
    yield
    module._signer.cache_clear()


def test_a_signed_link_is_for_one_report_and_for_the_stated_hours() -> None:
    link = report_link(RUN, SIGNED)
    parts = urlsplit(link.url)
    query = dict(parse_qsl(parts.query))
    assert parts.scheme == "https"
    assert f"{parts.netloc}{parts.path}".count(BUCKET) == 1
    assert parts.path.endswith("/team/digits-01/rule-output/report.html")
    assert int(query["X-Amz-Expires"]) == 3 * 3600
    assert "3 hours" in link.about
    assert "anybody" in link.about


def signature_of(url: str, *, secret: str, region: str) -> str:
    """Return the signature of a link, computed from AWS's description.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
    """
    parts = urlsplit(url)
    query = sorted((k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if k != "X-Amz-Signature")
    canonical = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in query)
    request = f"GET\n{parts.path}\n{canonical}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    moment = dict(query)["X-Amz-Date"]
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (moment[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "is_valid"),
    [
        pytest.param("", "", True, id="as-it-is"),
        pytest.param("X-Amz-Expires=10800", "X-Amz-Expires=604800", False, id="longer"),
        pytest.param("digits-01", "digits-02", False, id="another-run"),
        pytest.param("report.html", "verdicts.jsonl", False, id="another-object"),
        pytest.param("text%2Fhtml", "text%2Fplain", False, id="another-kind"),
    ],
)
def test_nothing_of_a_link_can_be_changed(old: str, new: str, is_valid: bool) -> None:
    url = report_link(RUN, SIGNED).url
    assert old in url
    changed = url.replace(old, new) if old else url
    given = dict(parse_qsl(urlsplit(url).query))["X-Amz-Signature"]
    assert (signature_of(changed, secret="of the test", region="eu-central-1") == given) is is_valid


@pytest.mark.parametrize(
    ("run", "settings", "url"),
    [
        pytest.param(RUN, DASHBOARD, "https://runs.example.com/runs/digits-01", id="the-dashboard"),
        pytest.param(f"{RUN}/", DASHBOARD, "https://runs.example.com/runs/digits-01", id="with-a-slash"),
        pytest.param("s3://runs-bucket/team/a b?c", DASHBOARD, "https://runs.example.com/runs/a%20b%3Fc", id="odd"),
        pytest.param(RUN, replace(DASHBOARD, dashboard_runs="s3://runs-bucket", report_link_hours=0), "", id="deeper"),
        pytest.param(RUN, replace(SIGNED, report_link_hours=0), "", id="not-wanted"),
        pytest.param("", SIGNED, "", id="without-a-run"),
        pytest.param("s3://others-bucket/digits-01", DASHBOARD, "", id="in-another-bucket"),
        pytest.param("s3://runs-bucket-2/digits-01", SIGNED, "", id="in-a-bucket-of-a-longer-name"),
        pytest.param("/home/ada/run", SIGNED, "", id="on-a-disk"),
        pytest.param(RUN, replace(SIGNED, run_bucket=""), "", id="without-a-bucket"),
    ],
)
def test_a_link_leads_to_the_dashboard_or_nowhere(run: str, settings: NotifyOwnerSettings, url: str) -> None:
    found = report_link(run, settings)
    assert found.url == url
    assert bool(found.lines) == bool(url)


def test_the_owner_gets_the_link(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings = replace(SIGNED, topic_arn=account.topic, idempotency_table="done", quiet_minutes=0)
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    assert deliver(handle, golden("ours_issues_found")) == []
    (message,) = account.messages()
    text = str(json.dumps(message))
    assert "rule-output/report.html?" in text
    assert "for 3 hours at most" in text


def test_a_link_opens_the_report_in_the_local_account(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalAccount() as account:
        for name, value in account.environment().items():
            monkeypatch.setenv(name, value)
        module._signer.cache_clear()
        s3 = account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="team/digits-01/rule-output/report.html", Body=b"<!doctype html>the report")
        link = report_link(RUN, SIGNED)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(link.url) as answer:
            assert answer.read() == b"<!doctype html>the report"
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        signed_at = dict(parse_qsl(urlsplit(link.url).query))["X-Amz-Date"]
        assert abs(time.mktime(time.strptime(signed_at, "%Y%m%dT%H%M%SZ")) - time.timezone - time.time()) < 60


PICTURED = RuleEvaluation(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    configuration_name="loss-spike",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="It rose.",
    run_uri=RUN,
    evidence=Evidence(step=320, since_step=300),
)


@pytest.mark.parametrize(
    ("evaluation", "settings", "is_linked"),
    [
        pytest.param(PICTURED, SIGNED, True, id="there"),
        pytest.param(PICTURED, DASHBOARD, True, id="beside-a-dashboard"),
        pytest.param(replace(PICTURED, evidence=Evidence(since_step=301)), SIGNED, False, id="another-issue"),
        pytest.param(replace(PICTURED, configuration_name="overfit"), SIGNED, False, id="another-rule"),
        pytest.param(PICTURED, replace(SIGNED, report_link_hours=0), False, id="no-signed-links-wanted"),
        pytest.param(replace(PICTURED, run_uri="s3://others-bucket/digits-01"), SIGNED, False, id="another-bucket"),
        pytest.param(replace(PICTURED, run_uri=""), SIGNED, False, id="without-a-run"),
        pytest.param(PICTURED, replace(SIGNED, run_bucket="gone-bucket"), False, id="without-a-bucket"),
    ],
)
def test_a_picture_is_linked_where_there_is_one(
    account: Any, evaluation: RuleEvaluation, settings: NotifyOwnerSettings, is_linked: bool
) -> None:
    key = f"team/digits-01/rule-output/{picture_key('loss-spike', 300)}"
    boto3.client("s3", region_name="us-east-1").put_object(Bucket=account.bucket, Key=key, Body=b"\x89PNG")
    url = picture_link(evaluation, settings)
    assert bool(url) is is_linked
    if is_linked:
        assert urlsplit(url).path.endswith(key)
        assert dict(parse_qsl(urlsplit(url).query))["X-Amz-Expires"] == "10800"
        assert len(url) < 3000, "Slack takes no longer address of an image"


def test_without_a_link_nothing_is_added() -> None:
    assert ReportLink().lines == ""
