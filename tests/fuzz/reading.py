"""Every way in which a run is read. Each reader goes as far as it can; what it may raise stands beside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import other_readers
from trackside.contracts.errors import ConfigurationError, RecordError, StorageError, TracksideError
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.records.tensor_proto import AnyArray
from trackside.runs.recorded_run import read_run
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial, open_trial

Place = tuple[str, int, str]  # tensor, step, worker

INTERNAL_MISTAKE = 70
CANARY = "Net_can"  # in the names of tensors outside the run; as long as what it stands for


class Wrong(Exception):  # no error of the library: what a reader answered is not true
    """A reader ended well and is wrong all the same."""


class WaitsForMore(Exception):  # no error: the reader waits for the run to go on, as it should
    """A reader would sleep until the run goes on."""


@dataclass
class Seen:
    """What a trial said of a run. `damaged` holds (key, offset)."""

    values: dict[Place, AnyArray] = field(default_factory=dict)
    means: dict[Place, float] = field(default_factory=dict)
    damaged: tuple[RecordError, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reader:
    """A way of reading and what it may raise."""

    name: str
    read: Callable[[Path, Random, Callable[[Store], Store]], Seen | None]
    may_raise: tuple[type[Exception], ...] = (TracksideError,)
    share: float = 1.0  # of the cases


def readers() -> tuple[Reader, ...]:
    """All there are; the drop-in's own trial where `trackside-smdebug` is installed."""
    found = [
        Reader("trial", read_trial),
        Reader("trial's surface", _look_around),
        Reader("evaluator", _evaluate),
        Reader("findings", _findings),
    ]
    if find_spec("click") and find_spec("rich"):
        found.append(Reader("command line", _command_line, ()))
    if find_spec("smdebug"):
        base = import_module("smdebug.exceptions").SMDebugError
        told = (TracksideError, base, WaitsForMore)
        found.append(Reader("smdebug trial", _smdebug_trial, told))
        found.append(Reader("smdebug index reader", other_readers.old_index_reader, told, share=0.15))
        found.append(Reader("smdebug states", other_readers.old_states, (), share=0.3))
    if find_spec("pyarrow"):
        found.append(Reader("to parquet", other_readers.to_parquet, share=0.1))
    found += [
        Reader("doctor", other_readers.doctor, share=0.2),
        Reader("to tensorboard", other_readers.to_tensorboard, share=0.1),
        Reader("states", other_readers.states, share=0.3),
        Reader("import", other_readers.imported, share=0.15),
        Reader("packed anew", other_readers.packed_anew, share=0.15),  # the last: it changes the run
    ]
    return tuple(found)


def read_trial(run: Path, random: Random, wrap: Callable[[Store], Store]) -> Seen:
    """Every value and every statistic of a run: what can be checked."""
    trial = open_trial(wrap(open_store(str(run))))
    seen = Seen()
    for name in trial.names:
        for saved in trial.parts.saved.saved(name):
            try:
                seen.values[name, saved.step, saved.worker] = trial.value(name, step=saved.step, worker=saved.worker)
            except TracksideError as error:
                _printable((error,))
    for name in trial.names:
        for statistic in STATISTICS:
            columns = trial.columns(name, statistic, last_step=2**63 - 1, mode=None)
            if statistic == "mean":
                seen.means.update(
                    ((name, int(step), column.worker), float(value))
                    for column in columns
                    for step, value in zip(column.steps, column.values, strict=True)
                )
    trial.refresh()
    seen.damaged, seen.names = trial.damaged, trial.names
    return seen


def _look_around(run: Path, random: Random, wrap: Callable[[Store], Store]) -> None:
    """The rest of what a `Trial` offers, twice: after a look for news all must answer again."""
    trial = open_trial(wrap(open_store(str(run))))
    _read_answer(trial)
    trial.refresh()
    _read_answer(trial)


def _read_answer(trial: Trial) -> None:
    shown = (repr(trial), trial._repr_html_(), trial.workers, trial.collections, trial.has_ended, trial.uri)
    _printable(shown)
    for mode in (None, "TRAIN", "EVAL", "PREDICT", "GLOBAL"):
        trial.steps(mode)
    steps = trial.steps()
    for step in itertools.chain(steps[:5], steps[-5:]):
        trial.parts.steps.collections_at(step)
        trial.mode_of(step)
        trial.parts.steps.is_damaged(step)
        for worker in trial.workers:
            trial.parts.steps.event_key(step, worker)
    for collection in trial.collections:
        trial.tensors(collection=collection)
    series = trial.tensors(regex=".", steps="0:100:2")
    trial.parts.heads(trial.tensors())
    for one in (*series[:3], *trial.tensors(mode="TRAIN")[-2:]):
        _printable((repr(one), one._repr_html_(), one.steps, one.workers))
        one.to_columns()
        _each_or_reported(
            (partial(list, one), partial(getattr, one, "values"), one.value, partial(one.statistic, "l2")),
            (TracksideError,),
        )
    if trial.has_ended:
        for _ in itertools.islice(trial.follow(sleep=_no_sleep), 10_000):
            pass


