"""The server as a program: over standard input and output, and over HTTP with a token."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.for_each import for_each
from tests.patience import HANGS_SECONDS
from tests.training_lib.agents.asked import run
from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.environment import inherited

PROGRAM = (sys.executable, "-m", "trackside", "mcp")
TOKEN = "a-secret-of-this-test"
ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    run(place, "bad", issue())
    return place


@contextmanager
def served(where: Path, *options: str) -> Iterator[str]:
    """Serve over HTTP in a process of its own. Yield the address."""
    words = [*PROGRAM, str(where), "--http", "0", "--token", TOKEN, *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=dict(inherited())) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", address), address
            assert process.stdout.readline() == f"Authorization: Bearer {TOKEN}\n"
            yield address
        finally:
            process.terminate()
            process.wait(HANGS_SECONDS)


def test_over_standard_input_and_output(where: Path) -> None:
    async def talk(*options: str) -> tuple[int, str]:
        parameters = StdioServerParameters(
            command=PROGRAM[0], args=[*PROGRAM[1:], str(where), *options], env=dict(inherited())
        )
        async with Client(stdio_client(parameters)) as client:
            tools = (await client.list_tools()).tools
            result = await client.call_tool("read_verdict", {"run": "bad"})
            assert result.structured_content is not None
            return len(tools), result.structured_content["worst"]

    assert anyio.run(talk) == (13, "critical")
    assert anyio.run(talk, "--allow-actions") == (16, "critical")


def test_over_http_with_the_token_only(where: Path) -> None:
    async def talk(address: str) -> str:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            result = await client.call_tool("read_verdict", {"run": "bad"})
            assert result.structured_content is not None
            return str(result.structured_content["worst"])

    with served(where) as address, httpx2.Client() as http:
        assert anyio.run(talk, address) == "critical"
        right = {"Authorization": f"Bearer {TOKEN}"}
        refused = {
            "no token": ({}, 401),
            "another token": ({"Authorization": "Bearer other"}, 401),
            "the token alone": ({"Authorization": TOKEN}, 401),
            "a name that leads here": ({**right, "Host": "evil.example"}, 421),
            "a page of another server": ({**right, "Origin": "https://evil.example"}, 403),
        }

        @for_each(refused)
        def check(headers: dict[str, str], status: int) -> None:
            assert http.post(address, json=ASK, headers={**ACCEPT, **headers}).status_code == status

        check()


def test_a_port_that_is_taken_is_named(where: Path) -> None:
    with served(where) as address:
        port = address.split(":")[2].partition("/")[0]
        result = CliRunner().invoke(main, ["mcp", str(where), "--http", port])
    assert result.exit_code == 2
    assert f"127.0.0.1:{port} cannot be listened at" in result.stderr


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for options in ([], ["--http", "0"]):
        result = CliRunner().invoke(main, ["mcp", str(tmp_path / "nowhere"), *options])
        assert result.exit_code == 3
        assert "There is no folder" in result.stderr
