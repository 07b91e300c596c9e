"""The local account as a standing server: `python -m trackside_localaccount --help`.

Prints the lines that point a shell's AWS tools, the CDK command line included, at it. SIGTERM or SIGINT ends it.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from trackside.contracts.errors import ConfigurationError
from trackside_localaccount.faults import Faults
from trackside_localaccount.server import ACCOUNT_ID, REGION, LocalAccount

# Python's handlers run in this thread, and a signal that another one took does not wake it.
_LOOK_EVERY_SECONDS = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    options = _parse(arguments)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with LocalAccount(
        port=options.port,
        folder=options.folder,
        stop_grace_seconds=options.stop_grace_seconds,
        faults=options.faults,
        enforces_rights=not options.no_iam,
    ) as account:
        for name, command in options.image:
            account.register_image(name, command)
        sys.stdout.write("\n".join(export_lines(account)) + "\n")
        sys.stdout.flush()
        while not ended.wait(_LOOK_EVERY_SECONDS):
            pass
    return 0


def export_lines(account: LocalAccount) -> list[str]:
    """Lines for a POSIX shell: `eval "$(...)"`."""
    cdk = {
        # The command line's own variable: CloudFormation must find templates under a name it takes for S3's.
        "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": account.endpoint_url.replace("127.0.0.1", "localhost"),
        "CDK_DEFAULT_ACCOUNT": ACCOUNT_ID,
        "CDK_DEFAULT_REGION": REGION,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    variables = {**account.environment(), **cdk}
    return [*(f"export {name}={shlex.quote(value)}" for name, value in variables.items()), "unset AWS_CA_BUNDLE"]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trackside_localaccount", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--folder", type=Path, help="keep logs and jobs here")
    parser.add_argument("--stop-grace-seconds", type=float, default=120.0, help="from SIGTERM to SIGKILL of a job")
    parser.add_argument(
        "--no-iam", action="store_true", help="let functions, jobs and services do what no policy allows"
    )
    parser.add_argument(
        "--faults", type=_faults, metavar="'NAME=VALUE ...'", help="what goes wrong, such as 'seed=1 throttle=0.1'"
    )
    parser.add_argument(
        "--image",
        type=_image,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="what runs here for a container image; may be given again",
    )
    return parser.parse_args(arguments)


def _faults(text: str) -> Faults:
    try:
        return Faults.from_text(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _image(text: str) -> tuple[str, list[str]]:
    name, separator, command = text.partition("=")
    if not name or not separator or not shlex.split(command):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND.")
    return name, shlex.split(command)


if __name__ == "__main__":
    sys.exit(main())
