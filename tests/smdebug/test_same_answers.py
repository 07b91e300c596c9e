"""The drop-in and the real smdebug 1.0.34 answer the same script alike, on runs of either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.smdebug import questions
from tests.smdebug.test_interop import COLLECTIONS, STEPS, WORKERS, order_for_smdebug, packed, tensors_of
from trackside.contracts.capture_request import Schedule
from trackside.contracts.run_layout import END_MARKER_KEY, collections_key, index_key, parse_index_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.index_file import ShapeEntry, decode_index, encode_index
from trackside.records.modes import MODE_NUMBERS
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore

REDUCED = "Net_fc2.weight"
SHAPED = "Net_fc3.weight"


def reduced(step: int) -> list[tuple[str, Any]]:
    """A tensor of which reductions were saved, and one with value and reductions."""
    prefix = "smdebug/reductions"
    return [
        (f"{prefix}/mean/{REDUCED}", np.array(step + 0.5, "f4")),
        (f"{prefix}/abs_max/{REDUCED}", np.array(step + 1.5, "f4")),
        (f"{prefix}/l2/{REDUCED}", np.array([2.0], "f8")),
        (f"{prefix}/std/CrossEntropyLoss_output_0", np.array(7.0, "f4")),
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, peer: Any) -> dict[str, Path]:
    """The same run by us and by the real one, with its end marker. Worker 1 never wrote the last step."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("ours", "theirs")}
    store = LocalStore(folders["ours"])
    for step, mode, mode_step in STEPS:
        for worker in WORKERS:
            if (step, worker) == (1005, "worker_1"):
                continue
            tensors = [*tensors_of(step, worker), *reduced(step)]
            at = {"step": step, "mode": mode, "mode_step": mode_step, "worker": worker}
            files = encode_step(tensors, wall_time=1_700_000_000.0 + step, **at)  # type: ignore[arg-type]  # keywords
            index = decode_index(files.index_bytes, key=files.index_key)
            shaped = replace(index, shapes=(ShapeEntry(SHAPED, SHAPED, (step + 1, 2)),))
            write_step(store, replace(files, index_bytes=encode_index(shaped)))
    records = [
        CollectionRecord(
            name, regexes, names, schedules=dict.fromkeys(MODE_NUMBERS, Schedule(interval)) if interval else None
        )
        for name, regexes, names, interval in COLLECTIONS
    ]
    for worker in WORKERS:
        store.put(collections_key(worker), encode_collections(records, num_workers=len(WORKERS)))
    order = order_for_smdebug(folders["theirs"])
    order["steps"] = [s for s in order["steps"] if (s["step"], s["worker"]) != (1005, "worker_1")]
    for step_order in order["steps"]:
        step = step_order["step"]
        step_order["tensors"] += [[name, packed(value)] for name, value in reduced(step)]
        step_order["shapes"] = [[SHAPED, [step + 1, 2]]]
    peer("write", order)
    for folder in folders.values():
        LocalStore(folder).put(END_MARKER_KEY, b"")
    return folders


def keys_up_to(folder: Path, last_step: int) -> list[str]:
    """Collections, events, indexes of a run up to a step, events first."""
    keys = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
    steps = {key: found[0] for key in keys if (found := parse_index_key(key))}
    return [
        key
        for key in keys
        if key != END_MARKER_KEY and steps.get(key, int(key.split("/")[1]) if "events/" in key else 0) <= last_step
    ]


def stages_of(kind: str, folder: Path) -> list[list[str]]:
    if kind == "finished":
        return [[*keys_up_to(folder, 1005), END_MARKER_KEY]]
    if kind == "crashed":
        return [keys_up_to(folder, 1005)]
    first = [key for key in keys_up_to(folder, 3) if key != index_key(3, "worker_1")]
    second = [index_key(3, "worker_1"), *(key for key in keys_up_to(folder, 1005) if key not in first)]
    return [keys_up_to(folder, 3), second, [END_MARKER_KEY]]


@pytest.mark.parametrize("range_steps", [None, (2, 1005)], ids=["all steps", "some steps"])
@pytest.mark.parametrize("kind", ["finished", "crashed", "live"])
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_both_answer_alike(  # noqa: PLR0917 - fixtures and parameters
    runs: Mapping[str, Path], peer: Any, tmp_path: Path, writer: str, kind: str, range_steps: tuple[int, int] | None
) -> None:
    source = runs[writer]
    order = {"source": str(source), "stages": stages_of(kind, source), "range_steps": range_steps}
    theirs = peer("ask", {**order, "folder": str(tmp_path / "theirs")})["answers"]
    ours = json.loads(json.dumps(questions.ask_in_stages({**order, "folder": str(tmp_path / "ours")})))
    assert len(ours) == len(theirs)
    for our_answers, their_answers in zip(ours, theirs, strict=True):
        assert list(our_answers) == list(their_answers)
        wrong = {q: (a, their_answers[q]) for q, a in our_answers.items() if a != their_answers[q]}
        assert dict(list(wrong.items())[:5]) == {}, f"{len(wrong)} answers differ"
    assert len(ours[-1]) > 1000


def of_error(answer: Any) -> Any:
    return answer["raises"] if isinstance(answer, dict) and "raises" in answer else answer


# Question -> our answer, and the real one's. Each has its row in docs/smdebug-differences.md.
DIFFERENT = {
    "names of a mode that was not seen": ([], "KeyError"),
    "names of a mode's step that was not seen": ([], "KeyError"),
    "l1 of a matrix": (8.9845609664917, 4.99935245513916),
    "l2 of a matrix": (3.3684046268463135, 2.999217987060547),
    "collections after an unknown one was asked about": (
        ["gradients", "losses", "weights"],
        ["gradients", "losses", "unknown", "weights"],
    ),
    "refreshing after wait_for_steps": (True, False),
    "refreshing after an error within no_refresh": (True, False),
    "steps of a tensor in a mode whose step waits for a worker": ([], [0]),
    "steps of the trial in that mode": ([], []),
    "reduction named as documented": (
        {"save_raw_tensor": False, "reductions": "l1_norm,abs_l2_norm", "save_shape": False},
        "SMDebugValueError",
    ),
    "a rule without action_str": ("WithoutActions", "TypeError"),
    "steps as they were handed over": ([0], [0, 2]),
    "shapes": ({"0": [5], "2": [5]}, "AttributeError"),
}


def test_where_we_differ_we_do_so_on_purpose(runs: Mapping[str, Path], peer: Any, tmp_path: Path) -> None:
    source = runs["ours"]
    folder = tmp_path / "run"
    questions.copy_files([key for key in keys_up_to(source, 3) if key != index_key(3, "worker_1")], source, folder)
    ours = json.loads(json.dumps(questions.ask_for_differences({"folder": str(folder)})))
    theirs = peer("differences", {"folder": str(folder)})["answers"]
    assert {label: (of_error(ours[label]), of_error(theirs[label])) for label in ours} == DIFFERENT


def test_configuration_is_the_same_data(peer: Any) -> None:
    ours = json.loads(json.dumps(questions.configuration_data()))
    theirs = peer("data", {})["answers"]
    wrong = {question: (answer, theirs[question]) for question, answer in ours.items() if answer != theirs[question]}
    assert wrong == {}
