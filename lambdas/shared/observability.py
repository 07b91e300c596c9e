"""The only Logger, Tracer and Metrics. Their service name is the function's, by POWERTOOLS_SERVICE_NAME."""

from __future__ import annotations

from aws_lambda_powertools import Logger, Metrics, Tracer

from trackside.contracts.deployment.reaction_metrics import NAMESPACE

logger = Logger()
tracer = Tracer()
metrics = Metrics(namespace=NAMESPACE)
