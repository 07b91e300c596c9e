"""Mark the end of a run: its training job has ended, in any way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.finish_run.logic import decide
from lambdas.finish_run.marker import mark
from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from trackside.contracts.event import read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    decision = decide(read_training_job_state_change(event), FinishRunSettings.from_environment())
    yield decision if isinstance(decision, Nothing) else mark(decision)
