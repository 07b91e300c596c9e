"""The runs in a folder, or below a prefix in S3."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError
from trackside.contracts.run_layout import RULE_OUTPUT, TENSORS
from trackside.runs.run_folder import RUNS, is_run_folder, local_runs
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder

KEYS_IN_A_PAGE = 1000  # of a listing in S3


def runs_in(where: str | None = None) -> tuple[str, ...]:
    """Return the locations right below `where` (default: the runs of `trackside run`) that may be runs, by name.

    A folder on this machine is checked; a prefix in S3 proves to be a run when it is read. Listing S3 costs one LIST
    for each prefix with more than a page of keys, and one for each page of smaller prefixes. Errors: `RunNotFoundError`
    for a missing folder; `ConfigurationError` for a location that is itself a run; those of the store.
    """
    if where is None:
        return _absolute(local_runs(RUNS))
    if "://" not in where:
        return _local(where)
    store = open_store(where)
    names = tuple(folders_in(store))
    if {TENSORS, RULE_OUTPUT} & set(names):
        raise _is_a_run(where)
    return tuple(f"{store.uri}/{name}" for name in names)


def stores_in(where: str | None) -> Callable[[str], Store]:
    """Return a function that opens locations at and below `where`: in S3 with one client for all of them."""
    if where is None or "://" not in where:
        return open_store
    base = open_store(where)
    return lambda uri: Subfolder(base, uri[len(base.uri) + 1 :])


def folders_in(store: Store) -> Iterator[str]:
    """Yield the names of the folders right below the store's location. Errors: those of the store."""
    start_after, is_through = "", False
    while not is_through:
        folder, keys, is_through = "", 0, True
        for key in store.list("", start_after=start_after):
            name, slash, _ = key.partition("/")
            if not slash:  # an object beside the folders
                continue
            if name != folder:
                folder, keys = name, 0
                yield folder
            keys += 1
            if keys >= KEYS_IN_A_PAGE:  # the rest of this folder is skipped
                start_after, is_through = f"{folder}0", False  # "0" sorts right behind "/"
                break


def _local(where: str) -> tuple[str, ...]:
    folder = Path(os.path.expanduser(where))
    if is_run_folder(folder):
        raise _is_a_run(where)
    if not folder.is_dir():
        raise RunNotFoundError(f"There is no folder {where!r}. Give a folder that holds runs, or s3://bucket/prefix.")
    return _absolute(local_runs(folder))


def _absolute(folders: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(folder.absolute()) for folder in folders)


def _is_a_run(where: str) -> ConfigurationError:
    fix = f"Look at it: trackside tensors {where}"
    return ConfigurationError([Problem(where, "is itself a run, and holds no others.", fix)], subject="The location")
