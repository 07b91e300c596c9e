"""Build the image of a rule container and push it to the repository that the deployment uses.

    make image                                             the evaluator's
    .venv/bin/python -m stacks.push_image custom_rule      the one that runs rules from files
    .venv/bin/python -m stacks.push_image --docker podman  by another program: podman or buildah
    .venv/bin/python -m stacks.push_image --dry-run        prints each step, and does none
    .venv/bin/python -m stacks.push_image --context FOLDER writes the build context for a builder elsewhere

The repository is an output of the deployment's stack. The tag is that of this clone (cdk.json, else its version), so
that the image of a new version is pushed before that version is deployed. Needs Docker (with or without buildx), podman
or buildah, credentials of the account that may push to the repository, and no AWS command line. A tag never moves: an
existing image is not pushed again.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

import trackside
from stacks.deployment_settings import PREFIX, DeploymentSettings
from stacks.image_context import write_context
from stacks.paths import BUILD, ROOT
from trackside.aws_clients import SharedClient

OUTPUTS = {"evaluator": "EvaluatorRepositoryUri", "custom_rule": "CustomRuleRepositoryUri"}
PLATFORMS = ("linux/amd64", "linux/arm64")  # SageMaker's processing instances are the first
ECR = ".dkr.ecr."  # in the name of each registry of AWS
WITHOUT_DOCKER = (
    "Docker is not here, or its daemon does not answer. `--docker buildah` and `--docker podman` need no daemon. Or "
    "run this on a machine that has one (AWS CloudShell, CodeBuild in privileged mode), or build elsewhere from "
    "the folder that `--context FOLDER` writes."
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


def plan(
    which: str, image_uri: str, *, docker: str = "docker", platform: str = PLATFORMS[0], options: tuple[str, ...] = ()
) -> Iterator[Step]:
    """Return the steps for one image. `write_context` must have written its context.

    Args:
        which: The container.
        image_uri: `<registry>/<repository>:<tag>`.
        docker: The program.
        platform: The processor of the image.
        options: Options of this program's `build`, as `build_options` returns them.
    """
    about = ("--build-arg", f"VERSION={trackside.__version__}", "--build-arg", f"REVISION={_revision()}")
    build = (docker, "build", "--platform", platform, *options, *about, "-t", image_uri, _context(which))
    yield Step(f"the image, for {platform}", build)
    registry = image_uri.partition("/")[0]
    if ECR in registry:
        login = (docker, "login", "--username", "AWS", "--password-stdin", registry)
        yield Step("a password of ECR's, for twelve hours", login, needs_password=True)
    yield Step("into the deployment's repository", (docker, "push", image_uri))


def build_options(docker: str, *, run: Callable[..., Any] = subprocess.run) -> tuple[str, ...]:
    """Return the options with which the program makes one image in Docker's format.

    SageMaker takes such images, and no index of an image and its attestations. Docker makes an index by default where
    it builds with buildx, and without it does not know the option against that.
    """
    if "docker" not in _printed(run, docker, "--version").lower():  # podman and buildah; podman also by Docker's name
        return ("--format", "docker")
    return ("--provenance=false",) if _printed(run, docker, "buildx", "version") else ()


def _printed(run: Callable[..., Any], *words: str) -> str:
    try:
        outcome = run(words, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return str(outcome.stdout) if outcome.returncode == 0 else ""


def _context(which: str) -> str:
    return str((BUILD / "image" / which).relative_to(ROOT))


def _revision() -> str:
    return _printed(subprocess.run, "git", "-C", str(ROOT), "rev-parse", "HEAD").strip() or "unknown"


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
    parser.add_argument("--image-uri", default="", help="instead of the deployment's repository and this clone's tag")
    parser.add_argument("--docker", default="docker", help="another program: podman, buildah")
    parser.add_argument("--platform", choices=PLATFORMS, default=PLATFORMS[0], help="another processor, of the fleet")
    parser.add_argument("--dry-run", action="store_true", help="print each step, and do none")
    parser.add_argument("--context", type=Path, help="write the build context into this folder, and do no more")
    given = parser.parse_args(words)
    try:
        print(_carry_out(given))
    except PushError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _carry_out(given: argparse.Namespace) -> str:
    """Carry out the options. Return the last line to print. Errors: `PushError`."""
    if given.context:
        folder = write_context(given.which, given.context.absolute())
        return f"Wrote {folder}. Build it with: docker build --platform {given.platform} -t IMAGE {folder}"
    uri = given.image_uri or f"{_repository(given.which, given.environment)}:{_tag(given.which, given.environment)}"
    options = build_options(given.docker)
    steps = list(plan(given.which, uri, docker=given.docker, platform=given.platform, options=options))
    if given.dry_run:
        return "\n".join(map(str, steps))
    if _is_pushed(uri):
        return f"{uri} is there. A tag never moves: for another image choose another tag (evaluator_image_tag)."
    if not _answers(given.docker):
        raise PushError(WITHOUT_DOCKER)
    write_context(given.which)
    push(steps, password=_password)
    return f"Pushed {uri}."


def _tag(which: str, environment: str) -> str:
    """Return the tag that this clone deploys. Errors: `ConfigurationError`."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    named = {PREFIX + "environment": environment} if environment else {}
    settings = DeploymentSettings.from_context({**context, **named})
    return settings.evaluator.image_tag if which == "evaluator" else settings.custom_rules.image_tag


def _repository(which: str, environment: str) -> str:
    stack = DeploymentSettings(environment=environment).stack_name("TracksideEvaluation")
    try:
        (found,) = _client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        raise PushError(
            f"The stack {stack} cannot be asked for its repository ({error}). Deploy it first, choose its account "
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
    if ECR not in registry:
        return False
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
