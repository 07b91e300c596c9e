"""An API server of Kubernetes over TLS that checks what it is sent by Kubernetes' own schemas, and fails on request.

The schemas are those of the package kubernetes-validate, where it is installed. A real server is asked in
tests/journeys/test_kubernetes.py.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "token-of-the-pod"
VERSION = "1.37"
VALIDATED = frozenset({"Pod", "Job", "Event"})  # kinds of Kubernetes itself


@dataclass
class FakeServer:
    """What the server holds and was sent.

    objects   by path
    faults    answers instead of the right ones, the first first: a code, or bytes that are no HTTP at all
    requests  (verb, path) in order
    """

    folder: Path
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[int | bytes] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a pod of this server."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "POD_NAME": "digits-0",
            "TRACKSIDE_SERVICE_ACCOUNT": str(self.folder),
        }

    def add(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Hold an object, and return it."""
        check(document)
        self.objects[path] = document
        return document


def check(document: Mapping[str, Any]) -> None:
    """Hold an object of Kubernetes' own kinds against its schema. Unknown fields are mistakes."""
    if document["kind"] in VALIDATED and find_spec("kubernetes_validate"):
        import_module("kubernetes_validate").validate(document, VERSION, strict=True)


def merged(document: Any, patch: Any) -> Any:
    """Return the object after a patch: RFC 7386, and the lists of a strategic patch by the key `type`."""
    if isinstance(patch, list):
        kept = [one for one in document or () if one["type"] not in {new["type"] for new in patch}]
        return [*kept, *patch]
    if not isinstance(patch, dict):
        return patch
    before = document if isinstance(document, dict) else {}
    return {**before, **{name: merged(before.get(name), value) for name, value in patch.items()}}


@contextmanager
def serving(folder: Path) -> Iterator[FakeServer]:
    """Serve on 127.0.0.1, with the service account of a pod in a folder."""
    fake = FakeServer(folder)
    certificate = _write_account(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", lambda body: fake.objects[self.path])

        def do_POST(self) -> None:
            self._answer("POST", self._create)

        def do_PATCH(self) -> None:
            self._answer("PATCH", self._patch)

        def _create(self, body: Any) -> Any:
            check(body)
            fake.created.append(body)
            return body

        def _patch(self, body: Any) -> Any:
            path = self.path.removesuffix("/status")
            is_strategic = "strategic" in str(self.headers["Content-Type"])
            assert is_strategic == self.path.endswith("/status")
            fake.objects[path] = merged(fake.objects[path], body)
            check(fake.objects[path])
            return fake.objects[path]

        def _answer(self, verb: str, act: Any) -> None:
            fake.requests.append((verb, self.path))
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
            fault = fake.faults.pop(0) if fake.faults else 0
            if isinstance(fault, bytes):
                self.wfile.write(fault)
                return
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                fault = 401
            if not fault and verb != "POST" and self.path.removesuffix("/status") not in fake.objects:
                fault = 404
            answer = {"kind": "Status", "code": fault, "message": f"refused with {fault}"} if fault else act(body)
            content = json.dumps(answer).encode()
            self.send_response(fault or 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def _write_account(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an API server of a test")])
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.crt").write_bytes(pem)
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    (folder / "namespace").write_text("team", encoding="utf-8")
    (folder / "server.pem").write_bytes(secret + pem)
    return folder / "server.pem"
