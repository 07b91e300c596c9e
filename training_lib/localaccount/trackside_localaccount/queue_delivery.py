"""SQS to Lambda: event source mappings, with batches, partial failures and limited concurrency.

One thread looks after all mappings. It wakes when something is sent, becomes visible or is done; it never polls.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import sqs_backends
from moto.utilities.arns import parse_arn

from trackside_localaccount.faults import FaultSwitch
from trackside_localaccount.journal import Journal
from trackside_localaccount.queue_lock import QUEUE_LOCK
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.holdings import ABSENT
from trackside_localaccount.rights.rights import Rights
from trackside_localaccount.sandbox import Outcome

_logger = logging.getLogger(__name__)
DEFAULT_CONCURRENCY = 5  # Lambda's pollers of a standard queue begin with five
_THREADS = 32
_LONGEST_SLEEP_SECONDS = 60.0
_SLEEP_AFTER_ERROR_SECONDS = 0.5
_LOOK_AFTER_REFUSAL_SECONDS = 1.0
# https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
POLLING = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


class QueueDelivery:
    """`invoke(function, payload)` runs a function and waits for its outcome.

    A message that failed is visible again after `retry_seconds`; None: after the queue's visibility timeout, as in AWS.
    """

    def __init__(
        self,
        *,
        invoke: Callable[[Any, bytes], Outcome],
        journal: Journal,
        retry_seconds: float | None,
        rights: Rights,
        switch: FaultSwitch | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rights = rights
        self._switch = switch or FaultSwitch()
        self._invoke = invoke
        self._journal = journal
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="queue-to-lambda")
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._look_after_queues, name="queue-delivery", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something changed: look at the queues now."""
        self._woken.set()

    def close(self) -> None:
        """Take no more messages, and wait for the batches that are under way."""
        self._is_closed = True
        self._woken.set()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _look_after_queues(self) -> None:
        while not self._is_closed:
            self._woken.clear()
            try:
                pauses = [self._serve(mapping) for mapping in _mappings()]
            except Exception:
                _logger.exception("A queue could not be read")  # one that was deleted just now, for instance
                pauses = [_SLEEP_AFTER_ERROR_SECONDS]
            self._woken.wait(min(pauses, default=_LONGEST_SLEEP_SECONDS))

    def _serve(self, mapping: Any) -> float:
        """Start all that can start now. Return the seconds until the next look."""
        arn = parse_arn(mapping.event_source_arn)
        backend = sqs_backends[arn.account][arn.region]
        queue: Any = backend.queues.get(arn.resource_id)
        if not mapping.enabled or arn.service != "sqs" or queue is None:
            return _LONGEST_SLEEP_SECONDS
        limit = (mapping.scaling_config or {}).get("MaximumConcurrency", DEFAULT_CONCURRENCY)
        while self._running[mapping.uuid] < limit and not self._is_closed:
            before = 1000 * self._clock()
            if queue._messages and not self._may_take(mapping):
                return _LOOK_AFTER_REFUSAL_SECONDS
            messages = backend.receive_message(queue.name, mapping.batch_size, 0, queue.visibility_timeout, ["All"])
            if not messages:
                return self._until_next(queue, before)
            with self._lock:
                self._running[mapping.uuid] += 1
            self._pool.submit(self._run_batch, mapping, queue, messages)
        return _LONGEST_SLEEP_SECONDS  # the end of a batch wakes us

    def _may_take(self, mapping: Any) -> bool:
        """Return whether the function's role may take messages, which Lambda does in its name.

        Those of a function that is gone are taken, and come back.
        """
        backend = lambda_backends[mapping.account_id][mapping.region]
        try:
            function = backend.get_function(mapping.function_arn, None)
        except ABSENT:
            return True
        accesses = (Access(f"sqs:{action}", mapping.event_source_arn) for action in POLLING)
        return not self._rights.role_refusal(function.role, function.function_name, *accesses)

    def _until_next(self, queue: Any, before: float) -> float:
        """`before`: the moment of the last look, in milliseconds. What was visible then, yet not given, is blocked."""
        with QUEUE_LOCK:
            moments = [max(message.visible_at, message.delayed_until) for message in queue._messages]
        now = 1000 * self._clock()
        # moto calls a message visible once its moment has passed, by more than nothing
        waits: list[float] = [(moment - now) / 1000 + 0.002 for moment in moments if moment >= before]
        return max(0.002, min([*waits, _LONGEST_SLEEP_SECONDS]))

    def _run_batch(self, mapping: Any, queue: Any, messages: Sequence[Any]) -> None:
        try:
            function = lambda_backends[mapping.account_id][mapping.region].get_function(mapping.function_arn, None)
            outcome = self._invoke(function, json.dumps(_event(messages, queue)).encode())
            failed = _failed_ids(
                messages, outcome, reports="ReportBatchItemFailures" in (mapping.function_response_types or ())
            )
        except Exception:  # noqa: BLE001 - whatever happens to the function, the messages must stay in the queue
            failed = {message.id for message in messages}
        failed |= {message.id for message in messages if self._switch.redelivers()}
        self._settle(queue, messages, failed)
        self._journal.write(
            "queue-batch",
            queue=queue.name,
            function=mapping.function_arn.rpartition(":")[2],
            messages=len(messages),
            failed=len(failed),
        )
        with self._lock:
            self._running[mapping.uuid] -= 1
        self.wake()

    def _settle(self, queue: Any, messages: Sequence[Any], failed: set[str]) -> None:
        """Delete what was done, and make visible again what was not."""
        with QUEUE_LOCK:
            for message in messages:
                if message.id not in failed:
                    with contextlib.suppress(ReceiptHandleIsInvalid):  # purged, or moved on, meanwhile
                        queue.delete_message(message.receipt_handle)
            if self._retry_seconds is None:
                return
            again = 1000 * (self._clock() + self._retry_seconds)
            handles = {message.receipt_handle for message in messages if message.id in failed}
            for message in queue._messages:
                if message.receipt_handle in handles:  # unless it was received again since, by someone else
                    message.visible_at = min(message.visible_at, again)


def _mappings() -> list[Any]:
    return [
        mapping
        for account in list(lambda_backends.values())
        for backend in list(account.values())
        for mapping in list(backend._event_source_mappings.values())
    ]


def _event(messages: Sequence[Any], queue: Any) -> dict[str, Any]:
    return {"Records": [_record(message, queue) for message in messages]}


def _record(message: Any, queue: Any) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": str(message.approximate_receive_count),
        "SentTimestamp": str(message.sent_timestamp),
        "SenderId": "AIDAIENQZJOLO23YVJ4VO",
        "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
    }
    if message.group_id:
        attributes |= {"MessageGroupId": message.group_id, "MessageDeduplicationId": message.deduplication_id or ""}
    message_attributes = {
        name: {
            "stringValue": value.get("StringValue"),
            "binaryValue": value.get("BinaryValue"),
            "dataType": value.get("DataType"),
        }
        for name, value in message.message_attributes.items()
    }
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": message_attributes,
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.queue_arn,
        "awsRegion": queue.region,
    }


def _failed_ids(messages: Sequence[Any], outcome: Outcome, *, reports: bool) -> set[str]:
    """Return all ids after an error or a senseless answer; the named ids, if the mapping reports failures."""
    every = {message.id for message in messages}
    if not outcome.succeeded:
        return every
    if not reports:
        return set()
    try:
        answer = json.loads(outcome.payload or b"null")
        named = {item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures") or ()}
    except (ValueError, AttributeError, KeyError, TypeError):
        return every
    return named if named <= every else every
