"""`trackside judge`: logs of other tools, judged by the rules that a log can answer."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.chosen_rules import RuleOptions, recorded_rules, rule_options
from trackside.cli.terminal.failure import FINDINGS, RULE_CRASHED
from trackside.cli.terminal.options import format_option, is_quiet, quiet_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json
from trackside.cli.terminal.views.run_cards import FAIL_ON
from trackside.contracts.english import counted

if TYPE_CHECKING:
    from rich.console import Console

    from trackside.choosing.rule_choice import Chosen
    from trackside.imported.finding import Growing, LeftOut
    from trackside.imported.judged_log import JudgedLog

MOST_NAMED = 5
FOLLOW_SECONDS, SHARE_OF_TIME = 2.0, 0.1


@click.command("judge")
@click.argument("path")
@click.option(
    "--columns",
    multiple=True,
    metavar="ROLE=COLUMN,...",
    help="The columns of a log, where the guess is wrong: loss, eval_loss, learning_rate, grad_norm, step, epoch.",
)
@click.option("--into", metavar="FOLDER", default="", help="Keep each log as a run below it, for the other commands.")
@click.option("--follow", is_flag=True, help="Go on while the log grows, and show each new issue.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End --follow once the log has not grown for so long.  [default: never]",
)
@rule_options
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if an issue is at least this severe; with --follow at once.",
)
@quiet_option("No line about the choice of the rules and what a log cannot answer, and no progress bar.")
@format_option("table", "json")
@shared_options
def command(
    *,
    path: str,
    columns: tuple[str, ...],
    into: str,
    follow: bool,
    idle: float | None,
    options: RuleOptions,
    fail_on: str,
    output: str,
) -> None:
    """Judge logs that exist already, of any tool.

    PATH is a file, a folder or s3://bucket/prefix with TensorBoard files, trainer_state.json of transformers, JSON
    lines, CSV (Lightning, Keras), runs of W&B (offline), MLflow and trackio, or printed lines with a loss in them, as
    of XGBoost and LightGBM. The names of the numbers are guessed and shown. Nothing is written without --into.

    A log holds a few numbers, smoothed and now and then: most rules need more, and the last line says how to ask them.

    \b
    Example:
      trackside judge runs/
      trackside judge checkpoint-500/trainer_state.json --fail-on critical
      trackside judge log.csv --columns loss=train_ce,step=iter
    """
    from trackside.imported.names import parse_columns

    named, chosen = parse_columns(columns), recorded_rules(options)
    if follow and (into or output == "json"):
        raise click.UsageError(f"--follow does not go together with {'--into' if into else '--json'}.")
    if follow:
        judge = functools.partial(_judged, path, named, chosen, growing=_growing())
        followed = _Followed(path, judge, fail_on=fail_on, idle_seconds=idle)
        click.get_current_context().exit(followed.run(time.monotonic, time.sleep))
    left_out = _left_out()
    found = _judged(path, named, chosen, into=into, left_out=left_out)
    if output == "json":
        found = list(found)
        _print_json(found, left_out)
    else:
        found = _shown(found, left_out)
    click.get_current_context().exit(_exit_code(found, fail_on=fail_on))


def _judged(
    path: str,
    columns: dict[str, str],
    chosen: Chosen,
    *,
    into: str = "",
    left_out: LeftOut,
    growing: Growing | None = None,
    has_ended: bool = True,
) -> Iterable[JudgedLog]:
    from trackside.cli.terminal.progress import shown_waiting
    from trackside.imported.finding import find_logs
    from trackside.imported.judged_log import judge_log

    with shown_waiting(f"judging {path}"):
        for found in find_logs(path, columns, left_out, growing=growing, has_ended=has_ended):
            yield judge_log(found, chosen, clock=time.time, into=into, has_ended=has_ended)


def _shown(found: Iterable[JudgedLog], left_out: LeftOut) -> list[JudgedLog]:
    """Print each log as it is judged, then what could not be judged."""
    from trackside.cli.terminal.console import data_console

    console = data_console(color=wants_color())
    seen: list[JudgedLog] = []
    for judged in found:
        if seen:
            console.print()
        _print_log(console, judged)
        seen.append(judged)
    if not is_quiet():
        _print_rest(console, seen, left_out)
    return seen


def _print_log(console: Console, judged: JudgedLog) -> None:
    from trackside.cli.terminal.views.card import VerdictCard
    from trackside.cli.terminal.views.rule_lines import rule_lines
    from trackside.runs.source_text import SourceText

    recorded = judged.recorded
    _print_heading(console, judged)
    for group in recorded.groups:
        console.print(VerdictCard(group, sources=SourceText(recorded.location.uri)))
        console.print()
    for line in rule_lines(console, recorded.rules):
        console.print(line)


def _print_heading(console: Console, judged: JudgedLog) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import safe

    console.print(Text(safe(console, f"{judged.found.log.name}: {_extent(judged)}"), style="bold"))
    columns = ", ".join(f"{role}={column}" for role, column in judged.found.meanings.shown().items())
    console.print(Text(safe(console, f"judged as {columns}"), style="dim"))
    if judged.kept_at:
        kept = f"kept as {judged.kept_at}: trackside report {judged.kept_at}"
        console.print(Text(safe(console, kept), style="dim"))
    for text in judged.reservations:
        console.print(Text(safe(console, text), style="dim"))
    console.print()


def _extent(judged: JudgedLog) -> str:
    """Return the format and the size of a log: `CSV, 40 losses and 8 evaluations up to step 4,000`."""
    run = judged.run
    parts = [counted(count, word) for count, word in ((run.rows, "row"), (run.evaluations, "evaluation")) if count]
    return f"{judged.found.log.format}, {' and '.join(parts)} up to step {run.last_step:,}"


def _print_rest(console: Console, seen: Sequence[JudgedLog], left_out: LeftOut) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import safe
    from trackside.imported.judged_log import COMMAND

    lines = []
    if left_out.without_loss:
        names = ", ".join(list(left_out.without_loss)[:MOST_NAMED])
        more = "" if len(left_out.without_loss) <= MOST_NAMED else ", ..."
        lines.append(f"Not judged, as no loss is among the numbers: {names}{more}")
    unanswerable = {rule for judged in seen for rule in judged.unanswerable}
    if unanswerable:
        lines.append(
            f"Not asked: {len(unanswerable)} rules about weights, gradients, data, speed and the program, which a log "
            f"does not hold. They judge a run: {COMMAND}"
        )
    for line in lines:
        console.print()
        console.print(Text(safe(console, line)))


class _Followed:
    """A log that is judged again whenever it has grown.

    Args:
        path: The location of the log.
        judge: Judges it; takes `left_out` and `has_ended`.
        fail_on: The severity at which following ends.
        idle_seconds: The time without growth after which it ends; None for never.
    """

    def __init__(
        self, path: str, judge: Callable[..., Iterable[JudgedLog]], *, fail_on: str, idle_seconds: float | None
    ) -> None:
        self._path, self._judge, self._fail_on, self._idle_seconds = path, judge, fail_on, idle_seconds
        self._sizes: Mapping[str, int] | None = None
        self._shown: set[tuple[str, str, int]] = set()
        self._is_waiting = False

    def run(self, clock: Callable[[], float], sleep: Callable[[float], object]) -> int:
        """Judge until the log is idle or an issue ends it. Return the exit code."""
        grew_at, pause = clock(), FOLLOW_SECONDS
        while True:
            sizes = self._present_sizes()
            if sizes != self._sizes:
                self._sizes, grew_at = sizes, clock()
                if code := self._look():
                    return code
                pause = max(FOLLOW_SECONDS, (clock() - grew_at) / SHARE_OF_TIME)
            elif self._idle_seconds is not None and clock() - grew_at >= self._idle_seconds:
                return _exit_code(_shown(self._judge(left_out=_left_out()), _left_out()), fail_on=self._fail_on)
            sleep(pause)

    def _present_sizes(self) -> Mapping[str, int]:
        from trackside.contracts.errors import LocationNotFoundError
        from trackside.imported.files import files_at

        try:
            return {file.name: file.size for file in files_at(self._path)}
        except LocationNotFoundError:
            return {}

    def _look(self) -> int:
        """Judge the log once more, and print new issues. Return the exit code; 0 to go on."""
        from trackside.contracts.errors import LocationNotFoundError, RunNotFoundError
        from trackside.imported.finding import NoLossError

        try:
            found = list(self._judge(left_out=_left_out(), has_ended=False))
        except (LocationNotFoundError, RunNotFoundError, NoLossError) as error:
            if not self._is_waiting:
                click.echo(f"trackside: waiting for a log: {error}", err=True)
            self._is_waiting = True
            return 0
        for judged in found:
            self._print_news(judged)
        return _exit_code(found, fail_on=self._fail_on)

    def _print_news(self, judged: JudgedLog) -> None:
        from trackside.cli.terminal.console import data_console, keeps_up
        from trackside.cli.terminal.views.card import VerdictCard
        from trackside.runs.source_text import SourceText

        console, name = data_console(color=wants_color()), judged.found.log.name
        if (name, "", 0) not in self._shown:
            self._shown.add((name, "", 0))
            _print_heading(console, judged)
        for group in judged.recorded.groups:
            key = name, group.lead.configuration_name, group.lead.since_step
            if group.standing and key not in self._shown:
                self._shown.add(key)
                console.print(VerdictCard(group, sources=SourceText(judged.recorded.location.uri)))
                console.print()
        keeps_up(console)


def _growing() -> Growing:
    from trackside.imported.finding import Growing

    return Growing()


def _left_out() -> LeftOut:
    from trackside.imported.finding import LeftOut

    return LeftOut()


def _print_json(found: Sequence[JudgedLog], left_out: LeftOut) -> None:
    from trackside.imported.judged_log import log_document
    from trackside.runs.run_document import run_document

    runs = [{**run_document(judged.recorded), "log": log_document(judged)} for judged in found]
    print_json({"runs": runs, "without_loss": list(left_out.without_loss)})


def _exit_code(found: Iterable[JudgedLog], *, fail_on: str) -> int:
    """Return the exit code. A crash comes first: then not everything was judged."""
    seen = list(found)
    if any(judged.crashed for judged in seen):
        return RULE_CRASHED
    threshold = FAIL_ON[fail_on]
    worst = [judged.recorded.worst_severity for judged in seen]
    return FINDINGS if threshold and any(one and one.rank >= threshold.rank for one in worst) else 0
