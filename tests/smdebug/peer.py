"""Runs inside the peer environment, under the real smdebug 1.0.34: writes runs and reads them, by orders on stdin.

Arrays travel as {"dtype", "shape", "data"} with base64 of their C-order bytes; texts as {"dtype": "str", "texts"}.
pandas, psutil and pyinstrument serve smdebug's profiler only, which is not used here: empty modules take their place.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
    sys.modules[absent] = types.ModuleType(absent)
sys.modules["pyinstrument"].Profiler = object  # type: ignore[attr-defined]  # a stand-in, see above
sys.modules["pyinstrument.renderers"].JSONRenderer = object  # type: ignore[attr-defined]  # a stand-in, see above

import questions  # noqa: E402  # after the stand-ins
import smdebug  # noqa: E402  # after the stand-ins
from smdebug import modes  # noqa: E402
from smdebug.core.access_layer.utils import END_OF_JOB_FILENAME  # noqa: E402
from smdebug.core.collection import Collection  # noqa: E402
from smdebug.core.collection_manager import CollectionManager  # noqa: E402
from smdebug.core.reduction_config import ReductionConfig  # noqa: E402
from smdebug.core.reductions import get_reduction_tensor_name  # noqa: E402
from smdebug.core.save_config import SaveConfig, SaveConfigMode  # noqa: E402
from smdebug.core.writer import FileWriter  # noqa: E402
from smdebug.trials import create_trial  # noqa: E402


def write(order: dict[str, Any]) -> dict[str, Any]:
    """Writes the steps, then the collections file, then the end marker."""
    for step in order["steps"]:
        writer = FileWriter(trial_dir=order["folder"], step=step["step"], worker=step["worker"])
        for name, array in step["tensors"]:
            writer.write_tensor(
                unpack(array),
                name,
                mode=modes[step["mode"]],
                mode_step=step["mode_step"],
                timestamp=step["wall_time"],
            )
        for base, reduction, is_abs, array in step.get("reductions", ()):
            writer.write_tensor(
                unpack(array),
                get_reduction_tensor_name(base, reduction, is_abs, remove_colon_index=not order.get("keeps_colons")),
                mode=modes[step["mode"]],
                mode_step=step["mode_step"],
                timestamp=step["wall_time"],
            )
        for name, shape, *original in step.get("shapes", ()):
            writer.write_shape(
                name,
                tuple(shape),
                mode=modes[step["mode"]],
                mode_step=step["mode_step"],
                original_name=original[0] if original else None,
            )
        writer.close()
    for worker in order["workers"]:
        manager = CollectionManager()
        manager.set_num_workers(len(order["workers"]))
        for name, regexes, tensors, interval in order["collections"]:
            save_config = SaveConfig(save_interval=interval) if interval else None
            collection = Collection(name, include_regex=regexes, tensor_names=set(tensors), save_config=save_config)
            manager.add(collection)
        for document in order.get("collection_documents", ()):
            manager.add(collection_of(document))
        manager.export(order["folder"], f"{worker}_collections.json")
    return {"version": smdebug.__version__}


def system_metrics(order: dict[str, Any]) -> dict[str, Any]:
    """The samples of the machine that the original's reader finds below a folder of profiles."""
    from smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader

    reader = LocalSystemMetricsReader(order["folder"])
    reader.refresh_event_file_list()
    found = reader.get_events(order["start_us"], order["end_us"])
    return {"events": [[e.type, e.name, e.dimension, e.value, e.node_id, e.timestamp] for e in found]}


def timeline(order: dict[str, Any]) -> dict[str, Any]:
    """The events that the original's reader finds below a folder of profiles: by time, or by steps."""
    from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader

    reader = LocalAlgorithmMetricsReader(order["folder"])
    reader.refresh_event_file_list()
    between = reader.get_events_by_step if order["by"] == "step" else reader.get_events
    return {
        "events": [
            [e.event_name, e.event_phase, e.start_time, e.duration, e.node_id, e.event_args]
            for e in between(order["start"], order["end"])
        ]
    }


def write_all(order: dict[str, Any]) -> dict[str, Any]:
    """Several runs, and the end of each."""
    for run in order["runs"]:
        write(run)
        if run.get("has_ended"):
            Path(run["folder"], END_OF_JOB_FILENAME).write_bytes(b"")
    return {}


def read_all(order: dict[str, Any]) -> dict[str, Any]:
    """Several runs."""
    return {"runs": [read(run) for run in order["runs"]]}


