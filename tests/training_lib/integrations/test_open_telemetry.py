"""Metrics and events of a run, sent to a collector that speaks OTLP over HTTP on this machine."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.training_lib.integrations.test_notification import Screen
from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.issue_group import group_of_one
from trackside.contracts.verdict import Severity
from trackside.integrations.open_telemetry import TelemetryObserver
from trackside.local.run import LocalRunResult
from trackside.local.run_now import RunNow

RESULT = LocalRunResult(Path("digits"), 0, None, (), (), (), "", "", training_steps=120)


@dataclass
class Collector:
    """A real server on this machine, and what it was sent."""

    status: int = 200
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # by name, the newest value of each attribute
    events: list[dict[str, Any]] = field(default_factory=list)
    resource: dict[str, str] = field(default_factory=dict)

    def take(self, path: str, body: bytes) -> None:
        if path.endswith("/v1/metrics"):
            for sent in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resource = _texts(sent.resource.attributes)
                for metric in (metric for scope in sent.scope_metrics for metric in scope.metrics):
                    points = metric.gauge.data_points or metric.sum.data_points
                    self.metrics[metric.name] = {
                        "".join(_texts(point.attributes).values()): point.as_int or point.as_double for point in points
                    }
        else:
            for batch in ExportLogsServiceRequest.FromString(body).resource_logs:
                for event in (event for scope in batch.scope_logs for event in scope.log_records):
                    texts = {"severity": event.severity_text, "body": event.body.string_value}
                    self.events.append({"name": event.event_name, **texts, **_texts(event.attributes)})


def _texts(attributes: Any) -> dict[str, str]:
    def text(pair: KeyValue) -> str:
        return pair.value.string_value or str(pair.value.int_value)

    return {pair.key: text(pair) for pair in attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if found.status == 200:
                found.take(self.path, body)
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield found
    server.shutdown()
    server.server_close()


def test_steps_loss_share_and_problems_arrive(collector: Collector) -> None:
    screen = Screen()
    observer = TelemetryObserver(screen, run="digits")
    assert observer.shows_progress
    observer.progress(RunNow(100, 0.25, 49, 1, 0.0125))
    observer.issue(group_of_one(issue(severity=Severity.WARNING)))
    observer.issue(group_of_one(issue(severity=Severity.WARNING)))  # again, and no graver: no second event
    observer.issue(group_of_one(issue(severity=Severity.CRITICAL)))
    observer.finish(RESULT)
    assert collector.resource["service.name"] == "trackside"
    assert collector.resource["trackside.run"] == "digits"
    assert collector.metrics == {
        "trackside.training.steps": {"": 120},
        "trackside.training.loss": {"": 0.25},
        "trackside.watching.share": {"": 0.0125},
        "trackside.issues.standing": {"": 1},
        "trackside.issues": {"info": 0, "warning": 0, "critical": 1},
    }
    assert [event["severity"] for event in collector.events] == ["warning", "critical"]
    assert collector.events[0]["name"] == "trackside.issue"
    assert collector.events[0]["trackside.rule"] == "vanishing-gradient"
    assert "Gradients have become too small" in collector.events[0]["body"]
    assert len(screen.shown) == 3
    assert not screen.notes


def test_what_is_unknown_is_not_sent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "vision")
    observer = TelemetryObserver(Screen(), run="digits")
    observer.progress(RunNow(None, None, 49, 0))
    observer.finish(LocalRunResult(Path("digits"), 0, None, (), (), (), "", ""))
    assert collector.resource["service.name"] == "vision"
    assert set(collector.metrics) == {"trackside.issues.standing", "trackside.issues"}


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_collector_that_refuses_is_named_once(status: int, collector: Collector) -> None:
    collector.status = status
    screen = Screen()
    observer = TelemetryObserver(screen, run="digits")
    observer.issue(group_of_one(issue()))
    observer.finish(RESULT)
    assert len(screen.notes) == 1
    assert screen.notes[0].startswith("OpenTelemetry: ")
    assert screen.notes[0].endswith("The training goes on.")
    assert str(status) in screen.notes[0]
    assert not any("trackside" in type(each).__module__ for each in logging.getLogger("opentelemetry").handlers)


def test_a_real_run_is_sent(collector: Collector, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e6)\n"
        "for _ in range(60):\n"
        "    optimizer.zero_grad()\n"
        "    loss = torch.nn.functional.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    command = [sys.executable, "-m", "trackside", "run", "--otlp", "--out", str(tmp_path / "run"), "--"]
    done = subprocess.run([*command, sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert collector.metrics["trackside.training.steps"] == {"": 60}
    assert collector.metrics["trackside.issues"]["critical"] == 1
    assert [event["trackside.rule"] for event in collector.events]


def test_without_the_packages_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    result = CliRunner().invoke(main, ["run", "--otlp", "--", "python", "x.py"])
    assert result.exit_code == 2
    assert "opentelemetry-exporter-otlp-proto-http" in result.output
