"""Permission: a request needs the token, a name of this server, and no page of another server behind it."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

IN_ADDRESS = "token"  # name of the secret in an address
MOST_ADDRESS = 8192  # characters

_STRANGER = (
    "This dashboard opens with its token only. Open the address that `trackside serve` printed, or send the token as "
    "`Authorization: Bearer TOKEN`.\n"
)


class Guard:
    """An ASGI application around another one, which it calls for permitted requests only.

    Args:
        app: The application.
        token: The secret of this server.
        hosts: The values of `Host` that are names of this server: any other is a page elsewhere whose name was made to
            lead here.
        cookie: Name of the cookie that keeps the token.
        headers: Headers of each answer.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Collection[str], cookie: str, headers: dict[str, str]
    ) -> None:
        self._app, self._token, self._hosts = app, token, frozenset(hosts)
        self._cookie, self._headers = cookie, headers

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

        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not permitted; None for one that is."""
        headers = Headers(scope=scope)
        wrong = self._wrong(scope, headers)
        if wrong is not None:
            return PlainTextResponse(wrong[1], wrong[0])
        if self._is_right(headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key == IN_ADDRESS and self._is_right(value) for key, value in query):
            return self._entered(scope, [pair for pair in query if pair[0] != IN_ADDRESS])
        return None if self._is_right(_cookies(headers).get(self._cookie, "")) else PlainTextResponse(_STRANGER, 401)

    def _wrong(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Return status and text for a request that nobody may make; None for another one."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return 421, f"This server is not called {host!r}; see --allow-host.\n"
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "Pages of other servers may not ask this one.\n"
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "Nothing can be changed here.\n"
        if len(scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            return 414, "The address is too long.\n"
        return None

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
