"""The verdicts on a run in the formats of other tools, on stdout or in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.rows import SCHEMA_VERSION
from trackside.runs.run_document import run_document

if TYPE_CHECKING:
    from trackside.runs.recorded_run import RecordedRun

REPORTS = ("github", "sarif", "junit")
OF_FILE = {".json": "json", ".sarif": "sarif", ".xml": "junit"}


class ReportPath(click.ParamType):  # type: ignore[type-arg] # generic in click 8.5 and later only
    """A file for a report. Its ending names the format."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, in a folder that exists."""
        path = Path(str(value))
        if path.suffix not in OF_FILE:
            self.fail(f"{path.name!r} must end in {', '.join(OF_FILE)}, which names its format.", param, ctx)
        if not path.absolute().parent.is_dir():
            self.fail(f"There is no folder {path.absolute().parent}.", param, ctx)
        return path


def report_text(recorded: RecordedRun, output: str) -> str:
    """Return the report on a run.

    Args:
        recorded: The run with its verdicts.
        output: "json", "github", "sarif" or "junit".
    """
    if output == "json":
        return f"{json.dumps({'schema_version': SCHEMA_VERSION, **run_document(recorded)}, indent=2)}\n"
    from trackside.views.report.other_tools import text_for

    return text_for(recorded, output)


def write_report(recorded: RecordedRun, path: Path) -> None:
    """Write the report in the format that the file's ending names."""
    path.write_text(report_text(recorded, OF_FILE[path.suffix]), encoding="utf-8")
