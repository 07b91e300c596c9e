"""Settings of publish_metric."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import ActionSettings


@dataclass(frozen=True)
class PublishMetricSettings(ActionSettings):
    """Settings of the metric of issues.

    namespace  of the metric; the function's role may write to no other
    """

    namespace: str
