"""Settings of notices: the people and the webhooks that get issues."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from stacks.settings.setting import between, matching, setting
from trackside.contracts.recipient import phone_problem

_secret_name = partial(matching, r"|[\w/+=.@-]{1,512}")


def _check_emails(value: tuple[str, ...]) -> None:
    wrong = [address for address in value if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", address)]
    if wrong:
        raise ValueError(f"not an e-mail address: {', '.join(wrong)}")


def _check_phones(value: tuple[str, ...]) -> None:
    problems = [problem for number in value if (problem := phone_problem(number))]
    if problems:
        raise ValueError(" ".join(problems).rstrip("."))


def _check_webhook_url(value: str) -> None:
    """Check the address, which stands in the template: an address that is itself a secret is refused."""
    if not value:
        return
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?(/[\w.~%/+-]*)?", value):
        raise ValueError("it must look like 'https://hooks.example.com/trackside', without a query")
    if re.match(r"https://(hooks\.slack\.com|[^/]*\.(webhook\.office|logic\.azure|powerplatform)\.com)", value):
        why = "this address is a secret itself, and would stand in the template: use slack_channel or teams_secret"
        raise ValueError(why)


@dataclass(frozen=True)
class NoticeSettings:
    """Notices of issues.

    emails                    addresses that get issues and [alarms](#alarms); each confirms once
    phones                    `+14155550100,…`: numbers that get [an SMS](actions.md#who-is-told) of issues
    quiet_minutes             time after a message in which further findings of the rule in the job are [collected into
                              one](actions.md#a-rule-that-flickers); 0: each at once
    report_link_hours         hours for which [a link to the report](actions.md#links) in a message opens it to anybody
                              who has the message (1 to 12); 0: no such link
    slack_channel             channel of [Slack](actions.md#slack-and-webhooks) that gets what owners get
    slack_secret              name of the secret (Secrets Manager) that holds `Bearer xoxb-…`, its bot's token
    teams_secret              name of the secret that holds the address of a
                              [workflow of Teams](actions.md#slack-and-webhooks)
    webhook_url               [HTTPS endpoint](actions.md#slack-and-webhooks) that gets the same as JSON
    webhook_secret            name of the secret that holds its header `Authorization`
    webhook_calls_per_second  calls of it at most (1 to 300)
    """

    emails: tuple[str, ...] = setting((), _check_emails, key="owner_emails")
    phones: tuple[str, ...] = setting((), _check_phones, key="owner_phones")
    quiet_minutes: int = setting(60, between(0, 10_080), key="notify_quiet_minutes")
    report_link_hours: int = setting(0, between(0, 12))
    slack_channel: str = setting("", matching(r"|[#\w-]{1,80}", "'C0123456789'"))
    slack_secret: str = setting("", _secret_name("'trackside/slack'"))
    teams_secret: str = setting("", _secret_name("'trackside/teams'"))
    webhook_url: str = setting("", _check_webhook_url)
    webhook_secret: str = setting("", _secret_name("'trackside/webhook'"))
    webhook_calls_per_second: int = setting(10, between(1, 300))


def missing_secrets(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of missing secrets. No webhook is called without proof of the sender."""
    pairs = {"slack_channel": "slack_secret", "webhook_url": "webhook_secret"}
    for name, secret in pairs.items():
        if values[name] and not values[secret]:
            yield secret, f"is needed with {name}. Name a secret of Secrets Manager."
