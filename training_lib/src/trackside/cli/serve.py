"""`trackside serve`: the runs of a folder or a bucket in a browser."""

from __future__ import annotations

import sys

import click

from trackside.cli.terminal.options import shared_options

PORT = 8765


@click.command("serve")
@click.argument("where", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another name by which browsers call this server, such as that of a proxy before it.",
)
@click.option(
    "--token", envvar="TRACKSIDE_TOKEN", help="Secret in the address.  [default: TRACKSIDE_TOKEN, else a new one]"
)
@click.option("--issuer", metavar="URL", help="Sign-on before this server: the issuer of its tokens.")
@click.option("--client", metavar="ID", help="Name of this dashboard at the sign-on.")
@click.option("--keys", metavar="URL", help="The sign-on's public keys.  [default: ISSUER/.well-known/jwks.json]")
@shared_options
def command(
    *,
    where: str | None,
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    token: str | None,
    issuer: str | None,
    client: str | None,
    keys: str | None,
) -> None:
    """Show the runs of WHERE in a browser.

    WHERE is a folder that holds runs, or s3://bucket/prefix; without it, .trackside/runs. Pages follow runs that are
    training. Only this machine reaches the server, and only with the token in the address that is printed. Nothing is
    written, and no training is touched. Ctrl-C ends it.

    Behind a balancer or proxy that signs people in (OpenID Connect), --issuer and --client replace the token: each
    request needs a token of that issuer for that client, as `Authorization: Bearer` or in the header of AWS's
    load balancers.

    \b
    Example:
      trackside serve
      trackside serve s3://bucket/jobs --port 0
      trackside serve --issuer https://id.example.com --client runs
    """
    from trackside.cli.terminal.failure import write_lines
    from trackside.views.dashboard.server import is_loopback, run_server

    def visited(line: str) -> None:
        write_lines([line], sys.stderr)

    def started(address: str) -> None:
        write_lines([address], sys.stdout)
        if not is_loopback(host):
            write_lines(
                ["Warning: other machines reach this server, without encryption. Put a proxy with TLS before it."],
                sys.stderr,
            )

    sign_on = None
    if issuer or client or keys:
        from trackside.views.dashboard.sign_on import sign_on_of

        sign_on = sign_on_of(issuer, client, keys, visited=visited)
    run_server(where, host=host, port=port, allowed_hosts=allowed_hosts, token=token, sign_on=sign_on, started=started)
