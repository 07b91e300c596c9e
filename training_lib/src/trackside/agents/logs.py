"""Logs of other tools for agents: files that exist already, judged by the rules that a log can answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trackside.agents.answers import JudgedLogLine, LogPage
from trackside.agents.paging import ROOM, fitting, position
from trackside.agents.problems import problem_line
from trackside.agents.runs import MOST_PROBLEMS, Runs
from trackside.agents.text import MOST_LINE, one_line, shown_name
from trackside.choosing.rule_choice import choose_rules
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.imported.finding import LeftOut, find_logs
from trackside.imported.judged_log import JudgedLog, judge_log
from trackside.imported.names import parse_columns
from trackside.runs.judged_part import worst_word
from trackside.runs.source_text import SourceText

MOST_LOGS = 8
LOOKING_SECONDS = 5.0  # then a page ends, however few logs of it were judged
MOST_RESERVATIONS, MOST_NAMES = 4, 10
_ROOM_OF_A_LOG = ROOM // 2


def judged_path(
    runs: Runs,
    path: str,
    columns: Sequence[str] = (),
    *,
    cursor: str = "",
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> LogPage:
    """Judge the logs at a path, as many as fit and as can be judged in some seconds. Nothing is written.

    Args:
        runs: The runs of this server: logs are read below its folder and the working folder alone.
        path: A file or folder with logs.
        columns: Columns by role, as `loss=train_ce`.
        cursor: The cursor of the page before; "" for the first logs.
        clock: Returns seconds since the epoch.
        monotonic: Returns seconds that only grow.

    Raises:
        ConfigurationError: The path is elsewhere, or is a run, or has no such columns.
        RunNotFoundError: No log is there.
    """
    place, begin = _allowed(runs, path), monotonic()
    skipped, left_out = position(cursor, most=1_000_000), LeftOut()
    chosen = choose_rules([], catalogue=built_in_catalogue())
    lines: list[JudgedLogLine] = []
    is_cut = False
    for number, found in enumerate(find_logs(place, parse_columns(columns), left_out)):
        if number < skipped:
            continue
        is_cut = len(lines) == MOST_LOGS or (bool(lines) and monotonic() - begin >= LOOKING_SECONDS)
        if is_cut:
            break
        lines.append(_line(judge_log(found, chosen, clock=clock)))
    count = fitting(lines)
    end = skipped + count
    return LogPage(
        logs=tuple(lines[:count]),
        without_loss=tuple(shown_name(name) for name in list(left_out.without_loss)[:MOST_NAMES]),
        other_files=left_out.others,
        next_cursor=str(end) if is_cut or count < len(lines) else "",
    )


def _allowed(runs: Runs, path: str) -> str:
    """Return a path below the folder of the runs or the working folder; a prefix below that of runs in S3.

    Raises:
        ConfigurationError: It is elsewhere.
    """
    root = (runs.list.where or ".").rstrip("/") or "/"
    if runs.list.is_remote:
        is_inside, place = f"{path}/".startswith(f"{root}/") and ".." not in path, path
        known = root
    else:
        inside = [Path.cwd().resolve(), Path(root).expanduser().resolve()]
        found = Path(path).expanduser().resolve()
        is_inside, place = "://" not in path and any(found.is_relative_to(one) for one in inside), str(found)
        known = "the working folder of this server, and the folder of its runs"
    if not is_inside or not path:
        raise ConfigurationError(
            [Problem(one_line(path, 100), f"is not below {known}: nothing else is read.")], subject="The call"
        )
    return place


def _line(judged: JudgedLog) -> JudgedLogLine:
    found, recorded = judged.found, judged.recorded
    sources = SourceText(recorded.location.uri)
    problems = [problem_line(group, sources) for group in recorded.groups]
    shown = min(MOST_PROBLEMS, fitting(problems, room=_ROOM_OF_A_LOG)) if problems else 0
    return JudgedLogLine(
        log=shown_name(found.log.name),
        format=found.log.format,
        judged_as=tuple(one_line(f"{role}={column}", MOST_LINE) for role, column in found.meanings.shown().items()),
        rows=judged.run.rows,
        evaluations=judged.run.evaluations,
        last_step=judged.run.last_step,
        counted=found.unit,
        worst=worst_word(recorded.worst_severity, recorded.judged),
        problems=tuple(problems[:shown]),
        more_problems=len(problems) - shown,
        reservations=tuple(one_line(text) for text in judged.reservations[:MOST_RESERVATIONS]),
        rules_judging=len(recorded.rules),
        rules_left_out=len(judged.unanswerable),
    )
