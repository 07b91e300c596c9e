"""Notify the owner, once: a rule that asks for it found an issue, or nothing could be judged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner.ended_evaluations import read_unjudged
from lambdas.notify_owner.logic import decide, message_of_unjudged
from lambdas.notify_owner.owner_messages import OwnerMessages
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.reaction import reaction
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, RuleEvaluation, read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = NotifyOwnerSettings.from_environment()
    messages = OwnerMessages(event, settings, context, now=time.time())
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        evaluation = read_unjudged(event)
        yield from messages.send(evaluation, message_of_unjudged(evaluation))
        messages.look_again()
        return

    def send(evaluation: RuleEvaluation) -> Iterable[Done | Nothing]:
        decision = decide(evaluation, settings)
        return [decision] if isinstance(decision, Nothing) else messages.send(evaluation, decision)

    yield from each(read_rule_evaluations(event), send)
    messages.look_again()
