"""Serves the tools over standard input and output, or over HTTP on this machine with a token."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable

import anyio

from trackside.agents.actions import Actions
from trackside.agents.runs import Runs
from trackside.contracts.errors import ConfigurationError, Problem

HOST, PATH = "127.0.0.1", "/mcp"
BYTES_OF_TOKEN = 24
MOST_SECONDS_TO_END = 2
_STRANGER = b"Send the token that `trackside mcp --http` printed, as `Authorization: Bearer TOKEN`.\n"

Scope = dict[str, object]


def serve_stdio(where: str | None, *, allow_actions: bool) -> None:
    """Serve over standard input and output until the client closes them.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.
        allow_actions: True: rehearsals may be started, and runs stopped.
    """
    from trackside.agents.server import build_server

    runs = Runs(where)
    runs.list.names()  # a wrong place is an error now
    actions = Actions(runs) if allow_actions else None
    try:
        anyio.run(build_server(runs, actions).run_stdio_async)
    finally:
        if actions is not None:
            actions.close()


def serve_http(
    where: str | None, *, port: int, token: str | None, allow_actions: bool, started: Callable[[str, str], None]
) -> None:
    """Serve streamable HTTP on the loopback until SIGTERM or SIGINT.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.
        port: Port; 0 for any free one.
        token: The secret of each request; None: a new one.
        allow_actions: True: rehearsals may be started, and runs stopped.
        started: Called with the address and the token once the server listens.

    Raises:
        ConfigurationError: The port cannot be had.
    """
    import uvicorn

    runs = Runs(where)
    runs.list.names()
    actions = Actions(runs) if allow_actions else None
    token = token or secrets.token_urlsafe(BYTES_OF_TOKEN)
    config = uvicorn.Config(
        application(runs, actions, token=token),
        log_config=None,  # one of its own closes the streams of all other handlers in the process
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=MOST_SECONDS_TO_END,
    )
    server = uvicorn.Server(config)
    with _listening(port) as listening:
        started(f"http://{HOST}:{listening.getsockname()[1]}{PATH}", token)
        try:
            server.run(sockets=[listening])
        finally:
            if actions is not None:
                actions.close()


def application(runs: Runs, actions: Actions | None, *, token: str) -> Bearer:
    """Return the ASGI application: the protocol, for requests with the token from this machine alone."""
    from trackside.agents.server import build_server

    # `host` on the loopback makes the package refuse names of other servers (Host and Origin).
    return Bearer(build_server(runs, actions).streamable_http_app(streamable_http_path=PATH, host=HOST), token=token)


class Bearer:
    """An ASGI application around another one, which it calls for requests with the token only.

    Any program of this machine reaches the loopback: without a token each of its users could read the runs.

    Args:
        app: The application.
        token: The secret.
    """

    def __init__(self, app: Callable[..., object], *, token: str) -> None:
        self._app, self._proof = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Callable[..., object], send: Callable[..., object]) -> None:
        """Answer a request."""
        if scope["type"] == "http" and not self._has_proof(scope):
            await _refuse(send)
            return
        await self._app(scope, receive, send)  # type: ignore[misc] # an ASGI application

    def _has_proof(self, scope: Scope) -> bool:
        headers = scope.get("headers")
        given = [value for name, value in headers if name == b"authorization"] if isinstance(headers, list) else []
        return len(given) == 1 and hmac.compare_digest(given[0], self._proof)


async def _refuse(send: Callable[..., object]) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})  # type: ignore[misc]
    await send({"type": "http.response.body", "body": _STRANGER})  # type: ignore[misc]


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        problem = Problem(f"{HOST}:{port}", f"cannot be listened at: {error.strerror}.", "Name another port, or 0.")
        raise ConfigurationError([problem], subject="The command line") from error
    return listening
