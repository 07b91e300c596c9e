"""Idempotency: an action that was carried out is recorded, so that a duplicate delivery acts no second time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.observability import logger
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation

# AWS repeats the old rule statuses on every later state change, for as long as the job runs.
REMEMBER_SECONDS = 14 * 24 * 3600


def once(
    action: Action,
    evaluation: RuleEvaluation,
    act: Callable[[], Done | Nothing],
    *,
    table: str,
    context: LambdaContext,
    part: str = "",
) -> Done | Nothing:
    """Carry `act` out unless the same action was carried out for the same finding of the same job within 14 days.

    An issue that recovered and came back is another finding (`RuleEvaluation.finding_id`). `part` names a part of an
    action that is done once by itself.

    If `act` raises, nothing is recorded and the next delivery tries again. An action that was done but cannot be
    recorded counts as done: only another delivery of the same event repeats it. A delivery during another one raises
    Powertools' IdempotencyAlreadyInProgressError: its message returns to the queue.
    """
    answers: list[Done | Nothing] = []

    def carry_out(*, key: list[str]) -> None:
        answers.append(act())

    guarded = idempotent_function(
        carry_out,
        data_keyword_argument="key",
        persistence_store=_memory(client("dynamodb"), table),
        config=IdempotencyConfig(
            expires_after_seconds=REMEMBER_SECONDS, hash_function="sha256", lambda_context=context
        ),
        key_prefix=action.value,
    )
    try:
        guarded(key=[evaluation.job.identity, evaluation.finding_id, action.value, *([part] if part else [])])
    except IdempotencyPersistenceLayerError:
        if not answers:
            raise
        # It is done: to try again would surely do it twice, to go on only if the event comes once more.
        logger.warning("%s was done, but could not be remembered.", action.value, exc_info=True)
    if answers:
        return answers[0]
    return Nothing(
        f"an earlier delivery did {action.value} for {evaluation.configuration_name} of {evaluation.job.name}."
    )


@lru_cache(maxsize=4)
def _memory(dynamodb: Any, table: str) -> DynamoDBPersistenceLayer:
    """Return the persistence layer of this client.

    One for each client, because Powertools hangs a handler onto the client for each layer, which made every call of a
    warm function slower than the one before.
    """
    return DynamoDBPersistenceLayer(table_name=table, boto3_client=dynamodb)
