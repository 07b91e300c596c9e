"""Build the image of a rule container and push it to the repository that the deployment uses.

    make image                                             the evaluator's
    .venv/bin/python -m stacks.push_image custom_rule      the one that runs rules from files
    .venv/bin/python -m stacks.push_image --dry-run        prints each step, and does none

Repository and tag come from the deployment (an output of its stack). Needs Docker, credentials of the account that may
push to the repository, and no AWS command line. A tag never moves: an existing image is not pushed again.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stacks.deployment_settings import DeploymentSettings
from stacks.paths import ROOT
from trackside.aws_clients import SharedClient

OUTPUTS = {"evaluator": "EvaluatorImageUri", "custom_rule": "CustomRuleImageUri"}
PLATFORM = "linux/amd64"  # of SageMaker's processing instances
WITHOUT_DOCKER = (
    "Docker is not here, or its daemon does not answer. Run this on a machine that has it (any Linux, a Mac, AWS "
    "CloudShell, CodeBuild in privileged mode), or say which program stands for it: --docker podman."
)


class PushError(Exception):
    """No image was pushed; the message names the reason and the cure."""


@dataclass(frozen=True)
class Step:
    """One command, and its purpose. `needs_password`: the registry's password goes to its standard input."""

    what: str
    words: tuple[str, ...]
    needs_password: bool = False

    def __str__(self) -> str:
        return f"# {self.what}\n{' '.join(self.words)}"


def plan(which: str, image_uri: str, *, docker: str = "docker") -> Iterator[Step]:
    """Return the steps for one image; `image_uri` is `<registry>/<repository>:<tag>`."""
    yield Step("the wheel that the image installs", (sys.executable, "-m", "build", "--wheel"))
    dockerfile = f"rule_containers/{which}/Dockerfile"
    # SageMaker takes images, and no index of an image and its attestations.
    build = (docker, "build", "--platform", PLATFORM, "--provenance=false", "-f", dockerfile, "-t", image_uri, ".")
    yield Step("the image, for SageMaker's processor", build)
    registry = image_uri.partition("/")[0]
    login = (docker, "login", "--username", "AWS", "--password-stdin", registry)
    yield Step("a password of ECR's, for twelve hours", login, needs_password=True)
    yield Step("into the deployment's repository", (docker, "push", image_uri))


def push(
    steps: Sequence[Step],
    *,
    password: Callable[[], str],
    run: Callable[..., Any] = subprocess.run,
    report: Callable[[str], None] = print,
) -> None:
    """Run one step after the other. Errors: `PushError` at the first that fails."""
    for step in steps:
        report(str(step))
        outcome = run(step.words, cwd=ROOT, input=password() if step.needs_password else None, text=True, check=False)
        if outcome.returncode != 0:
            raise PushError(f"{step.words[0]} {step.words[1]} ended with {outcome.returncode}: see above.")


def main(words: Sequence[str] | None = None) -> int:
    """Push the image, or print the steps. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="?", choices=sorted(OUTPUTS), default="evaluator")
    parser.add_argument("--environment", default="", help="of several deployments in an account")
    parser.add_argument("--image-uri", default="", help="instead of what the deployment says")
    parser.add_argument("--docker", default="docker", help="another program with the same options")
    parser.add_argument("--dry-run", action="store_true", help="print each step, and do none")
    given = parser.parse_args(words)
    try:
        uri = given.image_uri or _deployed_uri(given.which, given.environment)
        steps = list(plan(given.which, uri, docker=given.docker))
        if given.dry_run:
            print("\n".join(map(str, steps)))
            return 0
        if _is_pushed(uri):
            print(f"{uri} is there. A tag never moves: for another image deploy with another tag, then push again.")
            return 0
        if not _answers(given.docker):
            raise PushError(WITHOUT_DOCKER)
        push(steps, password=_password)
    except PushError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Pushed {uri}.")
    return 0


def _deployed_uri(which: str, environment: str) -> str:
    stack = DeploymentSettings(environment=environment).stack_name("TracksideEvaluation")
    try:
        (found,) = _client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        raise PushError(
            f"The stack {stack} cannot be asked which image it wants ({error}). Deploy it first, choose its account "
            "and region (AWS_PROFILE, AWS_REGION), or say --image-uri REGISTRY/REPOSITORY:TAG."
        ) from error
    for output in found.get("Outputs", ()):
        if output["OutputKey"] == OUTPUTS[which]:
            return str(output["OutputValue"])
    raise PushError(f"{stack} wants no image of {which}: deploy with custom_rules_from (docs/custom-rules-in-aws.md).")


def _client(service: str) -> Any:
    return SharedClient(service).get()


def _is_pushed(uri: str) -> bool:
    registry, _, rest = uri.partition("/")
    repository, _, tag = rest.rpartition(":")
    try:
        _client("ecr").describe_images(
            registryId=registry.partition(".")[0], repositoryName=repository, imageIds=[{"imageTag": tag}]
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ImageNotFoundException":
            return False
        raise PushError(f"ECR cannot be asked whether {uri} is there: {error}") from error
    except BotoCoreError as error:
        raise PushError(f"ECR cannot be asked whether {uri} is there: {error}") from error
    return True


def _answers(docker: str) -> bool:
    if shutil.which(docker) is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0


def _password() -> str:
    (granted,) = _client("ecr").get_authorization_token()["authorizationData"]
    return base64.b64decode(granted["authorizationToken"]).decode().partition(":")[2]


if __name__ == "__main__":
    sys.exit(main())
