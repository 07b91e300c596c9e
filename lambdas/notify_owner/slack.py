"""Posts messages to a channel of Slack, and reads the answer: Slack refuses with 200 and `"ok": false`.

https://docs.slack.dev/reference/methods/chat.postMessage
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lambdas.notify_owner.chat_post import LONGEST_WAIT_SECONDS, NotTakenError, post, secret_of
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.observability import logger

SERVICE = "Slack"
MOST_BLOCK_CHARACTERS, MOST_ALT_CHARACTERS = 3000, 2000

# Errors of a service that is busy. Every other one needs a person: a token, a channel, an invitation.
PASSING = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"})


def post_to_slack(text: str, settings: NotifyOwnerSettings, *, picture: str = "", about_picture: str = "") -> None:
    """Post the text to the channel. A picture that Slack does not take is left out.

    Args:
        text: The text.
        settings: The channel, and the secret with the header.
        picture: Address of an image; "" for none.
        about_picture: The image in words, for those who do not see it.

    Errors: `NotTakenError`; `ClientError` of Secrets Manager.
    """
    header = secret_of(settings.slack_header_from)
    blocks = blocks_of(text, picture, about_picture)
    if blocks:
        try:
            return _post(header, settings, {"text": text, "blocks": blocks})
        except NotTakenError as refused:
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
    document = {"channel": settings.slack_channel, **message}
    error = error_in(post(SERVICE, settings.slack_url, document, headers={"Authorization": header}))
    if error:
        is_passing = error in PASSING
        wait = 0.0 if is_passing else LONGEST_WAIT_SECONDS
        raise NotTakenError(SERVICE, error, wait_seconds=wait, needs_person=not is_passing)


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
