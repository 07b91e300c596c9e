"""The verdict on a training job in the end of a processing job that judged by a rule from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import split_uri
from trackside.contracts.deployment.custom_rule_job import CustomRuleJob, Ending, read_ending
from trackside.contracts.event import STATUS_OF_OUTCOME, RuleEvaluation, detail_of, evaluation_of, moment
from trackside.contracts.run_layout import RULE_OUTPUT, RunLocation, verdicts_key_of
from trackside.contracts.verdict import Outcome, Verdict

WHAT_TO_DO = "The rule's whole verdict stands in the log of its processing job."
OUTCOME_OF_STATUS = {status: outcome for outcome, status in STATUS_OF_OUTCOME.items()}


@dataclass(frozen=True)
class Report:
    """A verdict to put into the run, at `bucket` and `key`, and its evaluation for the bus."""

    bucket: str
    key: str
    verdict: Verdict
    evaluation: RuleEvaluation


def decide(event: Mapping[str, Any], settings: ReportCustomRuleSettings) -> Report | Nothing:
    """Return the status of the rule.

    The job's environment names its training job. Only start_evaluation could set it: it has the only role that may pass
    the jobs' role. Errors: `ConfigurationError` for an event of another shape.
    """
    fields = detail_of(event)
    name, status = fields.text("ProcessingJobName"), fields.text("ProcessingJobStatus")
    role, arn = fields.text("RoleArn", ""), fields.text("ProcessingJobArn", "")
    exit_message, failure_reason = fields.text("ExitMessage", ""), fields.text("FailureReason", "")
    environment = fields.mapping("Environment", {})
    modified = moment(fields, "LastModifiedTime")
    fields.finish(subject=f"The event {event.get('id', '')!r}")
    job = CustomRuleJob.from_environment(environment)
    if role != settings.role_arn or job is None:
        return Nothing(f"{name} judges by no rule from a file.", surprising=True)
    ending = read_ending(
        job_status=status, exit_message=exit_message, failure_reason=failure_reason, configuration=job.configuration
    )
    if ending is None:
        return Nothing(f"{name} is {status}.")
    run = RunLocation(job.run_uri)
    bucket, prefix = split_uri(run)
    verdict = _verdict(job, ending, run=run.name, detected_at=modified)
    evaluation = evaluation_of(verdict, job=job.training_job, run_uri=run.uri, evaluation_job_arn=arn)
    return Report(bucket, f"{prefix}/{RULE_OUTPUT}/{verdicts_key_of(job.configuration)}", verdict, evaluation)


def _verdict(job: CustomRuleJob, ending: Ending, *, run: str, detected_at: float) -> Verdict:
    outcome = OUTCOME_OF_STATUS[ending.status]
    return Verdict(
        run=run,
        rule_id=job.rule,
        configuration_name=job.configuration,
        outcome=outcome,
        severity=ending.severity,
        step=ending.step,
        message=ending.details,
        detected_at=detected_at,
        what_to_do=(WHAT_TO_DO,),
        actions=ending.carried_out(job.actions) if outcome is Outcome.ISSUE_FOUND else (),
    )
