"""The registry of actions: the possible reactions to an issue. Each is declared in a file of `contracts/actions`.

`python docs/generate.py` writes the import and the members: one for each file, new ones last.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from trackside.contracts.action_unit import ActionUnit
from trackside.contracts.actions import (
    notify_owner,
    publish_metric,
    resume_training,
    stop_training,
)


class Action(str, Enum):
    """Actions by name; the value is the word in rule requests, tags and events."""

    _value_: str
    unit: ActionUnit

    STOP_TRAINING = stop_training.UNIT
    NOTIFY = notify_owner.UNIT
    PUBLISH_METRIC = publish_metric.UNIT
    RESUME_TRAINING = resume_training.UNIT

    def __new__(cls, unit: Any) -> Action:  # Any: type checkers also take `Action("Notify")` for this call
        """Make the member that `unit` declares."""
        member = str.__new__(cls, unit.word)
        member._value_ = unit.word
        member.unit = unit
        return member

    @property
    def description(self) -> str:
        """The effect of the action, in one sentence."""
        return self.unit.description


DEFAULT_ACTIONS = tuple(action for action in Action if action.unit.is_default)
"""The actions where nobody names one. Training is never stopped unasked."""
