"""Runs for agents, and calls by the official client, in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import jsonschema
from mcp.client import Client
from mcp.types import CallToolResult

from tests.training_lib.local.verdicts import no_issue
from tests.training_lib.views.dashboard.runs import write_run
from trackside.agents.paging import MOST_CHARACTERS
from trackside.agents.runs import Runs
from trackside.agents.server import build_server
from trackside.contracts.verdict import Verdict
from trackside.runs.run_folder import RunRecord, write_record

T = TypeVar("T")


def run(where: Path, name: str, *verdicts: Verdict, started_at: float = 1.0, **more: Any) -> Path:
    """A run that has ended, with these verdicts."""
    folder = where / name
    write_run(folder, verdicts=verdicts or (no_issue("vanishing-gradient"),), **more)
    write_record(folder, RunRecord(("python", "train.py"), started_at, started_at + 1, 0))
    return folder


def runs_of(where: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Runs:
    return Runs(str(where), monotonic=monotonic)


def with_client(runs: Runs, talk: Callable[[Client], Awaitable[T]], **actions: Any) -> T:
    async def main() -> T:
        async with Client(build_server(runs, actions.get("actions"))) as client:
            return await talk(client)

    return anyio.run(main)


def call(where: Path | Runs, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured answer of a tool. It has its schema, its text is the same, and it is bounded."""
    runs = where if isinstance(where, Runs) else runs_of(where)

    async def talk(client: Client) -> dict[str, Any]:
        schemas = {each.name: each.output_schema for each in (await client.list_tools()).tools}
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        answer = result.structured_content
        assert isinstance(answer, dict)
        schema = schemas[tool]
        assert schema is not None
        jsonschema.validate(answer, schema)
        assert json.loads(text_of(result)) == answer
        assert len(text_of(result)) <= MOST_CHARACTERS, tool
        return answer

    return with_client(runs, talk)


def refused(where: Path | Runs, tool: str, **arguments: Any) -> str:
    """Return the error of a tool."""
    runs = where if isinstance(where, Runs) else runs_of(where)

    async def talk(client: Client) -> str:
        result = await client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    return with_client(runs, talk)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text
