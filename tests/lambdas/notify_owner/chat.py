"""What tests of chat services share: a server at work, and the settings of a function with a queue of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import Any

import boto3
import pytest

from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made


@contextmanager
def at_work(server: HTTPServer) -> Iterator[None]:
    """Let a server answer within the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def notify_by(account: Any, monkeypatch: pytest.MonkeyPatch, **chat: str) -> None:
    """Set the environment of a function that posts to a chat service, and make its queue."""
    queue = boto3.client("sqs").create_queue(QueueName="notify")["QueueUrl"]
    settings = made(
        NotifyOwnerSettings,
        topic_arn=account.topic,
        idempotency_table="done",
        quiet_minutes=0,
        queue_url=queue,
        **chat,
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
