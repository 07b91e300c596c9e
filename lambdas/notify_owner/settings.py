"""Settings of notify_owner."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import ActionSettings


@dataclass(frozen=True)
class NotifyOwnerSettings(ActionSettings):
    """Settings of messages to owners.

    topic_arn      topic to which owners subscribe
    queue_url      queue of this function, in which findings of a quiet rule wait
    event_bus      bus from which webhooks take the messages ("": no webhooks)
    slack_channel  channel of Slack that gets the messages ("": none)
    slack_header_from  name of the secret with the header of its bot
    slack_url      address of Slack's method
    teams_address_from  name of the secret with the address of a workflow of Teams ("": none)
    namespace      of the metric of issues
    run_bucket     bucket of runs ("": messages have no links)
    report_link_hours  life of a signed link to a report (0: none)
    dashboard_url  address of the dashboard of a team ("": none)
    dashboard_runs  place of the runs right below which it shows runs
    quiet_minutes  time after a message in which further findings of the rule are collected into one (0: none)
    """

    topic_arn: str
    queue_url: str
    event_bus: str
    quiet_minutes: int
    slack_channel: str
    namespace: str
    run_bucket: str
    report_link_hours: int
    slack_header_from: str = ""
    slack_url: str = "https://slack.com/api/chat.postMessage"
    teams_address_from: str = ""
    dashboard_url: str = ""
    dashboard_runs: str = ""
