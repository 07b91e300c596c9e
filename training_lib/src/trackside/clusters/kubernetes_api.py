"""Requests to the API server of Kubernetes from within a pod, by the standard library: four verbs need no client.

The official client would bring eight packages into images of trainings, for a read, an event and two patches.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from trackside.local.jobs.scheduler import MOST_TEXT, JobError

REQUEST_SECONDS = 5.0
TRIES = 3
PAUSE_SECONDS = 1.0  # before the second try, and twice as much before the third
MOST_BYTES = 4 << 20  # above what etcd stores of one object
_AGAIN = frozenset({409, 429, 500, 502, 503, 504})
_FORBIDDEN = frozenset({401, 403})
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class ClusterApi:
    """An API server, and the service account of this pod.

    address          https://HOST:PORT
    service_account  folder of `token`, `ca.crt` and `namespace`; the token is read for each request, since it changes
    sleep            waits between two tries
    tries            how often a request is tried that may succeed later
    """

    address: str
    service_account: Path
    sleep: Callable[[float], object] = time.sleep
    tries: int = TRIES

    def get(self, path: str) -> dict[str, Any]:
        """Return an object. Errors: `JobError`."""
        return self._request("GET", path)

    def create(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in a collection. Errors: `JobError`."""
        return self._request("POST", path, document)

    def patch(self, path: str, document: Mapping[str, Any], kind: str = MERGE_PATCH) -> dict[str, Any]:
        """Change some fields of an object. Errors: `JobError`."""
        return self._request("PATCH", path, document, kind)

    def _request(
        self, verb: str, path: str, document: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        for attempt in range(1, self.tries + 1):
            try:
                return self._send(verb, path, document, kind)
            except urllib.error.HTTPError as error:
                if error.code not in _AGAIN or attempt == self.tries:
                    is_forbidden = error.code in _FORBIDDEN
                    text = f"Kubernetes refused {verb} {path}: {_reason(error)}"
                    raise JobError(text, is_forbidden=is_forbidden) from error
            except (OSError, ValueError, HTTPException) as error:
                if attempt == self.tries:
                    raise JobError(f"Kubernetes does not answer {verb} {path}: {error}") from error
            self.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable")

    def _send(self, verb: str, path: str, document: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
        token = (self.service_account / "token").read_text(encoding="utf-8").strip()
        request = urllib.request.Request(  # noqa: S310 - the scheme is https
            f"{self.address}{path}",
            method=verb,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"},
        )
        trusted = ssl.create_default_context(cafile=str(self.service_account / "ca.crt"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # the address is the cluster's own
            urllib.request.HTTPSHandler(context=trusted),
        )
        with opener.open(request, timeout=REQUEST_SECONDS) as answer:
            found = json.loads(answer.read(MOST_BYTES))
        if not isinstance(found, dict):
            raise ValueError("the answer is no object")
        return found


def _reason(error: urllib.error.HTTPError) -> str:
    """Return the server's own words, from its `Status` if it sent one."""
    try:
        status = json.loads(error.read(MOST_BYTES))
        message = str(status["message"])
    except (OSError, ValueError, TypeError, KeyError):
        message = str(error.reason)
    return f"{message[:MOST_TEXT]} ({error.code})"
