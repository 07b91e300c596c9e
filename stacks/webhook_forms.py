"""The body and the header of a webhook by its host: incident services read messages of their own form only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aws_cdk import aws_events as events

_DETAIL = "$.detail"


@dataclass(frozen=True)
class WebhookForm:
    """`header` holds the secret; `body` returns what is sent for an event of `TracksideOwnerNotified`."""

    header: str
    body: Callable[[], events.RuleTargetInput]


def webhook_form(url: str) -> WebhookForm:
    """Return the form that a host reads; the document of a message for a host that is not known.

    Args:
        url: The endpoint's address.
    """
    return _FORMS.get(urlsplit(url).hostname or "", WebhookForm("Authorization", _document))


def _document() -> events.RuleTargetInput:
    return events.RuleTargetInput.from_event_path(_DETAIL)


def _pagerduty() -> events.RuleTargetInput:
    """https://developer.pagerduty.com/docs/events-api-v2/trigger-events/: `id` is the same for the same finding."""
    payload = {
        "summary": f"Trackside: {_of('rule')} in {_of('job')}",
        "source": _of("job"),
        "severity": "error",  # ours may be empty, which PagerDuty refuses; it stands in the details
        "custom_details": events.EventField.from_path(_DETAIL),
    }
    return _object({"event_action": "trigger", "dedup_key": _of("id"), "payload": payload})


def _opsgenie() -> events.RuleTargetInput:
    """https://docs.opsgenie.com/docs/alert-api#create-alert: a `message` of more than 130 characters is refused."""
    return _object(
        {
            "message": f"Trackside: issue in {_of('job')}",
            "alias": _of("id"),
            "description": _of("message"),
            "source": "Trackside",
        }
    )


def _of(name: str) -> str:
    return str(events.EventField.from_path(f"{_DETAIL}.{name}"))


def _object(body: Mapping[str, Any]) -> events.RuleTargetInput:
    return events.RuleTargetInput.from_object(body)


_PAGERDUTY = WebhookForm("X-Routing-Key", _pagerduty)
_OPSGENIE = WebhookForm("Authorization", _opsgenie)
_FORMS: Mapping[str, WebhookForm] = {
    "events.pagerduty.com": _PAGERDUTY,
    "events.eu.pagerduty.com": _PAGERDUTY,
    "api.opsgenie.com": _OPSGENIE,
    "api.eu.opsgenie.com": _OPSGENIE,
}