def answers(order: dict[str, Any]) -> dict[str, Any]:
    """Single questions to one run: (tensor, method, arguments by name) -> the answer, or the error's name."""
    trial = create_trial(order["folder"])
    found = []
    for name, method, arguments in order["questions"]:
        try:
            found.append(plain(getattr(trial.tensor(name), method)(**arguments)))
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            found.append({"error": type(error).__name__})
    documents = {name: collection.to_json_dict() for name, collection in trial.collections().items()}
    return {"answers": found, "documents": documents, "workers": trial.num_workers}


def plain(answer: Any) -> Any:
    if isinstance(answer, dict):
        return [[list(key) if isinstance(key, tuple) else key, plain(value)] for key, value in answer.items()]
    if isinstance(answer, (list, tuple, set, str, int)) or answer is None:
        return list(answer) if isinstance(answer, (list, tuple, set)) else answer
    return pack(answer)


def collection_of(document: dict[str, Any]) -> Collection:
    """A collection with all it can be configured with."""
    schedules = document["save_config"]
    reductions = document["reduction_config"]
    return Collection(
        document["name"],
        include_regex=document["include_regex"],
        tensor_names=set(document["tensor_names"]),
        save_config=schedules
        and SaveConfig({modes[mode]: SaveConfigMode(**one) for mode, one in schedules.items() if one}),
        reduction_config=ReductionConfig.from_dict(reductions),
        save_histogram=document["save_histogram"],
    )


def read(order: dict[str, Any]) -> dict[str, Any]:
    """All that `create_trial` finds in a finished run."""
    trial = create_trial(order["folder"])
    tensors = []
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        for step in tensor.steps():
            for worker in tensor.workers(step):
                value = pack(tensor.value(step, worker=worker))
                mode, mode_step = trial.mode_modestep(step)
                tensors.append([name, step, worker, mode.name, mode_step, value])
    return {
        "tensors": tensors,
        "steps": trial.steps(),
        "mode_steps": {mode.name: trial.steps(mode=mode) for mode in trial.modes()},
        "workers": trial.workers(),
        "collections": {
            name: {
                "regexes": list(collection.include_regex),
                "tensors": sorted(trial.tensor_names(collection=name)) if collection_has_any(collection) else [],
                "save_interval": interval(collection),
            }
            for name, collection in trial.collections().items()
        },
        "all_loaded": trial.loaded_all_steps,
    }


def interval(collection: Any) -> int | None:
    return collection.save_config.get_save_config(modes.TRAIN).save_interval if collection.save_config else None


def collection_has_any(collection: Any) -> bool:
    return bool(collection.include_regex or collection.tensor_names)


def unpack(array: dict[str, Any]) -> Any:
    if array["dtype"] == "str":
        return np.array(array["texts"], dtype=str)
    data = np.frombuffer(base64.b64decode(array["data"]), dtype=array["dtype"])
    return data.reshape(array["shape"])


def pack(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return {"dtype": "str", "shape": list(array.shape), "texts": array.reshape(-1).tolist()}
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def names(order: dict[str, Any]) -> dict[str, Any]:
    """What the real package offers at its top."""
    keys = smdebug.CollectionKeys
    return {
        "version": smdebug.__version__,
        "modes": {mode.name: mode.value for mode in modes},
        "collection_keys": {name: getattr(keys, name) for name in dir(keys) if name.isupper()},
    }


def ask(order: dict[str, Any]) -> dict[str, Any]:
    """The answers of the real package to `questions`."""
    return {"answers": questions.ask_in_stages(order)}


def differences(order: dict[str, Any]) -> dict[str, Any]:
    """Its answers where ours are others on purpose."""
    return {"answers": questions.ask_for_differences(order)}


def data(order: dict[str, Any]) -> dict[str, Any]:
    """What its configuration objects are as JSON."""
    return {"answers": questions.configuration_data()}


COMMANDS = {
    function.__name__: function
    for function in (write, write_all, read, read_all, answers, names, ask, differences, data, system_metrics, timeline)
}


def serve() -> None:
    """Carry out each order of stdin, a line of JSON, in a fork of this process. Answer with its exit status in a line.

    So smdebug is imported once, and what an order leaves in it is gone with its process.
    """
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            carry_out(order)
            return
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def carry_out(order: dict[str, Any]) -> None:
    """Write the answer to one order into its file, and what is printed beside it."""
    printed = os.open(order["printed"], os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.environ.clear()  # noqa: TID251 - the whole environment of this process is set here
    os.environ.update(order["environment"])  # noqa: TID251
    answer = COMMANDS[order["command"]](order["order"])
    with open(order["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    serve()
