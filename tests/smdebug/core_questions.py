"""Questions to what lies below smdebug's analysis (`smdebug.core`), asked of the drop-in and of the real 1.0.34.

`python stand_ins.py core_questions.py ORDER ANSWER`: ORDER is JSON with a `folder` to work in and, for the questions
about S3, a `bucket`; ANSWER is the file for the answers.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from questions import answer_of
from smdebug import modes
from smdebug.core import config_constants, hook_utils, locations, reductions, utils
from smdebug.core.access_layer import (
    TSAccessFile,
    check_dir_exists,
    has_training_ended,
    is_rule_signalled_gracetime_passed,
    training_has_ended,
)
from smdebug.core.access_layer import utils as access
from smdebug.core.access_layer.file import SMDEBUG_TEMP_PATH_SUFFIX, WRITE_MODES, get_temp_path
from smdebug.core.collection import (
    NON_HISTOGRAM_COLLECTIONS,
    NON_REDUCTION_COLLECTIONS,
    SCALAR_COLLECTIONS,
    SM_METRIC_COLLECTIONS,
    SUMMARIES_COLLECTIONS,
)
from smdebug.core.index_reader import LocalIndexReader, ReadIndexFilesCache
from smdebug.core.json_config import get_include_collections, get_json_config_as_dict
from smdebug.core.locations import IndexFileLocationUtils, TensorboardFileLocation, TensorFileLocation
from smdebug.core.logger import DuplicateLogFilter, MaxLevelFilter
from smdebug.core.reader import FileReader
from smdebug.core.sagemaker_utils import is_sagemaker_job
from smdebug.core.state_store import StateStore
from smdebug.core.tfevent.util import make_tensor_proto
from smdebug.core.tfrecord.record_reader import CHECKSUM_MAGIC_BYTES, RecordReader, masked_crc32c, u32
from smdebug.core.tfrecord.record_writer import RecordWriter
from smdebug.core.tfrecord.tensor_reader import TensorReader
from smdebug.core.writer import FileWriter
from smdebug.trials import create_trial

Question = tuple[str, Callable[[], Any]]
Grid = list[tuple[str, Any]]

variables = os.environ  # noqa: TID251 - this is a user's script, and it also runs where there is no Trackside


def plain(value: Any, folder: str) -> Any:
    """As JSON, whatever it is; without the folder's own name, which differs."""
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if isinstance(value, (str, Path)):
        return str(value).replace(folder, "<folder>")
    if isinstance(value, dict):
        return {plain(key, folder): plain(each, folder) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        told = [plain(each, folder) for each in value]
        return told if isinstance(value, (list, tuple)) else sorted(told)
    return value


def files_below(folder: str) -> dict[str, Any]:
    """Content by path."""
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def constants() -> Iterator[Question]:
    for name in sorted(vars(config_constants)):
        if name.isupper() and "PROFILER" not in name:
            yield f"constant {name}", lambda name=name: getattr(config_constants, name)
    yield (
        "collection sets",
        lambda: [
            SCALAR_COLLECTIONS,
            SUMMARIES_COLLECTIONS,
            NON_REDUCTION_COLLECTIONS,
            NON_HISTOGRAM_COLLECTIONS,
            SM_METRIC_COLLECTIONS,
        ],
    )
    yield "access constants", lambda: [SMDEBUG_TEMP_PATH_SUFFIX, WRITE_MODES, access.END_OF_JOB_FILENAME]
    yield "grace constant", lambda: access.DEFAULT_GRACETIME_FOR_RULE_STOP_SEC
    yield "frameworks", lambda: [[each.name, each.value] for each in utils.FRAMEWORK]
    yield "magic", lambda: [CHECKSUM_MAGIC_BYTES, locations.STEP_NUMBER_FORMATTING_LENGTH]


def small_things(folder: str) -> Iterator[Question]:
    for path in ("a/b", "s3://a/b", "s3://a", "s3://a/", "S3://A/b", "s3:/x", "", "s3://a/b/c/", " s3://a/b"):
        yield f"is_s3 {path!r}", lambda path=path: utils.is_s3(path)
    values = {
        "int": 3,
        "float": 2.5,
        "bool": True,
        "str": "x",
        "tuple": (1, 2),
        "mixed": [1, "a"],
        "array": np.ones((2, 2)),
        "float32": np.float32(2),
        "none": None,
        "set": {1},
        "complex": 1j,
        "0-d": np.array(3),
    }
    for name, value in values.items():
        yield f"array of {name}", lambda value=value: utils.make_numpy_array(value)
        yield f"can save {name}", lambda v=value: utils.validate_custom_tensor_value(v, utils.make_numpy_array)
    yield "array of dict", lambda: utils.make_numpy_array({"a": 1}).item()
    yield "flatten", lambda: utils.flatten([1, [2, [3]], "a"])
    yield "split", lambda: [utils.split(text) for text in ("a, b,c", "", "[a,b]")]
    yield "merged", lambda: utils.merge_two_dicts({"a": 1}, {"a": 2, "b": 3})
    yield "index", lambda: utils.index([1, 3, 5], 3)
    yield "index of none", lambda: utils.index([1, 3, 5], 4)
    yield "match", lambda: [utils.match_inc("fc1.weight", each) for each in (["weight"], [], ["b", "^fc"])]
    for bounds in ((1, 3), (None, 3), (1, None), (None, None), (0, 3)):
        yield f"in range {bounds}", lambda b=bounds: [utils.step_in_range(b, step) for step in range(5)]
    yield "json", lambda: [utils.load_json_as_dict(text) for text in ('{"a": 1}', None, "[1]")]
    yield "sizes", lambda: [utils.size_and_shape(np.ones((2, 3))), utils.size_and_shape("ab")]
    yield "arn", lambda: utils.get_aws_region_from_processing_job_arn("arn:aws:sagemaker:us-east-2:1:processing-job/x")
    yield (
        "node",
        lambda: [utils.serialize_tf_device("/job:worker/task:1"), utils.deserialize_tf_device("_device-GPU-0")],
    )
    for name in ("min", "std", "l1", "none"):
        yield f"basic {name}", lambda name=name: reductions.get_basic_numpy_reduction(name, np.array([1.0, -2.0]))
    yield "crc", lambda: [masked_crc32c(b"123456789"), masked_crc32c(b""), u32(2**32 + 5), u32(-1)]
    for text in ("", "us-west-2"):
        yield f"region {text!r}", lambda text=text: with_variable("AWS_REGION", text, utils.get_region)
    yield "region unset", utils.get_region
    yield "sagemaker", is_sagemaker_job
    yield "sagemaker set", lambda: with_variable("TRAINING_JOB_NAME", "", is_sagemaker_job)


def with_variable(name: str, value: str, question: Callable[[], Any]) -> Any:
    before = variables.get(name)
    variables[name] = value
    try:
        return question()
    finally:
        del variables[name]
        if before is not None:
            variables[name] = before


def places(folder: str) -> Iterator[Question]:
    where = TensorFileLocation(12, "worker_0")
    yield "tensor file", lambda: [where.get_step_num_str(), where.get_filename(), vars(where)]
    yield "tensor file in", lambda: [where.get_file_location(run) for run in ("", "/x/y", "s3://b/y/")]
    for name in ("12_w.tfevents", "000000000012_w.tfevents", "bad", "000000000012_w.tfevents.tmp"):
        yield f"from {name}", lambda name=name: name_parts(TensorFileLocation.match_regex(name))
    yield "from a worker with an underscore", lambda: name_parts(TensorFileLocation.load_filename(where.get_filename()))
    yield "folders", lambda: [TensorFileLocation.get_dir("/x"), TensorFileLocation.get_step_dir_path("/x", 3)]
    board = TensorboardFileLocation(3, "w", modes.EVAL)
    yield "board file", lambda: [board.get_file_location(), board.get_file_location("/x"), board.type]
    yield "board without mode", lambda: TensorboardFileLocation(3, "w").get_file_location()
    for step in (0, 999, 1000, 1234567, 10**13):
        yield (
            f"index of {step}",
            lambda step=step: [
                IndexFileLocationUtils.get_index_prefix_for_step(step),
                IndexFileLocationUtils.next_index_prefix_for_step(step),
                IndexFileLocationUtils.get_index_key_for_step("/x", step, "worker_0"),
            ],
        )
    yield "index in", lambda: [IndexFileLocationUtils.get_index_path(p) for p in ("/x", "/x/", "s3://b/x/", "x")]
    for file in ("/x/index/000000000/000000000005_worker_0.json", "s3://b/r_1/index/000000000/000000000005_w.json"):
        yield f"step of {file}", lambda file=file: IndexFileLocationUtils.parse_step_from_index_file_name(file)
        yield f"run of {file}", lambda file=file: IndexFileLocationUtils.get_prefix_from_index_file(file)
    yield "step of junk", lambda: IndexFileLocationUtils.parse_step_from_index_file_name("junk")
    yield (
        "step of an index file by its other name",
        lambda: IndexFileLocationUtils.get_step_from_idx_filename("000000000005_worker_0.json"),
    )
    yield "run of junk", lambda: IndexFileLocationUtils.get_prefix_from_index_file("junk")
    location = locations.TensorLocation("t", modes.TRAIN, 3, "/a/events/0/1_w.tfevents", 5, 6, "worker_0")
    yield "tensor location", lambda: [location.to_dict(), {**vars(location), "mode": location.mode.name}]
    shapes = [locations.TensorShape("t", modes.TRAIN, 3, (1, 2), name) for name in (None, "o")]
    yield "tensor shape", lambda: [shape.to_dict() for shape in shapes]
    yield (
        "paths",
        lambda: [
            utils.get_path_to_collections("/x"),
            utils.get_path_to_events_directory("/x"),
            utils.get_path_to_collections("s3://b/x/"),
        ],
    )
    for path in ("/x/events/000/1_w.tfevents", "/events/x/events/0/1.tfevents", "/x/tensorboard/TRAIN/1.t", "/x/y"):
        yield f"relative {path}", lambda path=path: utils.get_relative_event_file_path(path)
    for file in (
        "/t/index/000000001/000000001230_worker_2.json",
        "/t/index/000000000499__job-worker_replica-0_device-GPU-6.json",
        "/t/index/000000001/000000001230_worker_2.json.tmp",
        "x/000000001230_worker_2.csv",
        "events/000000001230/000000001230_worker_2.tfevents",
        "000000001230_worker_2.json",
        "x/junk",
    ):
        yield f"worker of {file}", lambda file=file: utils.parse_worker_name_from_file(file)
    yield (
        "worker below a folder with __",
        lambda: utils.parse_worker_name_from_file("/a__b/index/000000001/000000001230_worker_2.json"),
    )
    for name in ("job-worker_1_collections.json", "_job-worker_replica-0_collections.json", "worker_0_collections.ts"):
        yield (
            f"worker of {name}",
            lambda name=name: utils.get_worker_name_from_collection_file(f"/t/collections/000000000/{name}"),
        )
    yield "worker of no collections file", lambda: utils.get_worker_name_from_collection_file("x/worker_0.json")


def name_parts(where: Any) -> Any:
    return None if where is None else [where.step_num, where.worker_name]


def files(folder: str) -> Iterator[Question]:
    path = f"{folder}/files"
    yield "temp paths", lambda: [get_temp_path(each) for each in ("/opt/ml/output/tensors/a", "a/b", "")]
    yield "a text", lambda: written(TSAccessFile(f"{path}/a/text.txt", "a+"), ["abc", "de"])
    yield "bytes", lambda: written(TSAccessFile(f"{path}/bytes.bin", "wb"), [b"abcdef", b"g"])
    yield "text as bytes", lambda: written(TSAccessFile(f"{path}/x.bin", "wb"), ["text"])
    yield "before and after close", lambda: seen_while_written(f"{path}/late.txt")
    yield "a partial file that vanished", lambda: vanished(f"{path}/gone.txt")
    yield "after what a crash left", lambda: after_a_crash(f"{path}/stale.txt")
    yield "read", lambda: read_in_parts(TSAccessFile(f"{path}/bytes.bin", "rb"))
    yield "read without ingest_all", lambda: TSAccessFile(f"{path}/bytes.bin", "rb").read(2)
    yield "read no file", lambda: kind_of_error(lambda: TSAccessFile(f"{path}/none", "rb"))
    yield "odd mode", lambda: TSAccessFile(f"{path}/none", "q")
    yield (
        "files",
        lambda: {name: data for name, data in files_below(path).items() if name not in ("x.bin", "stale.txt")},
    )
    yield "list", lambda: sorted(utils.list_files_in_directory(path))
    yield "list some", lambda: sorted(utils.list_files_in_directory(path, file_regex=r".*\.txt$"))
    yield "list none", lambda: utils.list_files_in_directory(f"{path}/none")
    yield "folders in", lambda: utils.get_immediate_subdirectories(path)
    yield "make folder", lambda: (utils.ensure_dir(f"{path}/p/q/f.txt"), os.listdir(f"{path}/p"))[1]
    yield (
        "make folder itself",
        lambda: (utils.ensure_dir(f"{path}/p/r", is_file=False), sorted(os.listdir(f"{path}/p")))[1],
    )
    yield "remove", lambda: [utils.remove_file_if_exists(f"{path}/late.txt") for _ in range(2)]
    yield "exists", lambda: [access.file_exists(f"{path}{each}") for each in ("/bytes.bin", "/a", "/none")]
    claim = f"{folder}/claim"
    yield "first", lambda: [utils.is_first_process(claim) for _ in range(2)]
    yield "claim", lambda: os.listdir(claim)
    yield "claim removed", lambda: [utils.remove_claim_file(claim), utils.remove_claim_file(claim), os.listdir(claim)]
    yield "first again", lambda: utils.is_first_process(claim)
    yield "first at a file", lambda: [utils.is_first_process(f"{folder}/one/file", is_dir=False) for _ in range(2)]
    yield "first on s3", lambda: [utils.is_first_process("s3://a/b"), utils.remove_claim_file("s3://a/b")]


def written(writer: Any, parts: list[Any]) -> list[Any]:
    placed = [writer.write(part) for part in parts]
    writer.flush()
    writer.close()
    return placed


def seen_while_written(path: str) -> list[bool]:
    writer = TSAccessFile(path, "w")
    writer.write("late")
    before = os.path.exists(path)
    writer.close()
    writer.close()
    return [before, os.path.exists(path), os.path.exists(get_temp_path(path))]


def vanished(path: str) -> bool:
    writer = TSAccessFile(path, "w")
    os.unlink(get_temp_path(path))
    writer.close()
    return os.path.exists(path)


def after_a_crash(path: str) -> str:
    Path(get_temp_path(path)).write_text("stale")
    written(TSAccessFile(path, "a+"), ["new"])
    return Path(path).read_text()


def read_in_parts(reader: Any) -> list[Any]:
    reader.ingest_all()
    return [reader.read(2), reader.has_data(), answer_of(lambda: reader.read(20)), reader.has_data()]


def ends(folder: str) -> Iterator[Question]:
    run = f"{folder}/ended"
    Path(run).mkdir()
    yield "not ended", lambda: [has_training_ended(run), check_dir_exists(run), has_training_ended(f"{run}/none")]
    yield "out_dir before", lambda: hook_utils.verify_and_get_out_dir(run)
    yield "ended", lambda: [training_has_ended(run), has_training_ended(run), check_dir_exists(run)]
    yield "ended twice", lambda: [training_has_ended(run), os.listdir(run)]
    yield "ended where nothing was", lambda: [training_has_ended(f"{run}/a/b"), os.listdir(f"{run}/a/b")]
    yield "out_dir", lambda: kind_of_error(lambda: hook_utils.verify_and_get_out_dir(run))
    yield "out_dir none", lambda: hook_utils.verify_and_get_out_dir(None)
    yield "out_dir home", lambda: hook_utils.verify_and_get_out_dir("~/zzz") == os.path.expanduser("~/zzz")
    yield (
        "tensorboard folders",
        lambda: [
            hook_utils.get_tensorboard_dir(*each)
            for each in [(True, None, "/o"), (False, None, "/o"), (True, "/t", "/o"), (False, "/t", "/o")]
        ],
    )
    yield "grace unset", lambda: is_rule_signalled_gracetime_passed(run)
    now = int(time.time())
    for label, text in (("none", None), ("fresh", now), ("old", now - 61), ("junk", "junk"), ("empty", "")):
        yield f"grace {label}", lambda text=text: grace(run, text)


def grace(run: str, text: Any) -> bool:
    stop = Path(run, "stop")
    stop.unlink(missing_ok=True)
    if text is not None:
        stop.write_text(str(text))
    return bool(
        with_variable("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE", "stop", lambda: is_rule_signalled_gracetime_passed(run))
    )


def kind_of_error(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - which error is the answer
        return [kind.__name__ for kind in type(error).__mro__]


def configurations(folder: str) -> Iterator[Question]:
    path = Path(folder, "hook.json")
    weights = {"CollectionName": "weights", "CollectionParameters": None}
    path.write_text(json.dumps({"LocalPath": "/x", "HookParameters": None, "CollectionConfigurations": [weights]}))
    nameless = {"CollectionConfigurations": [{"CollectionParameters": {}}]}
    yield "configuration", lambda: get_json_config_as_dict(str(path))
    yield "configuration none", lambda: kind_of_error(lambda: get_json_config_as_dict(f"{folder}/none.json"))
    yield (
        "configuration by variable",
        lambda: with_variable("SMDEBUG_CONFIG_FILE_PATH", str(path), lambda: get_json_config_as_dict(None)),
    )
    yield "collections wanted", lambda: get_include_collections(get_json_config_as_dict(str(path)))
    yield "collections none", lambda: get_include_collections({})
    yield "collections nameless", lambda: kind_of_error(lambda: get_include_collections(nameless))


def records(folder: str) -> Iterator[Question]:
    for checked in (True, False):
        path = f"{folder}/{checked}.records"
        yield f"records {checked}", lambda p=path, c=checked: write_records(p, c)
        yield f"records {checked} bytes", lambda p=path: Path(p).read_bytes()
        for check in ("minimal", "full", "none"):
            yield f"read {checked} {check}", lambda p=path, c=check: read_records(RecordReader(p), c)
    yield "flush", lambda: RecordReader(f"{folder}/True.records").flush()
    yield "no file", lambda: kind_of_error(lambda: RecordReader(f"{folder}/none"))
    protos = {
        "float64": np.arange(3.0),
        "float16": np.ones((2, 1), "f2"),
        "bool": np.array([True]),
        "0-d": np.array(1.0),
        "texts": np.array(["a", "ö"]),
    }
    for name, array in protos.items():
        yield f"proto {name}", lambda array=array: make_tensor_proto(array, "tag").SerializeToString()
    yield "proto int16", lambda: make_tensor_proto(np.array([1], "i2"), "tag").SerializeToString()
    yield "proto size", lambda: make_tensor_proto(np.arange(3.0), "tag").ByteSize()
    yield "proto time", lambda: kind_of_error(lambda: make_tensor_proto(np.array(["2020"], "M8[Y]"), "tag"))


def write_records(path: str, checked: bool) -> Any:
    writer = RecordWriter(path, checked)
    placed = [writer.write_record(payload) for payload in (b"hello", b"", b"x" * 300)]
    writer.flush()
    writer.close()
    return placed


def read_records(reader: Any, check: str) -> Any:
    found = []
    while reader.has_data():
        try:
            found.append(len(reader.read_record(check)))
        except Exception as error:  # noqa: BLE001 - which error is part of the answer
            found.append(type(error).__name__)
            break
    reader.close()
    return found


TENSORS: Grid = [
    ("a", np.arange(4.0)),
    ("b/w:0", np.ones((2, 3), "f4")),
    ("c", 7),
    ("d", [1, 2.5]),
    ("e", "text"),
    ("ä", np.array(["x", "größe"])),
    ("f", np.array(3.5)),
    ("g", True),
]


def steps(folder: str) -> Iterator[Question]:
    run = f"{folder}/run"
    yield "write", lambda: write_run(run)
    yield "run", lambda: files_below(run)
    event = f"{run}/events/000000000003/000000000003_worker_0.tfevents"
    for check in ("minimal", "none"):
        yield f"tensors {check}", lambda check=check: list(FileReader(event).read_tensors(check=check))
    yield "tensors full", lambda: kind_of_error(lambda: list(FileReader(event).read_tensors(check="full")))
    yield "tensors twice", lambda: twice(FileReader(event))
    yield "events of a file", lambda: FileReader(event).read_events()
    yield "events some", lambda: FileReader(event).read_events(regex_list=["^b", "c"])
    yield "events none", lambda: FileReader(event).read_events(regex_list=[])
    yield "odd reader", lambda: kind_of_error(lambda: FileReader(event, wtype="x"))
    yield "no event file", lambda: kind_of_error(lambda: list(FileReader(f"{run}/none").read_tensors()))
    yield "odd writer", lambda: FileWriter(run, "worker_0", wtype="x")
    yield "one after the other", lambda: one_by_one(Path(event).read_bytes())
    yield "empty bytes", lambda: list(TensorReader(b"").read_tensors())
    yield "name before", lambda: kind_of_error(FileWriter(run, "worker_0", 77).name)
    yield "objects", lambda: kind_of_error(lambda: FileWriter(run, "w", 78).write_tensor(object(), "o"))
    yield "a dict", lambda: issubclass_of_type_error(lambda: FileWriter(run, "w", 79).write_tensor({"a": 1}, "o"))
    yield "damage", lambda: [damaged(Path(event).read_bytes(), kind) for kind in ("cut", "short", "junk")]
    yield "trial", lambda: trial_of(run)
    index = LocalIndexReader
    yield "index files", lambda: index(run).list_index_files()
    yield "event files", lambda: index(run).list_event_files("")
    yield "event files after", lambda: index(run).list_event_files(event)
    yield "index read", lambda: index(run).read_index_files(None)
    yield "index read some", lambda: index(run).read_index_files(None, range_steps=(4, 2000))
    yield "index read after", lambda: index(run).read_index_files(f"{run}/index/000000000/000000000004_worker_0.json")
    yield "index again", lambda: index_again(index(run))
    yield "index loaded", lambda: loaded(index(run))
    yield "index of nothing", lambda: index(f"{run}/none").load_tensor_data_from_index_files()
    yield "index values", lambda: index_values(index(run))
    yield "cache", forgetting
    yield "board", lambda: board(f"{folder}/tensorboard")
    yield "filters", filtered


def write_run(run: str) -> list[str]:
    names = []
    for step, mode, mode_step in ((3, modes.TRAIN, 1), (4, modes.EVAL, 0), (1005, modes.TRAIN, 2)):
        for worker in ("worker_0", "worker_1"):
            with FileWriter(trial_dir=run, worker=worker, step=step) as writer:
                for name, value in TENSORS:
                    writer.write_tensor(value, name, mode=mode, mode_step=mode_step, timestamp=1.5)
                writer.write_tensor(np.ones(2), "not indexed", write_index=False, timestamp=1.5)
                if step == 4:
                    writer.write_shape("s", (1, 2), mode=mode, mode_step=mode_step, original_name="o")
                writer.flush()
                names.append(writer.name())
    with FileWriter(run, "worker_0", 1006) as writer:  # neither mode nor its step
        writer.write_tensor(np.ones(2), "a", mode=None, mode_step=None, timestamp=1.5)
    with FileWriter(run, "worker_0", 1007) as writer:  # the tensor's mode holds, the shape came first
        writer.write_shape("s", (3,), mode=modes.TRAIN, mode_step=9)
        writer.write_tensor(np.ones(2), "a", mode=modes.EVAL, mode_step=2, timestamp=1.5)
    with FileWriter(run, "worker_0", 1008) as writer:
        writer.write_shape("s", (3,), mode=modes.TRAIN, mode_step=10)
    with FileWriter(run, "checked", 1009, write_checksum=True) as writer:
        writer.write_tensor(np.ones(2), "a", timestamp=1.5)
    FileWriter(run, "worker_0", 1010).close()
    return names


def twice(reader: Any) -> list[int]:
    return [len(list(reader.read_tensors())) for _ in range(2)]


def one_by_one(data: bytes) -> list[Any]:
    reader = TensorReader(data)
    first = reader.read_record()
    return [first, reader.has_data(), len(list(reader.read_tensors())), reader.has_data()]


def damaged(data: bytes, kind: str) -> bool:
    content = {"cut": data[:50], "short": data[:5], "junk": b"x" * 200}[kind]
    try:
        list(TensorReader(content).read_tensors())
    except Exception:  # noqa: BLE001 - the original's errors for damage are accidents
        return True
    return False


def issubclass_of_type_error(question: Callable[[], Any]) -> bool:
    try:
        question()
    except TypeError:
        return True
    return False


def trial_of(run: str) -> list[Any]:
    from smdebug.core.collection_manager import CollectionManager

    manager = CollectionManager()
    manager.add("default")
    manager.get("default").tensor_names = [name for name, _ in TENSORS]
    manager.export(run, config_constants.DEFAULT_COLLECTIONS_FILE_NAME)
    trial = create_trial(run, name="run")
    public = [
        name
        for name in ("index_reader", "last_event_token", "mode_to_tensors_map", "worker_set", "trial_dir", "path")
        if hasattr(trial, name)
    ]
    return [
        trial.steps(),
        trial.tensor_names(),
        trial.tensor("a").value(1005),
        trial.tensor("s").shape(4),
        public,
        {mode.name: sorted(names) for mode, names in trial.mode_to_tensors_map.items() if mode is not modes.GLOBAL},
        trial.last_event_token,
        len(trial.index_reader.list_index_files()),
    ]


def index_again(reader: Any) -> list[Any]:
    reader.read_index_files(None)
    return list(reader.read_index_files(None))


def loaded(reader: Any) -> list[Any]:
    found, last = reader.load_tensor_data_from_index_files(range_steps=(3, 5))
    return [
        {name: {step: {w: told(e) for w, e in ws.items()} for step, ws in by.items()} for name, by in found.items()},
        last,
    ]


def told(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        kind: {**vars(what), "mode": what.mode.name, "shape": list(getattr(what, "shape", ()))}
        for kind, what in sorted(entry.items())
    }


def index_values(reader: Any) -> list[Any]:
    found, _ = reader.load_tensor_data_from_index_files()
    places = [found[name][1005]["worker_1"]["tensor_location"] for name in ("a", "b/w:0", "e")]
    return [reader.fetch_tensor_value(place) for place in places]


def forgetting() -> list[int]:
    cache = ReadIndexFilesCache()
    sizes = []
    for name in ("1", "1", "2", "3", "4"):
        cache.add(f"file_{name}", None)
        sizes.append(len(cache.lookup_set))
    cache.cache_limit = 2
    for name, start in (("5", "file_1"), ("6", "file_4")):
        cache.add(f"file_{name}", start)
        sizes.append(len(cache.lookup_set))
    return [*sizes, cache.has_not_read("file_1"), cache.has_not_read("file_6")]


def board(folder: str) -> Any:
    writer = FileWriter(folder, "123_host", 4, wtype="tensorboard", mode=modes.TRAIN, write_checksum=True)
    writer.write_scalar_summary("loss:0", 1.5, 4, timestamp=2.0)
    writer.write_scalar_summary("/a b", np.array([2.5]), 4, timestamp=2.0)
    writer.close()
    return [writer.name(), files_below(folder)]


def filtered() -> list[Any]:
    import logging

    record = logging.LogRecord("n", logging.INFO, "p", 1, "m", (), None)
    duplicates = DuplicateLogFilter()
    kept = [duplicates.filter(record) for _ in range(6)]
    return [kept, duplicates.repeat_threshold, [MaxLevelFilter(level).filter(record) for level in (10, 20, 30)]]


STATE = {
    "training-run": 1,
    "latest-global-step-saved": None,
    "latest-global-step-seen": 5,
    "latest-mode-step": {"TRAIN": 5, "GLOBAL": 5},
}


def states(folder: str) -> Iterator[Question]:
    configuration, checkpoints = Path(folder, "checkpointconfig.json"), Path(folder, "checkpoints")
    variables["CHECKPOINT_CONFIG_FILE_PATH"] = str(configuration)
    yield "states without a configuration", lambda: looked_at(StateStore())
    configuration.write_text("{}")
    yield "states without a folder's name", lambda: looked_at(StateStore())
    configuration.write_text(json.dumps({"LocalPath": str(checkpoints)}))
    yield "states without a folder", lambda: looked_at(StateStore())
    checkpoints.mkdir()
    store = StateStore()
    changes: list[tuple[str, Callable[[], Any]]] = [
        ("nothing", lambda: None),
        ("a file", lambda: (checkpoints / "a.pt").write_text("1")),
        ("nothing new", lambda: None),
        ("its size", lambda: (checkpoints / "a.pt").write_text("12")),
        ("its name", lambda: (checkpoints / "a.pt").rename(checkpoints / "b.pt")),
        (
            "its content alone",
            lambda: ((checkpoints / "b.pt").write_text("34"), os.utime(checkpoints / "b.pt", (3, 3))),
        ),
        ("an upload's mark", lambda: (checkpoints / "x.sagemaker-uploaded").write_text("3")),
        ("a folder", (checkpoints / "sub").mkdir),
        ("a file in it", lambda: (checkpoints / "sub" / "z").write_text("3")),
        ("one less", (checkpoints / "sub" / "z").unlink),
    ]
    for label, change in changes:
        yield f"checkpoint: {label}", lambda change=change: (change(), store.is_checkpoint_updated())[1]
    yield "states none", store.get_last_saved_state
    for step in (5, 3, 9):
        yield f"state {step}", lambda step=step: store.update_state({**STATE, "latest-global-step-seen": step})
    yield "states file", (checkpoints / "metadata.json").read_bytes
    yield "states last", store.get_last_saved_state
    yield "states do not count as checkpoints", store.is_checkpoint_updated
    yield "states read again", lambda: StateStore().get_last_saved_state()
    yield (
        "states added to",
        lambda: (StateStore().update_state({**STATE, "training-run": 2}), (checkpoints / "metadata.json").read_bytes())[
            1
        ],
    )
    yield "states that are none", lambda: ((checkpoints / "metadata.json").write_text("[]"), looked_at(StateStore()))[1]
    yield "states damaged", lambda: ((checkpoints / "metadata.json").write_text("{"), looked_at(StateStore()))[1]


def looked_at(store: Any) -> list[Any]:
    return [store.get_last_saved_state(), store.is_checkpoint_updated()]


def on_s3(bucket: str) -> Iterator[Question]:
    from smdebug.core.access_layer import TSAccessS3
    from smdebug.core.access_layer.s3handler import DeleteRequest, ListRequest, ReadObjectRequest, S3Handler
    from smdebug.core.index_reader import S3IndexReader
    from smdebug.core.s3_utils import list_s3_objects

    handler, root = S3Handler, f"s3://{bucket}"
    yield "s3 text", lambda: written(TSAccessS3(bucket, "a//b.txt", binary=False), ["abc", "dé"])
    yield "s3 bytes", lambda: written(TSAccessS3(bucket, "a/c.bin"), [b"abc"])
    yield "s3 parts", lambda: read_in_parts(TSAccessS3(bucket, "a/c.bin"))
    yield "s3 closed twice", lambda: closed_twice(TSAccessS3(bucket, "a/d.bin"))
    for label, request in {
        "all": ListRequest(bucket, "a/"),
        "some": ListRequest(bucket, "a/c"),
        "none": ListRequest(bucket, "z"),
        "folders": ListRequest(bucket, "", Delimiter="/"),
        "after": ListRequest(bucket, "a/", "", "a/b.txt"),
        "no bucket": ListRequest("no-such-bucket", "a/"),
    }.items():
        yield f"s3 list {label}", lambda request=request: handler.list_prefix(request)
        yield f"s3 list request {label}", lambda request=request: vars(request)
    yield "s3 lists", lambda: handler.list_prefixes([ListRequest(bucket, "a/"), ListRequest(bucket, "z")])
    yield "s3 lists of one", lambda: handler.list_prefixes(ListRequest(bucket, "a/"))
    whole = ReadObjectRequest(f"{root}/a/c.bin")
    for label, reading in {
        "whole": whole,
        "from": ReadObjectRequest(f"{root}/a/c.bin", 1),
        "range": ReadObjectRequest(f"{root}/a/c.bin", 1, 1),
        "length": ReadObjectRequest(f"{root}/a/c.bin", length=1),
        "none": ReadObjectRequest(f"{root}/a/none"),
    }.items():
        yield f"s3 read {label}", lambda reading=reading: handler.get_object(reading)
        yield f"s3 read request {label}", lambda reading=reading: vars(reading)
    yield "s3 reads", lambda: handler.get_objects([whole, ReadObjectRequest(f"{root}/a/b.txt", 0, 2)])
    yield "s3 reads one by one", lambda: handler.get_objects([whole, whole], use_multiprocessing=False)
    yield "s3 reads none", lambda: handler.get_objects([])
    yield "s3 reads of one", lambda: handler.get_objects(whole)
    for prefix in ("a", "a/", "zz", "a/c.bin"):
        yield f"s3 objects {prefix}", lambda prefix=prefix: list_s3_objects(bucket, prefix)
    yield "s3 objects after", lambda: list_s3_objects(bucket, "a/", start_after_key="a/b.txt")
    yield "s3 objects folded", lambda: list_s3_objects(bucket, "", delimiter="/")
    yield "s3 exists", lambda: [access.file_exists(f"{root}/{key}") for key in ("a/b.txt", "a", "none")]
    yield "s3 not ended", lambda: [has_training_ended(f"{root}/run"), check_dir_exists(f"{root}/run")]
    yield "s3 ended", lambda: [training_has_ended(f"{root}/run"), has_training_ended(f"{root}/run")]
    yield "s3 ended elsewhere", lambda: has_training_ended(f"{root}/ru")
    yield "s3 run that has ended exists", lambda: check_dir_exists(f"{root}/run")
    yield "s3 something like an end marker", lambda: like_an_end(TSAccessS3(bucket, "r2/training_job_end.tsX"), root)
    yield "s3 grace", lambda: s3_grace(TSAccessS3(bucket, "r3/stop", binary=False), f"{root}/r3")
    yield "s3 out_dir", lambda: hook_utils.verify_and_get_out_dir(f"{root}/new")
    yield "s3 step", lambda: s3_step(f"{root}/fw")
    yield "s3 step files", lambda: handler.list_prefix(ListRequest(bucket, "fw/"))
    yield "s3 index files", lambda: S3IndexReader(f"{root}/fw").list_index_files()
    yield (
        "s3 index files after",
        lambda: S3IndexReader(f"{root}/fw").list_index_files("fw/index/000000000/000000000002_worker_0.json"),
    )
    yield "s3 event files", lambda: S3IndexReader(f"{root}/fw").list_event_files()
    yield "s3 index", lambda: loaded(S3IndexReader(f"{root}/fw"))
    yield "s3 index value", lambda: s3_value(S3IndexReader(f"{root}/fw"))
    yield (
        "s3 delete",
        lambda: [handler.delete_prefix(path=f"{root}/a/c"), handler.list_prefix(ListRequest(bucket, "a"))],
    )
    yield (
        "s3 delete request",
        lambda: [
            handler.delete_prefix(delete_request=DeleteRequest(bucket, "r2")),
            handler.list_prefix(ListRequest(bucket, "r2")),
        ],
    )
    yield (
        "s3 delete all",
        lambda: [
            access.delete_s3_prefixes(bucket, ["a", "fw"]),
            access.delete_s3_prefixes(bucket, "r"),
            handler.list_prefix(ListRequest(bucket)),
        ],
    )
    yield "s3 delete nothing", lambda: [handler.delete_prefixes([]), handler.delete_prefix()]
    yield "s3 delete a folder", lambda: handler.delete_prefix("/local")
    yield "s3 delete two ways", lambda: handler.delete_prefix(root, DeleteRequest(bucket))
    yield "s3 a bucket that is not there", lambda: kind_of_error(lambda: written(TSAccessS3("never-made", "a"), [b"a"]))


def closed_twice(writer: Any) -> None:
    writer.write(b"1")
    writer.close()
    writer.close()


def like_an_end(writer: Any, root: str) -> bool:
    writer.write(b"1")
    writer.close()
    return has_training_ended(f"{root}/r2")


def s3_grace(writer: Any, run: str) -> bool:
    writer.write(str(int(time.time())))
    writer.close()
    return bool(
        with_variable("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE", "stop", lambda: is_rule_signalled_gracetime_passed(run))
    )


def s3_step(run: str) -> list[Any]:
    for step in (2, 4):
        with FileWriter(run, "worker_0", step) as writer:
            writer.write_tensor(np.ones(2), "x", mode=modes.TRAIN, mode_step=step, timestamp=1.5)
    return [writer.name(), list(FileReader(writer.name()).read_tensors())]


def s3_value(reader: Any) -> Any:
    found, last = reader.load_tensor_data_from_index_files()
    return [reader.fetch_tensor_value(found["x"][4]["worker_0"]["tensor_location"]), last]


def signatures(names: list[list[str]]) -> dict[str, Any]:
    """How each named thing, and each public method of it, is called: (parameter, kind, has a default)."""
    import importlib

    found: dict[str, Any] = {}
    for module, name in names:
        try:
            thing = getattr(importlib.import_module(module), name)
        except ImportError:
            continue
        if type(thing).__module__ == "smdebug.not_offered":  # a stand-in: every use of it is refused
            continue
        found[f"{module}.{name}"] = signature(thing)
        if inspect.isclass(thing):
            for method in dir(thing):
                what = getattr(thing, method)
                if not method.startswith("_") and callable(what) and not inspect.isclass(what):
                    found[f"{module}.{name}.{method}"] = signature(what)
    return found


def signature(thing: Any) -> Any:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[each.name, each.kind.name, each.default is not each.empty] for each in parameters]


def answers(order: dict[str, Any]) -> dict[str, Any]:
    if "names" in order:
        return signatures(order["names"])
    folder = order["folder"]
    groups: list[Iterator[Question]] = (
        [on_s3(order["bucket"])]
        if "bucket" in order
        else [
            constants(),
            *(group(folder) for group in (small_things, places, files, ends, configurations, records, steps, states)),
        ]
    )
    found: dict[str, Any] = {}
    for group in groups:
        for label, question in group:
            assert label not in found, label
            found[label] = answer_of(lambda question=question: plain(question(), folder))
    return found


if __name__ == "__main__":
    answer = answers(json.loads(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(answer), "utf-8")
