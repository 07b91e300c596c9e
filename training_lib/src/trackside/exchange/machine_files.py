"""A run's samples of machines in the files of SageMaker Debugger, for readers that know no others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from trackside.contracts.errors import RecordError, StorageError
from trackside.contracts.run_layout import OPEN_SUFFIX, SYSTEM_PREFIX
from trackside.records.machine.machine_samples import SUFFIX
from trackside.records.machine.machine_samples_reader import MachineSamplesReader, samples_by_time
from trackside.records.machine.system_metrics_file import MOST_BYTES
from trackside.records.machine.system_series import SystemSeries
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import Metric
from trackside.storage.store import Store


def export_machine_samples(profiles: Store, folder: str | os.PathLike[str]) -> int:
    """Write the samples that lie in compact files as lines of JSON. Return their number.

    Args:
        profiles: The profiles of a run.
        folder: The folder for the files; the run's own will do.

    A damaged file counts as far as it can be read.

    Raises:
        StorageError: The run cannot be read, or the folder cannot be written to.
    """
    written: dict[str, SystemFiles] = {}
    count = 0
    for key in sorted(profiles.list(SYSTEM_PREFIX)):
        if not key.removesuffix(OPEN_SUFFIX).endswith(SUFFIX):
            continue
        samples = samples_by_time(_readable(profiles.get(key, length=MOST_BYTES), key))
        count += len(samples)
        for (node, time), of in groupby(samples, key=lambda sample: (sample.node, sample.timestamp)):
            files = written.setdefault(node, SystemFiles(str(Path(folder)), node=node, is_compact=False))
            with _storage_errors(folder):
                files.add([Metric(each.kind, each.name, each.dimension, each.value) for each in of], wall_time=time)
    for files in written.values():
        with _storage_errors(folder):
            files.close()
    return count


def _readable(data: bytes, key: str) -> Iterator[SystemSeries]:
    with contextlib.suppress(RecordError):
        yield from MachineSamplesReader(key).feed(data)


@contextlib.contextmanager
def _storage_errors(folder: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
