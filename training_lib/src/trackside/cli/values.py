"""`trackside values`: saved values in full, of one tensor at one step, or over steps."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown
from trackside.cli.terminal.reading import (
    Filters,
    damage_of,
    filter_options,
    open_run,
    print_damage,
    print_nothing_selected,
)
from trackside.cli.terminal.rows import json_value, print_csv, print_json, print_json_lines, print_table
from trackside.contracts.errors import ConfigurationError, Problem, RecordError, TensorNotSavedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trackside.trial.series import TensorSeries
    from trackside.trial.trial import Trial

MOST_SHOWN = 1000  # elements that a table shows; of larger tensors the corners
SUMMARY = ("mean", "std", "min", "max", "nonfinite_count")
REMOTE_STEPS_AT_ONCE = 16
REMOTE_BYTES_AT_ONCE = 64 << 20


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor as one worker saved it at one step."""

    tensor: str
    step: int
    worker: str
    mode: str
    array: NDArray[np.generic]


@click.command("values")
@click.argument("run")
@click.argument("tensor", required=False)
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Which step.  [default: the last one saved]")
@click.option("--npy", metavar="FILE", help="Write a NumPy file instead: the tensor, or (steps, ...) with --steps.")
@format_option("table", "json", "jsonl", "csv")
@filter_options
@shared_options
def command(
    *,
    run: str,
    tensor: str | None,
    step: int | None,
    npy: str | None,
    output: str,
    filters: Filters,
) -> None:
    """Show TENSOR of RUN at one step, or over --steps.

    RUN is named as for `trackside tensors`. At one step a table shows a tensor, of a large one the corners; JSON and
    CSV hold all of it, CSV with a row for each element. If several workers saved it, choose one. Over --steps, or for
    tensors chosen by --regex or --collection, a table has a row for each step with the value or a summary; JSON lines
    hold a step in full each; CSV counts the elements of a tensor by `index`, the last axis fastest. Only what is
    selected is read. A loss or learning rate has a value at every step, wherever it is recorded more often than saved.

    \b
    Example:
      trackside values latest CrossEntropyLoss_output_0 --steps 100:200:10
      trackside values latest MLP_fc1.weight --step 20 --format csv
      trackside values latest MLP_fc1.weight --steps 0:1000 --npy weights.npy
    """
    has_filter, steps = bool(filters.regex or filters.collection), filters.steps
    _check_options(tensor, step=step, steps=steps, npy=npy, output=output, has_filter=has_filter)
    wanted = replace(filters, steps=steps or (None if step is None else str(step)))
    trial = open_run(run)
    if tensor is not None:
        numbers = _numbers(trial, [wanted.tensor(trial, tensor)])
        series = wanted.tensor(trial, tensor) if numbers else _selected(trial, tensor, wanted)
        if npy is not None:
            _write_npy(trial, series, npy, numbers.get(tensor, []), is_stacked=steps is not None)
        elif steps is None:
            _show_one(trial, _at_one_step(trial, series, numbers.get(tensor, [])), output)
        else:
            _show_all(trial, [series], output, numbers)
    else:
        chosen = wanted.choose(trial)
        numbers = _numbers(trial, chosen)
        found = [_last_step(trial, one, wanted) for one in chosen if one.steps or one.name in numbers]
        if steps is None:
            numbers = {name: _newest(of_tensor) for name, of_tensor in numbers.items()}
        if found or output != "table":
            _show_all(trial, found, output, numbers)
        else:
            print_nothing_selected(trial, wanted)
    print_damage(trial, color=wants_color())


def _check_options(
    tensor: str | None, *, step: int | None, steps: str | None, npy: str | None, output: str, has_filter: bool
) -> None:
    if step is not None and steps is not None:
        raise click.UsageError("--step and --steps do not go together: --steps 20 is a step, too.")
    if tensor is None and not has_filter:
        raise click.UsageError("Name a TENSOR, or choose some by --regex or --collection.")
    if tensor is not None and has_filter:
        raise click.UsageError("A TENSOR that is named needs no --regex and no --collection.")
    if npy is not None and (tensor is None or output != "table"):
        raise click.UsageError("--npy writes one TENSOR, and nothing else: name it, and leave --format out.")


