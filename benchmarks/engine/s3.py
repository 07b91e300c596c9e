"""S3 in this process, moto's, which counts what it is asked for."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from typing import Any

from trackside.contracts.errors import KeyNotFoundError

BUCKET = "runs"


class CountedS3:
    """A server that notes each request. Its bucket is `runs`; `environment` lets a process find it."""

    def __enter__(self) -> CountedS3:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        application = DomainDispatcherApplication(create_backend_app)
        self.requests: list[tuple[float, str]] = []

        def counted(environ: dict[str, Any], start_response: Any) -> Any:
            self.requests.append((time.time(), _kind(environ)))
            return application(environ, start_response)

        self._server = make_server("127.0.0.1", 0, counted, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
        }
        os.environ.update(self.environment)  # noqa: TID251 - for the stores that this process opens itself
        import boto3

        boto3.client("s3").create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def between(self, start: float, end: float) -> dict[str, int]:
        """Return the numbers of requests of each kind, with the folder that they ask for."""
        return dict(Counter(kind for at, kind in self.requests if start <= at <= end))

    def take(self) -> dict[str, int]:
        """Return the numbers of requests by method since the last call."""
        taken, self.requests[:] = [*self.requests], []
        return dict(Counter(kind.partition(" ")[0] for _, kind in taken))


class Peeked:
    """What lies below a prefix of the bucket, looked at without a request: to poll by HTTP would cost a whole core."""

    def __init__(self, uri: str) -> None:
        self._prefix = f"{uri.removeprefix(f's3://{BUCKET}/')}/"

    def get(self, key: str) -> bytes:
        """Return what lies at a key.

        Raises:
            KeyNotFoundError: Nothing does.
        """
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys.get(self._prefix + key)
        if found is None:
            raise KeyNotFoundError(key)
        return bytes(found.value)


def _kind(environ: dict[str, Any]) -> str:
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    if method == "GET" and "list-type" in query:
        return "LIST"
    place = environ["PATH_INFO"].split("/")[3:] or [""]  # behind the bucket and the run
    folder = "/".join(place[: 2 if place[0] == "debug-output" else 1])
    return f"{method} {folder}{' if changed' if 'HTTP_IF_NONE_MATCH' in environ else ''}"
