"""`trackside aws verdicts`: the verdicts of a deployment on one job, and the decisions about stopping it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_table
from trackside.cli.terminal.table_option import shown_moment, table_option

if TYPE_CHECKING:
    from trackside.cloud.run_table import KnownJob
    from trackside.contracts.deployment.run_table import RuleRecord
    from trackside.contracts.deployment.stop_record import DecisionRecord
    from trackside.contracts.event import RuleEvaluation


@click.command("verdicts")
@click.argument("job")
@click.option("--history", "with_history", is_flag=True, help="Also earlier verdicts of the rules.")
@format_option("table", "json")
@table_option
@shared_options
def command(*, job: str, with_history: bool, output: str, table: str, environment: str) -> None:
    """Show verdicts on JOB, and decisions about it.

    JOB is the name of a training job, or its ARN. Decisions are those about stopping it, with their reasons. With
    --json it also has DebugRuleEvaluationStatuses, as DescribeTrainingJob gave it.

    \b
    Example:
      trackside aws verdicts digits-01
      trackside aws verdicts digits-01 --history --json
    """
    from trackside.cloud.run_table import RunTable

    runs = RunTable(table, environment=environment)
    known = runs.known(job, with_history=with_history)
    if output == "json":
        print_json(_plain(known, runs.row(known)))
    else:
        _print(known, runs.row(known), with_history=with_history)


def _plain(known: KnownJob, row: tuple[KnownJob, ...]) -> dict[str, Any]:
    from trackside.cloud.rule_statuses import statuses_of

    statuses = statuses_of(known.rules)
    return {
        "arn": known.arn,
        "state": known.job.status if known.job else None,
        "row": [
            {
                "job": one.name,
                "state": one.job.status if one.job else None,
                "follow_up": one.follow_up.reason if one.follow_up else None,
            }
            for one in row
        ],
        "rules": [_plain_rule(record) for record in known.rules],
        "DebugRuleEvaluationStatuses": [
            {**status, "LastModifiedTime": status["LastModifiedTime"].isoformat()} for status in statuses
        ],
        "history": [_plain_evaluation(record.evaluation) for record in known.history],
        "decisions": [_plain_decision(decision) for decision in known.decisions],
        "veto": {"by": known.veto.by, "reason": known.veto.reason, "at": known.veto.at} if known.veto else None,
    }


def _plain_rule(record: RuleRecord) -> dict[str, Any]:
    return {
        **_plain_evaluation(record.evaluation),
        "finding_count": len(record.findings),
        "first_found_at": record.first_found_at or None,
        "last_found_at": record.last_found_at or None,
    }


def _plain_evaluation(evaluation: RuleEvaluation) -> dict[str, Any]:
    return {
        "rule": evaluation.configuration_name,
        "status": evaluation.status.value,
        "severity": evaluation.severity.value,
        "since_step": evaluation.evidence.since_step,
        "details": evaluation.details,
        "comparison": evaluation.evidence.comparison,
        "at": evaluation.modified_at,
    }


def _plain_decision(decision: DecisionRecord) -> dict[str, Any]:
    saved = decision.savings
    return {
        "outcome": decision.outcome.value,
        "finding": decision.evaluation.finding_id,
        "at": decision.at,
        "reason": decision.reason,
        "event_id": decision.event_id,
        "most_seconds_spared": saved.remaining_seconds,
        "instances": saved.instances,
        "most_money_spared": saved.most_money,
    }


def _print(known: KnownJob, row: tuple[KnownJob, ...], *, with_history: bool) -> None:
    click.echo(f"{known.name}: {known.job.status if known.job else 'its state is not known'}")
    if len(row) > 1:
        _section(("one run", "state", "what followed"), [_row_cells(one) for one in row])
    if known.rules:
        cells = [_evaluation_cells(record.evaluation) for record in sorted(known.rules, key=_issues_first)]
        _section(("rule", "status", "since", "at", "what"), cells)
    else:
        click.echo("No rule has judged it yet.")
    if with_history and known.history:
        _section(
            ("history", "status", "since", "at", "what"), [_evaluation_cells(one.evaluation) for one in known.history]
        )
    if known.decisions:
        cells = [(one.outcome.value, shown_moment(one.at), one.reason) for one in known.decisions]
        _section(("decision", "at", "why"), cells)
    if known.veto:
        who = known.veto.by or "somebody"
        _section(("veto", "at", "why"), [(who, shown_moment(known.veto.at), known.veto.reason or "-")])


def _row_cells(one: KnownJob) -> tuple[str, ...]:
    return one.name, one.job.status if one.job else "-", one.follow_up.reason if one.follow_up else "-"


def _section(header: tuple[str, ...], cells: list[tuple[str, ...]]) -> None:
    click.echo()
    print_table(header, cells, color=wants_color())


def _evaluation_cells(evaluation: RuleEvaluation) -> tuple[str, ...]:
    since = (
        f"step {evaluation.evidence.since_step}" if evaluation.found_issues and evaluation.actions is not None else "-"
    )
    return (
        evaluation.configuration_name,
        evaluation.status.value,
        since,
        shown_moment(evaluation.modified_at),
        evaluation.details or "-",
    )


def _issues_first(record: RuleRecord) -> tuple[bool, str]:
    return not record.evaluation.found_issues, record.evaluation.configuration_name
