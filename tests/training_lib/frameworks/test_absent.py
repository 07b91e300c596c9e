"""Each framework absent: its public name gives one clear error, and the names that need none work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited
from trackside.extras import EXTRAS, missing_extra

FRAMEWORKS = ("torch", "xgboost", "keras", "jax", "lightgbm", "catboost", "sklearn")
SCRIPT = f"""
import sys
sys.modules.update(dict.fromkeys({FRAMEWORKS!r}))  # Python's way to make an import fail
import trackside
try:
    found = getattr(trackside, sys.argv[1])
    if sys.argv[1].endswith("Run"):
        found("run")
except (ImportError, trackside.ConfigurationError) as error:
    print(error)
"""


def shown(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name],
        env=inherited(), capture_output=True, text=True, check=True, timeout=HANGS_SECONDS,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "extra"), [("Hook", "torch"), ("XGBoostHook", "xgboost"), ("KerasHook", "keras"), ("JaxRun", "jax")]
)
def test_the_error_names_the_package_and_the_command(name: str, extra: str) -> None:
    assert shown(name) == str(missing_extra(extra))
    assert EXTRAS[extra].packages[0] in shown(name)


@pytest.mark.parametrize("name", ["Run", "Trial", "judge", "open_trial"])
def test_other_names_need_no_framework(name: str) -> None:
    assert shown(name) == ""
