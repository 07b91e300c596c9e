"""Notify the owner, once: a rule that asks for it found an issue, or nothing could be judged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner.logic import decide, tell_unjudged
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.notify_owner.telling import Telling
from lambdas.notify_owner.unjudged import read_unjudged
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.reaction import reaction
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, RuleEvaluation, read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = NotifyOwnerSettings.from_environment()
    telling = Telling(event, settings, context, now=time.time())
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        said = read_unjudged(event)
        yield from telling.tell(said, tell_unjudged(said))
        return

    def tell(evaluation: RuleEvaluation) -> Iterable[Done | Nothing]:
        decision = decide(evaluation, settings)
        return [decision] if isinstance(decision, Nothing) else telling.tell(evaluation, decision)

    yield from each(read_rule_evaluations(event), tell)
    telling.look_again()