def _evaluate(run: Path, random: Random, wrap: Callable[[Store], Store]) -> None:
    location = RunLocation(str(run))
    try:
        request = read_rule_request(open_store(location.uri))
    except (ConfigurationError, StorageError):
        from trackside.rules.catalogue import default_request  # what a user would do next: without the request

        request = default_request()
    summary = evaluate(
        location,
        request,
        [JsonLinesSink(open_store(location.rule_output))],
        poll_seconds=1.0,
        clock=lambda: 1_700_000_100.0,
        sleep=_no_sleep,
        should_stop=lambda: True,
        stores=lambda uri: wrap(open_store(uri)) if uri == location.tensors else open_store(uri),
    )
    # A progress file that says so is believed.
    if summary.crashed and not (run / "rule-output" / "progress.json").is_file():
        raise Wrong(f"rules crashed: {summary.crashed} {[v.message for v in summary.verdicts]}")


def _findings(run: Path, random: Random, wrap: Callable[[Store], Store]) -> None:
    recorded = read_run(str(run))
    _printable((recorded.groups, recorded.rules, recorded.steps))


def _command_line(run: Path, random: Random, wrap: Callable[[Store], Store]) -> None:
    from click.testing import CliRunner  # an extra

    from trackside.cli import main

    form = random.choice(("table", "json", "jsonl", "csv"))
    commands: tuple[list[str], ...] = (
        ["tensors", str(run), "--format", form],
        ["stats", str(run), "--format", form],
        ["values", str(run), "Net_fc1.weight", "--format", form],
        ["values", str(run), "CrossEntropyLoss_output_0", "--worker", "worker_0"],
        ["findings", str(run)],
        ["findings", str(run), "--format", "json"],
    )
    command = random.choice(commands)
    result = CliRunner().invoke(main, [command[0], "-v", *command[1:]])
    is_told = result.exception is None or isinstance(result.exception, SystemExit)
    if not is_told or result.exit_code >= INTERNAL_MISTAKE:
        raise Wrong(f"trackside {' '.join(command)} ended with {result.exit_code}: {result.output[-3000:]}")


def _smdebug_trial(run: Path, random: Random, wrap: Callable[[Store], Store]) -> None:
    local_trial = import_module("smdebug.trials.local_trial").LocalTrial
    modes = import_module("smdebug.core.modes").ModeKeys
    told = import_module("smdebug.exceptions").SMDebugError
    trial = local_trial("fuzz", str(run / "debug-output"), sleep=_give_up)
    _printable((repr(trial), trial.workers(), trial.steps(), trial.modes(), trial.last_index_token))
    for mode in modes:
        trial.steps(mode=mode)
        trial.tensor_names(mode=mode)
    for collection in trial.collections():
        trial.tensor_names(collection=collection)
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        for step in tensor.steps()[:3]:
            for worker in tensor.workers(step):
                _each_or_reported(
                    (
                        partial(tensor.value, step, worker=worker),
                        partial(tensor.reduction_values, step, worker=worker),
                        partial(_mean, tensor, step, worker),
                        partial(tensor.shape, step, worker=worker),
                    ),
                    (TracksideError, told, WaitsForMore),
                )


def _mean(tensor: Any, step: int, worker: str) -> None:
    try:
        tensor.reduction_value(step, "mean", worker=worker)
    except TypeError:  # a mean of texts: an error of NumPy's, in the original too
        if tensor.value(step, worker=worker).dtype.kind not in "UO":
            raise


def _each_or_reported(reads: Iterable[Callable[[], Any]], told: tuple[type[Exception], ...]) -> None:
    for read in reads:
        try:
            read()
        except told as error:
            _printable((error,))


def check(seen: Seen, expected: Seen, *, touched: Callable[[int, str], bool], has_marker: bool) -> None:
    """What was not damaged must be there, and right. Errors: `Wrong`."""
    for place, value in expected.values.items():
        _, step, worker = place
        if touched(step, worker):
            continue
        found = seen.values.get(place)
        if has_marker and found is None:
            raise Wrong(f"{place} was not damaged and is not found. Told: {seen.damaged[:3]}")
        if found is not None and not _same(found, value):
            raise Wrong(f"{place} was not damaged and is {found!r:.100}, not {value!r:.100}")
    if has_marker:
        _check_means(seen.means, expected.means, touched)
    for error in seen.damaged:
        if not (isinstance(error.offset, int) and error.offset >= 0 and error.key and error.what):
            raise Wrong(f"damage without a place: {error!r}")
    if any(CANARY in name for name in seen.names):
        raise Wrong("a tensor from outside the run was read")


def _check_means(
    found: Mapping[Place, float], expected: Mapping[Place, float], touched: Callable[[int, str], bool]
) -> None:
    for place, mean in expected.items():
        if touched(place[1], place[2]):
            continue
        answer = found.get(place)
        if answer is None or not (answer == mean or (math.isnan(answer) and math.isnan(mean))):
            raise Wrong(f"the mean of {place} was not damaged and is {answer}, not {mean}")


def _same(one: AnyArray, other: AnyArray) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.tolist() == other.tolist() if one.dtype.kind in "UO" else one.tobytes() == other.tobytes()


def _printable(things: tuple[Any, ...]) -> None:
    """What is said must be text that can be written down. Errors: `Wrong`."""
    for thing in things:
        try:
            str(thing).encode("utf-8")
        except UnicodeEncodeError as error:
            raise Wrong(f"a text that cannot be printed: {str(thing)[:200]!a}") from error


def _no_sleep(seconds: float) -> None:
    """Time is not what is tested."""


def _give_up(seconds: float) -> None:
    raise WaitsForMore
