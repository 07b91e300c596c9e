"""Serves the dashboard until a signal ends it. Open streams end with it, within two seconds."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

import uvicorn

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.views.dashboard.access import IN_ADDRESS, Guard, Token
from trackside.views.dashboard.app import HEADERS, Dashboard
from trackside.views.dashboard.run_list import RunList

if TYPE_CHECKING:  # it needs a package more
    from trackside.views.dashboard.sign_on import SignOn

MOST_SECONDS_TO_END = 2
BYTES_OF_TOKEN = 24


def run_server(
    where: str | None,
    *,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    token: str | None,
    sign_on: SignOn | None = None,
    started: Callable[[str], None],
) -> None:
    """Serve the runs in `where` until SIGTERM or SIGINT.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.
        host: Address to listen at.
        port: Port; 0 for any free one.
        allowed_hosts: Further names, with their ports, by which browsers call this server.
        token: The secret in the address; None: a new one.
        sign_on: The sign-on whose tokens are needed instead of that secret.
        started: Called with the address once the server listens.

    Raises:
        ConfigurationError: The port cannot be had.
    """
    runs = RunList(where)
    runs.names()  # a wrong place is an error now
    token = token or secrets.token_urlsafe(BYTES_OF_TOKEN)
    listening = _listening(host, port)
    port = listening.getsockname()[1]
    address = f"http://{_in_address(host)}:{port}/"
    dashboard = Dashboard(runs, is_stopping=lambda: server.should_exit)
    guard = Guard(
        dashboard.application(),
        # A browser sends a cookie to all ports of a host.
        proof=sign_on or Token(token, cookie=f"trackside-{port}"),
        hosts={*_own_names(host, port), *allowed_hosts},
        headers=HEADERS,
    )
    config = uvicorn.Config(
        guard,
        log_config=None,  # one of its own closes the streams of all other handlers in the process
        log_level="warning",
        access_log=False,  # it would hold the token
        server_header=False,
        timeout_graceful_shutdown=MOST_SECONDS_TO_END,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    with listening:
        started(address if sign_on else f"{address}?{IN_ADDRESS}={token}")
        server.run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Return True if only programs of this machine reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _own_names(host: str, port: int) -> set[str]:
    names = {host, "localhost", "127.0.0.1", "::1"} if is_loopback(host) else {host}
    return {f"{_in_address(name)}:{port}" for name in names}


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        problem = Problem(
            f"{_in_address(host)}:{port}", f"cannot be listened at: {error.strerror}.", "Name another one with --port."
        )
        raise ConfigurationError([problem], subject="The command line") from error
    return listening
