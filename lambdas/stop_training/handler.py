"""Stop a training job, once, if no check is against it: a rule that asks for it found an issue."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.reaction import reaction
from lambdas.stop_training.settings import StopTrainingSettings
from lambdas.stop_training.stop_decisions import StopDecisions
from trackside.contracts.event import read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    ladder = StopDecisions(event, StopTrainingSettings.from_environment(), context, clock=time.time)
    yield from each(read_rule_evaluations(event), lambda evaluation: [ladder.decide(evaluation)])
    ladder.look_again()
