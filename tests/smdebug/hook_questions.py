"""Defects of the real smdebug 1.0.34 in hooks, which the drop-in has without them, and in what it does not offer.

`python stand_ins.py hook_questions.py ORDER ANSWER`: ORDER has a `folder` to work in and `torch`, the folder to import
PyTorch from where the interpreter has none. Every question imports what it asks about, so that the drop-in answers with
its ImportError. The gradients of the little trainings are exact.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from core_questions import plain, variables
from questions import answer_of


class Training:
    """One linear layer and its loss under a hook, which saves every `interval`-th step."""

    def __init__(self, run: str, *, interval: int = 1, **hook: Any) -> None:
        import smdebug.pytorch as smd

        make_hook = smd.Hook  # the drop-in says no here, before PyTorch is looked for
        import torch

        self.torch, self.model, self.loss = torch, torch.nn.Sequential(torch.nn.Linear(2, 1)), torch.nn.MSELoss()
        smd.del_hook()
        self.hook = make_hook(out_dir=run, save_config=smd.SaveConfig(save_interval=interval), **hook)
        self.hook.register_module(self.model)
        self.hook.register_loss(self.loss)

    def forward(self) -> Any:
        return self.loss(self.model(self.torch.ones(3, 2)), self.torch.zeros(3, 1))

    def step(self, **tensors: Any) -> None:
        """Forward and backward; `tensors` are handed to the hook in between."""
        self.model.zero_grad()
        loss = self.forward()
        for name, value in tensors.items():
            self.hook.save_tensor(name, value[0], collections_to_write=value[1])
        loss.backward()

    def end(self, run: str) -> Any:
        from smdebug.trials import create_trial

        self.hook.close()
        return create_trial(run)


def steps_of(trial: Any, name: str) -> list[int]:
    return list(trial.tensor(name).steps()) if trial.has_tensor(name) else []


def tensor_in_two_collections(folder: str) -> Any:
    """The collections that hold a tensor which was given to two."""
    run = f"{folder}/two-collections"
    training = Training(run, include_collections=["first", "second"])
    for name in ("first", "second"):
        training.hook.get_collection(name).include("^never$")
    training.step(mine=(training.torch.ones(2), ["first", "second"]))
    trial = training.end(run)
    return [name for name in ("first", "second") if "mine" in trial.collection(name).tensor_names]


def tensor_at_unsaved_steps(folder: str) -> Any:
    """Where a tensor lies that was handed over at every step, of which every 2nd is saved."""
    run = f"{folder}/unsaved"
    training = Training(run, interval=2, include_regex=["mine"])
    for _ in range(4):
        training.step(mine=(training.torch.ones(2), "default"))
    return steps_of(training.end(run), "mine")


def tensor_in_a_new_collection(folder: str) -> Any:
    run = f"{folder}/new-collection"
    training = Training(run, include_regex=["weight"])
    training.step()
    training.step(mine=(training.torch.ones(2), "new"))
    return steps_of(training.end(run), "mine")


def scalar_of_each_step(folder: str) -> Any:
    """Step -> how often a scalar was saved in it, and its last value; every 2nd step is saved."""
    run = f"{folder}/scalar"
    training = Training(run, interval=2)
    for step in range(4):
        training.step()
        training.hook.save_scalar("rate", step)
    training.end(run)
    entries = [json.loads(path.read_text())["tensor_payload"] for path in sorted(Path(run).rglob("index/*/*.json"))]
    return [[entry["tensorname"] for entry in each].count("scalar/rate") for each in entries]


def error_of_a_constructor(folder: str) -> Any:
    """What a user sees who gave no `out_dir`."""
    import smdebug.pytorch as smd

    make_hook = smd.Hook
    smd.del_hook()
    return make_hook(out_dir=None)


def after_an_error(folder: str) -> Any:
    """Whether a second hook works in a process whose first one failed."""
    run = f"{folder}/second"
    training = Training(f"{folder}/first")
    with suppress(Exception):
        training.hook.register_module("no module")
    try:
        second = Training(run)
        second.step()
        return second.end(run).steps()
    finally:
        with suppress(ImportError):  # the drop-in has none
            from smdebug.core.error_handling_agent import ErrorHandlingAgent

            ErrorHandlingAgent.get_error_handling_agent().disable_smdebug = False


def hook_of(folder: str, parameters: dict[str, Any]) -> Any:
    import smdebug.pytorch as smd

    make_hook = smd.Hook
    path = Path(folder, "hook.json")
    path.write_text(json.dumps({"LocalPath": f"{folder}/from-json-{len(parameters)}", "HookParameters": parameters}))
    smd.del_hook()
    return make_hook.create_from_json_file(str(path))


def dry_run(folder: str) -> Any:
    return hook_of(folder, {"dry_run": True}).dry_run


def shapes_without_reductions(folder: str) -> Any:
    configuration = hook_of(folder, {"save_raw_tensor": False, "save_shape": True}).reduction_config
    return [configuration.save_raw_tensor, configuration.save_shape]


def spread_while_saving(folder: str) -> Any:
    """The variance of the same two numbers as the hook saves it, and as the analysis reckons it."""
    import smdebug.pytorch as smd

    make_hook, answers = smd.Hook, []
    assert make_hook
    for reductions in (["variance"], []):
        run = f"{folder}/spread-{len(reductions)}"
        configuration = smd.ReductionConfig(reductions=reductions, save_raw_tensor=not reductions)
        training = Training(run, include_regex=["weight"], reduction_config=configuration)
        training.model[0].weight.data = training.torch.tensor([[1.0, 2.0]])
        training.step()
        answers.append(float(training.end(run).tensor("Sequential_0.weight").reduction_value(0, "variance")))
    return answers


def accumulated(folder: str) -> Any:
    """The steps of three updates, each after two batches."""
    run = f"{folder}/accumulated"
    training = Training(run)
    optimizer = training.torch.optim.SGD(training.model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            training.forward().backward()
        optimizer.step()
    return training.end(run).steps()


def used_after_the_end(folder: str) -> Any:
    """Whether a run that ended goes on to grow when its hook is used again."""
    run = f"{folder}/after-the-end"
    training = Training(run)
    training.step()
    training.hook.close()
    ended = Path(run, "training_job_end.ts").exists()
    before = len(list(Path(run).rglob("index/*/*.json")))
    training.step()
    training.hook.close()
    return [ended, len(list(Path(run).rglob("index/*/*.json"))) > before]


def mode_that_nobody_set(folder: str) -> Any:
    """The mode of a script that sets none, and the run's steps in two of them."""
    from smdebug import modes

    run = f"{folder}/no-mode"
    training = Training(run)
    training.step()
    mode = training.hook.mode.name
    trial = training.end(run)
    return [mode, trial.steps(mode=modes.TRAIN), trial.steps(mode=modes.GLOBAL)]


