from __future__ import annotations

import pytest

from trackside.runs.command_end import ending_of, exit_code_of, signal_of


@pytest.mark.parametrize(
    ("status", "code", "name", "words"),
    [
        pytest.param(0, 0, "", "", id="well"),
        pytest.param(3, 3, "", "the training ended with code 3", id="its-own-code"),
        pytest.param(128, 128, "", "the training ended with code 128", id="just-128"),
        pytest.param(-11, 139, "SIGSEGV", "SIGSEGV ended the training (exit code 139)", id="signal"),
        pytest.param(-9, 137, "SIGKILL", "SIGKILL ended the training (exit code 137)", id="out-of-memory"),
        pytest.param(139, 139, "SIGSEGV", "SIGSEGV ended the training (exit code 139)", id="behind-a-shell"),
        pytest.param(255, 255, "", "the training ended with code 255", id="no-signal-has-127"),
    ],
)
def test_the_end_of_a_command_in_words(status: int, code: int, name: str, words: str) -> None:
    assert (exit_code_of(status), signal_of(status), ending_of(status)) == (code, name, words)


def test_a_command_that_runs_died_of_nothing() -> None:
    assert signal_of(None) == ""
