"""A processing job that judges a training job ended without an answer: its owner must learn about that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackside.contracts.deployment.custom_rule_job import job_in
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus, detail_of
from trackside.contracts.fields import Fields
from trackside.contracts.verdict import Severity

_FIX = "See its processing job in CloudWatch Logs, and `trackside findings` for what each rule lacked."


def read_unjudged(event: Mapping[str, Any]) -> RuleEvaluation:
    """Return the content of such an event as a rule's status. Errors: `ConfigurationError`."""
    fields = detail_of(event)
    given = fields.mapping("Environment", {})
    environment = Fields(given, where="detail.Environment", problems=fields.problems)
    environment.text("TRAINING_JOB_NAME"), environment.text("TRAINING_JOB_ARN")
    name, status = fields.text("ProcessingJobName"), fields.text("ProcessingJobStatus")
    why = fields.text("ExitMessage", "") or fields.text("FailureReason", "") or "No reason was given."
    evaluation = RuleEvaluation(
        job=job_in(given),
        configuration_name=name,
        status=RuleEvaluationStatus.ERROR,
        details=why if status == "Completed" else f"The processing job {name} is {status}. {why}",
        severity=Severity.WARNING,
        actions=(),
        what_to_do=(_FIX,),
        run_uri=environment.text("TRACKSIDE_RUN", ""),
    )
    fields.finish(subject="The event of a processing job")
    return evaluation
