"""The role of a drill's training job: only if it is asked for, and only for runs of drills."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from docs.permissions import LARGEST
from stacks.constructs import drill_role
from stacks.deployment_settings import DeploymentSettings
from trackside.cloud import drill

Resources = Mapping[str, Any]


def test_it_is_made_only_if_it_is_asked_for() -> None:
    assert DeploymentSettings().drills is False
    assert LARGEST["trackside:drills"] == "true"


def test_the_library_and_the_stack_mean_the_same_prefix() -> None:
    assert drill_role.PREFIX == drill.PREFIX


def test_it_writes_nothing_but_runs_of_drills(resources: Resources) -> None:
    (policy,) = [
        body["Properties"]["PolicyDocument"]["Statement"]
        for name, body in resources.items()
        if body["Type"] == "AWS::IAM::Policy" and "DrillRole" in name
    ]
    writes = [one for one in policy if "s3:PutObject" in one["Action"]]
    assert len(writes) == 1
    assert json.dumps(writes[0]["Resource"]).count("/trackside-drill/*") == 1
    (lists,) = [one for one in policy if one["Action"] == "s3:ListBucket"]
    assert lists["Condition"] == {"StringLike": {"s3:prefix": "trackside-drill/*"}}
    allowed = {
        action for one in policy for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert not {action for action in allowed if action.startswith(("sagemaker:", "sns:", "sqs:", "iam:", "dynamodb:"))}
