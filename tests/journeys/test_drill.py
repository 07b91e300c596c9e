"""The real CDK command line against the local account, and that the drill notices what does not happen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stacks.assembly import assembly
from trackside_localaccount import LocalAccount

pytestmark = pytest.mark.xdist_group("drill")


@pytest.fixture(scope="module")
def account() -> Iterator[LocalAccount]:
    with LocalAccount() as account:
        yield account


@pytest.fixture(scope="module")
def synthesized() -> Path:
    return assembly({"trackside:keep_data": "false", "trackside:drills": "true"})


def test_deploys_twice_and_destroys(
    drill: ModuleType, account: LocalAccount, synthesized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill.deploy_and_destroy(account, synthesized)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["bootstrap", "deploy", "again", "drill", "destroy"]
    assert "verdict" in printed[3]
    assert "stop" in printed[3]
    assert all(len(line) <= 80 for line in printed)


def test_a_command_that_fails_fails_the_drill(drill: ModuleType, account: LocalAccount, tmp_path: Path) -> None:
    with pytest.raises(drill.DrillError, match=r"cdk deploy ended with 1"):
        drill.CommandLine(account).run("deploy", "--all", "--app", str(tmp_path / "nothing"))


def test_a_stack_that_was_not_made_fails_the_drill(drill: ModuleType, account: LocalAccount, synthesized: Path) -> None:
    account.client("cloudformation").create_stack(
        StackName="TracksideStorage", TemplateBody='{"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}'
    )
    templates = {"TracksideStorage": drill.read_templates(synthesized)["TracksideStorage"]}
    with pytest.raises(drill.DrillError, match=r"not made: .*Runs.* of TracksideStorage"):
        drill.find_resources(account, templates)


def test_every_type_of_resource_can_be_asked_for_and_is_missed(
    drill: ModuleType, account: LocalAccount, synthesized: Path
) -> None:
    gone = {
        "AWS::KMS::Key": "00000000-0000-0000-0000-000000000000",
        "AWS::Lambda::EventSourceMapping": "00000000-0000-0000-0000-000000000000",
        "AWS::Lambda::LayerVersion": "arn:aws:lambda:us-east-1:123456789012:layer:gone:1",
        "AWS::SNS::Topic": "arn:aws:sns:us-east-1:123456789012:gone",
        "AWS::SQS::Queue": f"{account.endpoint_url}/123456789012/gone",
    }
    types = {body["Type"] for found in drill.read_templates(synthesized).values() for body in found.values()}
    for kind in sorted(types):
        resource = drill.Resource("stack", "logical", kind, gone.get(kind, "gone-1"))
        assert not drill.exists(account, resource), kind
