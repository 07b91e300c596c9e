"""Permission by a sign-on before the server: each request carries a token that the sign-on has signed.

The balancer or proxy signs people in; this server checks the signature of each token itself, so a balancer that lets
strangers through opens nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import jwt
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.views.dashboard.access import UNTIL

# https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
BALANCER_HEADER = "x-amzn-oidc-accesstoken"
ALGORITHMS = ("RS256", "ES256")  # of private keys alone: with a shared secret, whoever checks could sign
LEEWAY_SECONDS = 30
KEYS_SECONDS = 3600.0  # age from which on keys are read again
PAUSE_SECONDS = 10.0  # between two readings, so that tokens with invented keys cause no flood
FETCH_SECONDS = 5

_STRANGER = "This dashboard is for people who are signed in. Open it by its own address.\n"
_WITHOUT_KEYS = "The keys of the sign-on cannot be read now. Try again in a minute.\n"


class SignOn:
    """The proof of a server behind a sign-on (OpenID Connect).

    Args:
        issuer: The issuer of its tokens, as their claim `iss` has it.
        client: The name of this dashboard at the sign-on: the claim `client_id`, or one of `aud`.
        keys: Address of its public keys, a JSON Web Key Set.
        visited: Called with a line for each request: who, and what. For the log.
        clock: Returns seconds that only grow.
    """

    def __init__(
        self,
        issuer: str,
        client: str,
        *,
        keys: str,
        visited: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._client, self._visited = issuer, client, visited
        self._keys = _Keys(keys, clock=clock)

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request without a valid token; None for one that has it."""
        token = headers.get(BALANCER_HEADER) or headers.get("authorization", "").removeprefix("Bearer ")
        try:
            claims = self._claims(token)
        except jwt.PyJWKClientError as error:
            self._visited(f"refused 503: {error}")
            return PlainTextResponse(_WITHOUT_KEYS, 503)
        except jwt.PyJWTError as error:
            self._visited(f"refused 401: {_one_line(str(error))}")
            return PlainTextResponse(_STRANGER, 401)
        scope[UNTIL] = float(claims["exp"])
        self._visited(f"{_one_line(str(claims['sub']))} {scope['method']} {_one_line(scope['path'])}")
        return None

    def _claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a valid token. Errors: `jwt.PyJWTError`."""
        key = self._keys.find(str(jwt.get_unverified_header(token).get("kid", "")))
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            issuer=self._issuer,
            leeway=LEEWAY_SECONDS,
            # The audience is checked below: tokens of Cognito name it `client_id`.
            options={"require": ["exp", "iss", "sub"], "verify_aud": False},
        )
        audience = claims.get("aud", ())
        if self._client not in (claims.get("client_id"), *([audience] if isinstance(audience, str) else audience)):
            raise jwt.InvalidAudienceError("The token is for another client.")
        if claims.get("token_use", "access") != "access":
            raise jwt.InvalidTokenError("The token is no access token.")
        return claims


class _Keys:
    """The public keys of a sign-on, read when one is unknown or they are old. Safe for several threads."""

    def __init__(self, address: str, *, clock: Callable[[], float]) -> None:
        self._client = jwt.PyJWKClient(address, cache_jwk_set=False, timeout=FETCH_SECONDS)
        self._clock, self._lock = clock, threading.Lock()
        self._known: Mapping[str, jwt.PyJWK] = {}
        self._read_at = self._tried_at = -1e9

    def find(self, name: str) -> jwt.PyJWK:
        """Return a key. Errors: `InvalidTokenError` for an unknown one, `PyJWKClientError` without an answer."""
        with self._lock:
            now = self._clock()
            is_old = name not in self._known or now - self._read_at >= KEYS_SECONDS
            if is_old and now - self._tried_at >= PAUSE_SECONDS:
                self._tried_at = now
                self._known = {str(key.key_id): key for key in self._client.get_jwk_set(refresh=True).keys}
                self._read_at = now
            if name not in self._known:
                raise jwt.InvalidTokenError("The token is signed by an unknown key.")
            return self._known[name]


def sign_on_of(issuer: str | None, client: str | None, keys: str | None, *, visited: Callable[[str], None]) -> SignOn:
    """Return the sign-on that options name: at least one is set.

    Raises:
        ConfigurationError: One option lacks another, or an address is without encryption.
    """
    problems = [
        Problem(option, "is needed for a sign-on.", "Name --issuer and --client.")
        for option, value in (("--issuer", issuer), ("--client", client))
        if not value
    ]
    address = keys or f"{issuer}/.well-known/jwks.json"
    place = urlsplit(address)
    if issuer and place.scheme != "https" and place.hostname not in ("127.0.0.1", "localhost"):
        problems.append(Problem("--keys" if keys else "--issuer", f"is {address!r}: keys need HTTPS."))
    if problems or not issuer or not client:
        raise ConfigurationError(problems, subject="The command line")
    return SignOn(issuer, client, keys=address, visited=visited)


def _one_line(text: str) -> str:
    """Return a text of a stranger for the log: printable, one line, and short."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:200]