def _selected(trial: Trial, tensor: str, wanted: Filters) -> TensorSeries:
    """Return the tensor over the selected steps, at least one. Errors: `TensorNotSavedError`."""
    series = wanted.tensor(trial, tensor)
    if series.steps:
        return series
    saved = trial.tensor(tensor, mode=wanted.mode, worker=wanted.worker).steps
    if wanted.steps is None or not saved:
        narrowed = f" with {Filters(mode=wanted.mode, worker=wanted.worker)}" if wanted.mode or wanted.worker else ""
        if narrowed:
            advice = "the same without that   (shows where it was saved)"
        else:
            advice = f"trackside stats RUN --regex {shlex.quote(re.escape(tensor))}   (its statistics)"
        why = "" if narrowed else " Values are saved as rules need them, or every N steps with run --save-interval N."
        raise TensorNotSavedError(f"{tensor!r} was saved at no complete step{narrowed}.{why}", advice=advice)
    first = series.selection.steps.first
    near = [max((s for s in saved if s < first), default=None), min((s for s in saved if s >= first), default=None)]
    nearest = " and ".join(str(s) for s in near if s is not None)
    steps = f"none of the steps {wanted.steps}" if ":" in wanted.steps else f"step {wanted.steps}"
    span = f"{len(saved)} step{'' if len(saved) == 1 else 's'}, {saved[0]} to {saved[-1]}"
    raise TensorNotSavedError(
        f"{tensor!r} was {'' if ':' in wanted.steps else 'not '}saved at {steps}. "
        f"The nearest: {nearest}. It holds {span}.",
        advice=f"--step {near[-1] if near[0] is None else near[0]}, or run --save-interval N to save values more often",
    )


def _at_one_step(trial: Trial, series: TensorSeries, numbers: Sequence[Value]) -> Value:
    """Return the newest value. Errors: `ConfigurationError` if several workers saved it and none was chosen."""
    worker = _only_worker(series, numbers)
    if numbers:
        return numbers[-1]
    step = series.steps[-1]
    return Value(series.name, step, worker, trial.mode_of(step), trial.value(series.name, step=step, worker=worker))


def _only_worker(series: TensorSeries, numbers: Sequence[Value]) -> str:
    workers = sorted({value.worker for value in numbers}) or series.workers
    if len(workers) > 1:
        newest = max(value.step for value in numbers) if numbers else series.steps[-1]
        fix = f"Choose one: --worker {workers[0]} (of {', '.join(workers)}), or see all: --steps {newest}."
        problem = Problem("--worker", f"{series.name!r} was saved by {len(workers)} workers.", fix)
        raise ConfigurationError([problem], subject="The command line")
    return workers[0]


def _numbers(trial: Trial, found: Sequence[TensorSeries]) -> dict[str, list[Value]]:
    """Return the values of tensors of one element that are recorded at more steps than saved, by worker and step.

    Such are losses and learning rates. A tensor that is not recorded, or has several elements, is left out.
    """
    import numpy as np

    heads = trial.parts.heads(found)
    values: dict[str, list[Value]] = {}
    for series in found:
        head = heads.get(series.name)
        if head is not None and math.prod(head.shape) != 1:
            continue
        columns = series.columns("mean")
        if sum(len(column.steps) for column in columns) > sum(map(len, _steps_by_worker(trial, series).values())):
            values[series.name] = [
                Value(series.name, step, column.worker, trial.mode_of(step), np.array([value]))
                for column in columns
                for step, value in zip(column.steps.tolist(), column.values.tolist(), strict=True)
            ]
    return values


def _newest(numbers: Sequence[Value]) -> list[Value]:
    newest = max(value.step for value in numbers)
    return [value for value in numbers if value.step == newest]


def _last_step(trial: Trial, series: TensorSeries, wanted: Filters) -> TensorSeries:
    if wanted.steps is not None or not series.steps:
        return series
    return trial.tensor(series.name, steps=series.steps[-1], mode=wanted.mode, worker=wanted.worker)


def _read(
    trial: Trial, found: Sequence[TensorSeries], numbers: Mapping[str, Sequence[Value]], *, has_bar: bool = True
) -> Iterator[Value]:
    """Yield every value, by tensor, worker and step, without damaged ones. Few are in memory at a time."""
    pieces = [
        (series.name, worker, steps, at_once)
        for series in found
        if series.name not in numbers
        for worker, steps in _steps_by_worker(trial, series).items()
        for at_once in (_steps_at_once(trial, series),)
    ]
    chunks = [
        (name, worker, steps[first : first + at_once])
        for name, worker, steps, at_once in pieces
        for first in range(0, len(steps), at_once)
    ]
    yield from (value for series in found for value in numbers.get(series.name, ()))
    for name, worker, steps in shown(chunks, "reading values") if has_bar else chunks:
        for step, array in _arrays(trial, name, worker, steps):
            yield Value(name, step, worker, trial.mode_of(step), array)


