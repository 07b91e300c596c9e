"""The message to the owner of a job with a wrong choice of rules."""

from __future__ import annotations

from lambdas.shared.plain import plain
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus
from trackside.contracts.job_choice import CHOICE_NAME


def is_wrong_choice(evaluation: RuleEvaluation) -> bool:
    """Return True for an event of start_evaluation about a choice of rules that is wrong."""
    return evaluation.configuration_name == CHOICE_NAME and evaluation.status is RuleEvaluationStatus.ERROR


def wrong_choice_body(evaluation: RuleEvaluation) -> str:
    """Return the text: the mistake, and the consequence for the job."""
    lines = [
        f"The choice of rules of the training job {plain(evaluation.job.name)} cannot be carried out:",
        f"  {plain(evaluation.details)}",  # tags are anybody's words
        "",
        "The job itself goes on." if evaluation.run_uri else "The job itself goes on, and nothing watches it.",
        "Tags and variables that choose rules: docs/watching.md.",
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return "\n".join(lines)
