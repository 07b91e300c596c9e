"""Posts messages to a channel of Microsoft Teams, by the address of a workflow. Whoever has the address may post.

https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using: a workflow
takes adaptive cards, and no older form of message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lambdas.notify_owner.chat_post import LONGEST_WAIT_SECONDS, NotTakenError, post, secret_of
from lambdas.notify_owner.settings import NotifyOwnerSettings

SERVICE = "Teams"
MOST_CHARACTERS = 5000  # of 28 KB that a message of Teams has; a character takes four bytes at most, a line a hundred
MOST_LINES = 60
# A workflow that was deleted or switched off, an address of which a part is missing, a form that it does not read.
_FINAL_CODES = frozenset({400, 401, 403, 404, 405, 410})


def post_to_teams(title: str, text: str, settings: NotifyOwnerSettings, *, link: str = "") -> None:
    """Post a card to the workflow.

    Args:
        title: One line.
        text: The message.
        settings: The secret with the address.
        link: Address behind the card's button; "" for none.

    Errors: `NotTakenError`; `ClientError` of Secrets Manager.
    """
    address = secret_of(settings.teams_address_from)
    if urlsplit(address).scheme != "https":
        why = "its secret holds no address that begins with https://"
        raise NotTakenError(SERVICE, why, wait_seconds=LONGEST_WAIT_SECONDS, needs_person=True)
    post(SERVICE, address, card_of(title, text, link), headers={}, final_codes=_FINAL_CODES)


def card_of(title: str, text: str, link: str) -> Mapping[str, Any]:
    """Return the message that a workflow reads.

    Text of other people stands in runs, in which no Markdown is read: a name cannot become a link.
    """
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
    lines = cut.splitlines()
    shown = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]
    content: dict[str, Any] = {
        "$schema": "https://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [_line(title, weight="Bolder"), *(_line(line, fontType="Monospace") for line in shown)],
    }
    if link:
        content["actions"] = [{"type": "Action.OpenUrl", "title": "Open the run", "url": link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}


def _line(text: str, **style: str) -> Mapping[str, Any]:
    run = {"type": "TextRun", "text": text or " ", **style}
    return {"type": "RichTextBlock", "inlines": [run], "spacing": "None"}


def report_of(error: str) -> tuple[str, str]:
    """Return (subject, body) of the message to the other subscribers: Teams refuses, and what to do."""
    body = [
        f"Teams refuses the messages of Trackside: {error}.",
        "They are tried again for a day, then they lie in the dead-letter queue of notify_owner.",
        "",
        "HTTP 400, 404, 410: the workflow was deleted, switched off or changed; make one from the template",
        "'Send webhook alerts to a channel'.",
        "HTTP 401, 403: the address is not whole. Store the workflow's address in the secret teams_secret.",
        "",
    ]
    return f"Trackside: Teams refuses messages ({error})"[:99], "\n".join(body)
