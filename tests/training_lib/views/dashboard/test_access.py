"""Who gets an answer: asked of a server that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.training_lib.views.dashboard.served import TOKEN, Served

ADDRESSES = (
    "/",
    "/runs/right",
    "/runs/right/tensors",
    "/runs/right/events",
    "/compare",
    "/style.css",
    "/script.js",
    "/x",
)


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_nothing_is_shown_without_the_token(server: Served, path: str, token: str | None) -> None:
    answer = server.ask(path, token=token)
    assert answer.status == 401
    assert "right" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="itself"),
        pytest.param({"Host": "localhost:{port}"}, 200, id="its-name"),
        pytest.param({"Host": "evil.example"}, 421, id="another-name-that-leads-here"),
        pytest.param({"Host": "127.0.0.1"}, 421, id="without-the-port"),
        pytest.param({"Host": "127.0.0.1:{port}.evil.example"}, 421, id="a-longer-name"),
        pytest.param({"Origin": "http://127.0.0.1:{port}"}, 200, id="its-own-page"),
        pytest.param({"Origin": "http://evil.example"}, 403, id="a-page-elsewhere"),
        pytest.param({"Origin": "http://127.0.0.1:1"}, 403, id="another-server-of-this-machine"),
        pytest.param({"Origin": "null"}, 403, id="a-page-without-a-place"),
    ],
)
def test_only_its_own_pages_may_ask(server: Served, headers: dict[str, str], status: int) -> None:
    port = server.host.rpartition(":")[2]
    asked = {name: value.replace("{port}", port) for name, value in headers.items()}
    assert server.ask("/", headers=asked).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(server: Served, method: str) -> None:
    assert server.ask("/runs/right", method=method).status == 405


def test_the_address_becomes_a_cookie_and_loses_the_token(server: Served) -> None:
    assert server.printed == f"{server.address}/?token={TOKEN}"
    entered = server.ask(f"//evil.example/?q=a%20b&token={TOKEN}", token=None)
    assert (entered.status, entered.headers["Location"]) == (303, "/evil.example/?q=a+b")
    cookie = entered.headers["Set-Cookie"]
    assert {part.strip() for part in cookie.split(";")} >= {"HttpOnly", "SameSite=strict", "Path=/"}
    assert server.ask("/", token=None, headers={"Cookie": cookie.partition(";")[0]}).status == 200
    assert server.ask("/", token=None, headers={"Cookie": cookie.partition("=")[0] + "=x"}).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2F..%2Fsecret.txt", "/runs/../../secret.txt", "/runs/%2e%2e", "/runs/.", "/runs/", "/runs/%00",
        "/runs/right%2F..%2F..%2F..", "/runs/right/../../secret.txt", "/secret.txt", "/../secret.txt",
        "/runs/right/tensor?name=../../secret.txt", "/runs/right/tensor?name=", "/runs/right/nothing",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(server: Served, folder: Path, path: str) -> None:
    answer = server.ask(path)
    assert answer.status == 404
    assert "secret of the machine" not in answer.text
    assert str(folder) not in answer.text


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_forbids_what_it_does_not_need(server: Served, path: str) -> None:
    with_headers = server.ask(path, method="HEAD") if path.endswith("events") else server.ask(path)
    policy = with_headers.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"https?:|\*", policy)
    assert with_headers.headers["X-Content-Type-Options"] == "nosniff"
    assert with_headers.headers["Cache-Control"] == "no-store"
    assert with_headers.headers["Server"] is None


def test_an_address_without_end_is_refused(server: Served) -> None:
    assert server.ask(f"/?q={'x' * 9000}").status == 414
