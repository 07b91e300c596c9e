"""A sink that sends verdicts to an EventBridge bus. The only module of the evaluation that imports botocore.

Delivery is at least once: after a crash or a lost answer the same verdict is sent again, with the same run, rule and
status. Actions on events must be idempotent; the Lambdas are, by [job, configuration, action].
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackside.aws_clients import SharedClient
from trackside.contracts.event import DETAIL_TYPE, SOURCE, Evidence, RuleEvaluation, TrainingJob, evaluation_of
from trackside.contracts.verdict import Verdict
from trackside.evaluation.sinks.sink import UndeliveredError

# API_PutEvents: at most 10 entries, and 256 KB over all of them; the rest is room for AWS's way of counting.
MOST_ENTRIES = 10
MOST_BYTES = 240 << 10
PAUSES_SECONDS = (0.2, 0.6, 1.8)  # then the verdict waits for the next poll

_logger = logging.getLogger(__name__)

Entry = Mapping[str, str]


@dataclass(frozen=True)
class EventOrigin:
    """The source that each event names beside its verdict.

    job                 the training job
    run_uri             location of the run
    evaluation_job_arn  ARN of the processing job that judges, or ""
    """

    job: TrainingJob
    run_uri: str
    evaluation_job_arn: str = ""


class EventBridgeSink:
    """Sends each verdict as one event. Retries refused events a few times, then reports them as undelivered."""

    name = "event-bridge"

    def __init__(self, client: Any, *, bus: str, origin: EventOrigin, sleep: Callable[[float], object]) -> None:
        self._client, self._bus, self._origin, self._sleep = client, bus, origin, sleep

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Send the verdicts. Errors: `UndeliveredError` with the ones that the bus did not take."""
        undelivered: list[Verdict] = []
        reasons: list[str] = []
        for batch in _batches([(verdict, self._entry(verdict)) for verdict in verdicts]):
            refused, reason = self._send(batch)
            undelivered += refused
            reasons += [reason] if refused else []
        if undelivered:
            raise UndeliveredError(f"The event bus {self._bus!r} did not take it: {reasons[0]}", undelivered)

    def _send(self, batch: Sequence[tuple[Verdict, Entry]]) -> tuple[list[Verdict], str]:
        """Send one batch, with retries. Return the verdicts that the bus refused, and the reason."""
        reason = ""
        for pause in (*PAUSES_SECONDS, None):
            batch, reason = self._attempt(batch)
            if not batch or pause is None:
                break
            self._sleep(pause)
        return [verdict for verdict, _ in batch], reason

    def _attempt(self, batch: Sequence[tuple[Verdict, Entry]]) -> tuple[Sequence[tuple[Verdict, Entry]], str]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._client.put_events(Entries=[entry for _, entry in batch])
        except (ClientError, BotoCoreError) as error:
            return batch, str(error)
        if not answer.get("FailedEntryCount"):
            return (), ""
        # The answer has one result per entry, in their order; a request may succeed in part.
        results = answer.get("Entries", ())
        failed = [(item, result) for item, result in zip(batch, results, strict=False) if result.get("ErrorCode")]
        if not failed:
            return batch, f"{answer['FailedEntryCount']} entries failed without a reason"
        _, first = failed[0]
        return [item for item, _ in failed], f"{first['ErrorCode']}: {first.get('ErrorMessage', '')}"

    def _entry(self, verdict: Verdict) -> Entry:
        origin = self._origin
        evaluation = evaluation_of(
            verdict, job=origin.job, run_uri=origin.run_uri, evaluation_job_arn=origin.evaluation_job_arn
        )
        entry = self._as_entry(evaluation)
        if _size(entry) <= MOST_BYTES:
            return entry
        _logger.warning("The evidence of %s is too large for an event; it stays in the run.", verdict.verdict_id)
        evidence = Evidence(step=verdict.step, since_step=verdict.since_step, affected=verdict.affected)
        return self._as_entry(replace(evaluation, evidence=evidence, what_to_do=()))

    def _as_entry(self, evaluation: RuleEvaluation) -> Entry:
        detail = json.dumps(evaluation.to_detail(), separators=(",", ":"), allow_nan=False)
        entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": detail}
        return {**entry, "EventBusName": self._bus} if self._bus else entry


def connect_event_bridge(*, bus: str, origin: EventOrigin, sleep: Callable[[float], object]) -> EventBridgeSink:
    """Return a sink on `bus` (name or ARN), with boto3's own configuration and the region of AWS_REGION.

    Errors: `ConfigurationError` without boto3.
    """
    client = SharedClient("events", connect_seconds=5, read_seconds=10, attempts=2).get()
    return EventBridgeSink(client, bus=bus, origin=origin, sleep=sleep)


def _batches(items: Sequence[tuple[Verdict, Entry]]) -> Iterator[Sequence[tuple[Verdict, Entry]]]:
    batch: list[tuple[Verdict, Entry]] = []
    size = 0
    for item in items:
        more = _size(item[1])
        if batch and (len(batch) == MOST_ENTRIES or size + more > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch


def _size(entry: Entry) -> int:
    """Return the size in EventBridge's count: the UTF-8 bytes of source, detail type and detail."""
    return sum(len(entry[name].encode()) for name in ("Source", "DetailType", "Detail"))
