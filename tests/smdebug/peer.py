"""Runs inside the peer environment, under the real smdebug 1.0.34: writes runs and reads them, told by JSON on stdin.

Arrays travel as {"dtype", "shape", "data"} with base64 of their C-order bytes; texts as {"dtype": "str", "texts"}.
pandas, psutil and pyinstrument serve smdebug's profiler only, which is not used here: empty modules take their place.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import types
from typing import Any

import numpy as np

for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
    sys.modules[absent] = types.ModuleType(absent)
sys.modules["pyinstrument"].Profiler = object  # type: ignore[attr-defined]  # a stand-in, see above
sys.modules["pyinstrument.renderers"].JSONRenderer = object  # type: ignore[attr-defined]  # a stand-in, see above

import questions  # noqa: E402  # after the stand-ins
import smdebug  # noqa: E402  # after the stand-ins
from smdebug import modes  # noqa: E402
from smdebug.core.collection import Collection  # noqa: E402
from smdebug.core.collection_manager import CollectionManager  # noqa: E402
from smdebug.core.save_config import SaveConfig  # noqa: E402
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
        for name, shape in step.get("shapes", ()):
            writer.write_shape(name, tuple(shape), mode=modes[step["mode"]], mode_step=step["mode_step"])
        writer.close()
    for worker in order["workers"]:
        manager = CollectionManager()
        manager.set_num_workers(len(order["workers"]))
        for name, regexes, tensors, interval in order["collections"]:
            save_config = SaveConfig(save_interval=interval) if interval else None
            collection = Collection(name, include_regex=regexes, tensor_names=set(tensors), save_config=save_config)
            manager.add(collection)
        manager.export(order["folder"], f"{worker}_collections.json")
    return {"version": smdebug.__version__}


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


FRAMEWORKS = ("smdebug.pytorch", "smdebug.mxnet", "smdebug.tensorflow", "smdebug.xgboost")


def missing(order: dict[str, Any]) -> dict[str, Any]:
    """Which of the names the real package does not have. Those that need a framework or pandas are passed over."""
    absent = []
    for module, name in order["names"]:
        if module in FRAMEWORKS or module.startswith("smdebug.profiler"):
            continue
        try:
            has_it = hasattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            has_it = False
        if not has_it:
            absent.append(f"{module}.{name}")
    return {"missing": absent}


def ask(order: dict[str, Any]) -> dict[str, Any]:
    """The answers of the real package to `questions`."""
    return {"answers": questions.ask_in_stages(order)}


def differences(order: dict[str, Any]) -> dict[str, Any]:
    """Its answers where ours are others on purpose."""
    return {"answers": questions.ask_for_differences(order)}


def data(order: dict[str, Any]) -> dict[str, Any]:
    """What its configuration objects are as JSON."""
    return {"answers": questions.configuration_data()}


if __name__ == "__main__":
    commands = (write, read, names, missing, ask, differences, data)
    command = {function.__name__: function for function in commands}[sys.argv[1]]
    answer = command(json.load(sys.stdin))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer, file)
