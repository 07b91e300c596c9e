"""`trackside init`: files for coding agents in your repository."""

from __future__ import annotations

from pathlib import Path

import click

from trackside.cli.terminal.options import format_option, shared_options
from trackside.cli.terminal.rows import print_json


@click.command("init")
@click.option("--agents", is_flag=True, help="Write the skill and the section of AGENTS.md. Needed.")
@click.option(
    "--skills",
    metavar="FOLDER",
    default="",
    help="Folder of skills.  [default: .agents/skills, and .claude/skills where .claude exists]",
)
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@format_option("table", "json")
@shared_options
def command(*, agents: bool, skills: str, folder: Path | None, output: str) -> None:
    """Write files for coding agents into FOLDER.

    FOLDER is the top of your repository; without it, the working folder. A skill (SKILL.md) explains to an agent when
    to rehearse, how to start, wait, read a verdict, mend and prove it; a section of AGENTS.md points to it. Text of
    others stays, and so does what was changed by hand. A second call changes nothing.

    \b
    Example:
      trackside init --agents
      trackside init --agents ../project --skills skills
    """
    if not agents:
        raise click.UsageError("Name what to write: --agents.")
    from trackside.agents.user_repository import write_for_agents
    from trackside.cli.terminal.text import printable

    written = write_for_agents(folder or Path(), skills=skills)
    if output == "json":
        files = [{"path": each.path, "outcome": each.outcome.value, "reason": each.reason} for each in written]
        print_json({"files": files})
        return
    for each in written:
        reason = f" ({each.reason})" if each.reason else ""
        click.echo(printable(f"{each.path}: {each.outcome.value}{reason}"))
