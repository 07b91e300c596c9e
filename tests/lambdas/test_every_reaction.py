"""What all functions say of themselves: walks every one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LAMBDAS = Path(__file__).parents[2] / "lambdas"
REACTIONS = sorted(path.parent.name for path in LAMBDAS.glob("*/handler.py"))
LogLines = Callable[[], list[dict[str, Any]]]
Deliver = Callable[..., list[str]]


@pytest.mark.parametrize("reaction", REACTIONS)
def test_every_line_of_every_function_bears_the_runs_name(
    reaction: str, deliver: Deliver, log_lines: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its settings a function fails at once, which is a line like any other; one that needs none answers."""
    for name in ("TRACKSIDE_RUN_TABLE", "TRACKSIDE_IDEMPOTENCY_TABLE"):
        monkeypatch.delenv(name, raising=False)
    handle = importlib.import_module(f"lambdas.{reaction}.handler").handle
    event = {"id": "e1", "detail": {"TrainingJobName": "digits-01"}}
    assert deliver(handle, event, "not json") == ["message-0", "message-1"]
    lines = [line for line in log_lines() if "message" in line]
    assert {(line["correlation_id"], line["event_id"]) for line in lines} == {
        ("digits-01", "e1"),
        ("message-1", "message-1"),
    }
    assert len(lines) == 2
