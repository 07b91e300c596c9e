"""The title of the terminal while a training runs."""

from __future__ import annotations

import io

import pytest

from trackside.cli.terminal.status_title import StatusTitle, title_of
from trackside.local.run_now import RunNow


@pytest.mark.parametrize(
    ("now", "title"),
    [
        pytest.param(RunNow(None, None, 23, 0), "nothing captured yet, 23 rules - trackside", id="nothing"),
        pytest.param(RunNow(1840, None, 1, 0), "step 1,840, 1 rule - trackside", id="no-loss"),
        pytest.param(
            RunNow(12, 0.43125, 23, 1), "step 12, loss 0.4313, 23 rules, 1 problem - trackside", id="a-problem"
        ),
        pytest.param(RunNow(12, float("nan"), 23, 2), "step 12, loss nan, 23 rules, 2 problems - trackside", id="nan"),
    ],
)
def test_titles(now: RunNow, title: str) -> None:
    assert title_of(now) == title


def test_only_news_is_written_and_the_old_title_returns() -> None:
    terminal = io.StringIO()
    title = StatusTitle(terminal)
    for steps in (1, 1, 2):
        title.show(RunNow(steps, None, 1, 0))
    title.close()
    title.close()
    assert terminal.getvalue() == (
        "\x1b[22;0t\x1b]0;step 1, 1 rule - trackside\x07\x1b]0;step 2, 1 rule - trackside\x07\x1b]0;\x07\x1b[23;0t"
    )


def test_nothing_is_written_to_a_terminal_that_showed_nothing() -> None:
    terminal = io.StringIO()
    StatusTitle(terminal).close()
    assert terminal.getvalue() == ""
