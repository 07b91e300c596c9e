"""Count an issue in CloudWatch, once: a rule that asks for it found it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.publish_metric.logic import PublishMetric, decide
from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.once import once
from lambdas.shared.reaction import reaction
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation, read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = PublishMetricSettings.from_environment()
    count_once = partial(once, Action.PUBLISH_METRIC, table=settings.idempotency_table, context=context)

    def count(evaluation: RuleEvaluation) -> Iterator[Done | Nothing]:
        decision = decide(evaluation, settings, now=time.time())
        if isinstance(decision, PublishMetric):
            yield count_once(evaluation, partial(_publish, decision, settings))
        else:
            yield decision

    yield from each(read_rule_evaluations(event), count)


def _publish(metric: PublishMetric, settings: PublishMetricSettings) -> Done:
    client("cloudwatch").put_metric_data(Namespace=settings.namespace, MetricData=metric.data)
    return Done(f"Counted the issue: {dict(metric.dimensions[0])}.")
