"""One client a service and process: shared by threads, never by forked processes, made from what holds now."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto.server import ThreadedMotoServer

from trackside.aws_clients import SharedClient
from trackside.environment import inherited
from trackside.storage.open_store import open_store

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")


class Witness(http.server.ThreadingHTTPServer):
    """Takes every PUT, and remembers whose key signed it and which connection it came by."""

    daemon_threads = True

    def __init__(self) -> None:
        self.signers: list[str] = []
        self.connections: list[tuple[str, int]] = []
        super().__init__(("127.0.0.1", 0), _WitnessHandler)


class _WitnessHandler(http.server.BaseHTTPRequestHandler):
    server: Witness
    protocol_version = "HTTP/1.1"  # else each request has a connection of its own

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.connections.append(self.client_address)
        self.server.signers += re.findall(r"Credential=(\w+)/", self.headers.get("Authorization", ""))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Silence: tests print nothing."""


@pytest.fixture
def witness() -> Iterator[Witness]:
    server = Witness()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment of AWS that no other test has had."""
    for name in [name for name in inherited() if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment_of(f"http://127.0.0.1:{witness.server_port}", tmp_path).items():
        monkeypatch.setenv(name, value)


def environment_of(endpoint: str, folder: Path) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "first",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
    }


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The services of the clients that botocore makes."""
    services: list[str] = []
    create = botocore.session.Session.create_client

    def counted(self: Any, service: str, *args: Any, **kwargs: Any) -> Any:
        services.append(service)
        return create(self, service, *args, **kwargs)

    monkeypatch.setattr(botocore.session.Session, "create_client", counted)
    return services


def test_many_stores_on_many_threads_have_one_client(place: None, witness: Witness, made: list[str]) -> None:
    stores = [open_store(f"s3://runs/{number}") for number in range(8)]
    assert made == [], "none is made before the first request"
    start = threading.Barrier(len(stores))

    def put(store: Any) -> None:
        start.wait()
        store.put("key", b"x")

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(put, stores))
    assert made == ["s3"]
    assert len(witness.signers) == len(stores)


def test_each_service_and_each_way_of_asking_has_its_own(place: None, made: list[str]) -> None:
    asked = [("s3", {}), ("events", {}), ("s3", {"read_seconds": 3}), ("s3", {}), ("events", {})]
    clients = [SharedClient(service, **options).get() for service, options in asked]
    assert made == ["s3", "events", "s3"]
    assert clients[0] is clients[3]
    assert clients[1] is clients[4]
    assert clients[2].meta.config.read_timeout == 3


