"""What a warm function keeps between one action and the next."""

from __future__ import annotations

from typing import Any

from lambdas.shared.clients import client
from lambdas.shared.decisions import Done
from lambdas.shared.once import once
from tests.lambdas.conftest import Account, Context
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus, TrainingJob

MANY = 30


def test_requests_of_a_warm_function_do_not_grow(account: Account) -> None:
    """A function that hangs one thing more onto its client with every action is slower with every action."""
    lengths: list[int] = []

    def note(request: Any, **_: Any) -> None:
        lengths.append(len(request.headers))  # one more for each that set it again

    client("dynamodb").meta.events.register_last("request-created", note)
    for number in range(MANY):
        job = TrainingJob(f"digits-{number:03}", f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{number:03}")
        said = RuleEvaluation(job, "nan", RuleEvaluationStatus.ISSUES_FOUND, "")
        once(Action.NOTIFY, said, lambda: Done("told"), table=account.table, context=Context())  # type: ignore[arg-type]
    assert account.remembered() == MANY
    assert len(lengths) >= MANY
    assert max(lengths) == min(lengths)
