"""Permission: a request needs a proof, a name of this server, and no page of another server behind it."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

IN_ADDRESS = "token"  # name of the secret in an address
MOST_ADDRESS = 8192  # characters
UNTIL = "trackside.until"  # name in the scope of a request: the moment at which its proof ends, in seconds since 1970

_STRANGER = (
    "This dashboard opens with its token only. Open the address that `trackside serve` printed, or send the token as "
    "`Authorization: Bearer TOKEN`.\n"
)


class Proof(Protocol):
    """A check of who sends a request."""

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request without proof; None for one that has it. May wait for a network."""


class Guard:
    """An ASGI application around another one, which it calls for permitted requests only.

    Args:
        app: The application.
        proof: The check of who sends a request.
        hosts: The values of `Host` that are names of this server: any other is a page elsewhere whose name was made to
            lead here.
        headers: Headers of each answer.
    """

    def __init__(self, app: ASGIApp, *, proof: Proof, hosts: Collection[str], headers: dict[str, str]) -> None:
        self._app, self._proof, self._hosts = app, proof, frozenset(hosts)
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in self._headers.items()]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        headers = Headers(scope=scope)
        refused = self._wrong(scope, headers) or await run_in_threadpool(self._proof.refused, scope, headers)
        await (refused or self._app)(scope, receive, send_with_headers)

    def _wrong(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that nobody may make; None for another one."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return PlainTextResponse(f"This server is not called {host!r}; see --allow-host.\n", 421)
        if origin is not None and urlsplit(origin).netloc != host:
            return PlainTextResponse("Pages of other servers may not ask this one.\n", 403)
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("Nothing can be changed here.\n", 405)
        if len(scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            return PlainTextResponse("The address is too long.\n", 414)
        return None


class Token:
    """The proof of `trackside serve` at a desk: one secret, in the address first, then in a cookie.

    Args:
        token: The secret of this server.
        cookie: Name of the cookie that keeps it.
    """

    def __init__(self, token: str, *, cookie: str) -> None:
        self._token, self._cookie = token, cookie

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request without the token; None for one that has it."""
        if self._is_right(headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key == IN_ADDRESS and self._is_right(value) for key, value in query):
            return self._entered(scope, [pair for pair in query if pair[0] != IN_ADDRESS])
        return None if self._is_right(_cookies(headers).get(self._cookie, "")) else PlainTextResponse(_STRANGER, 401)

    def _entered(self, scope: Scope, rest: list[tuple[str, str]]) -> Response:
        """Return an answer that puts the token into a cookie, and out of the address and the history."""
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/")  # `//host` would lead elsewhere
        answer = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return answer

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _cookies(headers: Headers) -> dict[str, str]:
    parts = (part.partition("=") for part in headers.get("cookie", "").split(";"))
    return {name.strip(): value.strip() for name, _, value in parts}
