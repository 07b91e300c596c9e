"""Notify the owner of the training job."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit, Term

QUIET_MINUTES = "quiet_minutes"
_WEEK = 7 * 24 * 60

UNIT = ActionUnit(
    word="Notify",
    name="notify_owner",
    description="Tells the owner: an SNS message in the cloud, a card in the terminal locally.",
    in_aws="[a message](#who-is-told)",
    locally="a card in the terminal",
    terms={
        QUIET_MINUTES: Term(
            0,
            _WEEK,
            "minutes after a message in which further findings of the rule are "
            "[collected into one message](#a-rule-that-flickers)",
        )
    },
    is_default=True,
)
