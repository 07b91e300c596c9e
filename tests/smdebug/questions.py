"""Questions to smdebug's analysis, asked of the drop-in and, within `peer.py`, of the real smdebug 1.0.34.

Runs under either, so it imports nothing of ours. Answers are JSON; an error is an answer too.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from smdebug import ReductionConfig, SaveConfig, SaveConfigMode, exceptions, modes
from smdebug.analysis.utils import no_refresh, parse_bool, parse_list_from_str
from smdebug.core import collection as collections
from smdebug.core import reductions as reductions_by_name
from smdebug.core.collection import Collection
from smdebug.core.collection_manager import CollectionManager
from smdebug.exceptions import TensorUnavailable
from smdebug.rules import RequiredTensors, Rule, invoke_rule
from smdebug.trials import create_trial

MODES = (modes.GLOBAL, modes.TRAIN, modes.EVAL, modes.PREDICT)
REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod", "l1", "l2")
Question = tuple[str, Callable[[], Any]]


def ask_in_stages(order: dict[str, Any]) -> list[dict[str, Any]]:
    """One trial asked at each stage of a growing run: a stage copies files from `source` to `folder`."""
    source, folder = Path(order["source"]), Path(order["folder"])
    answers = []
    trial = None
    for stage in order["stages"]:
        copy_files(stage, source, folder)
        trial = trial or create_trial(str(folder), name="run", range_steps=order.get("range_steps"))
        answers.append({label: answer_of(question) for label, question in questions(trial)})
    return answers


def copy_files(keys: list[str], source: Path, folder: Path) -> None:
    for key in keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / key, folder / key)


def questions(trial: Any) -> Iterator[Question]:
    """All that both answer alike."""
    yield "modes", lambda: sorted(mode.name for mode in trial.modes())
    yield "workers", trial.workers
    yield "tensor_names", trial.tensor_names
    yield "num_workers", lambda: trial.num_workers
    yield "loaded_all_steps", lambda: (trial.maybe_refresh(), trial.loaded_all_steps)[1]
    yield "last_complete_step", lambda: trial.last_complete_step
    yield "collections", lambda: {name: c.to_json_dict() for name, c in trial.collections().items()}
    yield "has_tensor none", lambda: trial.has_tensor("none")
    yield "tensor none", lambda: trial.tensor("none")
    yield "workers_for_global_step", lambda: {k: sorted(v) for k, v in trial.workers_for_global_step.items()}
    yield "global_step_to_tensors_map", lambda: {k: sorted(v) for k, v in trial.global_step_to_tensors_map.items()}
    yield from questions_of_names(trial)
    yield from questions_of_steps(trial)
    for name in trial.tensor_names():
        yield from questions_of_tensor(trial, name)
    yield "rule", lambda: judged(trial)


def questions_of_names(trial: Any) -> Iterator[Question]:
    for regex in ("weight", "^gradient", ["fc1", "labels"], ["none"], [["fc1"], "mask"]):
        yield f"names regex {regex}", lambda regex=regex: trial.tensor_names(regex=regex)
    for collection in ("losses", "weights", "gradients"):
        yield f"names {collection}", lambda c=collection: trial.tensor_names(collection=c)
        yield f"names object {collection}", lambda c=collection: trial.tensor_names(collection=trial.collection(c))
    yield "names both", lambda: trial.tensor_names(regex="a", collection="losses")
    yield "names wrong", lambda: trial.tensor_names(collection=3)
    for mode in trial.modes():
        yield f"names {mode.name}", lambda mode=mode: trial.tensor_names(mode=mode)
        for step in trial.steps(mode=mode, show_incomplete_steps=True):
            yield f"names {mode.name} {step}", lambda mode=mode, step=step: trial.tensor_names(step=step, mode=mode)
    for step in (0, 1, 3, 1004, 9999):
        yield f"names {step}", lambda step=step: trial.tensor_names(step=step)
        yield f"names {step} regex", lambda step=step: trial.tensor_names(step=step, regex="weight")


def questions_of_steps(trial: Any) -> Iterator[Question]:
    for mode in MODES:
        yield f"steps {mode.name}", lambda mode=mode: trial.steps(mode=mode)
        yield f"all steps {mode.name}", lambda mode=mode: trial.steps(mode=mode, show_incomplete_steps=True)
        for step in (-1, 0, 1, 2, 3, 4, 1002, 1004, 1005, 1006, 9999):
            yield f"passed {mode.name} {step}", lambda m=mode, s=step: trial.has_passed_step(s, m).name
            yield f"global_step {mode.name} {step}", lambda m=mode, s=step: trial.global_step(m, s)
            if trial.loaded_all_steps:
                yield f"wait {mode.name} {step}", lambda m=mode, s=step: trial.wait_for_steps([s], m)
    for step in (0, 1, 3, 1005, 9999):
        yield f"mode {step}", lambda step=step: name_of(trial.mode(step))
        yield f"mode_step {step}", lambda step=step: trial.mode_step(step)
        yield f"mode_modestep {step}", lambda step=step: [name_of(x) for x in trial.mode_modestep(step)]


def questions_of_tensor(trial: Any, name: str) -> Iterator[Question]:
    tensor = trial.tensor(name)
    yield f"{name} name", lambda: [tensor.name, tensor.original_name]
    for mode in MODES:
        if trial.loaded_all_steps or mode is not modes.PREDICT:
            # Of a step that waits for a worker the real one compares the mode's step with the run's: another answer.
            yield f"{name} steps {mode.name}", lambda mode=mode: tensor.steps(mode=mode)
            yield f"{name} before {mode.name}", lambda mode=mode: tensor.prev_steps(3, mode=mode)
            yield f"{name} 2 before {mode.name}", lambda mode=mode: tensor.prev_steps(2000, n=2, mode=mode)
        yield f"{name} all {mode.name}", lambda mode=mode: tensor.steps(mode=mode, show_incomplete_steps=True)
        for step in (0, 1, 2, 3, 1002, 1004, 1005, 9999):
            for worker in (None, "worker_1", "nobody"):
                where = {"step_num": step, "mode": mode, "worker": worker}
                label = f"{name} {mode.name} {step} {worker}"
                yield f"{label} value", lambda where=where: tensor.value(**where)
                yield f"{label} shape", lambda where=where: list(tensor.shape(**where))
                yield f"{label} saved", lambda where=where: reductions(tensor, **where)
            yield f"{name} {mode.name} {step} workers", lambda m=mode, s=step: sorted(tensor.workers(s, m))
    for reduction in (*REDUCTIONS, "median"):
        if name == "labels" or (reduction in ("l1", "l2") and name not in ("mask", "exact", "spectrum", "steps")):
            continue  # texts have none; the real one computes another norm of matrices, and none of more or less
        for is_abs in (False, True):
            yield (
                f"{name} {reduction} {is_abs}",
                lambda reduction=reduction, is_abs=is_abs: tensor.reduction_value(0, reduction, abs=is_abs),
            )


def reductions(tensor: Any, **where: Any) -> list[Any]:
    found = tensor.reduction_values(**where)
    return [[name, is_abs, packed(found[name, is_abs])] for name, is_abs in sorted(found)]


class LargeLoss(Rule):
    """A custom rule as users wrote them: parameters as texts, hidden state, required tensors."""

    def __init__(self, base_trial: Any, threshold: str = "0", wants: str = "CrossEntropyLoss_output_0") -> None:
        super().__init__(base_trial, action_str="")
        self.threshold, self.wants, self.seen = float(threshold), wants, []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add(name=self.wants, steps=[step])
        self.req_tensors.add(name="^gradient", steps=[step], should_match_regex=True)

    def invoke_at_step(self, step: int) -> bool:
        names = sorted(self.req_tensors.get_names())
        values = [float(np.mean(np.abs(tensor.value(step)))) for tensor in self.req_tensors.get()]
        self.seen.append([step, names, values, self.req_tensors.get_tensor_steps(self.wants)])
        return self.base_trial.tensor(self.wants).reduction_value(step, "max") > self.threshold


def judged(trial: Any) -> Any:
    """What a rule saw, and what `invoke_rule` raised or returned."""
    rule, wanting, met = LargeLoss(trial), LargeLoss(trial, wants="none"), LargeLoss(trial, threshold="-100")
    last = 1004 if 1004 in trial.steps() else 3
    answers = [
        answer_of(lambda: invoke_rule(rule, start_step=0, end_step=last)),
        answer_of(lambda: invoke_rule(rule, start_step=last, end_step=None if trial.loaded_all_steps else last)),
        answer_of(lambda: invoke_rule(wanting, start_step=0, end_step=4)),
        answer_of(lambda: invoke_rule(met, end_step=1, raise_eval_cond=True)),
    ]
    trial.dynamic_refresh = True
    with no_refresh([trial]):
        refreshing = trial.dynamic_refresh
    return [answers, rule.seen, wanting.seen, met.report, met.rule_name, refreshing, trial.dynamic_refresh]


def answer_of(question: Callable[[], Any]) -> Any:
    try:
        return packed(question())
    except Exception as error:  # noqa: BLE001 - which error is part of the answer
        said = "" if type(error).__name__ in DIFFERENTLY_WORDED else str(error)
        kept = {name: packed(value) for name, value in sorted(vars(error).items()) if name != "msg"}
        return {
            "raises": type(error).__name__,
            "bases": [b.__name__ for b in type(error).__mro__],
            **kept,
            "says": said,
        }


# Messages of ours that say more than the real ones.
DIFFERENTLY_WORDED = ("TensorUnavailableForStep", "TypeError", "SMDebugTypeError", "SMDebugValueError")


def packed(value: Any) -> Any:
    """As JSON; arrays with dtype and shape, so that these are compared too."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return {"dtype": "str", "shape": list(value.shape), "texts": value.reshape(-1).tolist()}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        data = base64.b64encode(array.tobytes()).decode()
        return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}
    if isinstance(value, dict):
        return {str(key): packed(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [packed(each) for each in value]
    return name_of(value)


def name_of(value: Any) -> Any:
    return getattr(value, "name", value)


def ask_for_differences(order: dict[str, Any]) -> dict[str, Any]:
    """Answers in which the drop-in departs from the real one: see docs/smdebug-differences.md."""
    trial = create_trial(order["folder"], name="run")
    matrix, never = trial.tensor("Net_fc1.weight"), modes.PREDICT
    asked: dict[str, Callable[[], Any]] = {
        "names of a mode that was not seen": lambda: trial.tensor_names(mode=never),
        "names of a mode's step that was not seen": lambda: trial.tensor_names(mode=modes.TRAIN, step=77),
        "l1 of a matrix": lambda: float(matrix.reduction_value(0, "l1")),
        "l2 of a matrix": lambda: float(matrix.reduction_value(0, "l2")),
        "collections after an unknown one was asked about": lambda: (
            trial.tensor_names(collection="unknown"),
            sorted(trial.collections()),
        )[1],
        "refreshing after wait_for_steps": lambda: (trial.wait_for_steps([0]), trial.dynamic_refresh)[1],
        "refreshing after an error within no_refresh": lambda: refreshing_after_an_error(trial),
        "steps of a tensor in a mode whose step waits for a worker": lambda: trial.tensor("mask").steps(
            mode=modes.EVAL
        ),
        "steps of the trial in that mode": lambda: trial.steps(mode=modes.EVAL),
        "reduction named as documented": lambda: ReductionConfig.from_dict({"reductions": "l1,abs_l2"}).to_json_dict(),
        "a rule without action_str": lambda: WithoutActions(trial).rule_name,
        "steps as they were handed over": lambda: steps_after_adding(trial),
        "shapes": lambda: trial.tensor("mask").shapes(mode=modes.TRAIN),
    }
    return {label: answer_of(question) for label, question in asked.items()}


def refreshing_after_an_error(trial: Any) -> bool:
    trial.dynamic_refresh = True
    try:
        with no_refresh(trial):
            trial.tensor("none")
    except TensorUnavailable:
        return bool(trial.dynamic_refresh)
    return False


def steps_after_adding(trial: Any) -> list[int]:
    steps = [0]
    required = RequiredTensors(trial, None)
    required.add("mask", steps)
    required.add("mask", [2])
    return steps


class WithoutActions(Rule):
    def __init__(self, base_trial: Any) -> None:
        super().__init__(base_trial)

    def invoke_at_step(self, step: int) -> bool:
        return False


def configuration_data() -> dict[str, Any]:
    """Configuration objects as JSON, and what they make of JSON and of wrong arguments."""
    mode_config = SaveConfigMode(save_interval="3", start_step="4", end_step=20, save_steps=[1])
    some = SaveConfig({modes.TRAIN: mode_config})
    merged = SaveConfig({modes.EVAL: SaveConfigMode(7)})
    merged.merge_default_save_config(some)
    reduction = ReductionConfig(["min", "mean"], ["max"], ["l1"], ["l2"], save_raw_tensor=True, save_shape=True)
    collection = Collection("c", ["a.*"], ["y", "x"], reduction, {modes.TRAIN: mode_config}, save_histogram=False)
    manager = CollectionManager()
    manager.add("empty")
    manager.add(collection)
    manager.set_num_workers("3")
    text = json.dumps(manager.to_json_dict())
    asked: dict[str, Callable[[], Any]] = {
        "mode config": mode_config.to_json_dict,
        "default mode config": SaveConfigMode().to_json_dict,
        "due": lambda: [step for step in range(30) if mode_config.should_save_step(step)],
        "due with the interval and steps": lambda: [
            step for step in range(1200) if SaveConfigMode(save_steps=[3, 7]).should_save_step(step)
        ],
        "mode config from dict": lambda: SaveConfigMode.from_dict(
            {"save_interval": "2"}, {"end_step": 9}
        ).to_json_dict(),
        "mode config from none": lambda: SaveConfigMode.from_dict(None),
        "mode config of a list": lambda: SaveConfigMode.from_dict([1]),
        "mode config steps": lambda: SaveConfigMode(save_steps="1,2"),
        "mode config repr": lambda: repr(mode_config),
        "config": lambda: SaveConfig(save_interval=2, end_step=5).to_json_dict(),
        "config text": lambda: SaveConfig(save_interval=2, end_step=5).to_json(),
        "config of one mode": some.to_json_dict,
        "config of an undecided mode": lambda: some.get_save_config(modes.EVAL),
        "config with wrong keys": lambda: SaveConfig({"TRAIN": mode_config}),
        "config merged": merged.to_json_dict,
        "config due": lambda: some.should_save_step(modes.TRAIN, 6),
        "config from names": lambda: SaveConfig.from_dict({"EVAL": {"save_interval": 9}}).to_json_dict(),
        "config from modes": lambda: SaveConfig.from_dict({modes.EVAL: mode_config}).to_json_dict(),
        "config from none": lambda: SaveConfig.from_dict(None),
        "config from json": lambda: SaveConfig.from_json(some.to_json()) == some,
        "config from one mode": lambda: SaveConfig.from_save_config_mode(mode_config).to_json_dict(),
        "config parse none": lambda: SaveConfig.parse(None).to_json_dict(),
        "config parse mode": lambda: SaveConfig.parse(mode_config).to_json_dict(),
        "config parse dict": lambda: SaveConfig.parse({modes.TRAIN: mode_config}) == some,
        "config parse itself": lambda: SaveConfig.parse(some) is some,
        "config parse text": lambda: SaveConfig.parse("x"),
        "config set": lambda: some.set_save_config(modes.EVAL, 3),
        "config unequal": lambda: [some == SaveConfig(), some != 3],
        "reduction": reduction.to_json_dict,
        "reduction text": reduction.to_json,
        "reduction default": lambda: ReductionConfig().to_json_dict(),
        "reduction from json": lambda: ReductionConfig.from_json(reduction.to_json()) == reduction,
        "reduction from none": lambda: ReductionConfig.from_dict(None),
        "reduction from text": lambda: ReductionConfig.from_dict("min"),
        "reduction median": lambda: ReductionConfig(reductions=["median"]),
        "reduction l1 as reduction": lambda: ReductionConfig(reductions=["l1"]),
        "reduction l3": lambda: ReductionConfig(norms=["l3"]),
        "reduction flag": lambda: ReductionConfig(save_raw_tensor="yes"),
        "reduction abs text": lambda: vars(
            ReductionConfig.from_dict({"reductions": "abs_l1_norm,abs_std,l2_norm,sum"})
        ),
        "collection": collection.to_json_dict,
        "collection text": collection.to_json,
        "collection default": lambda: Collection("c").to_json_dict(),
        "collection from json": lambda: Collection.from_json(collection.to_json()) == collection,
        "collection shown": lambda: [str(collection), repr(collection)],
        "collection include": lambda: included(["a", ["b"]]),
        "collection include number": lambda: included(3),
        "collection names": lambda: Collection("c", tensor_names="ab"),
        "collection reduction": lambda: Collection("c", reduction_config=3),
        "collection save config": lambda: Collection("c", save_config=3),
        "collection of text": lambda: Collection.from_dict("c"),
        "collection one by one": one_by_one,
        "manager": manager.to_json_dict,
        "manager again": lambda: CollectionManager.load_from_string(text).to_json_dict(),
        "manager equal": lambda: CollectionManager.load_from_string(text) == manager,
        "manager unknown": lambda: manager.get("none", create=False),
        "manager created": lambda: manager.get("new").to_json_dict(),
        "manager workers": manager.get_num_workers,
        "manager meta": lambda: manager.update_meta(3),
        "manager stranger": lambda: CollectionManager.load_from_string('{"collections": {}, "x": 1}'),
        "defaults": lambda: [
            sorted(names)
            for names in (
                collections.DEFAULT_PYTORCH_COLLECTIONS,
                collections.DEFAULT_MXNET_COLLECTIONS,
                collections.DEFAULT_TF_COLLECTIONS,
                collections.DEFAULT_XGBOOST_COLLECTIONS,
            )
        ],
        "lists": lambda: [parse_list_from_str(each) for each in ("a,b", "", None, ["c"], "one")],
        "list by other": lambda: parse_list_from_str("a;b", ";"),
        "booleans": lambda: [parse_bool(each, True) for each in (None, True, False, "True", "true", "False", "false")],
        "boolean yes": lambda: parse_bool("yes", True),
        "reduction names": lambda: [
            reductions_by_name.get_reduction_tensor_name("a/b:0", "mean", True),
            reductions_by_name.get_reduction_tensor_name("a/b:0", "l1", False, remove_colon_index=False),
            reductions_by_name.reverse_reduction_tensor_name("x/smdebug/reductions/abs_max/a/b"),
        ],
        **{f"error {type(error).__name__}": lambda error=error: raised(error) for error in errors()},
    }
    return {label: answer_of(question) for label, question in asked.items()}


def included(what: Any) -> list[str]:
    collection = Collection("c")
    collection.include(what)
    return collection.include_regex


def one_by_one() -> list[Any]:
    collection = Collection("c")
    collection.add_tensor_name("a")
    collection.add_tensor_name("b")
    collection.remove_tensor_name("a")
    collection.remove_tensor_name("z")
    return [collection.has_tensor_name("a"), collection.has_tensor_name("b"), sorted(collection.tensor_names)]


def errors() -> list[Exception]:
    return [
        exceptions.SMDebugError("m"),
        exceptions.SMDebugCustomerError("m"),
        exceptions.SMDebugTypeError("m"),
        exceptions.SMDebugRuntimeError("m"),
        exceptions.SMDebugNotImplementedError("m"),
        exceptions.SMDebugValueError("m"),
        exceptions.StepNotYetAvailable(3, modes.TRAIN),
        exceptions.StepUnavailable(3, modes.TRAIN),
        exceptions.TensorUnavailableForStep("t", 3, modes.TRAIN),
        exceptions.TensorUnavailableForStep("t", step=3, has_reductions=True),
        exceptions.ShapeUnavailableForStep("t", 3, modes.TRAIN),
        exceptions.TensorUnavailable("t"),
        exceptions.InvalidWorker("w"),
        exceptions.MissingCollectionFiles(),
        exceptions.IndexReaderException("m"),
        exceptions.NoMoreData(3, modes.TRAIN, 2),
        exceptions.NoMoreProfilerData(3),
        exceptions.RuleEvaluationConditionMet("r", 3),
        exceptions.InsufficientInformationForRuleInvocation("r", "m"),
    ]


def raised(error: Exception) -> None:
    raise error
