"""The receivers of messages about problems: the desktop, a webhook, or a command."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from trackside.contracts.errors import ConfigurationError, Problem

SEND_SECONDS = 5.0  # for one message, and at the end for all that are left
COMMAND = "command:"
MOST_CHARACTERS = 1900  # Discord refuses a message of more than 2,000
TEAMS_HOSTS = (".logic.azure.com", ".powerplatform.com", ".webhook.office.com")


@dataclass(frozen=True)
class Message:
    """A message about one problem.

    title    one line
    summary  one sentence
    text     the card
    """

    title: str
    summary: str
    text: str


@dataclass(frozen=True)
class Receiver:
    """A receiver of messages.

    name  its name in messages to the user, without the secret part of its address
    send  sends a message within `SEND_SECONDS`; raises `OSError` or `subprocess.SubprocessError`
    """

    name: str
    send: Callable[[Message], object]


def receiver_of(target: str) -> Receiver:
    """Return the receiver for `desktop`, `https://...` or `command:...`.

    Raises:
        ConfigurationError: It is none of these, or this machine cannot send to it.
    """
    parts = urlsplit(target)
    if target == "desktop":
        return _desktop()
    if parts.scheme in {"http", "https"} and parts.hostname:
        return Receiver(parts.hostname, lambda message: _post(target, body_for(parts.hostname or "", message)))
    if target.startswith(COMMAND):
        try:
            words = shlex.split(target.removeprefix(COMMAND))
        except ValueError as error:
            raise _problem(target, f"cannot be read: {error}.", "Close every quote.") from error
        if not words or shutil.which(words[0]) is None:
            raise _problem(target, "names no program on PATH.", 'Write command:PROGRAM, such as "command:mail me".')
        return Receiver(words[0], lambda message: _call(words, f"{message.title}\n\n{message.text}\n"))
    raise _problem(target, "is no receiver.", "Write desktop, the https:// address of a webhook, or command:PROGRAM.")


def body_for(host: str, message: Message) -> dict[str, object]:
    """Return the JSON body for a webhook: `text` for Slack and Mattermost, `content` for Discord, a card for Teams."""
    fence = "```"
    card = message.text if len(message.text) <= MOST_CHARACTERS else f"{message.text[:MOST_CHARACTERS]} ..."
    text = f"{message.title}\n{fence}\n{card}\n{fence}"
    if not host.endswith(TEAMS_HOSTS):
        return {"text": text, "content": text}
    blocks = [
        {"type": "TextBlock", "text": message.title, "weight": "bolder", "wrap": True},
        {"type": "TextBlock", "text": message.text, "fontType": "monospace", "wrap": True},
    ]
    content = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    return {"type": "message", "attachments": [attachment]}


def _desktop() -> Receiver:
    if notify_send := shutil.which("notify-send"):
        return Receiver("the desktop", lambda message: _call([notify_send, message.title, message.summary], ""))
    if osascript := shutil.which("osascript"):  # arguments, so that no text of a run is ever read as a script
        show = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return Receiver("the desktop", lambda one: _call([osascript, "-e", show, one.title, one.summary], ""))
    fix = "Install notify-send (the package libnotify-bin), or use a webhook."
    raise _problem("desktop", "cannot be reached: this machine has neither notify-send nor osascript.", fix)


def _post(url: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(  # noqa: S310 - http and https only: `receiver_of`
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json", "User-Agent": "trackside"}
    )
    with urllib.request.urlopen(request, timeout=SEND_SECONDS) as answer:  # noqa: S310
        answer.read(1)


def _call(words: Sequence[str], text: str) -> None:
    subprocess.run(
        list(words),
        input=text.encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=SEND_SECONDS,
        check=True,
    )


def _problem(target: str, what: str, fix: str) -> ConfigurationError:
    # An address of a webhook is a secret.
    where = target if "://" not in target else f"{target.partition('://')[0]}://..."
    return ConfigurationError([Problem(f"--notify {where}", what, fix)], subject="The command line")
