"""A call that adds something each time is sent once, however late its answer is; others are tried again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lambdas.shared.clients import client
from tests.patience import HANGS_SECONDS


@contextmanager
def server_that_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Takes each request and ends the connection without an answer."""
    taken: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    taken.append(connection.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client.cache_clear()
        try:
            yield taken
        finally:
            client.cache_clear()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(HANGS_SECONDS)


@pytest.mark.parametrize(
    ("service", "call", "attempts"),
    [
        pytest.param("sns", lambda c: c.publish(TopicArn="arn:aws:sns:::t", Message="m"), 1, id="telling"),
        pytest.param("sagemaker", lambda c: c.stop_training_job(TrainingJobName="j"), 3, id="stopping"),
        pytest.param("dynamodb", lambda c: c.get_item(TableName="ttt", Key={"id": {"S": "1"}}), 3, id="asking"),
    ],
)
def test_how_often_a_call_is_sent(
    service: str, call: Callable[[Any], Any], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_that_fails(monkeypatch) as taken:
        with pytest.raises((BotoCoreError, ClientError)):
            call(client(service))
        assert len(taken) == attempts


def test_a_late_answer_still_fits_into_the_functions_time() -> None:
    from stacks.constructs.python_lambda import TIMEOUT_SECONDS

    for service in ("sns", "sagemaker"):
        config: Config = client(service).meta.config
        assert config.read_timeout * config.retries["total_max_attempts"] < TIMEOUT_SECONDS
