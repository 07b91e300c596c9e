"""Where the drop-in departs from the real smdebug 1.0.34: both are asked, and docs/smdebug-differences.md tells.

`python stand_ins.py difference_questions.py ORDER ANSWER`: as `core_questions.py`, with a `folder` to work in, and
`only`, the questions that are asked where not all are.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from core_questions import plain, variables
from questions import answer_of
from smdebug import ReductionConfig, exceptions, modes
from smdebug.core.access_layer import training_has_ended
from smdebug.core.collection import Collection
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.tensor import StepState
from smdebug.core.writer import FileWriter
from smdebug.trials import create_trial


def save(
    run: str,
    step: int,
    tensors: dict[str, Any],
    *,
    mode: Any = modes.TRAIN,
    mode_step: int | None = None,
    worker: int = 0,
) -> None:
    with FileWriter(run, f"worker_{worker}", step) as writer:
        for name, value in tensors.items():
            at = {"mode": mode, "mode_step": step if mode_step is None else mode_step}
            writer.write_tensor(value, name, timestamp=1.5, **at)


def collections(
    run: str, *, workers: int = 1, names: dict[int, list[str]] | None = None, written: int | None = None
) -> None:
    for worker in range(workers if written is None else written):
        manager = CollectionManager()
        manager.set_num_workers(workers)
        manager.add(Collection("some", tensor_names=set((names or {}).get(worker, []))))
        manager.add(Collection("inputs", include_regex=["^x"]))
        manager.export(run, f"worker_{worker}_collections.json")


def a_run(folder: str, name: str, tensors: dict[str, Any] | None = None, *, steps: int = 1) -> str:
    run = f"{folder}/{name}"
    for step in range(steps):
        save(run, step, {"a": np.ones(2)} if tensors is None else tensors)
    collections(run)
    training_has_ended(run)
    return run


def shape_beside_value(folder: str) -> Any:
    run = f"{folder}/shape"
    with FileWriter(run, "worker_0", 0) as writer:
        writer.write_tensor(np.ones((2, 3)), "a", mode=modes.TRAIN, mode_step=0)
        writer.write_shape("a", (2, 3), mode=modes.TRAIN, mode_step=0)
    collections(run)
    training_has_ended(run)
    tensor = create_trial(run).tensor("a")
    return [list(tensor.shape(0)), answer_of(lambda: tensor.value(0).shape)]


def odd_type(folder: str, code: str) -> Any:
    """The type in which a value comes back that another writer saved as it is."""
    run = a_run(folder, f"type-{code}", {"a": np.ones(4, "f4")})
    event, index = (f"{run}/{kind}" for kind in ("events/000000000000/000000000000_worker_0.tfevents", "index"))
    index = f"{index}/000000000/000000000000_worker_0.json"
    numbers = {"i1": 6, "i2": 5, "u2": 17, "u4": 22, "u8": 23, "c8": 8}
    array = np.array([1, 2, 3, 4], code)
    # An Event as any writer of TensorFlow's types lays it out: summary > value > tag, tensor > dtype, shape, content.
    shape = field(2, field(2, b"\x08\x04"))
    tensor = bytes([8, numbers[code]]) + shape + field(4, array.tobytes())
    payload = b"\x09" + bytes(8) + field(5, field(1, field(1, b"a") + field(8, tensor)))
    write_record(event, payload)
    document = json.loads(Path(index).read_text())
    document["tensor_payload"][0]["length"] = os.path.getsize(event)
    Path(index).write_text(json.dumps(document))
    return str(create_trial(run).tensor("a").value(0).dtype)


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def write_record(path: str, payload: bytes) -> None:
    from smdebug.core.tfrecord.record_writer import RecordWriter

    writer = RecordWriter(path, False)
    writer.write_record(payload)
    writer.close()


def folder_with_underscores(folder: str) -> Any:
    trial = create_trial(a_run(folder, "my__run"))
    return [trial.workers(), trial.tensor("a").workers(0)]


def collections_of_two_workers(folder: str) -> Any:
    run = f"{folder}/two"
    for worker in range(2):
        save(run, 0, {f"of_{worker}": np.ones(2)}, worker=worker)
    collections(run, workers=2, names={0: ["of_0"], 1: ["of_1"]})
    training_has_ended(run)
    return len(create_trial(run).tensor_names(collection="some"))


def labels_of_a_mode(folder: str) -> Any:
    """Step 1 of EVAL is step 3 of the run."""
    run = f"{folder}/labels"
    for step, mode, mode_step in ((0, modes.TRAIN, 0), (1, modes.TRAIN, 1), (2, modes.EVAL, 0), (3, modes.EVAL, 1)):
        save(run, step, {"labels": np.array([step]), "x_0": np.array([step])}, mode=mode, mode_step=mode_step)
    collections(run)
    training_has_ended(run)
    trial = create_trial(run)
    return [[int(value[0]) for value in asked(1, mode=modes.EVAL)] for asked in (trial.labels, trial.inputs)]


def norms_beyond_vectors(folder: str) -> Any:
    run = a_run(folder, "norms", {"scalar": np.array(-2.0), "cube": np.full((2, 2, 2), -2.0)})
    trial = create_trial(run)
    return [
        answer_of(lambda name=name, norm=norm: float(trial.tensor(name).reduction_value(0, norm)))
        for name in ("scalar", "cube")
        for norm in ("l1", "l2")
    ]


def damaged_index(folder: str) -> Any:
    run = a_run(folder, "damaged-index", steps=3)
    Path(run, "index/000000000/000000000001_worker_0.json").write_text("{")
    return answer_of(lambda: create_trial(run).steps())


def damaged_record(folder: str) -> Any:
    run = a_run(folder, "damaged-record")
    path = Path(run, "events/000000000000/000000000000_worker_0.tfevents")
    content = bytearray(path.read_bytes())
    content[25:40] = b"\xff" * 15
    path.write_bytes(bytes(content))
    return answer_of(lambda: create_trial(run).tensor("a").value(0).tolist())


def looks_for_a_step(folder: str) -> Any:
    """How often a live run is looked at for a step that is there, and one that was passed over."""
    run = f"{folder}/live"
    for step in (0, 2):
        save(run, step, {"a": np.ones(2)}, mode=modes.GLOBAL)
    collections(run)
    trial = create_trial(run)
    looked = counting(trial, "refresh_data")
    for _ in range(5):
        trial.has_passed_step(0)
        trial.has_passed_step(1)
    return len(looked)


def counting(thing: Any, method: str) -> list[None]:
    calls: list[None] = []
    real = getattr(thing, method)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return real(*args, **kwargs)

    setattr(thing, method, counted)
    return calls


def window(folder: str) -> Any:
    """Worker 1 never writes; steps are 100 apart; the window is 10 steps."""
    run = f"{folder}/window"
    variables["SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW"] = "10"
    collections(run, workers=2)
    for step in range(0, 1500, 100):
        save(run, step, {"a": np.ones(2)}, mode=modes.GLOBAL)
    trial = create_trial(run)
    del variables["SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW"]
    return trial.steps()


def sleeps_at_the_end(folder: str) -> Any:
    variables["SMDEBUG_TRAINING_END_DELAY_REFRESH"] = "1"
    slept: list[float] = []
    real, time.sleep = time.sleep, slept.append
    try:
        create_trial(a_run(folder, "sleeps")).maybe_refresh()
    finally:
        time.sleep = real
        variables["SMDEBUG_TRAINING_END_DELAY_REFRESH"] = "0"
    return slept


def without_index_mode(folder: str) -> Any:
    return create_trial(a_run(folder, "index-mode"), index_mode=False).steps()


def pickled(folder: str) -> Any:
    return answer_of(lambda: again(exceptions.NoMoreData(3, modes.TRAIN, last_step=2)).args)


def again(error: Exception) -> Exception:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(copy, Exception)
    return copy


def says_what_it_waits_for(folder: str) -> Any:
    """Whether anything was said of a folder by the time of the first sleep."""
    run = f"{folder}/waited-for"
    Path(run).mkdir()
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]  # a small handler
    logging.getLogger("smdebug").addHandler(handler)
    real, time.sleep = time.sleep, lambda seconds: collections(run)
    try:
        create_trial(run, **({"sleep": time.sleep} if is_ours() else {}))
    finally:
        time.sleep = real
        logging.getLogger("smdebug").removeHandler(handler)
    return any(run in each for each in said)


def is_ours() -> bool:
    import smdebug

    return hasattr(smdebug, "not_offered")


def shape_without_mode_step(folder: str) -> Any:
    run = f"{folder}/no-mode-step"
    with FileWriter(run, "worker_0", 6) as writer:
        writer.write_shape("a", (3,))
    collections(run)
    training_has_ended(run)
    return answer_of(lambda: list(create_trial(run).tensor("a").shape(6)))


def empty_tensor(folder: str) -> Any:
    run = f"{folder}/empty"
    save(run, 0, {"none": np.empty(0), "a": np.ones(2)})
    collections(run)
    training_has_ended(run)
    trial = create_trial(run)
    return [trial.tensor_names(), answer_of(lambda: trial.tensor("none").value(0))]


def collection_made_by_asking(folder: str) -> Any:
    trial = create_trial(a_run(folder, "asked"))
    trial.collection("new")
    return sorted(trial.collections())


def steps_from_zero(folder: str) -> Any:
    run = a_run(folder, "range", steps=4)
    return [create_trial(run, range_steps=bounds).steps() for bounds in ((0, 3), (None, 3))]


def beyond_the_end(folder: str) -> Any:
    """A value of a step that a run has ended before."""
    return answer_of(lambda: create_trial(a_run(folder, "beyond")).tensor("a").value(7))


def end_between_two_looks(folder: str) -> Any:
    """A step that was not there yet, of a run that turns out to have ended."""
    trial = create_trial(a_run(folder, "ends-meanwhile"))
    trial.maybe_refresh()
    trial.has_passed_step = lambda *where: StepState.NOT_YET_AVAILABLE
    return answer_of(lambda: trial.tensor("a").value(7))


def std_of_two(folder: str) -> Any:
    return float(create_trial(a_run(folder, "std", {"a": np.array([1.0, 2.0])})).tensor("a").reduction_value(0, "std"))


def reduction_flags(folder: str) -> Any:
    read = ReductionConfig.from_dict({"save_raw_tensor": True, "save_shape": True})
    return [read.save_raw_tensor, read.save_shape]


QUESTIONS: dict[str, Callable[[str], Any]] = {
    "shape beside value": shape_beside_value,
    **{
        f"type {code}": lambda folder, code=code: odd_type(folder, code)
        for code in ("i1", "i2", "u2", "u4", "u8", "c8")
    },
    "folder with __": folder_with_underscores,
    "collections of two workers": collections_of_two_workers,
    "labels and inputs of a mode": labels_of_a_mode,
    "norms of a scalar and a cube": norms_beyond_vectors,
    "damaged index": damaged_index,
    "damaged record": damaged_record,
    "looks for ten steps": looks_for_a_step,
    "window": window,
    "sleeps at the end": sleeps_at_the_end,
    "index_mode=False": without_index_mode,
    "pickled": pickled,
    "says what it waits for": says_what_it_waits_for,
    "shape without a mode's step": shape_without_mode_step,
    "empty tensor": empty_tensor,
    "collection made by asking": collection_made_by_asking,
    "range from 0": steps_from_zero,
    "value beyond the end": beyond_the_end,
    "std of two numbers": std_of_two,
    "reduction flags alone": reduction_flags,
    "reduction median": lambda folder: vars(ReductionConfig(reductions=["median"])),
    "end between two looks": end_between_two_looks,
}

if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    folder = order["folder"]
    found = {
        label: answer_of(lambda q=question: plain(q(folder), folder))
        for label, question in QUESTIONS.items()
        if label in order.get("only", QUESTIONS)
    }
    Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")
