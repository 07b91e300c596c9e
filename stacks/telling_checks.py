"""Settings that say whom issues are told: how each is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stacks.setting_checks import between, matching
from trackside.contracts.recipient import phone_problem


def missing_secrets(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings that are missing, and why. Nobody is told anything without proof of who tells it."""
    pairs = {"slack_channel": "slack_secret", "webhook_url": "webhook_secret"}
    for name, secret in pairs.items():
        if values.get(name) and not values.get(secret):
            yield secret, f"is needed with {name}. Name a secret of Secrets Manager."


def _check_phones(value: tuple[str, ...]) -> None:
    problems = [problem for number in value if (problem := phone_problem(number))]
    if problems:
        raise ValueError(" ".join(problems).rstrip("."))


def _check_webhook_url(value: str) -> None:
    """The address stands in the template: one that is itself a secret must not be it."""
    if not value:
        return
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?(/[\w.~%/+-]*)?", value):
        raise ValueError("it must look like 'https://hooks.example.com/trackside', without a query")
    if re.match(r"https://(hooks\.slack\.com|[^/]*\.webhook\.office\.com)", value):
        raise ValueError("this address is a secret itself, and would stand in the template: use slack_channel")


TELLING_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "owner_phones": _check_phones,
    "notify_quiet_minutes": between(0, 10_080),
    "slack_channel": matching(r"|[#\w-]{1,80}", "'C0123456789'"),
    "slack_secret": matching(r"|[\w/+=.@-]{1,512}", "'trackside/slack'"),
    "webhook_url": _check_webhook_url,
    "webhook_secret": matching(r"|[\w/+=.@-]{1,512}", "'trackside/webhook'"),
    "webhook_calls_per_second": between(1, 300),
}
