"""What can be asked for when a rule finds an issue."""

from __future__ import annotations

from enum import Enum


class Action(str, Enum):
    """The value is the word on the event bus; the description is what a user reads."""

    STOP_TRAINING = "StopTraining"
    NOTIFY = "Notify"
    PUBLISH_METRIC = "PublishMetric"

    @property
    def description(self) -> str:
        """What the action does, in one sentence."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Action.STOP_TRAINING: "Stops the training job, by its exact ARN.",
    Action.NOTIFY: "Tells the owner: an SNS message in the cloud, a card in the terminal locally.",
    Action.PUBLISH_METRIC: "Publishes the CloudWatch metric IssuesFound with rule, job and status.",
}
