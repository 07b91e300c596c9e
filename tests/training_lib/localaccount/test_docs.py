"""docs/local-account.md: what it shows runs, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from trackside_localaccount import LocalAccount

PAGE = (Path(__file__).parents[3] / "docs" / "local-account.md").read_text(encoding="utf-8")


def test_the_example_is_a_test_that_passes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_example.py"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "1 passed" in outcome.stdout


def test_what_the_page_names_exists() -> None:
    named = set(re.findall(r"`account\.(\w+)|`(job_\w+|function_\w+)\(", PAGE))

    with LocalAccount() as account:
        missing = [name for pair in named for name in pair if name and not hasattr(account, name)]

    assert len(named) >= 7
    assert missing == []
