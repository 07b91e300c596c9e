"""`trackside watch`: a live view of a run in the terminal, here or in S3."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.options import shared_options, wants_color
from trackside.cli.terminal.reading import open_run

if TYPE_CHECKING:
    from trackside.runs.live_run import LiveRun

LOCAL_SECONDS, REMOTE_SECONDS = 1.0, 5.0


@click.command("watch")
@click.argument("run", default="latest")
@click.option("--once", is_flag=True, help="Print one frame and end, as in a pipe.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help=f"Time between two looks.  [default: {LOCAL_SECONDS:g}, in S3 {REMOTE_SECONDS:g}]",
)
@shared_options
def command(*, run: str, once: bool, interval: float | None) -> None:
    """Show RUN while it trains: loss, gradients, findings.

    RUN is named as for `trackside tensors`; without it, the latest run. The view updates in place until the run has
    ended, its last frame stays on the screen, and the exit code is 0. The key q leaves earlier with 0, Ctrl-C with
    130. Nothing is written, and the training does not notice.

    \b
    Example:
      trackside watch
      trackside watch s3://bucket/digits-7 --interval 10
      trackside watch latest --once
    """
    from trackside.runs.live_run import LiveRunReader

    trial = open_run(run)
    reader = LiveRunReader(trial, clock=time.time)
    seen = reader.look()
    is_live = not once and sys.stdout.isatty() and sys.stdin.isatty() and seen.is_open
    if is_live:
        pause = interval or (REMOTE_SECONDS if "://" in trial.uri else LOCAL_SECONDS)
        seen = _follow(reader.look, seen, pause=pause)
    _print(seen)


def _follow(look: Callable[[], LiveRun], seen: LiveRun, *, pause: float) -> LiveRun:
    """Show the run until it has ended or a key leaves. Return the last state."""
    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.views.frame import HINT_LINES, frame
    from trackside.cli.terminal.views.live_screen import LiveScreen
    from trackside.contracts.errors import StorageUnavailableError

    console = data_console(color=wants_color())
    with LiveScreen(console) as screen:
        trouble = ""
        while seen.is_open:
            width, height = screen.size()
            screen.show(frame(console, seen, width=width, height=height - HINT_LINES, trouble=trouble, is_live=True))
            if screen.left_within(pause):
                break
            try:
                seen, trouble = look(), ""
            except StorageUnavailableError as error:  # an outage passes; the view stays
                trouble = str(error).partition("\n")[0]
    return seen


def _print(seen: LiveRun) -> None:
    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.views.frame import HEIGHT, frame

    console = data_console(color=wants_color())
    for line in frame(console, seen, width=console.width, height=HEIGHT, trouble="", is_live=False):
        console.print(line, soft_wrap=True)
