"""The start of a training job that goes on in the place of a stopped one: it must not find checkpoints with the fault.

The function that created the job has no rights in its owner's bucket. So the job itself moves later checkpoints aside,
in the copy of `CheckpointConfig`'s folder that SageMaker brings into its container, before its script looks for one.
`frameworks.attach` calls `prepare` in each Python process; the first one does the work.

SageMaker deletes nothing in S3 that is deleted here, so what was moved comes back with a container that is started
again (spot capacity) and with the next job. A list beside what was moved says which those are:

<checkpoints>/.trackside-set-aside/<job>/set-aside.json   places, and whether all were moved
<checkpoints>/.trackside-set-aside/<job>/order.json       the batches that its script leaves out (`Order`)
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from trackside.contracts.errors import TracksideError
from trackside.contracts.run.restart import ORDER_KEY, RESTART, Met, Order, Report
from trackside.contracts.run.resumption import Resumption
from trackside.contracts.run_layout import TENSORS
from trackside.environment import ResumedJobEnvironment, go_on_from
from trackside.records.checkpoints_file import checkpoint_workers, read_checkpoints
from trackside.rescue.restarting.checkpoint_choice import Choice, choose, place_aside, place_before
from trackside.rescue.restarting.restarts import order_after, together
from trackside.rescue.restarting.set_aside import move_aside
from trackside.storage.open_store import open_store

LIST_KEY = "set-aside.json"
_ALL_MOVED, _MOVING = "moved", "moving"


def prepare() -> None:
    """Let this process go on from the good checkpoint.

    If that fails, the process ends with an error, which SageMaker shows as the job's failure: without it, the job would
    go on from what was broken, and it exists for nothing else.
    """
    environment = ResumedJobEnvironment.read()
    if not environment.order:
        return
    try:
        folder = _prepared(environment)
        go_on_from(_good_in(folder), str(folder / ORDER_KEY))
    except Exception as error:  # noqa: BLE001 - whatever it is, the script must not start
        _end(environment, f"{type(error).__name__}: {error}")


def _prepared(environment: ResumedJobEnvironment) -> Path:
    """Move checkpoints aside, once in a container. Return the folder with the lists."""
    order = Resumption.from_json(environment.order)
    folder = _folder_of(order, environment.job_name)
    with _first_in_container(environment.ml_root) as is_first:
        if is_first:
            for listed in sorted(folder.parent.glob(f"*/{LIST_KEY}")):
                _move_again(listed)
            if not (folder / LIST_KEY).exists():
                _move(environment, order, folder)
    return folder


def _move(environment: ResumedJobEnvironment, order: Resumption, folder: Path) -> None:
    """Move checkpoints that are later than the good one."""
    store = open_store(f"{environment.earlier_run}/{TENSORS}")
    known = [one for worker in checkpoint_workers(store) for one in read_checkpoints(store, worker)]
    present = [one for one in known if os.path.exists(one.path)]
    before = order.checkpoint_step + 1
    choice = choose(present, before, is_contradicted=lambda step: False, tries={}, most_tries=1)
    if isinstance(choice, str):
        raise TracksideError(choice)
    later = dict.fromkeys((*choice.later, *_newer_siblings(choice.good)))
    choice = replace(choice, later=tuple(later))
    asides = tuple(place_aside(path, environment.job_name) for path in choice.later)
    folder.mkdir(parents=True, exist_ok=True)
    _put(folder / ORDER_KEY, _left_out(environment, order, choice).to_json())
    listed = {"version": 1, "good": choice.good, "asides": asides, "aliases": choice.aliases, "state": _MOVING}
    _put(folder / LIST_KEY, json.dumps(listed))
    move_aside(asides, good=choice.good, copy=choice.good, aliases=choice.aliases)
    _put(folder / LIST_KEY, json.dumps(listed | {"state": _ALL_MOVED}))


def _move_again(listed: Path) -> None:
    """Move what was moved before, if it is the same: what the script has written anew since is its own."""
    found = json.loads(listed.read_text(encoding="utf-8"))
    for aside in map(Path, found["asides"]):
        before = Path(place_before(str(aside)))
        if os.path.lexists(before) and os.path.lexists(aside) and _is_same(before, aside):
            shutil.rmtree(before) if before.is_dir() else before.unlink()
    if found["state"] == _MOVING:  # the container before was ended in the middle
        move_aside(found["asides"], good=found["good"], copy=found["good"], aliases=found["aliases"])
        _put(listed, json.dumps(found | {"state": _ALL_MOVED}))


def _left_out(environment: ResumedJobEnvironment, order: Resumption, choice: Choice) -> Order:
    """Return what the script leaves out: the batches of the fault, if the job before reported them, and others."""
    store = open_store(environment.earlier_run)
    keys = [key for key in store.list(f"{RESTART}/") if re.fullmatch(rf"{RESTART}/worker_\d+\.json", key)]
    reports = [Report.from_json(store.get(key)) for key in keys]
    earlier = _folder_of(order, order.job_before.name) / ORDER_KEY
    before = Order.from_json(earlier.read_bytes()) if earlier.exists() else None
    faults = [report for report in reports if report.met is Met.FAULT]
    if not faults:
        left_out = before or Order(choice.good)
        return replace(
            left_out,
            resume_from=choice.good,
            aliases=choice.aliases,
            undone_steps=order.undone_steps,
            is_again=order.number > 1,
        )
    fault = together(faults)
    if fault.refusal:
        raise TracksideError(fault.refusal)
    return order_after(fault, choice, before, is_again=order.number > 1)


def _newer_siblings(good: str) -> Iterator[str]:
    """Yield what differs from the good checkpoint in greater numbers only: the script may have deleted it, S3 not."""
    path = Path(good)
    words, numbers = _words_and_numbers(path.name)
    for each in sorted(path.parent.iterdir()):
        other_words, other_numbers = _words_and_numbers(each.name)
        if other_words == words and other_numbers > numbers:
            yield str(each)


def _words_and_numbers(name: str) -> tuple[list[str], list[int]]:
    parts = [(is_number, "".join(some)) for is_number, some in groupby(name, str.isdecimal)]
    words = ["#" if is_number else part for is_number, part in parts]
    return words, [int(part) for is_number, part in parts if is_number]


def _is_same(one: Path, other: Path) -> bool:
    """Return True if two files or folders have the same content."""
    if one.is_dir() != other.is_dir():
        return False
    if one.is_file():
        return filecmp.cmp(one, other, shallow=False)
    files = [{path.relative_to(each) for path in each.rglob("*") if path.is_file()} for each in (one, other)]
    return files[0] == files[1] and all(filecmp.cmp(one / name, other / name, shallow=False) for name in files[0])


@contextmanager
def _first_in_container(ml_root: Path) -> Iterator[bool]:
    """Yield True in the first process of this container that comes here; others wait for it. Errors: `OSError`."""
    import fcntl

    flag = ml_root / "output" / ".trackside-resumed"
    flag.parent.mkdir(parents=True, exist_ok=True)
    with flag.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        is_first = not file.read()
        yield is_first
        if is_first:
            file.write(_ALL_MOVED)


def _folder_of(order: Resumption, job_name: str) -> Path:
    """Return the folder of a job's lists."""
    return Path(place_aside(f"{order.folder}/{LIST_KEY}", job_name)).parent


def _good_in(folder: Path) -> str:
    return str(json.loads((folder / LIST_KEY).read_text(encoding="utf-8"))["good"])


def _put(path: Path, text: str) -> None:
    """Write a file whole or not at all. Errors: `OSError`."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _end(environment: ResumedJobEnvironment, why: str) -> None:
    """End this process with SageMaker's note about a failure, before any line of the script."""
    text = f"Trackside created this job to go on from {environment.checkpoint}, and it cannot: {why}"
    sys.stderr.write(f"trackside: {text}\n")
    sys.stderr.flush()
    output = environment.ml_root / "output"
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "failure").write_text(text, encoding="utf-8")
    finally:
        os._exit(1)
