"""Notify the owner, once, and count the issue, once: a rule that asks for it found one, or nothing could be judged."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner.ended_evaluations import read_unjudged
from lambdas.notify_owner.issue_count import count_once
from lambdas.notify_owner.logic import decide, message_of_unjudged
from lambdas.notify_owner.owner_messages import OwnerMessages
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.reaction import reaction
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, RuleEvaluation, read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings, now = NotifyOwnerSettings.from_environment(), time.time()
    messages = OwnerMessages(event, settings, context, now=now)

    def count(evaluation: RuleEvaluation) -> Iterable[Done | Nothing]:
        return count_once(evaluation, settings=settings, context=context, now=now)

    def send(evaluation: RuleEvaluation) -> Iterable[Done | Nothing]:
        decision = decide(evaluation, settings)
        return [decision] if isinstance(decision, Nothing) else messages.send(evaluation, decision)

    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        evaluation = read_unjudged(event)
        yield from messages.send(evaluation, message_of_unjudged(evaluation))
    else:
        yield from each(itertools.product((count, send), read_rule_evaluations(event)), lambda pair: pair[0](pair[1]))
    messages.look_again()
