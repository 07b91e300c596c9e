"""A training job that asked for it has started: start what judges it. A link of a chain has ended: start the next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.carry_out import carry_out
from lambdas.start_evaluation.chain import decide_next, read_end
from lambdas.start_evaluation.settings import StartEvaluationSettings
from lambdas.start_evaluation.start import decide_start
from trackside.contracts.event import PROCESSING_DETAIL_TYPE


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StartEvaluationSettings.from_environment()
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        yield carry_out(decide_next(read_end(event), settings), event, settings)
        return
    for decision in decide_start(event, settings, now=time.time()):
        yield carry_out(decision, event, settings)
