"""Notify the owner of the training job."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit

QUIET_MINUTES = "quiet_minutes"  # minutes after a message in which further findings of the rule are collected
_WEEK = 7 * 24 * 60

UNIT = ActionUnit(
    word="Notify",
    name="notify_owner",
    description="Tells the owner: an SNS message in the cloud, a card in the terminal locally.",
    terms={QUIET_MINUTES: (0, _WEEK)},
    is_default=True,
)
