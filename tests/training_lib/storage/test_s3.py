"""The store in S3, against moto's server on this machine, and against servers that misbehave."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import NoCredentialsError
from botocore.stub import Stubber
from moto.server import ThreadedMotoServer

from trackside.contracts.errors import (
    AccessDeniedError,
    KeyNotFoundError,
    LocationNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from trackside.storage.open_store import open_store
from trackside.storage.s3 import S3Store
from trackside.storage.store import AppendableStore
from trackside.testing.store_contract import KEY, Peek, Plant, StoreContract


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def connect(endpoint: str, **more: Any) -> Any:
    session = boto3.session.Session(
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE", aws_secret_access_key="secret", region_name="us-east-1"
    )
    return session.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}, **more))


@pytest.fixture(scope="module")
def client(endpoint: str) -> Iterator[Any]:
    client = connect(endpoint)
    yield client
    client.close()


@pytest.fixture
def bucket(client: Any) -> Iterator[str]:
    client.create_bucket(Bucket="runs")
    yield "runs"
    for found in client.list_objects_v2(Bucket="runs").get("Contents", ()):
        client.delete_object(Bucket="runs", Key=found["Key"])
    client.delete_bucket(Bucket="runs")


@pytest.fixture
def requests(client: Any) -> Iterator[list[str]]:
    """The HTTP methods that really go out."""
    seen: list[str] = []

    def note(request: Any, **_more: Any) -> None:
        seen.append(request.method)

    client.meta.events.register("before-send.s3", note)
    yield seen
    client.meta.events.unregister("before-send.s3", note)


class TestS3Store(StoreContract):
    @pytest.fixture
    def store(self, bucket: str, client: Any) -> S3Store:
        client.put_object(Bucket=bucket, Key="a/runner/index/beside", Body=b"not ours")
        return S3Store(bucket, "a/run", client)

    @pytest.fixture
    def plant(self, bucket: str, client: Any) -> Plant:
        return lambda key, data: client.put_object(Bucket=bucket, Key=f"a/run/{key}", Body=data)

    @pytest.fixture
    def peek(self, bucket: str, client: Any) -> Peek:
        def peek(key: str) -> bytes | None:
            try:
                return bytes(client.get_object(Bucket=bucket, Key=f"a/run/{key}")["Body"].read())
            except client.exceptions.NoSuchKey:
                return None

        return peek

    def test_one_request_a_call(self, store: S3Store, requests: list[str]) -> None:
        store.put(KEY, b"0123456789")
        assert requests == ["PUT"], "no HEAD"
        store.get(KEY, start=2, length=3)
        assert requests[1:] == ["GET"]
        store.exists(KEY)
        assert requests[2:] == ["GET"]
        assert [*store.list("index/", start_after="index/0")] == [KEY]
        assert requests[3:] == ["GET"]
        found = store.get_if_changed(KEY, tag="")
        assert found is not None
        assert requests[4:] == ["GET"]
        assert store.get_if_changed(KEY, tag=found.tag) is None
        assert requests[5:] == ["GET"]

    @pytest.mark.parametrize(
        "attempt",
        [
            pytest.param(lambda store: store.get(KEY), id="get"),
            pytest.param(lambda store: store.get(KEY, start=5, length=10), id="get a range"),
            pytest.param(lambda store: store.get(KEY, start=50), id="get what lies behind the end"),
            pytest.param(lambda store: store.get(KEY, length=0), id="get nothing"),
            pytest.param(lambda store: store.exists(KEY), id="exists"),
            pytest.param(lambda store: [*store.list(KEY)], id="list"),
            pytest.param(lambda store: store.get_if_changed(KEY, tag='"another"', length=3), id="get if changed"),
        ],
    )
    @pytest.mark.parametrize("content", [pytest.param(None, id="missing"), b"", b"0123456789"])
    def test_one_request_whatever_lies_there(
        self, store: S3Store, plant: Plant, requests: list[str], attempt: Any, content: bytes | None
    ) -> None:
        if content is not None:
            plant(KEY, content)
        requests.clear()
        with contextlib.suppress(KeyNotFoundError):
            attempt(store)
        assert requests == ["GET"]

    def test_does_not_grow(self, store: S3Store) -> None:
        assert not isinstance(store, AppendableStore)

    def test_lists_page_by_page_and_lazily(
        self, store: S3Store, plant: Plant, client: Any, requests: list[str]
    ) -> None:
        def small_pages(params: dict[str, Any], **_more: Any) -> None:
            params["MaxKeys"] = 3

        names = [f"index/{place:03d}" for place in range(8)]
        for name in names:
            plant(name, b"x")
        requests.clear()
        client.meta.events.register("provide-client-params.s3.ListObjectsV2", small_pages)
        try:
            assert [*store.list("index/")] == names
            assert len(requests) == 3
            assert next(iter(store.list("index/", start_after="index/001"))) == "index/002"
            assert len(requests) == 4
        finally:
            client.meta.events.unregister("provide-client-params.s3.ListObjectsV2", small_pages)

    def test_passes_over_folder_markers(self, store: S3Store, plant: Plant) -> None:
        plant("", b"")
        plant("index/", b"")
        plant("index/a", b"x")
        assert [*store.list()] == ["index/a"]


def test_a_whole_bucket(bucket: str, client: Any) -> None:
    store = S3Store(bucket, "", client)
    store.put("a/b", b"x")
    assert client.get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"x"
    assert [*store.list()] == ["a/b"]


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda store: store.put(KEY, b"x"), id="put"),
        pytest.param(lambda store: store.get(KEY), id="get"),
        pytest.param(lambda store: store.exists(KEY), id="exists"),
        pytest.param(lambda store: [*store.list()], id="list"),
        pytest.param(lambda store: store.delete(KEY), id="delete"),
    ],
)
class TestTrouble:
    def test_a_missing_bucket(self, client: Any, attempt: Any) -> None:
        store = S3Store("no-such-bucket", "run", client)
        with pytest.raises(LocationNotFoundError, match="There is no bucket 'no-such-bucket'"):
            attempt(store)

    def test_no_credentials(self, monkeypatch: pytest.MonkeyPatch, attempt: Any) -> None:
        def refuse(*_args: Any, **_more: Any) -> None:
            raise NoCredentialsError

        client = connect("http://127.0.0.1:9")
        client.meta.events.register("before-sign.s3", refuse)
        with pytest.raises(AccessDeniedError, match="Set up AWS credentials"):
            attempt(S3Store("runs", "run", client))
        client.close()

    def test_nobody_answers(self, attempt: Any) -> None:
        client = connect("http://127.0.0.1:9", retries={"total_max_attempts": 1}, connect_timeout=1)
        with pytest.raises(StorageUnavailableError, match="trying again may help"):
            attempt(S3Store("runs", "run", client))
        client.close()


@pytest.mark.parametrize(
    ("code", "status", "kind", "advice"),
    [
        pytest.param("AccessDenied", 403, AccessDeniedError, "needs s3:GetObject on 'runs'", id="no permission"),
        pytest.param("ExpiredToken", 400, AccessDeniedError, "ExpiredToken", id="credentials out of date"),
        pytest.param("InvalidAccessKeyId", 403, AccessDeniedError, "InvalidAccessKeyId", id="wrong credentials"),
        pytest.param("KMS.DisabledException", 400, AccessDeniedError, "KMS.Disabled", id="the key is disabled"),
        pytest.param("SlowDown", 503, StorageUnavailableError, "busy", id="throttled"),
        pytest.param("InternalError", 500, StorageUnavailableError, "out of order", id="a fault of S3"),
        pytest.param("RequestTimeout", 400, StorageUnavailableError, "Try again", id="timeout"),
        pytest.param("PermanentRedirect", 301, LocationNotFoundError, "AWS_REGION", id="another region"),
        pytest.param("NoSuchBucket", 404, LocationNotFoundError, "no bucket 'runs'", id="no bucket"),
        pytest.param("NoSuchKey", 404, KeyNotFoundError, "no object", id="no object"),
        pytest.param("InvalidObjectState", 403, StorageError, "InvalidObjectState", id="archived in Glacier"),
    ],
)
def test_errors_in_our_words(code: str, status: int, kind: type[StorageError], advice: str) -> None:
    client = connect("http://127.0.0.1:9")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", code, http_status_code=status)
        with pytest.raises(kind, match=advice) as caught:
            S3Store("runs", "a/run", client).get(KEY)
    assert type(caught.value) is kind
    assert KEY in str(caught.value)
    assert "s3://runs/a/run" in str(caught.value)
    client.close()


class MoodyServer(http.server.ThreadingHTTPServer):
    """Answers each request with the next of `answers`: (status, body, bytes that it claims to send)."""

    daemon_threads = True

    def __init__(self, answers: list[tuple[int, bytes, int]]) -> None:
        self.answers = answers
        self.methods: list[str] = []
        super().__init__(("127.0.0.1", 0), _MoodyHandler)


class _MoodyHandler(http.server.BaseHTTPRequestHandler):
    server: MoodyServer
    protocol_version = "HTTP/1.1"  # else a PUT waits for the 100 Continue that never comes

    def answer(self) -> None:
        self.server.methods.append(self.command)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body, claimed = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(claimed))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_GET = do_PUT = answer  # noqa: N815 - the names that http.server calls

    def log_message(self, *_args: object) -> None:
        """Silence: tests print nothing."""


@pytest.fixture
def moody() -> Iterator[MoodyServer]:
    server = MoodyServer([])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@pytest.fixture
def default_store(moody: MoodyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As a user gets it: `open_store`, with everything from boto3's own configuration."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{moody.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = open_store("s3://runs/a/run")
    yield store
    store._client.close()  # type: ignore[attr-defined]  # sockets left open would warn


def test_tries_again_when_throttled(moody: MoodyServer, default_store: Any) -> None:
    moody.answers += [(503, SLOW_DOWN, len(SLOW_DOWN)), (200, b"", 0)]
    default_store.put(KEY, b"x")
    assert moody.methods == ["PUT", "PUT"]


def test_an_answer_that_breaks_off(moody: MoodyServer, default_store: Any) -> None:
    moody.answers += [(200, b"half", 8)]
    with pytest.raises(StorageUnavailableError, match="trying again may help"):
        default_store.get(KEY)


def test_waits_no_longer_than_its_timeouts(default_store: Any) -> None:
    config = default_store._client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 30)
    assert config.retries["mode"] == "standard"


def test_one_client_for_all_threads(default_store: Any) -> None:
    clients: list[Any] = []
    threads = [threading.Thread(target=lambda: clients.append(default_store._client)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(client) for client in clients}) == 1
