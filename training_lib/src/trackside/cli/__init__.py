"""`trackside`: one file per command, loaded on use.

stdout carries data, stderr progress and errors. Exit codes: 0 fine, 1 findings at the threshold (or a run that was
stopped), 2 usage or configuration, 3 not found or unreadable, 4 remote, 5 a rule crashed, 70 a mistake of ours,
130 interrupted; `trackside run` passes the training's own code through.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from trackside import __version__
from trackside.cli.terminal.failure import INTERRUPTED, READER_GONE, exit_code_of, explain
from trackside.cli.terminal.options import is_verbose, shared_options
from trackside.cli.terminal.usage import shown_as_ours
from trackside.contracts.errors import did_you_mean
from trackside.extras import extra_of, missing_extra

# In the order in which a user meets them.
COMMANDS = (
    "run",
    "check",
    "judge",
    "watch",
    "wait",
    "stop",
    "findings",
    "report",
    "query",
    "serve",
    "mcp",
    "profile",
    "compare",
    "runs",
    "tensors",
    "stats",
    "values",
    "export",
    "import",
    "rules",
    "aws",
    "drill",
    "config",
    "init",
    "rm",
    "prune",
    "doctor",
)


class _Commands(click.Group):
    """Finds commands by file name, and turns every error into three lines and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"trackside.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(f"There is no command {args[0]!r}. {did_you_mean(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with shown_as_ours():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with shown_as_ours():
                result = super().invoke(ctx)
            _flush_stdout()
        except (click.exceptions.Exit, click.ClickException):
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(READER_GONE)
        except Exception as error:  # noqa: BLE001 - the last catcher: a user gets a sentence, not a traceback
            shown = _as_missing_extra(error)
            explain(shown, verbose=is_verbose(ctx), where=sys.stderr)
            ctx.exit(exit_code_of(shown))
        return result


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", message="trackside %(version)s")
@shared_options
def main() -> None:
    """Judge training runs while they run.

    Rules name what is wrong, where, and since when; the run can be stopped at once.

    \b
    Example:
      trackside run --on-issue stop -- python train.py
      trackside findings latest

    Exit codes: 0 fine; 1 findings; 2 usage; 3 not found; 4 remote; 5 a rule crashed; 70 our mistake; 130 interrupted.
    """


def _as_missing_extra(error: Exception) -> Exception:
    """Return the error of a missing extra for a failed import of one of its modules; any other error unchanged."""
    extra = extra_of(error.name) if isinstance(error, ModuleNotFoundError) else ""
    if not extra:
        return error
    named = missing_extra(extra)
    named.__cause__ = error
    return named


def _flush_stdout() -> None:
    if sys.stdout is not None:  # None where the program was started without one (>&-)
        sys.stdout.flush()


def _forget_stdout() -> None:
    """Detach stdout after its reader has gone (`| head`), so that the flush at exit does not fail on it again."""
    from trackside.cli.terminal.console import detach

    detach(sys.stdout)
