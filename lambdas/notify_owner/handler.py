"""A rule that asks for it found an issue: tell the owner, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner.logic import SendMessage, decide
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.reaction import reaction
from trackside.contracts.action import Action
from trackside.contracts.event import read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = NotifyOwnerSettings.from_environment()
    tell_once = partial(once, Action.NOTIFY, table=settings.idempotency_table, context=context)
    for evaluation in read_rule_evaluations(event):
        decision = decide(evaluation, settings)
        yield decision if isinstance(decision, Nothing) else tell_once(evaluation, partial(_tell, decision, settings))


def _tell(message: SendMessage, settings: NotifyOwnerSettings) -> Done:
    attributes = {name: {"DataType": "String", "StringValue": text} for name, text in message.attributes.items()}
    client("sns").publish(
        TopicArn=settings.topic_arn, Subject=message.subject, Message=message.body, MessageAttributes=attributes
    )
    return Done(f"Told the owner: {message.subject}")
