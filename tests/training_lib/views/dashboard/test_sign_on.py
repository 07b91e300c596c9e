"""Who gets an answer behind a sign-on: asked of a running server, with tokens of Cognito (moto) and of our own key."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.people import create_client, sign_in
from tests.training_lib.views.dashboard.served import TOKEN, Answer, Served, served
from tests.training_lib.views.dashboard.test_access import ADDRESSES
from trackside.views.dashboard.sign_on import BALANCER_HEADER
from trackside_localaccount import LocalAccount

CLIENT, KEY_NAME = "runs", "our-key"


def ask(server: Served, token: str | None, *, path: str = "/", header: str = BALANCER_HEADER) -> Answer:
    if token is None:
        return server.ask(path, token=None)
    return server.ask(path, token=None, headers={header: token if header == BALANCER_HEADER else f"Bearer {token}"})


@pytest.fixture(scope="module")
def account() -> Iterator[LocalAccount]:
    with LocalAccount() as account:
        yield account


@pytest.fixture(scope="module")
def pool(account: LocalAccount) -> str:
    return str(account.client("cognito-idp").create_user_pool(PoolName="people")["UserPool"]["Id"])


@pytest.fixture(scope="module")
def client(account: LocalAccount, pool: str) -> str:
    return create_client(account, pool)


@pytest.fixture(scope="module")
def server(account: LocalAccount, pool: str, client: str, folder: Path) -> Iterator[Served]:
    issuer = f"https://cognito-idp.us-east-1.amazonaws.com/{pool}"
    keys = f"{account.environment()['AWS_ENDPOINT_URL']}/{pool}/.well-known/jwks.json"
    with served(folder, "--issuer", issuer, "--client", client, "--keys", keys) as running:
        yield running


@pytest.mark.parametrize("header", [BALANCER_HEADER, "Authorization"])
def test_somebody_of_the_pool_gets_in(
    account: LocalAccount, pool: str, client: str, server: Served, header: str
) -> None:
    tokens = sign_in(account, pool, client)
    answer = ask(server, tokens["AccessToken"], header=header)
    assert answer.status == 200
    assert "faulty" in answer.text
    assert ask(server, tokens["AccessToken"], path="/runs/right", header=header).status == 200


@pytest.mark.parametrize("path", ADDRESSES)
def test_strangers_see_nothing(server: Served, path: str) -> None:
    for token in (None, "", "x", "a.b.c", TOKEN):
        answer = ask(server, token, path=path)
        assert answer.status == 401
        assert "right" not in answer.text
    assert server.ask(f"{path}?token={TOKEN}", token=TOKEN).status == 401, "the secret of a desk opens nothing"


def test_tokens_for_others_are_refused(account: LocalAccount, pool: str, client: str, server: Served) -> None:
    other_pool = str(account.client("cognito-idp").create_user_pool(PoolName="others")["UserPool"]["Id"])
    for token in (
        sign_in(account, other_pool, create_client(account, other_pool))["AccessToken"],  # the same key: moto has one
        sign_in(account, pool, create_client(account, pool))["AccessToken"],
        sign_in(account, pool, client)["IdToken"],
    ):
        assert ask(server, token).status == 401


def test_a_changed_token_is_refused(account: LocalAccount, pool: str, client: str, server: Served) -> None:
    head, body, signature = sign_in(account, pool, client)["AccessToken"].split(".")
    claims = jwt.decode(f"{head}.{body}.{signature}", options={"verify_signature": False})
    changed = jwt.encode({**claims, "sub": "somebody-else"}, "x" * 64, algorithm="HS256").split(".")[1]
    for token in (f"{head}.{changed}.{signature}", f"{head}.{body}.{signature[:-4]}AAAA", f"{head}.{body}."):
        assert ask(server, token).status == 401


@dataclass
class Issuer:
    """An issuer of our own, for tokens that no sign-on would give out. `is_away`: it answers with an error."""

    address: str
    key: rsa.RSAPrivateKey
    is_away: bool = False
    answers: int = 0

    def token(self, *, key_name: str = KEY_NAME, without: str = "", **changes: Any) -> str:
        claims = {"iss": self.address, "sub": "ada", "client_id": CLIENT, "exp": time.time() + 600, **changes}
        claims.pop(without, None)
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": key_name})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    key = rsa.generate_private_key(65537, 2048)
    public = {**jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": KEY_NAME, "alg": "RS256"}

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answers += 1
            self.send_response(500 if made.is_away else 200)
            self.end_headers()
            if not made.is_away:
                self.wfile.write(json.dumps({"keys": [public]}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keys) as http:
        made = Issuer(f"http://127.0.0.1:{http.server_address[1]}", key)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield made
        http.shutdown()


@pytest.fixture(scope="module")
def behind(issuer: Issuer, folder: Path) -> Iterator[Served]:
    with served(folder, "--issuer", issuer.address, "--client", CLIENT) as running:
        yield running


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param({}, 200, id="right"),
        pytest.param({"client_id": None, "aud": CLIENT}, 200, id="audience"),
        pytest.param({"without": "client_id", "aud": ["x", CLIENT]}, 200, id="one-of-the-audiences"),
        pytest.param({"token_use": "access"}, 200, id="an-access-token"),
        pytest.param({"nbf": 0, "iat": 0}, 200, id="older"),
        pytest.param({"exp": 1_000_000_000}, 401, id="ended"),
        pytest.param({"without": "exp"}, 401, id="without-an-end"),
        pytest.param({"without": "iss"}, 401, id="without-an-issuer"),
        pytest.param({"iss": "http://127.0.0.1"}, 401, id="another-issuer"),
        pytest.param({"without": "sub"}, 401, id="of-nobody"),
        pytest.param({"without": "client_id"}, 401, id="for-nobody"),
        pytest.param({"client_id": "run"}, 401, id="for-another-client"),
        pytest.param({"client_id": None, "aud": f"{CLIENT}s"}, 401, id="for-a-longer-name"),
        pytest.param({"token_use": "id"}, 401, id="an-identity-token"),
        pytest.param({"nbf": 1e11}, 401, id="not-yet"),
        pytest.param({"key_name": "../../etc"}, 401, id="by-an-unknown-key"),
    ],
)
def test_a_token_must_be_of_this_issuer_for_this_client(
    behind: Served, issuer: Issuer, changes: dict[str, Any], status: int
) -> None:
    assert ask(behind, issuer.token(**changes)).status == status


def test_a_token_must_be_signed_by_the_issuers_private_key(behind: Served, issuer: Issuer) -> None:
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    head, body, _ = jwt.encode(claims, "", algorithm="none", headers={"kid": KEY_NAME}).split(".")
    other = rsa.generate_private_key(65537, 2048)
    # The public key as a shared secret: whoever reads the keys could sign. PyJWT refuses to make such a token.
    pem = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signer = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    confused = jwt.encode(claims, "x" * 64, algorithm="HS256", headers={"kid": KEY_NAME}).rpartition(".")[0]
    signature = jwt.utils.base64url_encode(signer.sign(confused.encode(), pem)).decode()
    for token in (
        f"{head}.{body}.",
        jwt.encode(claims, other, algorithm="RS256", headers={"kid": KEY_NAME}),
        f"{confused}.{signature}",
    ):
        assert ask(behind, token).status == 401


def test_invented_keys_cause_no_flood(behind: Served, issuer: Issuer) -> None:
    before = issuer.answers
    for number in range(20):
        assert ask(behind, issuer.token(key_name=f"key-{number}")).status == 401
    assert issuer.answers - before <= 2


def test_a_stream_ends_with_its_token(behind: Served, issuer: Issuer) -> None:
    headers = {BALANCER_HEADER: issuer.token(exp=time.time() + 2)}
    began = time.monotonic()
    with behind.open("/runs/right/events", token=None, headers=headers) as stream:
        assert b"changed" in stream.read()  # through its end
    assert 1 < time.monotonic() - began < HANGS_SECONDS


def test_without_keys_nobody_gets_in_until_they_are_back(folder: Path, issuer: Issuer) -> None:
    issuer.is_away = True
    try:
        with served(folder, "--issuer", issuer.address, "--client", CLIENT) as running:
            assert ask(running, issuer.token()).status == 503
            assert ask(running, None).status == 401
    finally:
        issuer.is_away = False


def test_the_log_names_visitors_and_no_token(folder: Path, issuer: Issuer) -> None:
    token = issuer.token(sub="ada\nroot GET /forged")
    with served(folder, "--issuer", issuer.address, "--client", CLIENT) as running:
        ask(running, token, path="/runs/right")
        ask(running, "a.b.c")
        running.process.terminate()
        assert running.process.stderr is not None
        log = running.process.stderr.read()
    assert "ada?root GET /forged GET /runs/right\n" in log
    assert "refused 401: " in log
    assert token not in log


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--issuer", "https://id.example.com"], "--client", id="without-a-client"),
        pytest.param(["--client", "runs"], "--issuer", id="without-an-issuer"),
        pytest.param(["--issuer", "http://id.example.com", "--client", "x"], "HTTPS", id="without-encryption"),
        pytest.param(
            ["--issuer", "https://id.example.com", "--client", "x", "--keys", "file:///etc/passwd"],
            "HTTPS",
            id="a-file",
        ),
    ],
)
def test_half_a_sign_on_is_refused(folder: Path, arguments: list[str], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem), served(folder, *arguments):
        pass
