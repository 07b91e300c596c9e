"""Acceptance of single findings of cdk-nag, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aws_cdk import CfnElement, CfnOutput, Stack, Token, Validations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from stacks.constructs.private_bucket import PrivateBucket


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept the findings with these ids at `construct` and below it.

    Written as metadata, because `Validations.acknowledge` refuses ids that hold `::` twice.
    """
    construct.node.add_metadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, dict(reasons))


def accept_wildcard(principal: lambda_.Function | IConstruct, resource: str, *, reason: str) -> None:
    """Accept a resource that holds an asterisk, in the policy of a role or of a function's role.

    The resource is spelled as cdk-nag prints it: `arn:<AWS::Partition>:...`.
    """
    role = principal.role if isinstance(principal, lambda_.Function) else principal
    if role is None:
        raise ValueError(f"{principal.node.path} has no role.")
    acknowledge(role, {f"AwsSolutions-IAM5[Resource::{resource}]": reason})


def name_in_findings(bucket: s3.IBucket) -> str:
    """Return the ARN of a bucket as cdk-nag prints it.

    A bucket of ours in another stack is named by the output that CDK makes for references, made earlier. Of another
    team's bucket nag's name is known within its own stack only.
    """
    stack, resource = Stack.of(bucket), bucket.node.default_child
    if not isinstance(resource, CfnElement):
        name = "<bucket>" if Token.is_unresolved(bucket.bucket_name) else bucket.bucket_name
        return f"arn:<AWS::Partition>:s3:::{name}"
    if not (isinstance(bucket, PrivateBucket) and isinstance(bucket.node.scope, Stack)):
        return f"<{stack.get_logical_id(resource)}.Arn>"
    scope = stack.node.try_find_child("Publish")
    scope = scope if isinstance(scope, Construct) else Construct(stack, "Publish")
    name = f"Output{_as_json(stack.resolve(bucket.bucket_arn))}"
    output = scope.node.try_find_child(name)
    output = output if isinstance(output, CfnOutput) else CfnOutput(scope, name, value=bucket.bucket_arn)
    place = {"StackName": stack.stack_name, "Region": {"Ref": "AWS::Region"}}
    return _as_json({"Fn::GetStackOutput": {**place, "OutputName": stack.get_logical_id(output)}})


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
