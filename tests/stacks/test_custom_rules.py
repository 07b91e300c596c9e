"""A deployment runs no code of others, unless it says whence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stacks.assembly import assembly


def names(resources: Mapping[str, Any]) -> set[str]:
    return {name for name in resources if "CustomRule" in name}


def test_cdk_json_makes_nothing_that_runs_custom_rules() -> None:
    template = json.loads((assembly() / "TracksideEvaluation.template.json").read_text())
    assert names(template["Resources"]) == set()
    assert names(template["Outputs"]) == set()


def test_with_a_place_there_is_an_image_a_role_and_who_reports(templates: Mapping[str, Mapping[str, Any]]) -> None:
    kinds = {body["Type"] for name, body in templates["TracksideEvaluation"].items() if "CustomRule" in name}
    assert {"AWS::ECR::Repository", "AWS::IAM::Role", "AWS::Lambda::Function", "AWS::SQS::Queue"} <= kinds


def test_the_function_that_starts_jobs_knows_the_image_the_role_and_the_place(resources: Mapping[str, Any]) -> None:
    (variables,) = [
        body["Properties"]["Environment"]["Variables"]
        for body in resources.values()
        if body["Type"] == "AWS::Lambda::Function" and "start_evaluation" in body["Properties"]["Handler"]
    ]
    assert variables["TRACKSIDE_CUSTOM_RULES_FROM"] == "s3://rules-bucket/approved"
    assert "CustomRule" in json.dumps(variables["TRACKSIDE_CUSTOM_RULE_ROLE_ARN"])
    assert "CustomRule" in json.dumps(variables["TRACKSIDE_CUSTOM_RULE_IMAGE_URI"])
