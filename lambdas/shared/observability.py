"""The only Logger, Tracer and Metrics. Their service name is the function's, by POWERTOOLS_SERVICE_NAME."""

from __future__ import annotations

from aws_lambda_powertools import Logger, Metrics, Tracer

# Not the namespace of `IssuesFound`: this one is about how the reactions themselves are doing.
NAMESPACE = "Trackside/Reactions"

logger = Logger()
tracer = Tracer()
metrics = Metrics(namespace=NAMESPACE)
