"""Deploys a cloud assembly (`cdk.out`) into a local account, in process: no CDK command line, no Node.js, seconds.

It does what `cdk bootstrap` and `cdk deploy --all` do: a bucket for assets, the version that stacks ask for, the
assets, the stacks in the order of their dependencies. `make drill` shows that the real command line agrees.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

QUALIFIER = "hnb659fds"  # CDK's default, unless a deployment chooses another
BOOTSTRAP_VERSION = "30"


class Account(Protocol):
    """The part of an account that a deployment needs: its clients."""

    def client(self, service: str) -> Any:
        """A boto3 client."""


class DeploymentError(RuntimeError):
    """A stack did not come up; the message names it, and the reason."""


def deploy(assembly: Path, account: Account) -> Mapping[str, Mapping[str, str]]:
    """Deploy every stack of the assembly, each once. Return the outputs: stack (as the app calls it) ->
    output name -> value.

    Errors: `DeploymentError`.
    """
    place = bootstrap(account)
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    outputs = {}
    for name in _in_order(manifest):
        for asset in manifest[name].get("dependencies", ()):
            if manifest[asset]["type"] == "cdk:asset-manifest":
                _publish(assembly / manifest[asset]["properties"]["file"], place, account)
        template = (assembly / manifest[name]["properties"]["templateFile"]).read_text(encoding="utf-8")
        outputs[name] = _create(manifest[name]["properties"].get("stackName", name), template, account)
    return outputs


@dataclass(frozen=True)
class _Place:
    account_id: str
    region: str

    @classmethod
    def of(cls, account: Account) -> _Place:
        sts = account.client("sts")
        return cls(sts.get_caller_identity()["Account"], sts.meta.region_name)

    def fill_in(self, text: str) -> str:
        """Replace the placeholders that CDK leaves in an assembly that knows no account yet."""
        values = {"AWS::AccountId": self.account_id, "AWS::Region": self.region, "AWS::Partition": "aws"}
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", value)
        return text


def bootstrap(account: Account) -> _Place:
    """Make the resources of `cdk bootstrap`, as far as a deployment here needs it."""
    place = _Place.of(account)
    bucket = place.fill_in(f"cdk-{QUALIFIER}-assets-${{AWS::AccountId}}-${{AWS::Region}}")
    where = {} if place.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": place.region}}
    s3 = account.client("s3")
    if bucket not in [known["Name"] for known in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket, **where)
    account.client("ssm").put_parameter(
        Name=f"/cdk-bootstrap/{QUALIFIER}/version", Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    return place


def _in_order(manifest: Mapping[str, Any]) -> list[str]:
    """The stacks, each after those it depends on."""
    ordered: list[str] = []

    def add(name: str) -> None:
        for dependency in manifest[name].get("dependencies", ()):
            add(dependency)
        if manifest[name]["type"] == "aws:cloudformation:stack" and name not in ordered:
            ordered.append(name)

    for name in manifest:
        add(name)
    return ordered


def _publish(asset_manifest: Path, place: _Place, account: Account) -> None:
    for asset in json.loads(asset_manifest.read_text(encoding="utf-8"))["files"].values():
        source = asset_manifest.parent / asset["source"]["path"]
        body = _zip(source) if asset["source"]["packaging"] == "zip" else source.read_bytes()
        for destination in asset["destinations"].values():
            account.client("s3").put_object(
                Bucket=place.fill_in(destination["bucketName"]),
                Key=place.fill_in(destination["objectKey"]),
                Body=body,
            )


def _zip(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:  # it is unpacked again at once, nearby
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def _create(name: str, template: str, account: Account) -> dict[str, str]:
    cloudformation = account.client("cloudformation")
    cloudformation.create_stack(
        StackName=name, TemplateBody=template, Capabilities=["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
    )
    stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise DeploymentError(
            f"The stack {name} is {stack['StackStatus']}: {stack.get('StackStatusReason', 'no reason')}."
        )
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", ())}
