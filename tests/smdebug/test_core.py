"""What lies below smdebug's analysis answers as the real 1.0.34 does, on disk and on S3; its calls look alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.smdebug.s3_here import LocalS3, local_s3
from tests.smdebug.sides import HERE, ours, theirs
from tests.smdebug.test_names import ALL_NAMES

CORE, DIFFERENCES = HERE / "core_questions.py", HERE / "difference_questions.py"
BUCKET = "core-questions"  # its own: all servers of moto in a process share their buckets

# Question -> (our answer, the real one's); an error is its name. Each has its row in docs/smdebug-differences.md.
DIFFERENT_CORE = {
    "checkpoint: its content alone": (True, False),
    "from a worker with an underscore": ([12, "worker_0"], "ValueError"),
    "board without mode": ("tensorboard/GLOBAL/000000000003_w.tfevents", "AttributeError"),
    "step of an index file by its other name": (5, "ValueError"),
    "run of junk": ("ValueError", "AttributeError"),
    "worker below a folder with __": ("worker_2", "worker/2"),
    "worker of no collections file": ("SMDebugValueError", "AttributeError"),
    "after what a crash left": ("new", "stalenew"),
    "read without ingest_all": ("bytes 6162", "AttributeError"),
    "read True minimal": ([5, 0, 300], ["SMDebugRuntimeError"]),
    "proto int16": ("bytes 0803120b1209080112057461675f31220401000000", "bytes 0805120b1209080112057461675f3122020100"),
    "states damaged": ([None, False], "JSONDecodeError"),
}
DIFFERENT_S3 = {
    "s3 run that has ended exists": (True, False),
    "s3 something like an end marker": (False, True),
    "s3 grace": (False, True),
    "s3 a bucket that is not there": (
        ["LocationNotFoundError", "StorageError", "TracksideError", "OSError", "Exception", "BaseException", "object"],
        [[0, 1]],
    ),
}
DIFFERENT = {
    "shape beside value": ([[2, 3], [2, 3]], [[2, 3], "TensorUnavailableForStep"]),
    "type i1": ("int8", "uint8"),
    "type i2": ("int16", "KeyError"),
    "type u2": ("uint16", "KeyError"),
    "type u4": ("uint32", "KeyError"),
    "type u8": ("uint64", "KeyError"),
    "type c8": ("complex64", "KeyError"),
    "folder with __": ([["worker_0"], ["worker_0"]], [["worker_0"], ["worker/0"]]),
    "collections of two workers": (2, 1),
    "labels and inputs of a mode": ([[3], [3]], [[1], [1]]),
    "norms of a scalar and a cube": ([2.0, 2.0, 16.0, 5.656854249492381], ["ValueError"] * 4),
    "damaged index": ([0, 2], "IndexReaderException"),
    "damaged record": ("TensorUnavailableForStep", "DecodeError"),
    "looks for ten steps": (0, 10),
    "window": ([0, 100, 200, 300, 400, 500, 600, 700, 800, 900], [0]),
    "sleeps at the end": ([], [1]),
    "index_mode=False": ([0], []),
    "pickled": ([3, "TRAIN", 2], "TypeError"),
    "says what it waits for": (True, False),
    "shape without a mode's step": ([3], "TypeError"),
    "end between two looks": ("StepNotYetAvailable", "TypeError"),
    "empty tensor": ([["a"], "TensorUnavailable"], [["a", "none"], "SMDebugTypeError"]),
}


@pytest.fixture(scope="module")
def s3() -> Iterator[LocalS3]:
    with local_s3() as found:
        yield found


def both(smdebug_python: Path, script: Path, order: Mapping[str, Any], tmp_path: Path) -> tuple[Any, Any]:
    """Our answers and the real one's, each found in a folder of its own."""
    answers = []
    for side in (ours(), theirs(smdebug_python)):
        folder = tmp_path / side.name
        folder.mkdir()
        answers.append(side.ask(script, {**order, "folder": str(folder)}, tmp_path / f"{side.name}.json"))
    return answers[0], answers[1]


def shortened(answer: Any) -> Any:
    """Errors as their names."""
    if isinstance(answer, dict):
        return answer["raises"] if "raises" in answer else {key: shortened(each) for key, each in answer.items()}
    return [shortened(each) for each in answer] if isinstance(answer, list) else answer


def compare(our_answers: Any, their_answers: Any, different: Mapping[str, tuple[Any, Any]]) -> None:
    assert list(our_answers) == list(their_answers)
    wrong = {
        label: (answer, their_answers[label])
        for label, answer in our_answers.items()
        if label not in different and answer != their_answers[label]
    }
    assert dict(list(wrong.items())[:5]) == {}, f"{len(wrong)} answers differ: {', '.join(wrong)}"
    found = {label: (shortened(our_answers[label]), shortened(their_answers[label])) for label in different}
    assert found == different