def attributes_of_its_inner_works(folder: str) -> Any:
    hook = Training(f"{folder}/attributes").hook
    return [name for name in ("module_set", "tensor_to_collections", "timeline_writer") if hasattr(hook, name)]


def prefix_of_a_job(folder: str) -> Any:
    from smdebug.rules.action import action

    given: list[str] = []
    action.StopTrainingAction = lambda rule, prefix: given.append(prefix)
    action.Actions('{"name": "StopTraining", "training_job_prefix": "MyJob"}', "rule")
    return given


def profiler_folder(folder: str) -> Any:
    from smdebug.core.utils import FRAMEWORK
    from smdebug.profiler.profiler_config_parser import ProfilerConfigParser

    path = Path(folder, "profiler.json")
    path.write_text(json.dumps({"ProfilingParameters": {"LocalPath": "/Upper/Case"}}))
    variables["SMPROFILER_CONFIG_PATH"] = str(path)
    try:
        parser = ProfilerConfigParser(FRAMEWORK.PYTORCH)
        parser.load_config()
        return parser.config.local_path
    finally:
        del variables["SMPROFILER_CONFIG_PATH"]


def buffer_by_variable(folder: str) -> Any:
    from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader

    variables["TIME_BUFFER_MICROSECONDS"] = "5"
    try:
        return LocalAlgorithmMetricsReader(folder).get_events(0, 10)
    finally:
        del variables["TIME_BUFFER_MICROSECONDS"]


def two_threads(folder: str) -> Any:
    from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader

    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "cpu_functions"}},
        {"name": "outer", "ph": "B", "pid": 1, "tid": 1, "ts": 30},
        {"name": "inner", "ph": "B", "pid": 1, "tid": 2, "ts": 35},
        {"name": "outer", "ph": "E", "pid": 1, "tid": 1, "ts": 50},
        {"name": "inner", "ph": "E", "pid": 1, "tid": 2, "ts": 60},
    ]
    path = Path(folder, "threads", "framework", "pevents", "1970010100", "60_algo-1_pythontimeline.json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(events))
    found = LocalAlgorithmMetricsReader(str(path.parents[3])).get_events(0, 100)
    return sorted([event.event_name, event.duration] for event in found)


def horovod_type(folder: str) -> Any:
    from smdebug.profiler.tf_profiler_parser import HorovodProfilerEvents

    return HorovodProfilerEvents().type


def range_from_step_zero(folder: str) -> Any:
    from smdebug.profiler.profiler_config import DetailedProfilingConfig

    return [
        bool(DetailedProfilingConfig({"startstep": start}).can_start_profiling(start, current_time=1.0))
        for start in (0, 1)
    ]


QUESTIONS: dict[str, Callable[[str], Any]] = {
    "hook: a tensor in two collections": tensor_in_two_collections,
    "hook: a tensor at unsaved steps": tensor_at_unsaved_steps,
    "hook: a tensor in a new collection": tensor_in_a_new_collection,
    "hook: a scalar at every step": scalar_of_each_step,
    "hook: error of a constructor": error_of_a_constructor,
    "hook: another one after an error": after_an_error,
    "hook: dry_run": dry_run,
    "hook: shapes without reductions": shapes_without_reductions,
    "hook: spread while saving and while reading": spread_while_saving,
    "hook: steps of accumulated gradients": accumulated,
    "hook: used after the end": used_after_the_end,
    "hook: mode of a script that sets none": mode_that_nobody_set,
    "hook: attributes of its inner works": attributes_of_its_inner_works,
    "action: prefix of a job": prefix_of_a_job,
    "profiler: folder in upper case": profiler_folder,
    "profiler: buffer by variable": buffer_by_variable,
    "profiler: type of Horovod's events": horovod_type,
    "profiler: two threads of one group": two_threads,
    "profiler: range from step 0": range_from_step_zero,
}

if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    sys.path.append(order["torch"])
    found = {
        label: answer_of(lambda q=question: plain(q(order["folder"]), order["folder"]))
        for label, question in QUESTIONS.items()
    }
    Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")
