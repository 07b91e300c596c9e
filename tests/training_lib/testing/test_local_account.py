"""The former import path of the local account: it still works, and tells the new one."""

from __future__ import annotations

import subprocess
import sys

import trackside_localaccount
from tests.patience import HANGS_SECONDS
from trackside.extras import install_command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )


def test_it_offers_the_same_classes_and_names_the_new_path() -> None:
    code = "from trackside.testing.local_account import Chaos, LocalAccount; print(LocalAccount, Chaos)"
    done = run("-W", "default", "-c", code)
    assert done.stdout.strip() == f"{trackside_localaccount.LocalAccount} {trackside_localaccount.Chaos}"
    assert "trackside.testing.local_account is now trackside_localaccount." in done.stderr


def test_its_command_runs() -> None:
    done = run("-m", "trackside.testing.local_account", "--help")
    assert done.returncode == 0, done.stderr
    assert "--stop-grace-seconds" in done.stdout


def test_without_the_package_it_names_what_to_install() -> None:
    code = "import sys; sys.modules['trackside_localaccount'] = None; import trackside.testing.local_account"
    done = run("-c", code)
    assert done.returncode != 0
    assert install_command("localcloud") in done.stderr
