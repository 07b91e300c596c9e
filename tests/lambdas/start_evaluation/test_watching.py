"""Who is watched: by tag, by environment, by name; and who is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.shared.decisions import Nothing
from lambdas.start_evaluation.settings import StartEvaluationSettings
from lambdas.start_evaluation.watching import Watched, WrongPlace, who_is_watched
from tests.lambda_settings import made
from trackside.contracts.event import TrainingJob, TrainingJobStateChange

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
TAGS_ONLY = made(StartEvaluationSettings, image_uri="i", role_arn="r", run_bucket="runs-bucket", event_bus="trackside")
BY_ENVIRONMENT = replace(TAGS_ONLY, watch_by_environment=True)
BY_NAME = replace(
    TAGS_ONLY,
    watched_jobs=("nightly-*", "digits-01"),
    unwatched_jobs=("nightly-test-*",),
    untagged_runs="s3://runs-bucket/jobs/@job",
)
BOTH = replace(BY_NAME, watch_by_environment=True)
RUN = "s3://runs-bucket/digits"
SPOKE = "210987654321"
HUB = replace(BOTH, spoke_accounts=(SPOKE, "333333333333"))
MADE, OLDER, OTHERS = (
    f"trackside{stack}storage-runse45a2291-{random}"
    for stack, random in (("", "abcdefghijkl"), ("", "0123456789ab"), ("-staging-", "abcdefghijkl"))
)


def change(name: str = "digits-01", status: str = "InProgress", **tags: str) -> TrainingJobStateChange:
    given = {key.replace("_", ":"): value for key, value in tags.items()}
    return TrainingJobStateChange(TrainingJob(name, ARN + name), status, "Starting", given)


def of_spoke(**tags: str) -> TrainingJobStateChange:
    ours = change(**tags)
    return replace(ours, job=TrainingJob(ours.job.name, ours.job.arn.replace("123456789012", SPOKE)))


def never_read() -> Mapping[str, str]:
    raise AssertionError("nothing asks SageMaker here")


def environment_with(**variables: str) -> Any:
    return lambda: variables


@pytest.mark.parametrize(
    ("settings", "job", "environment", "run", "new_tags"),
    [
        pytest.param(TAGS_ONLY, change(trackside_run=RUN), never_read, RUN, {}, id="tagged"),
        pytest.param(BOTH, change(trackside_run=RUN), never_read, RUN, {}, id="tagged, and nobody is asked"),
        pytest.param(
            TAGS_ONLY,
            change(trackside_run=f"{RUN}/@job"),
            never_read,
            f"{RUN}/digits-01",
            {},
            id="one run for each job",
        ),
        pytest.param(
            BOTH,
            change("nightly-test-7", trackside_run=RUN),
            never_read,
            RUN,
            {},
            id="its own tag counts more than the list of those that are not",
        ),
        pytest.param(
            BY_ENVIRONMENT,
            change(),
            environment_with(TRACKSIDE_RUN=RUN),
            RUN,
            {"trackside:run": RUN},
            id="by its environment",
        ),
        pytest.param(
            BY_ENVIRONMENT,
            change(),
            environment_with(TRACKSIDE_RUN=f"{RUN}/@job"),
            f"{RUN}/digits-01",
            {"trackside:run": f"{RUN}/digits-01"},
            id="by the environment of its image",
        ),
        pytest.param(
            BY_NAME,
            change("nightly-7"),
            never_read,
            "s3://runs-bucket/jobs/nightly-7",
            {"trackside:run": "s3://runs-bucket/jobs/nightly-7"},
            id="by its name",
        ),
        pytest.param(
            BOTH,
            change("nightly-7"),
            environment_with(TRACKSIDE_RUN=RUN),
            RUN,
            {"trackside:run": RUN},
            id="its environment counts more than its name",
        ),
        pytest.param(
            BY_ENVIRONMENT,
            change(),
            environment_with(TRACKSIDE_RUN=RUN, TRACKSIDE_WATCH="status"),
            RUN,
            {"trackside:run": RUN, "trackside:watch": "status"},
            id="its states only, by its environment",
        ),
    ],
)
def test_watched(
    settings: StartEvaluationSettings, job: TrainingJobStateChange, environment: Any, run: str, new_tags: dict[str, str]
) -> None:
    found = who_is_watched(job, settings, environment_of_job=environment)
    assert isinstance(found, Watched)
    assert (found.run.uri, dict(found.new_tags)) == (run, new_tags)


@pytest.mark.parametrize(
    ("settings", "job", "environment", "reason"),
    [
        pytest.param(TAGS_ONLY, change(), never_read, "carries no tag", id="untagged"),
        pytest.param(TAGS_ONLY, change(team="vision"), never_read, "carries no tag", id="tagged with something else"),
        pytest.param(TAGS_ONLY, change(trackside_rules="overfit"), never_read, "carries no tag", id="rules and no run"),
        pytest.param(BOTH, change("nightly-7", trackside_watch="no"), never_read, "watch=no", id="it does not want to"),
        pytest.param(
            BOTH, change(trackside_watch="no", trackside_run=RUN), never_read, "watch=no", id="nor with a run"
        ),
        pytest.param(BY_NAME, change("weekly-7"), never_read, "carries no tag", id="another name"),
        pytest.param(BY_NAME, change("digits-011"), never_read, "carries no tag", id="a name that begins alike"),
        pytest.param(BOTH, change("nightly-test-7"), never_read, "unwatched_jobs", id="excluded by its name"),
        pytest.param(
            BY_ENVIRONMENT, change(), environment_with(PATH="/bin"), "carries no tag", id="an environment without a run"
        ),
        pytest.param(BY_ENVIRONMENT, change(), environment_with(), "carries no tag", id="a job that is no more"),
        pytest.param(
            BOTH,
            change("nightly-7"),
            environment_with(TRACKSIDE_WATCH="no"),
            "its environment forbids it",
            id="it does not want to, by its environment",
        ),
        pytest.param(HUB, of_spoke(), never_read, "by its tag only", id="a spoke's job: here may run one of its name"),
        *[
            pytest.param(
                replace(TAGS_ONLY, run_bucket=bucket),
                change(trackside_run=f"s3://{OTHERS}/digits"),
                never_read,
                "another deployment",
                id=f"a run of another deployment in this account, {what}",
            )
            for bucket, what in ((MADE, "both made their buckets"), ("our-runs", "this one was given its bucket"))
        ],
        *[
            pytest.param(BOTH, change(status=status, trackside_run=RUN), never_read, status, id=f"it is {status}")
            for status in ("Completed", "Failed", "Stopping", "Stopped", "Deleting")
        ],
    ],
)
def test_not_watched(
    settings: StartEvaluationSettings, job: TrainingJobStateChange, environment: Any, reason: str
) -> None:
    found = who_is_watched(job, settings, environment_of_job=environment)
    assert isinstance(found, Nothing)
    assert not found.surprising
    assert reason in found.reason


@pytest.mark.parametrize(
    ("settings", "job", "environment"),
    [
        pytest.param(TAGS_ONLY, change(trackside_run="s3://other/r"), never_read, id="another bucket"),
        pytest.param(HUB, of_spoke(trackside_run=RUN), never_read, id="a spoke's job, below the hub's own runs"),
        pytest.param(
            HUB, of_spoke(trackside_run="s3://runs-bucket/333333333333/a"), never_read, id="a run of another spoke"
        ),
        pytest.param(
            BY_ENVIRONMENT, change(), environment_with(TRACKSIDE_RUN=f"{RUN}/it's"), id="a sign that no tag takes"
        ),
        pytest.param(BY_ENVIRONMENT, change(), environment_with(TRACKSIDE_RUN=RUN + "x" * 256), id="longer than a tag"),
        pytest.param(TAGS_ONLY, change(trackside_run="s3://runs-bucket"), never_read, id="no prefix"),
        pytest.param(TAGS_ONLY, change(trackside_run="runs/digits"), never_read, id="no place in S3"),
        pytest.param(TAGS_ONLY, change(trackside_run="s3://runs-bucket/a b"), never_read, id="a blank"),
        pytest.param(
            BY_ENVIRONMENT, change(), environment_with(TRACKSIDE_RUN="/opt/ml/run"), id="a folder in the container"
        ),
        pytest.param(
            BY_ENVIRONMENT,
            change(),
            environment_with(TRACKSIDE_RUN="s3://other/r"),
            id="another bucket, by environment",
        ),
    ],
)
def test_whoever_wants_to_be_watched_and_cannot_is_told_why(
    settings: StartEvaluationSettings, job: TrainingJobStateChange, environment: Any
) -> None:
    found = who_is_watched(job, settings, environment_of_job=environment)
    assert isinstance(found, WrongPlace)
    assert "runs-bucket" in found.reason


def test_a_run_in_a_bucket_of_an_earlier_deployment_is_a_mistake_of_its_owner() -> None:
    job = change(trackside_run=f"s3://{OLDER}/digits")
    found = who_is_watched(job, replace(TAGS_ONLY, run_bucket=MADE), environment_of_job=never_read)
    assert isinstance(found, WrongPlace)


NAMES = st.from_regex(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", fullmatch=True)


@given(NAMES, st.text(max_size=80))
def test_whatever_a_tag_says_a_run_lies_in_the_deployments_bucket(name: str, said: str) -> None:
    for value in (said, f"s3://{said}", f"s3://runs-bucket/{said}"):
        found = who_is_watched(change(name, trackside_run=value), TAGS_ONLY, environment_of_job=never_read)
        if isinstance(found, Watched):
            assert found.run.uri.startswith("s3://runs-bucket/")
            assert len(found.run.uri) > len("s3://runs-bucket/")
