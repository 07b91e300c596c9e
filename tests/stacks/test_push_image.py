"""The image's steps: which, in which order, with what; and what is said when one cannot be done."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from stacks import push_image
from stacks.push_image import PushError, main, plan, push

URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/trackside-evaluator:0.1.0"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield


def deploy(stack: str = "TracksideEvaluation", output: str = "EvaluatorImageUri") -> None:
    template = f"""{{"Resources": {{"Queue": {{"Type": "AWS::SQS::Queue"}}}},
      "Outputs": {{"{output}": {{"Value": "{URI}"}}}}}}"""
    boto3.client("cloudformation").create_stack(StackName=stack, TemplateBody=template)
    boto3.client("ecr").create_repository(repositoryName="trackside-evaluator")


@pytest.mark.parametrize("which", ["evaluator", "custom_rule"])
def test_steps_build_the_wheel_then_the_image_then_push_it(which: str) -> None:
    wheel, build, login, pushed = plan(which, URI)
    assert wheel.words[1:] == ("-m", "build", "--wheel")
    assert importlib.util.find_spec("build"), "installed by make setup"
    assert (ROOT / build.words[build.words.index("-f") + 1]).is_file()
    assert build.words[build.words.index("--platform") + 1] == "linux/amd64"
    assert build.words[-2:] == (URI, ".")
    assert login.needs_password
    assert login.words[-1] == "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    assert pushed.words == ("docker", "push", URI)


def test_the_password_goes_to_the_login_only_and_is_never_shown() -> None:
    ran: list[tuple[tuple[str, ...], Any]] = []
    said: list[str] = []

    def run(words: tuple[str, ...], *, input: Any, **_: Any) -> Any:  # noqa: A002  subprocess.run's name
        ran.append((words, input))
        return SimpleNamespace(returncode=0)

    push(list(plan("evaluator", URI)), password=lambda: "secret", run=run, report=said.append)
    assert [given for _, given in ran] == [None, None, "secret", None]
    assert "secret" not in str([words for words, _ in ran]) + str(said)


def test_stops_at_the_first_step_that_fails() -> None:
    ran = []

    def run(words: tuple[str, ...], **_: Any) -> Any:
        ran.append(words)
        return SimpleNamespace(returncode=int("build" in words[1]))

    with pytest.raises(PushError, match=r"docker build ended with 1"):
        push(list(plan("evaluator", URI)), password=lambda: "", run=run, report=lambda _: None)
    assert len(ran) == 2


@pytest.mark.usefixtures("account")
def test_a_dry_run_prints_each_step_with_what_the_deployment_wants(capsys: pytest.CaptureFixture[str]) -> None:
    deploy()
    assert main(["--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(lines) == 4
    assert lines[-1] == f"docker push {URI}"


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("words", "deployed", "says"),
    [
        pytest.param([], None, "Deploy it first", id="no deployment"),
        pytest.param(["--environment", "staging"], "TracksideEvaluation", "Trackside-staging-Ev", id="another one"),
        pytest.param(["custom_rule"], "TracksideEvaluation", "custom_rules_from", id="no custom rules"),
        pytest.param(["--docker", "no-such-docker"], "TracksideEvaluation", "CodeBuild", id="no Docker"),
    ],
)
def test_says_what_would_work(
    words: list[str], deployed: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if deployed:
        deploy(deployed)
    assert main(words) == 1
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("account")
def test_what_is_there_is_not_pushed_again(capsys: pytest.CaptureFixture[str]) -> None:
    deploy()
    boto3.client("ecr").put_image(
        repositoryName="trackside-evaluator",
        imageManifest='{"schemaVersion": 2, "config": {"digest": "sha256:0"}, "layers": []}',
        imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
        imageTag="0.1.0",
    )
    assert main(["--docker", "no-such-docker"]) == 0
    assert "is there. A tag never moves" in capsys.readouterr().out


@pytest.mark.usefixtures("account")
def test_the_password_is_ecrs(monkeypatch: pytest.MonkeyPatch) -> None:
    token = boto3.client("ecr").get_authorization_token()["authorizationData"][0]["authorizationToken"]
    assert base64.b64decode(token).decode() == f"AWS:{push_image._password()}"
