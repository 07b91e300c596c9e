"""One message in the form of each protocol: to read at a desk, to read on a phone, and for machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lambdas.shared.plain import ascii_only
from trackside.contracts.event import RuleEvaluation, job_of_identity
from trackside.contracts.fields import to_json

MOST_SMS_CHARACTERS = 140  # what one SMS surely holds, whatever the network counts
MOST_MESSAGE_BYTES = 250 * 1024  # of 256 KB, which the attributes share; the JSON is ASCII
MOST_LISTED = 10
VERSION = 1
_MACHINES = ("email-json", "http", "https", "lambda", "sqs", "firehose")


def message_structure(*, body: str, short: str, document: Mapping[str, Any]) -> str:
    """Return SNS's `MessageStructure=json`: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html.

    Texts that would not fit are cut, and each list after its tenth.
    """
    message = _forms(body, short, document)
    for most in (1_000, 100):
        if len(message) > MOST_MESSAGE_BYTES:
            fitting = {name: _cut(value, most) for name, value in document.items()}
            message = _forms(_cut(body, 10 * most), short, fitting)
    return message


def _forms(body: str, short: str, document: Mapping[str, Any]) -> str:
    machine = to_json(document)
    return to_json({"default": body, "email": body, "sms": short, **dict.fromkeys(_MACHINES, machine)})


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}..."
    return [_cut(each, most) for each in value[:MOST_LISTED]] if isinstance(value, list) else value


def short_text(evaluation: RuleEvaluation) -> str:
    """Return at most 140 characters of plain ASCII: rule and job, then as much of the details as fits."""
    rule, job = ascii_only(evaluation.configuration_name)[:48], ascii_only(evaluation.job.name)[:63]
    text = f"Trackside: {rule} in {job}"
    details = ascii_only(evaluation.details)
    whole = f"{text}: {details}" if details else text
    return whole if len(whole) <= MOST_SMS_CHARACTERS else f"{whole[: MOST_SMS_CHARACTERS - 3]}..."


def slack_text(text: str) -> str:
    """Return the text without a meaning in Slack: `<!channel>` in the name of a tensor would notify the whole channel.

    https://docs.slack.dev/messaging/formatting-message-text#escaping
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def document_of(
    evaluation: RuleEvaluation, *, text: str, message: str = "", others: tuple[str, ...] = (), link: str = ""
) -> dict[str, Any]:
    """Return the message for machines.

    - `id`: the same for each message about the same finding
    - `continues`: name of the stopped job that this one continues; "" for none
    - `link`: the run in the dashboard, or its report; "" without
    - `others`: findings that it stands for
    - `message`: the text for people
    """
    return {
        "version": VERSION,
        "id": f"{evaluation.job.identity}#{evaluation.finding_id}",
        "job": evaluation.job.name,
        "job_arn": evaluation.job.arn,
        "continues": job_of_identity(evaluation.job.continues).name,
        "rule": evaluation.configuration_name,
        "status": evaluation.status.value,
        "severity": evaluation.severity.value,
        "details": evaluation.details,
        "since_step": evaluation.evidence.since_step,
        "step": evaluation.evidence.step,
        "tensor": evaluation.evidence.tensor_name,
        "worker": evaluation.evidence.worker,
        "observed": evaluation.evidence.comparison,
        "what_to_do": list(evaluation.what_to_do),
        "run": evaluation.run_uri,
        "link": link,
        "also_found": list(others),
        "text": text,
        "message": message,
    }
