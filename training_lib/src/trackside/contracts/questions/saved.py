"""Questions about many runs, with a name each: `trackside query rules-that-fire`, and the same text in Athena."""

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
SELECT code, rule_id, count(DISTINCT run) AS runs, count(*) FILTER (WHERE severity = 'critical') AS critical,
       count(*) FILTER (WHERE state = 'recovered') AS recovered
FROM findings GROUP BY 1, 2 ORDER BY runs DESC, code""",
    ),
    "causes": Question(
        "What is wrong with them most often?",
        """\
SELECT coalesce(cause, '(not known)') AS cause, count(DISTINCT run) AS runs, count(DISTINCT problem) AS problems
FROM findings WHERE state = 'standing' GROUP BY 1 ORDER BY runs DESC, 1""",
    ),
    "failed-alike": Question(
        "Which runs failed alike: the same rule first, on the same kind of layer, from the same cause?",
        """\
SELECT first_rule, layer_kind, coalesce(first_cause, '(not known)') AS cause, count(*) AS runs,
       min(first_step) AS from_step, min(run) AS for_example
FROM runs WHERE first_rule IS NOT NULL GROUP BY 1, 2, 3 ORDER BY runs DESC, 1, 2, 3 LIMIT 20""",
    ),
    "by-script": Question(
        "Which scripts have issues?",
        """\
SELECT regexp_extract(command, '[^ /]+\\.py') AS script, count(*) AS runs,
       count(*) FILTER (WHERE issues > 0) AS with_issues, round(sum(seconds) / 3600, 2) AS hours
FROM runs GROUP BY 1 ORDER BY with_issues DESC, script""",
    ),
    "by-version": Question(
        "Which version of the framework goes with issues?",
        """\
SELECT framework, framework_version, precision, count(*) AS runs, count(*) FILTER (WHERE issues > 0) AS with_issues
FROM runs GROUP BY 1, 2, 3 ORDER BY runs DESC, framework, framework_version, precision""",
    ),
    "what-stops-saved": Question(
        "How long did stopped runs last, and how long do those of the same command last that end by themselves?",
        """\
SELECT command, count(*) FILTER (WHERE stopped_by_trackside) AS stopped,
       round(approx_percentile(CASE WHEN stopped_by_trackside THEN seconds END, 0.5), 1) AS seconds_until_stop,
       round(approx_percentile(CASE WHEN status = 0 THEN seconds END, 0.5), 1) AS seconds_of_whole_runs
FROM runs GROUP BY 1 HAVING count(*) FILTER (WHERE stopped_by_trackside) > 0 ORDER BY stopped DESC, command""",
    ),
    "how-early": Question(
        "At which step is an issue found, and how long after it began?",
        """\
SELECT code, rule_id, count(*) AS found, approx_percentile(step, 0.5) AS at_step,
       approx_percentile(step - since_step, 0.5) AS steps_after_it_began
FROM findings GROUP BY 1, 2 ORDER BY found DESC, code""",
    ),
    "first-layers": Question(
        "Which tensors do findings name?",
        """\
SELECT subject, count(DISTINCT run) AS runs, array_agg(DISTINCT rule_id ORDER BY rule_id) AS rules
FROM findings WHERE subject IS NOT NULL GROUP BY 1 ORDER BY runs DESC, subject LIMIT 20""",
    ),
    "by-day": Question(
        "How many runs have issues, day by day?",
        """\
SELECT date, count(*) AS runs, count(*) FILTER (WHERE worst = 'critical') AS critical,
       count(*) FILTER (WHERE worst = 'warning') AS warned_of,
       count(*) FILTER (WHERE NOT judged) AS not_judged
FROM runs GROUP BY 1 ORDER BY date DESC""",
    ),
    "without-verdict": Question(
        "Which rules could not judge, and why?",
        """\
SELECT code, rule_id, rules.detail, count(*) AS runs
FROM rules JOIN runs USING (run)
WHERE rules.state IN ('Not enough data', 'Not applicable', 'Error') AND steps_saved > 0
GROUP BY 1, 2, 3 ORDER BY runs DESC, code, 3 LIMIT 20""",
    ),
    "final-losses": Question(
        "Which runs of a command ended with the lowest loss?",
        """\
SELECT command, run, tensor, max(step) AS last_step, max_by(value, step) AS loss
FROM statistics JOIN runs USING (run)
WHERE collection = 'losses' AND statistics.mode = 'TRAIN' AND value IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY command, loss, run, tensor LIMIT 20""",
    ),
}