def _arrays(trial: Trial, name: str, worker: str, steps: Sequence[int]) -> Iterable[tuple[int, NDArray[np.generic]]]:
    try:
        return list(zip(steps, trial.values(name, steps=steps, worker=worker), strict=True))
    except RecordError:
        return [] if len(steps) == 1 else [one for step in steps for one in _arrays(trial, name, worker, [step])]


def _steps_by_worker(trial: Trial, series: TensorSeries) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for saved in sorted(
        trial.parts.saved.saved(series.name, series.selection), key=lambda saved: (saved.worker, saved.step)
    ):
        found.setdefault(saved.worker, []).append(saved.step)
    return found


def _steps_at_once(trial: Trial, series: TensorSeries) -> int:
    """Return the number of steps to fetch at a time: one from a disk; from S3 several, limited by their size."""
    if "://" not in trial.uri:
        return 1
    head = trial.parts.heads([series]).get(series.name)
    elements = 1
    for length in head.shape if head else ():
        elements *= max(1, length)
    return max(1, min(REMOTE_STEPS_AT_ONCE, REMOTE_BYTES_AT_ONCE // (8 * elements)))


def _show_one(trial: Trial, value: Value, output: str) -> None:
    if output == "json":
        print_json({"run": trial.uri, **_plain(value)})
    elif output == "jsonl":
        print_json_lines([_plain(value)])
    elif output == "csv":
        print_csv([*(f"index_{axis}" for axis in range(value.array.ndim)), "value"], _elements(value.array))
    else:
        _print_values(value)


def _show_all(trial: Trial, found: Sequence[TensorSeries], output: str, numbers: Mapping[str, Sequence[Value]]) -> None:
    if output == "json":
        values = [_plain(value) for value in _read(trial, found, numbers)]
        print_json({"run": trial.uri, "has_ended": trial.has_ended, "values": values, "damaged": damage_of(trial)})
    elif output == "jsonl":  # on a terminal the rows themselves show how far it has come
        print_json_lines(_plain(value) for value in _read(trial, found, numbers, has_bar=not _stdout_is_terminal()))
    elif output == "csv":
        values_read = _read(trial, found, numbers, has_bar=not _stdout_is_terminal())
        rows = (row for value in values_read for row in _csv_rows(value))
        print_csv(("tensor", "step", "worker", "mode", "index", "value"), rows)
    else:
        rows_read = [_row(value) for value in _read(trial, found, numbers)]
        if rows_read:
            _print_rows(rows_read)


def _plain(value: Value) -> dict[str, Any]:
    return {
        "tensor": value.tensor,
        "step": value.step,
        "worker": value.worker,
        "mode": value.mode,
        "shape": list(value.array.shape),
        "dtype": str(value.array.dtype),
        "values": json_value(value.array.tolist()),
    }


def _csv_rows(value: Value) -> Iterator[tuple[object, ...]]:
    for index, element in enumerate(value.array.reshape(-1).tolist()):
        yield value.tensor, value.step, value.worker, value.mode, index, element


def _elements(values: NDArray[np.generic]) -> Iterator[tuple[object, ...]]:
    import numpy as np

    for index in np.ndindex(values.shape):
        yield *index, values[index].tolist()


def _write_npy(trial: Trial, series: TensorSeries, path: str, numbers: Sequence[Value], *, is_stacked: bool) -> None:
    from trackside.cli.terminal.npy_file import write_npy
    from trackside.cli.terminal.text import printable

    worker = _only_worker(series, numbers)
    every = [value.step for value in numbers] if numbers else _steps_by_worker(trial, series)[worker]
    steps = every if is_stacked else every[-1:]

    def read() -> Iterator[NDArray[np.generic]]:
        if numbers:
            yield from (value.array for value in numbers[-len(steps) :])
            return
        at_once = _steps_at_once(trial, series)
        for some in shown(
            [steps[first : first + at_once] for first in range(0, len(steps), at_once)], "reading values"
        ):
            yield from trial.values(series.name, steps=some, worker=worker)

    shape = write_npy(path, read, count=len(steps) if is_stacked else None)
    click.echo(f"Wrote an array of shape {shape}, {_span(steps)}:")
    click.echo(f"  {printable(path)}")


def _span(steps: Sequence[int]) -> str:
    if len(steps) == 1:
        return f"step {steps[0]}"
    stride = steps[1] - steps[0]
    evenly = f", every {stride}" if list(steps) == list(range(steps[0], steps[-1] + 1, stride)) else ""
    return f"{len(steps)} steps, {steps[0]} to {steps[-1]}{evenly}"


@dataclass(frozen=True)
class _Row:
    """A value in a table: `text` for a tensor of one element, else `summary` in the order of `SUMMARY`."""

    value: tuple[str, int, str, str]
    shape: str
    text: str | None
    summary: tuple[str, ...]


def _row(value: Value) -> _Row:
    array = value.array
    return _Row(
        value=(value.tensor, value.step, value.worker, value.mode),
        shape="x".join(map(str, array.shape)) or "scalar",
        text=str(array.reshape(-1)[0]) if array.size == 1 else None,
        summary=_summary(array),
    )


def _summary(array: NDArray[np.generic]) -> tuple[str, ...]:
    """Return `SUMMARY` of the array; dashes for one that is empty, or holds texts or complex numbers."""
    from trackside.trial.tensors.statistics import STATISTICS, summarise_many

    if array.size == 0 or array.dtype.kind not in "biuf":
        return ("-",) * len(SUMMARY)
    if array.size == 1:
        number = float(array.reshape(-1)[0].item())
        return (f"{number:.4g}", "0", f"{number:.4g}", f"{number:.4g}", str(int(number - number != 0)))
    of = dict(zip(STATISTICS, summarise_many(array.reshape(1, -1))[:, 0], strict=True))
    return (*(f"{of[name]:.4g}" for name in SUMMARY[:-1]), str(int(of[SUMMARY[-1]])))


def _print_rows(rows: Sequence[_Row]) -> None:
    """Print at least one row. A column with the same text in every row is left out: the tensor moves to the heading."""
    from trackside.cli.terminal.text import printable

    names, _, workers, modes = (set(facts) for facts in zip(*(row.value for row in rows), strict=True))
    are_single = all(row.text is not None for row in rows)
    titles = ("mean", "std", "min", "max", "not finite")
    left_out = {"std"} if len(names) > 1 else set()  # a name needs the room
    left_out |= {"not finite"} if all(row.summary[-1] in {"0", "-"} for row in rows) else set()
    header = ["step"]
    header += ["worker"] if len(workers) > 1 else []
    header += ["mode"] if len(modes) > 1 else []
    header += ["value"] if are_single else ["shape", *(title for title in titles if title not in left_out)]
    header += ["tensor"] if len(names) > 1 else []
    cells = []
    for row in rows:
        tensor, step, worker, mode = row.value
        line = [str(step)]
        line += [worker] if len(workers) > 1 else []
        line += [mode.lower()] if len(modes) > 1 else []
        shown_summary = (text for title, text in zip(titles, row.summary, strict=True) if title not in left_out)
        line += [row.text or ""] if are_single else [row.shape, *shown_summary]
        line += [tensor] if len(names) > 1 else []
        cells.append(line)
    if len(names) == 1:
        click.echo(printable(rows[0].value[0]))
    print_table(header, cells, color=wants_color())


def _print_values(value: Value) -> None:
    import numpy as np
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe

    console, array = data_console(color=wants_color()), value.array
    shape = "x".join(map(str, array.shape)) or "scalar"
    console.print(Text(safe(console, value.tensor), style="bold"), soft_wrap=True)
    console.print(f"step {value.step}, {safe(console, value.worker)}, {shape} {array.dtype}")
    if array.size > MOST_SHOWN:
        named = zip(("mean", "std", "min", "max", "not finite"), _summary(array), strict=True)
        console.print(", ".join(f"{name} {text}" for name, text in named))
    shown_text = np.array2string(array, max_line_width=console.width, threshold=MOST_SHOWN)
    for line in shown_text.splitlines():
        console.print(safe(console, line), soft_wrap=True)


def _stdout_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
