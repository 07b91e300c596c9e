"""The right to create training jobs: nowhere without the owner's leave, and with it only what the setting names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from docs.permissions import LARGEST
from stacks.assembly import assembly
from stacks.deployment_settings import DeploymentSettings
from trackside.contracts.errors import ConfigurationError

ROLE = LARGEST["trackside:resume_roles"]


@cache
def statements(*, with_leave: bool) -> tuple[Mapping[str, Any], ...]:
    """All statements of the function's role, and of all other roles."""
    files = sorted(assembly(LARGEST if with_leave else None).glob("*.template.json"))
    return tuple(one for file in files for one in _in(json.loads(file.read_text(encoding="utf-8"))))


def _in(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield from [value] if {"Effect", "Action"} <= set(value) else []
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _in(inner)


def allowed(action: str, *, with_leave: bool) -> list[Mapping[str, Any]]:
    return [one for one in statements(with_leave=with_leave) if action in one["Action"] or one["Action"] == action]


def test_without_leave_nothing_may_create_a_training_job() -> None:
    assert allowed("sagemaker:CreateTrainingJob", with_leave=False) == []
    sids = {one.get("Sid") for one in statements(with_leave=False)}
    ours = {"CreateJobsThatGoOn", "PassTheRolesOfJobsThatGoOn", "ReadTagsOfStoppedJobs", "TagJobsThatGoOn"}
    assert sids & ours == set()


def test_with_leave_one_function_may_create_watched_jobs_of_our_names() -> None:
    (created,) = allowed("sagemaker:CreateTrainingJob", with_leave=True)
    marked = {"aws:RequestTag/trackside:run": "false", "aws:RequestTag/trackside:resumed-from": "false"}
    assert created["Condition"] == {"Null": marked}
    (tagged,) = [one for one in allowed("sagemaker:AddTags", with_leave=True) if one["Sid"] == "TagJobsThatGoOn"]
    at_creation = {"StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}}
    assert tagged["Condition"] == {"Null": marked, **at_creation}
    assert tagged["Resource"] == created["Resource"]
    assert json.dumps(created["Resource"]).count("training-job/*-resumed-*") == 1
    (passed,) = [one for one in allowed("iam:PassRole", with_leave=True) if one["Sid"] == "PassTheRolesOfJobsThatGoOn"]
    assert passed["Resource"] == ROLE
    assert passed["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param("*", id="all"),
        pytest.param("arn:aws:iam::123456789012:role/*", id="all of an account"),
        pytest.param("arn:aws:iam::123456789012:user/ada", id="a person"),
        pytest.param("training", id="a name"),
        pytest.param(f"{ROLE},{ROLE}", id="twice"),
    ],
)
def test_a_leave_names_roles_one_by_one(roles: str) -> None:
    with pytest.raises(ConfigurationError, match="resume_roles"):
        DeploymentSettings.from_context({"trackside:resume_roles": roles})


@pytest.mark.parametrize("roles", [ROLE, f"{ROLE},arn:aws-cn:iam::123456789012:role/team/train+1"])
def test_roles_with_paths_and_of_other_partitions_are_taken(roles: str) -> None:
    settings = DeploymentSettings.from_context({"trackside:resume_roles": roles})
    assert settings.stops.resume_roles == tuple(roles.split(","))
