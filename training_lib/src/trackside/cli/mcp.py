"""`trackside mcp`: a server by which coding agents read runs."""

from __future__ import annotations

import sys

import click

from trackside.cli.terminal.options import shared_options


@click.command("mcp")
@click.argument("where", required=False)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve streamable HTTP on this machine in place of standard input and output; 0: any free port.",
)
@click.option("--allow-actions", is_flag=True, help="Let agents start rehearsals and stop runs.")
@click.option(
    "--token", envvar="TRACKSIDE_TOKEN", help="Secret of each HTTP request.  [default: TRACKSIDE_TOKEN, else a new one]"
)
@shared_options
def command(*, where: str | None, port: int | None, allow_actions: bool, token: str | None) -> None:
    """Serve runs to coding agents by the Model Context Protocol.

    WHERE is a folder that holds runs, or s3://bucket/prefix; without it, .trackside/runs. Agents list runs, read
    verdicts, findings and values, wait for news, compare runs, and read the manuals of rules. Nothing is written and no
    training is touched, unless --allow-actions is given. A client starts this command and talks to it over standard
    input and output; with --http it listens on the loopback, and each request needs the token that is printed.

    \b
    Example:
      trackside mcp
      trackside mcp runs --allow-actions
      trackside mcp --http 8766
    """
    from importlib.util import find_spec

    from trackside.extras import missing_extra

    if find_spec("mcp") is None:
        raise missing_extra("mcp")
    from trackside.agents.serving import serve_http, serve_stdio
    from trackside.cli.terminal.failure import write_lines

    if port is None:
        serve_stdio(where, allow_actions=allow_actions)
        return

    def started(address: str, secret: str) -> None:
        write_lines([address, f"Authorization: Bearer {secret}"], sys.stdout)

    serve_http(where, port=port, token=token, allow_actions=allow_actions, started=started)
