"""Saved questions about many runs for agents. No SQL from outside: it could read any file of this machine."""

from __future__ import annotations

from typing import Any

from trackside.agents.answers import Answer, QuestionLine
from trackside.agents.paging import ROOM, compact
from trackside.agents.text import one_line
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.fields import write_number
from trackside.contracts.questions.saved import QUESTIONS

MOST_CELL = 120

Cell = str | float | bool | None


def answer(where: str | None, name: str) -> Answer:
    """Return the rows of a saved question, as many as fit; the questions for "".

    Args:
        where: The place of the runs.
        name: The name of the question.

    Raises:
        ConfigurationError: There is no such question, or DuckDB is not installed.
    """
    if not name:
        questions = tuple(QuestionLine(each, question.text) for each, question in QUESTIONS.items())
        return Answer(questions, (), (), 0, 0)
    if name not in QUESTIONS:
        problem = Problem("question", f"Unknown: {one_line(name, 80)!r}.", did_you_mean(name, QUESTIONS))
        raise ConfigurationError([problem], subject="The call")
    from trackside.views.query.database import RunDatabase
    from trackside.views.query.tables import run_tables

    found = run_tables(where)
    with RunDatabase(found) as database:
        result = database.answer(QUESTIONS[name].sql)
    rows = [tuple(_cell(value) for value in row) for row in result.rows]
    room, fit = ROOM, 0
    for row in rows:
        room -= len(compact(row)) + 1
        if room < 0:
            break
        fit += 1
    return Answer((), result.columns, tuple(rows[:fit]), len(rows) - fit, len(found.unread))


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return write_number(value)
    if isinstance(value, list):
        return one_line(", ".join(map(str, value)), MOST_CELL)
    return one_line(value.isoformat() if hasattr(value, "isoformat") else str(value), MOST_CELL)