def test_on_disk_both_answer_alike(smdebug_python: Path, tmp_path: Path) -> None:
    our_answers, their_answers = both(smdebug_python, CORE, {}, tmp_path)
    for question in ("step of junk",):  # the same error, in other words
        assert shortened(our_answers.pop(question)) == shortened(their_answers.pop(question)) == "ValueError"
    compare(our_answers, their_answers, DIFFERENT_CORE)
    assert len(our_answers) > 250


def test_on_s3_both_answer_alike(smdebug_python: Path, tmp_path: Path, s3: LocalS3) -> None:
    client = s3.client()
    answers = []
    for side in (ours(**s3.environment), theirs(smdebug_python, **s3.environment)):
        client.create_bucket(Bucket=BUCKET)
        order = {"folder": "no folder", "bucket": BUCKET}
        answers.append(side.ask(CORE, order, tmp_path / f"{side.name}.json"))
        assert "Contents" not in client.list_objects_v2(Bucket=BUCKET), "it removes what it wrote"
        client.delete_bucket(Bucket=BUCKET)
    compare(answers[0], answers[1], DIFFERENT_S3)
    assert len(answers[0]) >= 60


def test_where_we_differ_we_do_so_on_purpose(smdebug_python: Path, tmp_path: Path) -> None:
    our_answers, their_answers = both(smdebug_python, DIFFERENCES, {}, tmp_path)
    compare(our_answers, their_answers, DIFFERENT)


# Calls that need less than they did.
NEEDS_LESS = {"smdebug.rules.Rule": "action_str", "smdebug.rules.rule.Rule": "action_str"}
# What takes or gives protobuf messages; what only the original's own classes call; bases that nobody constructs; of
# hooks what `not_offered` has a reason for.
LEFT_OUT = {
    "smdebug.core.access_layer.base.TSAccessBase.open",
    "smdebug.core.access_layer.TSAccessFile.open",
    "smdebug.core.access_layer.TSAccessS3.open",
    "smdebug.core.access_layer.file.TSAccessFile.open",
    "smdebug.core.access_layer.s3.TSAccessS3.open",
    "smdebug.core.index_reader.IndexReader.list_event_files",
    "smdebug.core.hook.BaseHook",
    "smdebug.core.hook.BaseHook.log_outstanding_timeline_metrics",
    "smdebug.core.hook.CallbackHook",
    "smdebug.core.hook.CallbackHook.log_outstanding_timeline_metrics",
    "smdebug.trials.Trial",
    "smdebug.core.tensor.Tensor.add_step",
    "smdebug.core.tensor.Tensor.add_reduction_step",
    "smdebug.core.tfrecord.tensor_reader.TensorReader.read_summaries",
    "smdebug.core.tfrecord.tensor_reader.TensorReader.read_events",
}


def test_all_is_called_as_it_was(smdebug_python: Path, tmp_path: Path) -> None:
    """Every parameter of the original in its place and by its name; what we add has a default and no place."""
    without_frameworks = ("smdebug.core", "smdebug.trials", "smdebug.rules", "smdebug.analysis", "smdebug.exceptions")
    names = [(m, n) for m, n in ALL_NAMES if m == "smdebug" or m.startswith(without_frameworks)]
    our_calls, their_calls = both(smdebug_python, CORE, {"names": names}, tmp_path)
    compared = {
        name: (our_calls.get(name), their_call)
        for name, their_call in their_calls.items()
        if their_call is not None and is_offered(name, our_calls) and name not in LEFT_OUT
    }
    refused = {
        name: (our_call, their_call)
        for name, (our_call, their_call) in compared.items()
        if our_call is None or not is_accepted(our_call, their_call, may_lack=NEEDS_LESS.get(name, ""))
    }
    assert sorted(refused) == []
    assert len(compared) > 200


def is_offered(name: str, our_calls: Mapping[str, Any]) -> bool:
    """Return False for a name that can be imported only: a module that bears it is no class with that method."""
    return name in our_calls or our_calls.get(name.rpartition(".")[0]) is not None


def is_accepted(our_call: list[Any], their_call: list[Any], *, may_lack: str) -> bool:
    positional = [each for each in our_call if each[1] == "POSITIONAL_OR_KEYWORD"]
    added = [each for each in our_call if each[1] == "KEYWORD_ONLY"]
    known = {each[0] for each in their_call}
    if any(name not in known and not has_default for name, _, has_default in added):
        return False
    wanted = [each for each in their_call if each[1] == "POSITIONAL_OR_KEYWORD"]
    if [each[0] for each in positional] != [each[0] for each in wanted]:
        return False
    return all(
        mine[2] == real[2] or (mine[2] and mine[0] == may_lack) for mine, real in zip(positional, wanted, strict=True)
    )
