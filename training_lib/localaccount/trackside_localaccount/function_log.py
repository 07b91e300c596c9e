"""Where a function's output goes: its log group in CloudWatch Logs, a file for a person, and CloudWatch's metrics if
the line is in the embedded metric format."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.exceptions import ResourceAlreadyExistsException
from moto.logs.models import logs_backends

from trackside_localaccount.journal import Journal


class FunctionLog:
    """Takes lines, from any thread, of one execution environment."""

    def __init__(
        self,
        function: Any,
        folder: Path,
        *,
        journal: Journal,
        is_kept: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._is_kept = is_kept  # else its role may not write: CloudWatch has no log, and no metrics from it
        self._file = folder / "logs" / f"{function.function_name}.log"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._group = function.logs_group_name
        self._account, self._region = function.account_id, function.region
        self._journal = journal
        self._clock = clock
        day = time.strftime("%Y/%m/%d", time.gmtime(clock()))
        self._stream = f"{day}/[$LATEST]{uuid.uuid4().hex}"
        self._lock = threading.Lock()

    def __call__(self, line: str) -> None:
        with self._lock:
            with self._file.open("a", encoding="utf-8") as opened:
                opened.write(line + "\n")
            if self._is_kept:
                self._to_cloudwatch_logs(line)
        if self._is_kept and line.startswith("{") and '"_aws"' in line:
            self._to_metrics(line)

    def _to_cloudwatch_logs(self, line: str) -> None:
        backend = logs_backends[self._account][self._region]
        if self._group not in backend.groups:
            with contextlib.suppress(ResourceAlreadyExistsException):
                backend.create_log_group(self._group, {})
        if self._stream not in backend.groups[self._group].streams:
            backend.create_log_stream(self._group, self._stream)
        events = [{"timestamp": int(1000 * self._clock()), "message": line}]
        backend.put_log_events(self._group, self._stream, events)

    def _to_metrics(self, line: str) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            return  # a line that only looks like one
        backend = cloudwatch_backends[self._account][self._region]
        for namespace, data in embedded_metrics(record):
            backend.put_metric_data(namespace, data)
            self._journal.write("metric", namespace=namespace)


def embedded_metrics(record: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Namespace and metric data of one record of the embedded metric format.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """
    for directive in record.get("_aws", {}).get("CloudWatchMetrics", ()):
        for names in directive.get("Dimensions") or [[]]:
            dimensions = [{"Name": name, "Value": str(record[name])} for name in names if name in record]
            values = ((metric, _values(record.get(metric["Name"]))) for metric in directive.get("Metrics", ()))

            def datum(
                metric: Mapping[str, Any], value: list[float], dimensions: list[dict[str, str]] = dimensions
            ) -> dict[str, Any]:
                unit = metric.get("Unit", "None")
                return {"MetricName": metric["Name"], "Values": value, "Dimensions": dimensions, "Unit": unit}

            yield directive["Namespace"], [each for each in starmap(datum, values) if each["Values"]]


def _values(value: Any) -> list[float]:
    each = value if isinstance(value, list) else [value]
    return [float(number) for number in each if isinstance(number, (int, float))]
