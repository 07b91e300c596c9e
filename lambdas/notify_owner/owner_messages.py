"""Sends messages to the owner: on the topic, then for webhooks, each once; later, if the rule is quiet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner import slack, teams
from lambdas.notify_owner.chat_post import SECONDS_A_DAY, NotTakenError, is_first_report
from lambdas.notify_owner.forms import document_of, message_structure, short_text, slack_text
from lambdas.notify_owner.logic import SendMessage, and_others
from lambdas.notify_owner.quiet import NotYet, WasCovered, claim
from lambdas.notify_owner.report_link import picture_link, report_link
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.plain import ascii_only, plain
from lambdas.shared.runs import sent_at
from trackside.contracts.action import Action
from trackside.contracts.actions.notify_owner import QUIET_MINUTES
from trackside.contracts.event import NOTIFICATION_DETAIL_TYPE, SOURCE, RuleEvaluation

MOST_DELAY_SECONDS = 900  # API_SendMessage


class OwnerMessages:
    """The messages of one event.

    Waiting ones go to the function's own queue again, for at most 15 minutes at a time.
    """

    def __init__(
        self, event: Mapping[str, Any], settings: NotifyOwnerSettings, context: LambdaContext, *, now: float
    ) -> None:
        self._event, self._settings, self._context, self._now = event, settings, context, now
        self._wait_seconds: float | None = None

    def send(self, evaluation: RuleEvaluation, message: SendMessage) -> Iterator[Done | Nothing]:
        """Send the message on the topic and for webhooks.

        Errors: `ClientError`; the next delivery repeats no sent part.
        """
        link = report_link(evaluation.run_uri, self._settings)
        message = replace(message, body=message.body + link.lines, link=link.url)
        try:
            yield self._once(evaluation, partial(self._publish, evaluation, message))
        except NotYet as quiet:
            self._wait_seconds = min(quiet.seconds, self._wait_seconds or quiet.seconds)
            yield Nothing(f"{evaluation.configuration_name} of {evaluation.job.name} was notified just now: {quiet}")
            return
        if self._settings.event_bus:
            yield self._once(evaluation, partial(self._put_event, evaluation, message), part="webhooks")
        if self._settings.slack_channel:
            yield self._to_chat(evaluation, slack.SERVICE, partial(self._post_to_slack, evaluation, message))
        if self._settings.teams_address_from:
            yield self._to_chat(evaluation, teams.SERVICE, partial(self._post_to_teams, message))

    def look_again(self) -> None:
        """Send the event to its own queue again, if any of its messages waits."""
        if self._wait_seconds is not None:
            seconds = max(1, min(int(self._wait_seconds) + 1, MOST_DELAY_SECONDS))
            body = json.dumps(self._event)
            client("sqs").send_message(QueueUrl=self._settings.queue_url, MessageBody=body, DelaySeconds=seconds)

    def _to_chat(self, evaluation: RuleEvaluation, service: str, act: Callable[[], Done]) -> Done | Nothing:
        """Post the message; if the service does not take it, wait and report that to the other subscribers.

        Errors: `NotTakenError` after a day of attempts: the event lies in the dead letters then.
        """
        try:
            return self._once(evaluation, act, part=service.lower())
        except NotTakenError as refused:
            if refused.needs_person:
                self._report(refused)
            if self._now > (sent_at(self._event) or self._now) + SECONDS_A_DAY:
                raise
            self._wait_seconds = min(refused.wait_seconds, self._wait_seconds or refused.wait_seconds)
            return Nothing(f"{refused}; it is tried again.", surprising=True)

    def _post_to_slack(self, evaluation: RuleEvaluation, message: SendMessage) -> Done:
        text = slack_text(_text_of(evaluation, message))
        text += f"\n{message.link}" if message.link else ""
        picture = picture_link(evaluation, self._settings)
        about = f"The training loss; marked: step {evaluation.evidence.since_step}, since which the issue holds."
        slack.post_to_slack(text, self._settings, picture=picture, about_picture=about)
        return Done(f"Posted to Slack: {message.subject}")

    def _post_to_teams(self, message: SendMessage) -> Done:
        teams.post_to_teams(message.subject, message.body, self._settings, link=message.link)
        return Done(f"Posted to Teams: {message.subject}")

    def _report(self, refused: NotTakenError) -> None:
        if is_first_report(refused, table=self._settings.idempotency_table, now=self._now):
            is_slack = refused.service == slack.SERVICE
            subject, body = (
                slack.report_of(refused.error, self._settings.slack_channel)
                if is_slack
                else teams.report_of(refused.error)
            )
            client("sns").publish(TopicArn=self._settings.topic_arn, Subject=ascii_only(subject), Message=body)

    def _once(self, evaluation: RuleEvaluation, act: Any, *, part: str = "") -> Done | Nothing:
        table = self._settings.idempotency_table
        return once(Action.NOTIFY, evaluation, act, table=table, context=self._context, part=part)

    def _publish(self, evaluation: RuleEvaluation, message: SendMessage) -> Done | Nothing:
        others: tuple[str, ...] = ()
        quiet_seconds = 60 * evaluation.terms.value(Action.NOTIFY, QUIET_MINUTES, self._settings.quiet_minutes)
        if quiet_seconds and evaluation.actions is not None:
            claimed = claim(
                evaluation, table=self._settings.idempotency_table, quiet_seconds=quiet_seconds, now=self._now
            )
            if isinstance(claimed, WasCovered):
                return Nothing(f"{evaluation.finding_id} of {evaluation.job.name} was notified with {claimed.by}.")
            others = claimed.others
        body = and_others(message.body, others)
        attributes = {name: {"DataType": "String", "StringValue": text} for name, text in message.attributes.items()}
        client("sns").publish(
            TopicArn=self._settings.topic_arn,
            Subject=message.subject,
            Message=message_structure(
                body=body,
                short=short_text(evaluation),
                document=document_of(evaluation, text=message.subject, message=body, others=others, link=message.link),
            ),
            MessageStructure="json",
            MessageAttributes=attributes,
        )
        return Done(f"Notified the owner: {message.subject}")

    def _put_event(self, evaluation: RuleEvaluation, message: SendMessage) -> Done:
        text = _text_of(evaluation, message)
        entry = {
            "Source": SOURCE,
            "DetailType": NOTIFICATION_DETAIL_TYPE,
            "Detail": json.dumps(document_of(evaluation, text=text, message=message.body, link=message.link)),
            "EventBusName": self._settings.event_bus,
        }
        answer = client("events").put_events(Entries=[entry])
        if answer.get("FailedEntryCount"):
            raise ConnectionError(f"The bus did not take the notification: {answer['Entries']}")
        return Done(f"Notified webhooks: {message.subject}")


def _text_of(evaluation: RuleEvaluation, message: SendMessage) -> str:
    return f"{message.subject}\n{plain(evaluation.details)}" if evaluation.details else message.subject
