"""API destinations: HTTPS endpoints that EventBridge calls, at their rate, with their connection's headers.

Nothing outside this machine is called: an endpoint is reached only where `register` says what stands for it here.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from moto.events.models import events_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.utilities.arns import parse_arn

_TIMEOUT_SECONDS = 5.0  # EventBridge's own
_TRIED_AGAIN = (401, 407, 409, 429)  # and what is 500 or more


class CallError(Exception):
    """The endpoint did not take it. `is_final`: EventBridge would not try again."""

    def __init__(self, message: str, *, is_final: bool) -> None:
        self.is_final = is_final
        super().__init__(message)


class ApiDestinations:
    """Any thread may call."""

    def __init__(self) -> None:
        self._here: dict[str, str] = {}
        self._free_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def register(self, url: str, local_url: str) -> None:
        """Send calls of `url` to `local_url`, which is `http://127.0.0.1:…`."""
        if not local_url.startswith("http://127.0.0.1:"):
            raise ValueError(f"{local_url!r} is not on this machine: it must begin with http://127.0.0.1:")
        self._here[url] = local_url

    def turn(self, arn: str) -> float:
        """Reserve the next call that the rate of the destination allows. Return the seconds to wait before it."""
        rate = float(_destination(arn).invocation_rate_limit_per_second or 300)
        with self._lock:
            now = time.monotonic()
            at = max(now, self._free_at.get(arn, now))
            self._free_at[arn] = at + 1 / rate
        return at - now

    def call(self, arn: str, text: str) -> None:
        """Send the text to the endpoint of a destination. Errors: `CallError`."""
        destination = _destination(arn)
        local = self._here.get(destination.invocation_endpoint)
        if local is None:
            known = "no endpoint is registered here" if not self._here else f"only {', '.join(self._here)} is"
            raise CallError(f"{destination.invocation_endpoint} is not registered: {known}.", is_final=True)
        name, value = _header(destination.connection_arn)
        request = urllib.request.Request(  # noqa: S310 - register took http://127.0.0.1 only
            local,
            data=text.encode(),
            method=destination.http_method,
            headers={"Content-Type": "application/json; charset=utf-8", name: value},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            is_final = error.code < 500 and error.code not in _TRIED_AGAIN
            error.close()
            raise CallError(f"The endpoint answered {error.code}.", is_final=is_final) from error
        except OSError as error:
            raise CallError(f"The endpoint cannot be reached: {error}", is_final=False) from error


def _destination(arn: str) -> Any:
    place = parse_arn(arn)
    for destination in events_backends[place.account][place.region].destinations.values():
        if destination.arn == arn:
            return destination
    raise CallError(f"There is no API destination {arn}.", is_final=True)


def _header(connection_arn: str) -> tuple[str, str]:
    """From the secret that EventBridge keeps for the connection."""
    place = parse_arn(connection_arn)
    for connection in events_backends[place.account][place.region].connections.values():
        if connection.arn == connection_arn:
            backend = secretsmanager_backends[place.account][place.region]
            kept = json.loads(backend.get_secret_value(connection.secret_arn, "", "")["SecretString"])
            return kept["api_key_name"], kept["api_key_value"]
    raise CallError(f"There is no connection {connection_arn}.", is_final=True)
