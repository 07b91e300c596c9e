"""One plain CloudFormation template: small enough, without findings, and deployed by one call of boto3 alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from stacks.deployment_settings import DeploymentSettings
from stacks.plain_template import PlainTemplate, main, plain_template, upload
from stacks.settings.accounts import AccountSettings
from stacks.settings.evaluator import EvaluatorSettings
from stacks.settings.place import PlaceSettings
from trackside.cli import main as trackside
from trackside.contracts.errors import ConfigurationError
from trackside_localaccount.server import LocalAccount

pytestmark = pytest.mark.xdist_group("local-account")
BUCKET = "our-assets"
MOST_BYTES = 1_000_000  # of a template in S3: the quotas of CloudFormation


@pytest.fixture(scope="module")
def template() -> PlainTemplate:
    return plain_template(BUCKET, DeploymentSettings())


def test_the_template_is_one_stack_that_knows_nothing_of_cdk(template: PlainTemplate) -> None:
    content = json.loads(template.text)
    kinds = Counter(body["Type"] for body in content["Resources"].values())
    assert kinds["AWS::Lambda::Function"] == 5
    assert len(template.text) < MOST_BYTES
    assert "Parameters" not in content
    for word in ("aws:cdk", "bootstrap", "Fn::ImportValue", "Fn::GetStackOutput", "AWS::CDK::Metadata"):
        assert word not in template.text
    code = {
        json.dumps(b["Properties"]["Code"]) for b in content["Resources"].values() if "Lambda::Function" in b["Type"]
    }
    (key,) = template.assets
    assert code == {json.dumps({"S3Bucket": BUCKET, "S3Key": key})}


def test_the_same_sources_are_the_same_template(template: PlainTemplate) -> None:
    assert plain_template(BUCKET, DeploymentSettings()) == template


def test_cfn_lint_finds_nothing(template: PlainTemplate, tmp_path: Path) -> None:
    file = tmp_path / "trackside.template.json"
    file.write_text(template.text)
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--ignore-checks", "W3005", "--template", str(file)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (0, "")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            DeploymentSettings(accounts=AccountSettings(spoke_accounts=("210987654321",))), "spoke_accounts", id="a hub"
        ),
        pytest.param(DeploymentSettings(evaluator=EvaluatorSettings(mode="fleets")), "evaluator_mode", id="no mode"),
        pytest.param(DeploymentSettings(place=PlaceSettings(run_bucket="runs-bucket")), "key_arn", id="no key"),
    ],
)
def test_settings_that_cannot_be_deployed_are_refused_before_anything_is_made(
    settings: DeploymentSettings, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        plain_template(BUCKET, settings)


@pytest.fixture
def account() -> Iterator[LocalAccount]:
    with LocalAccount() as account:
        yield account


def test_one_call_of_boto3_deploys_it_and_the_commands_find_it(account: LocalAccount, template: PlainTemplate) -> None:
    s3, cloudformation = account.client("s3"), account.client("cloudformation")
    s3.create_bucket(Bucket=BUCKET)
    address = upload(template, BUCKET, s3=s3).replace("127.0.0.1", "localhost")  # moto reads no other address
    cloudformation.create_stack(
        StackName="Trackside", TemplateURL=address, Capabilities=["CAPABILITY_IAM"], EnableTerminationProtection=True
    )
    (stack,) = cloudformation.describe_stacks(StackName="Trackside")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack.get("StackStatusReason")
    result = CliRunner().invoke(
        trackside, ["aws", "redrive", "--all", "--dry-run", "--json"], env=account.environment()
    )
    assert result.exit_code == 0, result.output
    queues = {row["function"]: row["dead_letters"] for row in json.loads(result.output)["queues"]}
    assert queues == dict.fromkeys(("notify", "reconcile", "record_verdict", "start_evaluation", "stop_training"), 0)


def test_the_command_writes_the_template_and_names_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trackside.template.json"
    assert main([BUCKET, "--dry-run", "-c", "trackside:dry_run=true", "--output", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    switches = [b for b in json.loads(file.read_text())["Resources"].values() if b["Type"] == "AWS::SSM::Parameter"]
    assert [switch["Properties"]["Value"] for switch in switches] == ["true"]


@pytest.mark.parametrize("bucket", [pytest.param("", id="make template alone"), "s3://our-assets", "Our_Assets"])
def test_without_a_name_of_a_bucket_the_command_names_the_right_form(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([bucket])
    assert "make template BUCKET=our-assets" in capsys.readouterr().err


def test_a_wrong_setting_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([BUCKET, "--dry-run", "-c", "trackside:dry_runs=true"]) == 1
    assert "dry_run" in capsys.readouterr().err
