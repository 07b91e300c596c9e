"""Name the stacks that a deployment does not ask for any more, and that stand in the account, with price and end.

.ci/cdk calls this after each deployment, with the words of its command line. It deletes nothing: a stack may hold what
somebody needs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stacks.deployment_settings import DeploymentSettings
from stacks.optional_stacks import PRICES, STACK_OF, ending_of
from stacks.paths import CDK_JSON
from trackside.aws_clients import SharedClient
from trackside.contracts.errors import TracksideError


def unwanted_stacks(settings: DeploymentSettings) -> Iterator[tuple[str, str]]:
    """Yield (setting, stack) of the stacks that these settings do not ask for."""
    values = settings.by_key()
    for setting, concern in STACK_OF.items():
        if not values[setting]:
            yield setting, settings.stack_name(f"Trackside{concern}")


def left_standing(settings: DeploymentSettings, cloudformation: Any) -> Iterator[str]:
    """Yield a sentence about each stack that stands without being asked for. Errors: those of botocore."""
    for setting, stack in unwanted_stacks(settings):
        try:
            cloudformation.describe_stacks(StackName=stack)
        except ClientError as error:
            if "does not exist" not in str(error):
                raise
            continue
        yield f"{stack} still stands, though trackside:{setting} is off ({PRICES[setting]}). {ending_of(stack)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the sentences. What cannot be read is left out: the deployment itself has succeeded."""
    parser = argparse.ArgumentParser(prog="python -m stacks.left_standing", add_help=False)
    parser.add_argument("-c", "--context", action="append", default=[])
    options, _ = parser.parse_known_args(arguments)
    given = dict(entry.split("=", 1) for entry in options.context if "=" in entry)
    try:
        context = {**json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"], **given}
        settings = DeploymentSettings.from_context(context)
        if not settings.accounts.hub_account:
            for sentence in left_standing(settings, SharedClient("cloudformation").get()):
                sys.stderr.write(f"{sentence}\n")
    except (TracksideError, BotoCoreError, ClientError) as error:
        sys.stderr.write(f"Whether stacks are left standing is not known: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
