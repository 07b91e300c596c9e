"""Two runs side by side for agents: the verdict on the change, and what differs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from trackside.agents.answers import Compared, SettingDifference
from trackside.agents.runs import Runs
from trackside.agents.text import MOST_LINE, one_line, shown_name
from trackside.runs.run_folder import read_record
from trackside.views.comparing.comparison import ComparedRun, compare
from trackside.views.comparing.comparison_text import facts_in_order, loss_lines, verdict_line

MOST_SETTINGS, MOST_LINES, MOST_NAMES = 12, 8, 10


def compared(runs: Runs, a: str, b: str, *, clock: Callable[[], float] = time.time) -> Compared:
    """Return what differs between two runs, and whether the second one proves that the first one's issues are mended.

    Args:
        runs: The runs.
        a: Name of the run before the change.
        b: Name of the run after it.
        clock: Returns seconds since the epoch.
    """
    found = compare(_opened(runs, a), _opened(runs, b), now=clock())
    facts, cure = list(facts_in_order(found.facts)), found.cure
    return Compared(
        a=shown_name(runs.name(a)),
        b=shown_name(runs.name(b)),
        headline=one_line(verdict_line(found)),
        cure=cure.verdict.value if cure else "",
        reason=one_line(cure.reason) if cure else "",
        gone=_names(cure.gone if cure else ()),
        left=_names(cure.left if cure else ()),
        new=_names(cure.new if cure else tuple(found.issues_b)),
        settings=tuple(
            SettingDifference(one_line(fact.fact, 80), one_line(fact.a, 80), one_line(fact.b, 80))
            for fact in facts[:MOST_SETTINGS]
        ),
        more_settings=max(0, len(facts) - MOST_SETTINGS),
        losses=tuple(one_line(line, MOST_LINE) for line in list(loss_lines(found))[:MOST_LINES]),
    )


def _opened(runs: Runs, run: str) -> ComparedRun:
    uri = runs.uri(run)
    return ComparedRun(
        recorded=runs.read(run),
        trial=runs.trial(run),
        record=None if runs.list.is_remote else read_record(Path(uri)),
    )


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shown_name(name) for name in names[:MOST_NAMES])