def test_a_store_follows_the_environment_of_its_first_request(
    place: None, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = open_store("s3://runs/early"), open_store("s3://runs/late")
    early.put("key", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    late.put("key", b"x")
    early.put("key", b"x")
    assert witness.signers == ["first", "second", "first"]


def test_keys_that_are_written_anew_are_read_anew(
    place: None, witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for key in ("monday", "wednesday"):
        (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=x\n")
        open_store("s3://runs/run").put("key", b"x")
    assert witness.signers == ["monday", "wednesday"]


def test_keys_that_expire_are_asked_for_again(
    place: None, witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    program = tmp_path / "keys.py"
    program.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "keys = {'Version': 1, 'AccessKeyId': f'key{number}', 'SecretAccessKey': 'x', 'SessionToken': 'x',\n"
        "        'Expiration': '2100-01-01T00:00:00Z' if number else '2000-01-01T00:00:00Z'}\n"
        "print(json.dumps(keys))\n"
    )
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    open_store("s3://runs/run").put("key", b"x")
    open_store("s3://runs/run").put("key", b"x")
    assert witness.signers == ["key1", "key1"], "the first had expired; the second is asked for once"


def run_script(script: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=inherited() | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,  # what would hang, hangs for ever
    )
    assert done.returncode == 0, done.stderr


@needs_fork
def test_a_forked_process_has_connections_of_its_own(witness: Witness, tmp_path: Path) -> None:
    script = """
        import os
        from trackside.storage.open_store import open_store
        store = open_store("s3://runs/run")
        store.put("key", b"x")
        child = os.fork()
        store.put("key", b"x")
        if child == 0:
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        store.put("key", b"x")
        raise SystemExit(status)
    """
    run_script(script, environment_of(f"http://127.0.0.1:{witness.server_port}", tmp_path))
    assert len(witness.connections) == 4
    assert len(set(witness.connections)) == 2, "the parent keeps its own, and the child has another"


@needs_fork
def test_parent_and_child_store_at_the_same_time(tmp_path: Path) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    script = """
        import os, threading
        from trackside.aws_clients import SharedClient
        from trackside.storage.open_store import open_store
        SharedClient("s3").get().create_bucket(Bucket="runs")
        store = open_store("s3://runs/run")
        start = threading.Barrier(3)

        def put(who):
            for number in range(25):
                store.put(f"{who}/{number:02d}", f"{who} {number}".encode())

        def beside():
            start.wait()
            put("thread")

        thread = threading.Thread(target=beside)
        thread.start()
        beside_child = threading.Thread(target=start.wait)
        beside_child.start()
        start.wait()
        child = os.fork()
        put("child" if child == 0 else "parent")
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        thread.join(), beside_child.join()
        found = {key: store.get(key).decode() for key in store.list()}
        names = ["child", "parent", "thread"]
        assert found == {f"{who}/{n:02d}": f"{who} {n}" for who in names for n in range(25)}, sorted(found)
    """
    try:
        run_script(script, environment_of(f"http://{host}:{port}", tmp_path))
    finally:
        server.stop()


@needs_fork
def test_a_fork_while_another_thread_makes_the_client(witness: Witness, tmp_path: Path) -> None:
    """The thread waits for keys, of which a program that it has started says nothing until the child has ended."""
    script = """
        import os, threading
        from trackside.storage.open_store import open_store
        os.mkfifo("begun"), os.mkfifo("keys")
        store = open_store("s3://runs/run")
        thread = threading.Thread(target=store.put, args=("key", b"x"))
        thread.start()
        open("begun").read()
        child = os.fork()
        if child == 0:
            os.environ.update(AWS_ACCESS_KEY_ID="child", AWS_SECRET_ACCESS_KEY="x")
            store.put("key", b"x")
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        with open("keys", "w") as keys:
            keys.write('{"Version": 1, "AccessKeyId": "parent", "SecretAccessKey": "x"}')
        thread.join()
        raise SystemExit(status)
    """
    environment = environment_of(f"http://127.0.0.1:{witness.server_port}", tmp_path)
    del environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    (tmp_path / "wait").write_text("echo > begun\ncat keys\n")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = sh {tmp_path / 'wait'}\n")
    run_script(f"import os; os.chdir({str(tmp_path)!r})\n{textwrap.dedent(script)}", environment)
    assert witness.signers == ["child", "parent"]


@needs_fork
def test_a_fork_waits_for_a_thread_that_imports_botocore(witness: Witness, tmp_path: Path) -> None:
    """A module that is half imported at a fork stays so in the child, for the thread that imports it is not there."""
    script = """
        import os, sys, threading
        from trackside.storage.open_store import open_store
        begun, forking = threading.Event(), threading.Event()

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "botocore.waiter":
                    begun.set()
                    forking.wait()

        sys.meta_path.insert(0, Slow())
        store = open_store("s3://runs/run")
        thread = threading.Thread(target=store.put, args=("key", b"x"))
        thread.start()
        begun.wait()
        os.register_at_fork(before=forking.set)  # what is registered last is called first
        child = os.fork()
        if child == 0:
            store.put("key", b"x")
            os._exit(0)
        thread.join()
        raise SystemExit(os.waitpid(child, 0)[1])
    """
    run_script(script, environment_of(f"http://127.0.0.1:{witness.server_port}", tmp_path))
    assert witness.signers == ["first", "first"]
