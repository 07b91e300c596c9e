"""The image's steps: which, in which order, with what; and what is said when one cannot be done."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

import trackside
from stacks import push_image
from stacks.push_image import PushError, build_options, main, plan, push

URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/trackside-evaluator:0.1.0"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield


def deploy(stack: str = "TracksideEvaluation", output: str = "EvaluatorRepositoryUri") -> None:
    template = f"""{{"Resources": {{"Queue": {{"Type": "AWS::SQS::Queue"}}}},
      "Outputs": {{"{output}": {{"Value": "{URI.rpartition(":")[0]}"}}}}}}"""
    boto3.client("cloudformation").create_stack(StackName=stack, TemplateBody=template)
    boto3.client("ecr").create_repository(repositoryName="trackside-evaluator")


@pytest.mark.parametrize("which", ["evaluator", "custom_rule"])
def test_steps_build_the_image_then_push_it(which: str) -> None:
    build, login, pushed = plan(which, URI)
    assert build.words[build.words.index("--platform") + 1] == "linux/amd64"
    assert build.words[-3:] == ("-t", URI, f"build/image/{which}")
    assert f"VERSION={trackside.__version__}" in build.words
    assert login.needs_password
    assert login.words[-1] == "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    assert pushed.words == ("docker", "push", URI)


def test_another_registry_gets_no_password_of_ecr() -> None:
    assert [step.words[1] for step in plan("evaluator", "localhost:5000/evaluator:1")] == ["build", "push"]


@pytest.mark.parametrize(
    ("printed", "options"),
    [
        pytest.param(
            {"--version": "Docker version 28.2.2, build e6534b4", "buildx version": "github.com/docker/buildx v0.24.0"},
            ("--provenance=false",),
            id="Docker with buildx, which would make an index",
        ),
        pytest.param({"--version": "Docker version 28.2.2"}, (), id="Docker without buildx knows no such option"),
        pytest.param({"--version": "podman version 4.3.1"}, ("--format", "docker"), id="podman"),
        pytest.param(
            {"--version": "podman version 4.3.1", "buildx version": "buildah 1.28.2"},
            ("--format", "docker"),
            id="podman by the name of Docker",
        ),
        pytest.param({"--version": "buildah version 1.28.2"}, ("--format", "docker"), id="buildah"),
    ],
)
def test_each_program_gets_the_options_that_it_knows(printed: dict[str, str], options: tuple[str, ...]) -> None:
    def run(words: tuple[str, ...], **_: Any) -> Any:
        text = printed.get(" ".join(words[1:]))
        return SimpleNamespace(returncode=0 if text else 1, stdout=text or "")

    assert build_options("any", run=run) == options


def test_the_tag_is_that_of_this_clone_whatever_is_deployed() -> None:
    """An image is pushed before the version that needs it is deployed."""
    assert {push_image._tag(which, "") for which in ("evaluator", "custom_rule")} == {trackside.__version__}


def test_the_password_goes_to_the_login_only_and_is_never_shown() -> None:
    ran: list[tuple[tuple[str, ...], Any]] = []
    said: list[str] = []

    def run(words: tuple[str, ...], *, input: Any, **_: Any) -> Any:  # noqa: A002  subprocess.run's name
        ran.append((words, input))
        return SimpleNamespace(returncode=0)

    push(list(plan("evaluator", URI)), password=lambda: "secret", run=run, report=said.append)
    assert [given for _, given in ran] == [None, "secret", None]
    assert "secret" not in str([words for words, _ in ran]) + str(said)


def test_stops_at_the_first_step_that_fails() -> None:
    ran = []

    def run(words: tuple[str, ...], **_: Any) -> Any:
        ran.append(words)
        return SimpleNamespace(returncode=int("build" in words[1]))

    with pytest.raises(PushError, match=r"docker build ended with 1"):
        push(list(plan("evaluator", URI)), password=lambda: "", run=run, report=lambda _: None)
    assert len(ran) == 1


@pytest.mark.usefixtures("account")
def test_a_dry_run_prints_each_step_with_what_the_deployment_wants(capsys: pytest.CaptureFixture[str]) -> None:
    deploy()
    assert main(["--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(lines) == 3
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
