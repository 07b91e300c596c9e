"""Completion in a real bash, with the line of docs/configuration.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
def test_bash_completes_commands_options_and_choices() -> None:
    (line,) = re.findall(
        r"`(eval \"\$\(_TRACKSIDE_COMPLETE=bash_source trackside\)\")`", PAGE.read_text(encoding="utf-8")
    )
    questions = [
        ["fi"],
        ["findings", "--fo"],
        ["findings", "x", "--format", "sa"],
        ["run", "--on-issue", ""],
        ["no-such"],
    ]
    asked = "".join(
        f"COMP_WORDS=(trackside {' '.join(repr(word) for word in words)}); COMP_CWORD={len(words)}; COMPREPLY=()\n"
        '_trackside_completion trackside; echo "${COMPREPLY[*]}"\n'
        for words in questions
    )
    environ = inherited()
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    done = subprocess.run(
        [str(BASH), "--norc", "-c", f"{line}\n{asked}"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_SECONDS,
    )
    assert done.stdout.splitlines() == ["findings", "--format", "sarif", "stop notify nothing", ""]
