"""A gate before the services: refuses calls of functions, kills callers and loses answers, by the switch.

Only calls of Lambda functions are at its mercy, known by what their SDK says of itself; whoever tests speaks to the
account undisturbed. `/_local-account/faults` reads (GET) and sets (PUT) the switch, with the names of `Faults` in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from trackside.contracts.errors import ConfigurationError
from trackside_localaccount.faults import CallFault, Faults, FaultSwitch

FAULTS_PATH = "/_local-account/faults"

_CALLER = re.compile(r"\bapp/(?P<id>\S+)")
_SIGNED_FOR = re.compile(r"Credential=[^/]+/\d+/[^/]+/(?P<service>[^/]+)/")
_NAMES = {"monitoring": "cloudwatch"}  # where a service signs by another name than boto3 has for it

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class FaultGate:
    """`kill(process)` kills the function's process of that id, `note(kind, **names)` writes into the journal."""

    def __init__(
        self, switch: FaultSwitch, *, kill: Callable[[str], None], note: Callable[..., None], application: Application
    ) -> None:
        self._switch, self._kill, self._note, self._application = switch, kill, note, application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == FAULTS_PATH:
            return self._serve_switch(environ, start_response)
        caller = self._caller(environ)
        if not caller:
            return self._application(environ, start_response)
        service = _service(environ)
        fault = self._switch.call(service)
        if fault is None:
            return self._application(environ, start_response)
        self._note("call-fault", fault=fault.value, service=service)
        if fault in (CallFault.OUTAGE, CallFault.THROTTLE):
            _drain(environ)
            return _refuse(environ, start_response, service, fault)
        if fault is CallFault.CRASH_BEFORE:
            _drain(environ)
        else:
            b"".join(self._application(environ, lambda *_, **__: None))
        if fault is not CallFault.LOST_ANSWER:
            self._kill(caller)
        return _refuse(environ, start_response, service, fault)

    def _caller(self, environ: Environ) -> str:
        agent = environ.get("HTTP_USER_AGENT", "")
        found = _CALLER.search(agent)
        return found["id"] if found and "AWS_Lambda" in agent else ""

    def _serve_switch(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        status, answer = "200 OK", dict[str, Any]()
        if environ["REQUEST_METHOD"] == "PUT":
            try:
                given = json.loads(_drain(environ) or b"{}")
                self._switch.set(Faults.from_mapping(given if isinstance(given, dict) else {"the whole of it": given}))
            except (ConfigurationError, ValueError) as error:
                status, answer = "400 Bad Request", {"error": str(error)}
        answer |= {"faults": self._switch.faults.to_mapping(), "counts": dict(self._switch.counts)}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(answer).encode() + b"\n"]


class _Dispatcher(DomainDispatcherApplication):
    """moto's, which for each request lists its own folder and tries two hundred patterns; here for each new host."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


class GatedServer(ThreadedMotoServer):
    """moto's server, with something before its application."""

    def __init__(self, ip: str, port: int, *, gate: Callable[[Application], Application]) -> None:
        super().__init__(ip, port, verbose=False)
        self._gate = gate

    def _server_entry(self) -> None:
        application = self._gate(_Dispatcher())
        self._server = make_server(self._ip_address, self._port, application, True, request_handler=MotoRequestHandler)
        self._server_ready_event.set()
        self._server.serve_forever()


def _service(environ: Mapping[str, Any]) -> str:
    found = _SIGNED_FOR.search(environ.get("HTTP_AUTHORIZATION", ""))
    name = found["service"] if found else "unknown"
    return _NAMES.get(name, name)


def _drain(environ: Mapping[str, Any]) -> bytes:
    data: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return data


def _refuse(environ: Environ, start_response: StartResponse, service: str, fault: CallFault) -> Iterable[bytes]:
    """In the service's own words: each SDK must understand that it may try again."""
    code, status, message = {
        CallFault.THROTTLE: ("ThrottlingException", "400 Bad Request", "Rate exceeded"),
        CallFault.OUTAGE: ("ServiceUnavailable", "503 Service Unavailable", "The service is unavailable."),
    }.get(fault, ("InternalFailure", "500 Internal Server Error", "The answer was lost."))
    if "HTTP_SMITHY_PROTOCOL" in environ:
        kind = "application/cbor"
        body = b"\xa2" + b"".join(map(_cbor_text, ("__type", code, "message", message)))
        start_response(status, [("Content-Type", kind), ("smithy-protocol", "rpc-v2-cbor")])
        return [body]
    if "HTTP_X_AMZ_TARGET" in environ:
        start_response(status, [("Content-Type", "application/x-amz-json-1.0")])
        return [json.dumps({"__type": code, "message": message}).encode()]
    inner = f"<Code>{code if service != 's3' else 'SlowDown'}</Code><Message>{message}</Message>"
    text = f"<Error>{inner}</Error>" if service == "s3" else f"<ErrorResponse><Error>{inner}</Error></ErrorResponse>"
    start_response(status, [("Content-Type", "text/xml")])
    return [text.encode()]


def _cbor_text(text: str) -> bytes:
    """RFC 8949: major type 3, for texts of fewer than 256 bytes."""
    data = text.encode()
    head = bytes([0x60 + len(data)]) if len(data) < 24 else bytes([0x78, len(data)])
    return head + data
