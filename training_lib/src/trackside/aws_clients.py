"""Clients of AWS: one for each service and its limits in a process, shared by all threads.

A client costs 0.2 s of processor, half of it for importing botocore: so it is made with the first request, on the
thread that needs it. boto3 itself is not imported: its additions are not used here.
"""

from __future__ import annotations

import logging  # noqa: F401 - it holds its lock during a fork, and what is registered later is done first
import os
import threading
from contextlib import suppress
from typing import Any

from trackside.collection_pause import CollectionPause
from trackside.environment import aws_region, aws_settings

_CONNECTIONS = 32  # kept open, for as many threads that ask at the same time
_IMPORT_SECONDS = 5.0


class SharedClient:
    """The client of one service, made when it is first needed, and again in a process that is forked from this one.

    It stays the same for as long as its holder lives. A later holder gets one that is made from the environment and
    AWS's files as they are then.

    Args:
        service: AWS's name of it: `s3`, `events`, ...
        connect_seconds: time that a connection may take.
        read_seconds: time without data in an answer.
        attempts: number of attempts of a request in all.
    """

    def __init__(
        self, service: str, *, connect_seconds: float = 5, read_seconds: float = 30, attempts: int = 5
    ) -> None:
        self._arguments = (service, connect_seconds, read_seconds, attempts)
        self._held: tuple[_Clients, Any] | None = None

    def get(self) -> Any:
        """Return the client. Errors: `ConfigurationError` without botocore; botocore's own for wrong settings."""
        held = self._held
        if held is None or held[0] is not _clients:
            held = self._held = (_clients, _clients.get(*self._arguments))
        return held[1]


class _Clients:
    """The clients of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: tuple[object, ...] = ()
        self._session: Any = None
        self._services: set[str] = set()
        self._made: dict[tuple[object, ...], Any] = {}

    def get(self, service: str, connect_seconds: float, read_seconds: float, attempts: int) -> Any:
        arguments = (service, connect_seconds, read_seconds, attempts)
        with self._lock:
            settings = aws_settings()
            if settings != self._settings:
                self._session, self._settings, self._made = None, settings, {}
            if arguments not in self._made:
                with _importing, CollectionPause():
                    botocore = _botocore()
                if self._session is None:
                    self._session = self._open(botocore)
                self._services.add(service)
                config = botocore.config.Config(
                    retries={"mode": "standard", "total_max_attempts": attempts},
                    connect_timeout=connect_seconds,
                    read_timeout=read_seconds,
                    max_pool_connections=_CONNECTIONS,
                )
                self._made[arguments] = self._session.create_client(service, region_name=aws_region(), config=config)
            return self._made[arguments]

    def _open(self, botocore: Any) -> Any:
        session = botocore.session.Session()
        loader = session.get_component("data_loader")
        session.register_component("data_loader", _KnownServices(loader, self._services))
        return session


class _KnownServices:
    """A loader that does not look into the folders of all 400 services to find that the requested one exists."""

    def __init__(self, loader: Any, services: set[str]) -> None:
        self._loader, self._services = loader, services

    def list_available_services(self, type_name: str) -> list[str]:
        return sorted(self._services)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _botocore() -> Any:
    try:
        import botocore.config
        import botocore.session
    except ModuleNotFoundError as error:
        from trackside.extras import missing_extra  # for the message only

        raise missing_extra("aws") from error
    return botocore


_clients = _Clients()
_of_parents: list[_Clients] = []
_importing = threading.RLock()


def _before_fork() -> None:
    """Wait for a thread that imports botocore: the child could never finish an import that a fork interrupts.

    The wait is bounded, because that thread may need locks that others hold during a fork.
    """
    _importing.acquire(timeout=_IMPORT_SECONDS)


def _after_fork_in_parent() -> None:
    with suppress(RuntimeError):  # it was waited for in vain
        _importing.release()


def _after_fork_in_child() -> None:
    """Drop the clients: a forked process shares neither connections nor the locks of threads that it does not have."""
    global _clients, _importing
    _of_parents.append(_clients)  # to drop it would end its connections, which needs locks that may be held for ever
    _clients, _importing = _Clients(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
