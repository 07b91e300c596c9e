"""Start the evaluators of a training job, or the next link of a chain; mark the end of the job's run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.carry_out import CarryOut
from lambdas.start_evaluation.chain import decide_next, read_end
from lambdas.start_evaluation.end_marker import decide_end, mark
from lambdas.start_evaluation.preparation import Preparation
from lambdas.start_evaluation.run_request import read_note
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StartEvaluationSettings.from_environment()
    carry_out = CarryOut(event, settings, context)
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        yield carry_out.act(decide_next(read_end(event), settings, read_note=read_note))
        return
    change = read_training_job_state_change(event)
    if change.has_ended:
        end = decide_end(change, settings)
        yield end if isinstance(end, Nothing) else mark(end)
        return
    preparation = Preparation(change, settings)
    yield from preparation.run()
    if preparation.is_to_be_judged:
        yield from carry_out.judge(preparation)
