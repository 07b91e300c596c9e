"""No file of the repository holds a regular expression that is known to hang: a repeat of nothing but repeats.

What would find such a pattern with the guards of ours is tested with usual patterns and a small bound.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_TEXT = (":!*.svg", ":!*.lock", ":!CHANGELOG.md")
ATOM = r"(?:\[[^\]\s]+\]|\\\w|[\w.])"
REPEATED_REPEAT = rf"\((?:\?:)?(?:{ATOM}[*+])+\)(?:[*+]|{{\d+,)"


def test_no_file_holds_a_repeat_of_repeats() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lIE", r"[*+]\)([*+]|\{)", "--", *NO_TEXT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    found = {
        f"{path}: {match[0]}"
        for path in listed.stdout.splitlines()
        for match in re.finditer(REPEATED_REPEAT, (ROOT / path).read_text(encoding="utf-8"))
    }
    assert not found, "test the guard with a usual pattern and a small bound; name where the pattern is known"


@pytest.mark.parametrize(
    ("inner", "is_found"),
    [
        pytest.param("a+", True, id="a letter"),
        pytest.param("[a-z]*", True, id="a set"),
        pytest.param(r"\w+\s*", True, id="two in a row"),
        pytest.param("?:.*", True, id="a group without a name"),
        pytest.param(r"\.\w+", False, id="a separator first"),
        pytest.param("-[a-z]+", False, id="a hyphen first"),
        pytest.param(r"\d+,", False, id="a separator last"),
    ],
)
def test_the_search_sees(inner: str, is_found: bool) -> None:
    assert (re.search(REPEATED_REPEAT, f"({inner})" + "+") is not None) is is_found
