"""What reads a run beside a trial: the doctor, exports, the import, the old package's own readers and state store.

What they write goes into the working folder, which is no part of the run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random

from trackside.cli.health.run_check import check_run
from trackside.contracts.errors import RecordError, TracksideError
from trackside.exchange.import_run import import_run
from trackside.exchange.parquet import export_parquet
from trackside.exchange.tensorboard import export_tensorboard
from trackside.records.state_file import MOST_BYTES, STATES_KEY, decode_states
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.steps.packed_index import rebuild_packed_index
from trackside.trial.trial import open_trial

CHECKPOINTS = "checkpoints"  # in the runs that have any, so that they are damaged with them

Wrap = Callable[[Store], Store]


def doctor(run: Path, random: Random, wrap: Wrap) -> None:
    """`trackside doctor RUN --all-files`: every event file from end to end."""
    for check in check_run(str(run), open_run=open_trial, read=lambda keys: keys):
        f"{check.found}{check.fix}".encode()


def to_parquet(run: Path, random: Random, wrap: Wrap) -> None:
    """`trackside export --to parquet`."""
    with _workplace() as place:
        export_parquet(open_trial(wrap(open_store(str(run)))), place / "run.parquet", run="run")


def to_tensorboard(run: Path, random: Random, wrap: Wrap) -> None:
    """`trackside export --to tensorboard`, with every tensor in full."""
    store = wrap(open_store(f"{run}/debug-output"))
    with _workplace() as place:
        export_tensorboard(open_trial(store), place, run="run", histograms=True, store=store)


def imported(run: Path, random: Random, wrap: Wrap) -> None:
    """`trackside import`, and what was brought is read. What lies outside may not come with it."""
    with _workplace() as place:
        found = import_run(str(run / "debug-output"), str(place / "run"))
        for error in (*found.damaged, *found.left_out):
            str(error).encode()
        for name in open_trial(str(place / "run")).names:
            name.encode()


def packed_anew(run: Path, random: Random, wrap: Wrap) -> None:
    """The packed index is written from what there is. The last to look at the run: it changes it."""
    rebuild_packed_index(wrap(open_store(f"{run}/debug-output")))
    open_trial(str(run)).steps()


def states(run: Path, random: Random, wrap: Wrap) -> None:
    """The state store for restarts, by its record and through the old package."""
    store = open_store(str(run / CHECKPOINTS))
    try:
        decode_states(store.get(STATES_KEY, length=MOST_BYTES + 1), key=STATES_KEY)
    except RecordError as error:
        str(error).encode()


def old_states(run: Path, random: Random, wrap: Wrap) -> None:
    """The same through the old package, which begins anew where nothing can be read."""
    with _workplace() as place:
        configuration = place / "checkpointconfig.json"
        configuration.write_text(json.dumps({"LocalPath": str(run / CHECKPOINTS)}), encoding="utf-8")
        os.environ["CHECKPOINT_CONFIG_FILE_PATH"] = str(configuration)  # noqa: TID251 - it is set, for who reads it
        store = import_module("smdebug.core.state_store").StateStore()
        store.is_checkpoint_updated()
        store.get_last_saved_state()


def old_index_reader(run: Path, random: Random, wrap: Wrap) -> None:
    """The old package's readers of index and event files, below its trials."""
    told = (TracksideError, import_module("smdebug.exceptions").SMDebugError)
    reader = import_module("smdebug.core.index_reader").LocalIndexReader(str(run / "debug-output"))
    found, _ = reader.load_tensor_data_from_index_files()
    for steps in found.values():
        for workers in steps.values():
            for place in workers.values():
                if "tensor_location" not in place:
                    continue
                try:
                    reader.fetch_tensor_value(place["tensor_location"])
                except told as error:
                    str(error).encode()


@contextmanager
def _workplace() -> Iterator[Path]:
    """A folder of its own below the working folder."""
    place = Path.cwd() / "written"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
