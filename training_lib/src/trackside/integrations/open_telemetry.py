"""Metrics and events of a running training for an OpenTelemetry collector, and so for Prometheus and Grafana.

They are sent by the process beside the training, over OTLP and HTTP. The standard variables say where to and how often:
`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.verdict import Severity
from trackside.integrations.issue_text import issue_card
from trackside.local.passing_observer import PassingObserver
from trackside.local.run import LocalRunResult, Observer
from trackside.local.run_now import RunNow

SEND_SECONDS = 5.0  # for all that is left at the end
MOST_CHARACTERS = 160  # of a complaint, which may hold three errors in one another
EVENT = "trackside.issue"
SEVERITIES = {
    Severity.INFO: SeverityNumber.INFO,
    Severity.WARNING: SeverityNumber.WARN,
    Severity.CRITICAL: SeverityNumber.ERROR,
}
_UNNAMED = "unknown_service"


class TelemetryObserver(PassingObserver):
    """An observer that also sends the state of the run as metrics, and each problem, new or graver, as an event.

    observer  shows everything to the user, the first failure to send too
    run       name of the run, the attribute `trackside.run` of all that is sent
    """

    def __init__(self, observer: Observer, *, run: str) -> None:
        super().__init__(observer)
        self._now = RunNow(None, None, 0, 0)
        self._gravest: dict[str, Severity] = {}  # by the problem
        self._failures = _FirstFailure(observer.note)
        logging.getLogger("opentelemetry").addHandler(self._failures)
        logging.getLogger("opentelemetry").propagate = False
        resource = _resource(run)
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=SEND_SECONDS))
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._logs = LoggerProvider(resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(timeout=SEND_SECONDS)))
        self._logger = self._logs.get_logger("trackside")
        self._declare()

    @property
    def shows_progress(self) -> bool:
        """True: `progress` is what the metrics are made of."""
        return True

    def progress(self, now: RunNow) -> None:
        """Keep the present state of the run for the next sending, and show it."""
        self._now = now
        if self._observer.shows_progress:
            super().progress(now)

    def issue(self, group: IssueGroup) -> None:
        """Show a problem, and send it if it is new or graver than before."""
        super().issue(group)
        before = self._gravest.get(group.group)
        if before is not None and group.severity.rank <= before.rank:
            return
        self._gravest[group.group] = group.severity
        lead = group.lead
        place = lead.lead.place if lead.lead is not None else ""
        self._logger.emit(
            event_name=EVENT,
            severity_number=SEVERITIES[group.severity],
            severity_text=group.severity.value,
            body=issue_card(group),
            attributes={
                "trackside.rule": lead.configuration_name,
                "trackside.step": lead.shown_step,
                "trackside.place": place,
            },
        )

    def finish(self, result: LocalRunResult) -> None:
        """Send the last state of the run and what is left, within about `SEND_SECONDS`."""
        self._now = replace(self._now, steps=result.training_steps or self._now.steps)
        milliseconds = round(SEND_SECONDS * 1000)
        self._meters.shutdown(milliseconds)
        self._logs.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._failures)
        logging.getLogger("opentelemetry").propagate = True

    def _declare(self) -> None:
        meter = self._meters.get_meter("trackside")
        gauges = (
            ("trackside.training.loss", "the newest training loss", "", lambda now: now.loss),
            ("trackside.watching.share", "share of the training's time that watching takes", "", _overhead),
            ("trackside.issues.standing", "problems that have not recovered", "{issue}", lambda now: now.problems),
        )
        meter.create_observable_counter(
            "trackside.training.steps", [self._reading(lambda now: now.steps)], "{step}", "optimizer steps so far"
        )
        for name, description, unit, value in gauges:
            meter.create_observable_gauge(name, [self._reading(value)], unit, description)
        found = "problems found so far, those that recovered included, by severity"
        meter.create_observable_gauge("trackside.issues", [self._found], "{issue}", found)

    def _reading(self, value: Callable[[RunNow], float | None]) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            number = value(self._now)
            if number is not None:
                yield Observation(number)

        return observe

    def _found(self, _: CallbackOptions) -> Iterator[Observation]:
        counts = Counter(self._gravest.values())
        for severity in Severity:  # zeros too: an alert on a series that begins with its first problem misses it
            yield Observation(counts[severity], {"severity": severity.value})


class _FirstFailure(logging.Handler):
    """Shows the first thing that the OpenTelemetry packages complain of, as one line."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note, self._has_shown = note, False

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, if it is the first."""
        if not self._has_shown:
            self._has_shown = True
            text = " ".join(record.getMessage().split())
            self._note(f"OpenTelemetry: {text[:MOST_CHARACTERS]}... The training goes on.")


def _overhead(now: RunNow) -> float | None:
    return now.overhead


def _resource(run: str) -> Resource:
    found = Resource.create({"trackside.run": run, "service.instance.id": run})
    is_named = not str(found.attributes.get("service.name", _UNNAMED)).startswith(_UNNAMED)
    return found if is_named else found.merge(Resource({"service.name": "trackside"}))
