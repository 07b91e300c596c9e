"""A stage for `trackside drill --local`: a local account with this checkout's stacks and their images."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trackside
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.extras import missing_extra

if TYPE_CHECKING:
    from trackside_localaccount import LocalAccount

CONTEXT = "trackside:drills=true"
IMAGE = "trackside-evaluator"
GRACE_SECONDS = 5.0


@contextmanager
def drill_stage(*, folder: Path | None = None) -> Iterator[Callable[[str], Any]]:
    """Yield a function that makes clients of a new local account.

    Args:
        folder: The checkout, or a folder below it; None: the current folder.

    Raises:
        ConfigurationError: It is no checkout, the local account's package is missing, or the stacks cannot be
            synthesized.
    """
    local_account = _local_account_package()
    root = checkout_of(folder or Path.cwd())
    assembly = _synthesized(root)
    with local_account.LocalAccount(stop_grace_seconds=GRACE_SECONDS) as account:
        local_account.deploy.deploy(assembly, account)
        register_evaluator(account, root)
        yield account.client


def register_evaluator(account: LocalAccount, root: Path) -> None:
    """Register the program for the image of the rule container: the library that this process imports."""
    entry_point = root / "rule_containers" / "evaluator" / "entrypoint.py"
    library = Path(trackside.__file__).parents[1]
    account.register_image(IMAGE, [sys.executable, str(entry_point)], environment={"PYTHONPATH": str(library)})


def checkout_of(folder: Path) -> Path:
    """Return the folder of the checkout that holds `folder`.

    Raises:
        ConfigurationError: No checkout holds it.
    """
    for each in (folder, *folder.parents):
        if (each / "cdk.json").is_file() and (each / "stacks" / "assembly.py").is_file():
            return each
    fix = "Run it there; in an account that is deployed into, leave --local out."
    raise ConfigurationError([Problem(str(folder), "is no clone of Trackside's repository.", fix)], subject="--local")


def _local_account_package() -> Any:
    try:
        import trackside_localaccount.deploy
    except ModuleNotFoundError as error:
        raise missing_extra("localcloud") from error
    return trackside_localaccount


def _synthesized(root: Path) -> Path:
    command = [sys.executable, "-m", "stacks.assembly", CONTEXT]
    outcome = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        problem = Problem(" ".join(command), f"failed: {outcome.stderr.strip()[-500:]}", "make setup")
        raise ConfigurationError([problem], subject="The synthesis of the stacks")
    return Path(outcome.stdout.splitlines()[-1])
