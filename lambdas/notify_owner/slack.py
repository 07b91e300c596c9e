"""Posts messages to a channel of Slack, and reads the answer: Slack refuses with 200 and `"ok": false`.

https://docs.slack.dev/reference/methods/chat.postMessage
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.clients import client, code_of
from lambdas.shared.observability import logger

TIMEOUT_SECONDS = 5
MOST_ANSWER_BYTES = 64 << 10
MOST_BLOCK_CHARACTERS, MOST_ALT_CHARACTERS = 3000, 2000
SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 60.0, 900.0
SECONDS_A_DAY = 24 * 3600

# Errors of a service that is busy. Every other one needs a person: a token, a channel, an invitation.
PASSING = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"})


class SlackError(Exception):
    """Slack has not taken a message. `error` is its own word for the reason, or a description of the failure."""

    def __init__(self, error: str, *, wait_seconds: float = SHORTEST_WAIT_SECONDS, needs_person: bool = False) -> None:
        self.error, self.needs_person = error, needs_person
        self.wait_seconds = max(SHORTEST_WAIT_SECONDS, min(wait_seconds, LONGEST_WAIT_SECONDS))
        super().__init__(f"Slack did not take the message: {error}")


def post(text: str, settings: NotifyOwnerSettings, *, picture: str = "", about_picture: str = "") -> None:
    """Post the text to the channel. A picture that Slack does not take is left out.

    Args:
        text: The text.
        settings: The channel, and the secret with the header.
        picture: Address of an image; "" for none.
        about_picture: The image in words, for those who do not see it.

    Errors: `SlackError`; `ClientError` of Secrets Manager.
    """
    secret = client("secretsmanager").get_secret_value(SecretId=settings.slack_header_from)
    header = str(secret.get("SecretString", "")).strip()
    blocks = blocks_of(text, picture, about_picture)
    if blocks:
        try:
            return _post(header, settings, {"text": text, "blocks": blocks})
        except SlackError as refused:
            # `invalid_blocks` and its like: Slack fetches the image at once, and could not.
            if "block" not in refused.error:
                raise
            logger.warning("Slack did not take the picture: %s. The message goes without it.", refused.error)
    return _post(header, settings, {"text": text})


def blocks_of(text: str, picture: str, about_picture: str) -> list[Mapping[str, Any]]:
    """Return the message as blocks, the image last; none without an image, or if a part is longer than Slack takes.

    https://docs.slack.dev/reference/block-kit/blocks
    """
    about = about_picture[:MOST_ALT_CHARACTERS]
    words, newline, link = text.rpartition("\n")
    parts = [part for part in (words, link) if part] if newline else [text]
    if not picture or max(map(len, (picture, *parts))) > MOST_BLOCK_CHARACTERS:
        return []
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in parts]
    return [*sections, {"type": "image", "image_url": picture, "alt_text": about}]


def _post(header: str, settings: NotifyOwnerSettings, message: Mapping[str, Any]) -> None:
    request = urllib.request.Request(  # noqa: S310 - the address is the deployment's
        settings.slack_url,
        data=json.dumps({"channel": settings.slack_channel, **message}).encode(),
        headers={
            "Authorization": header,
            "Content-Type": "application/json; charset=utf-8",
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            error = error_in(answer.read(MOST_ANSWER_BYTES))
    except urllib.error.HTTPError as refused:
        with refused:
            wait = refused.headers.get("Retry-After", "")
            raise SlackError(f"HTTP {refused.code}", wait_seconds=float(wait) if wait.isdecimal() else 0.0) from refused
    except (OSError, ValueError) as outage:  # ValueError: of a header that no HTTP request can hold
        raise SlackError(type(outage).__name__) from outage
    if error:
        is_passing = error in PASSING
        raise SlackError(error, wait_seconds=0.0 if is_passing else LONGEST_WAIT_SECONDS, needs_person=not is_passing)


def error_in(body: bytes) -> str:
    """Return Slack's word for its refusal; "" if it took the message."""
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return "an answer that is no JSON"
    if isinstance(answer, Mapping) and answer.get("ok") is True:
        return ""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    return str(error)[:100] if error else "an answer without ok"


def is_first_report(error: str, *, table: str, now: float) -> bool:
    """Return True for one caller a day and error. Errors: `ClientError`."""
    item = {
        "id": {"S": f"slack#{error}#{int(now // SECONDS_A_DAY)}"},
        "expiration": {"N": str(int(now) + 2 * SECONDS_A_DAY)},
    }
    try:
        client("dynamodb").put_item(TableName=table, Item=item, ConditionExpression="attribute_not_exists(id)")
    except ClientError as refused:
        if code_of(refused) != "ConditionalCheckFailedException":
            raise
        return False
    return True


def report_of(error: str, channel: str) -> tuple[str, str]:
    """Return (subject, body) of the message to the other subscribers: Slack refuses, and what to do."""
    body = [
        f"Slack refuses the messages of Trackside to the channel {channel}: {error}.",
        "They are tried again for a day, then they lie in the dead-letter queue of notify_owner.",
        "",
        "not_in_channel, channel_not_found: invite the bot to the channel, or correct slack_channel.",
        "invalid_auth, token_revoked, account_inactive: store a new token in the secret slack_secret.",
        "Other words: https://docs.slack.dev/reference/methods/chat.postMessage",
        "",
    ]
    return f"Trackside: Slack refuses messages ({error})"[:99], "\n".join(body)
