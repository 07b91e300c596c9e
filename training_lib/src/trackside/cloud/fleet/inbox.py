"""The two queues of the fleet: announcements of runs, and reports of runs that it cannot judge."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from trackside.contracts.deployment.lease import LeaseRecord

MOST_MESSAGES = 10  # API_ReceiveMessage
FAILED_DETAIL_TYPE = "Trackside Evaluation Failed"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Announcement:
    """A training job to judge; `receipt` is for `Inbox.forget`."""

    job_arn: str
    receipt: str


class Inbox:
    """The fleet's queues.

    client            boto3's client of SQS
    queue_url         queue of announcements; "": none arrive
    failed_queue_url  queue for reports of failures; "": none are sent
    """

    def __init__(self, client: Any, *, queue_url: str = "", failed_queue_url: str = "") -> None:
        self._client, self._queue_url, self._failed_queue_url = client, queue_url, failed_queue_url

    def announced(self, *, most: int, wait_seconds: int) -> list[Announcement]:
        """Return new announcements. Malformed messages are left to the queue's redrive.

        Args:
            most: Largest number of announcements.
            wait_seconds: Longest wait for the first one.
        """
        if not self._queue_url:
            return []
        answer = self._client.receive_message(
            QueueUrl=self._queue_url, MaxNumberOfMessages=min(most, MOST_MESSAGES), WaitTimeSeconds=wait_seconds
        )
        found = []
        for message in answer.get("Messages", ()):
            arn = _arn_in(message["Body"])
            if arn:
                found.append(Announcement(arn, message["ReceiptHandle"]))
            else:
                _logger.warning("Not an announcement: %.200s", message["Body"])
        return found

    def forget(self, announcement: Announcement) -> None:
        """Delete an announcement that has been followed."""
        self._client.delete_message(QueueUrl=self._queue_url, ReceiptHandle=announcement.receipt)

    def report_failed(self, lease: LeaseRecord, reason: str) -> None:
        """Report that the run is no longer judged, and the reason."""
        _logger.error("%s is no longer watched: %s", lease.job.name, reason)
        if not self._failed_queue_url:
            return
        detail = {
            "TrainingJobName": lease.job.name,
            "TrainingJobArn": lease.job.arn,
            "Run": lease.run_uri,
            "ExitMessage": reason,
        }
        event = {"source": "trackside.fleet", "detail-type": FAILED_DETAIL_TYPE, "detail": detail}
        self._client.send_message(QueueUrl=self._failed_queue_url, MessageBody=json.dumps(event))


def _arn_in(body: str) -> str:
    try:
        content = json.loads(body)
    except ValueError:
        return ""
    arn = content.get("TrainingJobArn") if isinstance(content, dict) else None
    return arn if isinstance(arn, str) else ""
