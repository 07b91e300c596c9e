"""Runs under the real SDK: gives real objects to our translation, and tells what their classes and functions are.

    python sdk_peer.py v2|v3 FOLDER_OF_V3 FOLDER_OF_OURS

Only the SDK's module of the debugger is loaded, beside stand-ins for what it takes from the rest: the whole would bring
300 MB of packages. The stand-ins serve nothing that a configuration holds.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def stand_in(name: str, *, path: Path | None = None, **names: Any) -> None:
    module = types.ModuleType(name)
    module.__path__ = [str(path)] if path else []  # which makes it a package
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)


def build_dict(key: str, value: Any) -> dict[str, Any]:
    return {key: value} if value else {}


def load(version: str, folder_of_v3: Path) -> Any:
    if version == "v2":
        root, folder = "sagemaker", Path(sysconfig.get_paths()["purelib"]) / "sagemaker"
        variable, dictionaries = "workflow.entities", "utils"
    else:
        stand_in("sagemaker", path=folder_of_v3 / "sagemaker")
        root, folder = "sagemaker.core", folder_of_v3 / "sagemaker" / "core"
        variable, dictionaries = "helper.pipeline_variable", "common_utils"
    stand_in(root, path=folder)
    stand_in(f"{root}.image_uris", retrieve=lambda name, region: f"image of {name} in {region}")
    stand_in(f"{root}.{dictionaries}", build_dict=build_dict, name_from_base=None)
    parent, _, leaf = variable.rpartition(".")
    stand_in(f"{root}.{parent}")
    stand_in(f"{root}.{parent}.{leaf}", PipelineVariable=type("PipelineVariable", (), {}))
    stand_in(f"{root}.deprecations", deprecation_warn_base=lambda *a, **k: None)
    return importlib.import_module(f"{root}.debugger")


def signature(candidate: Any) -> list[list[str]]:
    """[[name, default]] of what can be given."""
    given = inspect.signature(candidate.__init__ if inspect.isclass(candidate) else candidate).parameters.values()
    return [
        [each.name, "" if each.default is each.empty else str(each.default).rpartition(".")[2]]
        for each in given
        if each.name != "self"
    ]


def facts(sdk: Any) -> dict[str, Any]:
    """What there is by which name, and what it takes and gives."""
    configs = sdk.rule_configs
    classes = {name: each for name, each in vars(sdk).items() if inspect.isclass(each)}
    functions = {name: each for name, each in vars(configs).items() if inspect.isfunction(each)}
    base = configs.BatchSize.__mro__[1]
    kinds: list[Any] = [
        each for each in vars(configs).values() if inspect.isclass(each) and issubclass(each, base) and each != base
    ]
    constructors = [(sdk.Rule, "sagemaker"), (sdk.Rule, "custom"), (sdk.ProfilerRule, "sagemaker")]
    constructors.append((sdk.ProfilerRule, "custom"))
    return {
        "names": sorted(classes),
        "signatures": {name: signature(each) for name, each in classes.items()},
        "constructors": {f"{c.__name__}.{name}": signature(getattr(c, name)) for c, name in constructors},
        "functions": {name: each() for name, each in functions.items() if not inspect.signature(each).parameters},
        "rule_config_names": sorted(name for name in vars(configs) if not name.startswith("_")),
        "profiler_rules": {kind.__name__: kind().rule_parameters for kind in kinds},
        "requests": requests(sdk),
    }


def requests(sdk: Any) -> dict[str, Any]:
    """What each kind of profiling sends."""
    steps = {"start_step": 3, "num_steps": 4}
    times = {"start_unix_time": 1_700_000_000, "duration": 2.5}
    made = {
        "default": sdk.FrameworkProfile(),
        "steps": sdk.FrameworkProfile(**steps),
        "one-step": sdk.FrameworkProfile(start_step=5),
        "times": sdk.FrameworkProfile(**times),
        "from-a-time": sdk.FrameworkProfile(start_unix_time=1_700_000_000),
        "parts": sdk.FrameworkProfile(
            detailed_profiling_config=sdk.DetailedProfilingConfig(start_step=2),
            dataloader_profiling_config=sdk.DataloaderProfilingConfig(**times, metrics_regex="abc"),
            python_profiling_config=sdk.PythonProfilingConfig(
                num_steps=2, python_profiler=sdk.PythonProfiler.PYINSTRUMENT
            ),
        ),
        "others": sdk.FrameworkProfile(
            python_profiling_config=sdk.PythonProfilingConfig(cprofile_timer=sdk.cProfileTimer.CPU_TIME),
            horovod_profiling_config=sdk.HorovodProfilingConfig(),
            smdataparallel_profiling_config=sdk.SMDataParallelProfilingConfig(profile_default_steps=True),
        ),
    }
    return {
        **{name: each.profiling_parameters for name, each in made.items()},
        "profiler": sdk.ProfilerConfig("s3://b", profile_params=sdk.Profiler())._to_request_dict(),
        "disabled": sdk.ProfilerConfig(disable_profiler=True)._to_request_dict(),
        "hook": sdk.DebuggerHookConfig("s3://b", "/x", {"a": "1"}, [sdk.CollectionConfig("c")])._to_request_dict(),
        "tensorboard": sdk.TensorBoardOutputConfig("s3://b", "/x")._to_request_dict(),
    }


def translated(sdk: Any, notebook: Any) -> dict[str, Any]:
    """What our translation makes of a notebook's objects, as plain values."""
    from trackside.sagemaker import translate

    found = translate(**notebook(sdk))
    plain = json.loads(json.dumps({**vars(found), "request": None, "capture": None}, default=vars))
    return {**plain, "request": found.request.to_json(), "capture": found.capture.to_json()}


def main() -> None:
    version, folder_of_v3, ours = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    sys.path[:0] = [str(HERE), ours]
    from notebooks import NOTEBOOKS  # type: ignore[import-not-found]  # this folder is on the path here only

    sdk = load(version, folder_of_v3)
    answer = {"facts": facts(sdk), "translated": {n: translated(sdk, each) for n, each in NOTEBOOKS.items()}}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
