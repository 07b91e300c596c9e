"""Questions about many runs, with a name each: `trackside query rules-that-fire`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question: for people, and in SQL."""

    text: str
    sql: str


QUESTIONS: Mapping[str, Question] = {
    "rules-that-fire": Question(
        "Which rules fire most?",
        """\
SELECT code, rule_id, count(DISTINCT run) AS runs, count(*) FILTER (severity = 'critical') AS critical,
       count(*) FILTER (state = 'recovered') AS recovered
FROM findings GROUP BY ALL ORDER BY runs DESC, code""",
    ),
    "causes": Question(
        "What is wrong with them most often?",
        """\
SELECT coalesce(cause, '(not known)') AS cause, count(DISTINCT run) AS runs, count(DISTINCT problem) AS problems
FROM findings WHERE state = 'standing' GROUP BY ALL ORDER BY runs DESC, cause""",
    ),
    "by-script": Question(
        "Which scripts have issues?",
        """\
SELECT regexp_extract(command, '[^ /]+\\.py') AS script, count(*) AS runs, count(*) FILTER (issues > 0) AS with_issues,
       round(sum(seconds) / 3600, 2) AS hours
FROM runs GROUP BY ALL ORDER BY with_issues DESC, script""",
    ),
    "by-version": Question(
        "Which version of the framework goes with issues?",
        """\
SELECT framework, framework_version, precision, count(*) AS runs, count(*) FILTER (issues > 0) AS with_issues
FROM runs GROUP BY ALL ORDER BY runs DESC, framework_version""",
    ),
    "what-stops-saved": Question(
        "How long did stopped runs last, and how long do those of the same command last that end by themselves?",
        """\
SELECT command, count(*) FILTER (stopped_by_trackside) AS stopped,
       round(median(seconds) FILTER (stopped_by_trackside), 1) AS seconds_until_stop,
       round(median(seconds) FILTER (status = 0), 1) AS seconds_of_whole_runs
FROM runs GROUP BY ALL HAVING stopped > 0 ORDER BY stopped DESC, command""",
    ),
    "how-early": Question(
        "At which step is an issue found, and how long after it began?",
        """\
SELECT code, rule_id, count(*) AS findings, median(step) AS step, median(step - since_step) AS steps_after_it_began
FROM findings GROUP BY ALL ORDER BY findings DESC, code""",
    ),
    "first-layers": Question(
        "Which tensors do findings name?",
        """\
SELECT subject, count(DISTINCT run) AS runs, list(DISTINCT rule_id ORDER BY rule_id) AS rules
FROM findings WHERE subject IS NOT NULL GROUP BY ALL ORDER BY runs DESC, subject LIMIT 20""",
    ),
    "by-day": Question(
        "How many runs have issues, day by day?",
        """\
SELECT date, count(*) AS runs, count(*) FILTER (worst = 'critical') AS critical,
       count(*) FILTER (worst = 'warning') AS warned_of, count(*) FILTER (NOT judged) AS not_judged
FROM runs GROUP BY ALL ORDER BY date DESC""",
    ),
    "without-verdict": Question(
        "Which rules could not judge, and why?",
        """\
SELECT code, rule_id, rules.detail, count(*) AS runs
FROM rules JOIN runs USING (run)
WHERE rules.state IN ('Not enough data', 'Not applicable', 'Error') AND steps_saved > 0
GROUP BY ALL ORDER BY runs DESC, code LIMIT 20""",
    ),
    "final-losses": Question(
        "Which runs of a command ended with the lowest loss?",
        """\
SELECT command, run, tensor, max(step) AS step, arg_max(value, step) AS loss
FROM statistics JOIN runs USING (run)
WHERE collection = 'losses' AND statistics.mode = 'TRAIN' AND value IS NOT NULL
GROUP BY ALL ORDER BY command, loss LIMIT 20""",
    ),
}
