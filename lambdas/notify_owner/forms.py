"""One message in the form of each protocol: to read at a desk, to read on a phone, and for machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lambdas.shared.plain import ascii_only
from trackside.contracts.event import RuleEvaluation
from trackside.contracts.fields import to_json

MOST_SMS_CHARACTERS = 140  # what one SMS surely holds, whatever the network counts
VERSION = 1
_MACHINES = ("email-json", "http", "https", "lambda", "sqs", "firehose")


def message_structure(*, body: str, short: str, document: Mapping[str, Any]) -> str:
    """SNS's `MessageStructure=json`: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html."""
    machine = to_json(dict(document))
    return to_json({"default": body, "email": body, "sms": short, **dict.fromkeys(_MACHINES, machine)})


def short_text(said: RuleEvaluation) -> str:
    """At most 140 characters of plain ASCII: what, in which job; then as much of the details as there is room."""
    rule, job = ascii_only(said.configuration_name)[:48], ascii_only(said.job.name)[:63]
    text = f"Trackside: {rule} in {job}"
    details = ascii_only(said.details)
    whole = f"{text}: {details}" if details else text
    return whole if len(whole) <= MOST_SMS_CHARACTERS else f"{whole[: MOST_SMS_CHARACTERS - 3]}..."


def slack_text(text: str) -> str:
    """Without a meaning in Slack: `<!channel>` in the name of a tensor would call everybody there.

    https://docs.slack.dev/messaging/formatting-message-text#escaping
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def document_of(said: RuleEvaluation, *, text: str, message: str = "", others: tuple[str, ...] = ()) -> dict[str, Any]:
    """For machines. `id` is the same whenever the same finding is told; `others` are findings that it stands for,
    `message` is what people read."""
    return {
        "version": VERSION,
        "id": f"{said.job.arn}#{said.finding_id}",
        "job": said.job.name,
        "job_arn": said.job.arn,
        "rule": said.configuration_name,
        "status": said.status.value,
        "severity": said.severity.value,
        "details": said.details,
        "since_step": said.evidence.since_step,
        "step": said.evidence.step,
        "tensor": said.evidence.tensor_name,
        "worker": said.evidence.worker,
        "observed": said.evidence.comparison,
        "what_to_do": list(said.what_to_do),
        "run": said.run_uri,
        "also_found": list(others),
        "text": text,
        "message": message,
    }
