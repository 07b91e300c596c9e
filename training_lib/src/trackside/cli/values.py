"""`trackside values`: one tensor at one step, in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.reading import open_run, place_options, tell_damage
from trackside.cli.terminal.rows import json_value, print_csv, print_json, print_json_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trackside.trial.series import TensorSeries

MOST_SHOWN = 1000  # elements that a table shows; of larger tensors the corners


@click.command("values")
@click.argument("run")
@click.argument("tensor")
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Which step.  [default: the last one saved]")
@format_option("table", "json", "jsonl", "csv")
@place_options
@shared_options
def command(*, run: str, tensor: str, step: int | None, output: str, mode: str | None, worker: str | None) -> None:
    """Show TENSOR of RUN at one step.

    RUN is what `trackside tensors` takes. A table shows the corners of a large tensor; JSON and CSV hold all of it,
    CSV with a row for each element. If several workers saved it, choose one.

    \b
    Example:
      trackside values latest CrossEntropyLoss_output_0 --step 20
      trackside values latest MLP_fc1.weight --format csv
    """
    trial = open_run(run)
    series = trial.tensor(tensor, steps=step, mode=mode, worker=worker)
    values = series.value()
    if output == "json":
        print_json({"run": trial.uri, **_plain(series, values)})
    elif output == "jsonl":
        print_json_lines([_plain(series, values)])
    elif output == "csv":
        print_csv([*(f"index_{axis}" for axis in range(values.ndim)), "value"], _elements(values))
    else:
        _print_values(series, values)
    tell_damage(trial, color=wants_color())


def _plain(series: TensorSeries, values: NDArray[np.generic]) -> dict[str, Any]:
    return {
        "tensor": series.name,
        "step": series.steps[-1],
        "worker": series.workers[0],
        "shape": list(values.shape),
        "dtype": str(values.dtype),
        "values": json_value(values.tolist()),
    }


def _elements(values: NDArray[np.generic]) -> Iterator[tuple[object, ...]]:
    import numpy as np

    for index in np.ndindex(values.shape):
        yield *index, values[index].tolist()


def _print_values(series: TensorSeries, values: NDArray[np.generic]) -> None:
    import numpy as np
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe

    console = data_console(color=wants_color())
    shape = "x".join(map(str, values.shape)) or "scalar"
    console.print(Text(safe(console, series.name), style="bold"), soft_wrap=True)
    console.print(f"step {series.steps[-1]}, {safe(console, series.workers[0])}, {shape} {values.dtype}")
    shown = np.array2string(values, max_line_width=console.width, threshold=MOST_SHOWN)
    for line in shown.splitlines():
        console.print(safe(console, line), soft_wrap=True)
