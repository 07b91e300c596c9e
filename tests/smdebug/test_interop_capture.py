"""What our capture writes is read by the real smdebug 1.0.34 as by its drop-in: reductions, shapes, modes, members."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smdebug.trials

from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_engine import StepEngine
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.writing.writer import Writer
from trackside.contracts.capture_request import MODES, REDUCTIONS, CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import collections_key
from trackside.records.collections_file import decode_collections
from trackside.storage.local import LocalStore

REQUEST = CaptureRequest(
    (
        CollectionRequest("losses", Schedule(1)),
        CollectionRequest("weights", Schedule(2, save_seconds=3600.0), reductions=REDUCTIONS),
        CollectionRequest("gradients", Schedule(2), reductions=("mean",), save_raw_tensor=True),
        CollectionRequest("labels", mode_schedules=(("EVAL", Schedule(1)),)),
        CollectionRequest("outputs", Schedule(2), save_raw_tensor=False, save_shape=True),
    )
)
NAMES = {"min", "max", "mean", "std", "variance", "sum", "prod", "l1", "l2"}
QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("MSELoss_output_0", "steps", {}),
    ("MSELoss_output_0", "value", {"step_num": 1}),
    ("Net_fc.weight", "steps", {}),
    ("Net_fc.weight", "value", {"step_num": 0}),
    ("Net_fc.weight", "reduction_values", {"step_num": 0}),
    *[
        ("Net_fc.weight", "reduction_value", {"step_num": 0, "reduction_name": name, "abs": is_abs})
        for name in sorted(NAMES)
        for is_abs in (False, True)
    ],
    ("gradient/Net_fc.weight", "value", {"step_num": 0}),
    ("gradient/Net_fc.weight", "reduction_value", {"step_num": 0, "reduction_name": "mean"}),
    ("fc_output_0", "shape", {"step_num": 0}),
    ("fc_output_0", "value", {"step_num": 0}),
    ("MSELoss_input_1", "steps", {}),
    ("scalar/temperature", "value", {"step_num": 1}),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    files = RunFiles(lambda: LocalStore(folder), request=REQUEST, worker="worker_0", num_workers=1, ends_run=True)
    writer, engine = Writer(files, guard=Guard()), StepEngine(REQUEST)
    writer.start()
    engine.connect(writer)
    random = np.random.default_rng(0)
    for mode in ("TRAIN", "TRAIN", "EVAL", "TRAIN"):
        engine.set_mode(mode)
        engine.open_step.add_loss("MSELoss", random.normal(size=()).astype("f4"))
        for name in ("Net_fc.weight", "gradient/Net_fc.weight"):
            if engine.open_step.wants(name):
                engine.open_step.add(name, random.normal(size=(3, 4)).astype("f4"))
        for name, collection in (("fc_output_0", "outputs"), ("MSELoss_input_1", "labels")):
            if engine.open_step.wants(name, collections=frozenset({collection})):
                engine.open_step.add(name, random.normal(size=(5, 2)).astype("f4"), collections=frozenset({collection}))
        if engine.step == 1:
            engine.open_step.add_scalar("temperature", 0.25)
        engine.end_step()
    assert writer.close(30)
    return folder


def test_both_packages_read_what_capture_wrote(
    run: Path, peer: Callable[[str, dict[str, Any]], dict[str, Any]]
) -> None:
    theirs = peer("answers", {"folder": str(run), "questions": QUESTIONS})
    trial = smdebug.trials.create_trial(str(run))
    documents = {name: collection.to_json_dict() for name, collection in trial.collections().items()}
    assert theirs["documents"] == documents
    assert documents["labels"]["tensor_names"] == ["MSELoss_input_1"]
    assert documents["weights"]["save_config"]["TRAIN"]["save_interval"] == 2
    key = collections_key("worker_0")
    weights = decode_collections(LocalStore(run).get(key), key=key).named("weights")
    assert weights is not None
    assert weights.schedules == dict.fromkeys(MODES, Schedule(2, save_seconds=3600.0)), "which old readers pass over"
    for (name, method, arguments), answer in zip(QUESTIONS, theirs["answers"], strict=True):
        try:
            ours: Any = getattr(trial.tensor(name), method)(**arguments)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            ours = {"error": type(error).__name__}
        assert plain(ours) == answer, (name, method, arguments)
    assert theirs["answers"][3] == {"error": "TensorUnavailableForStep"}, "only reductions of it were saved"


def plain(answer: Any) -> Any:
    """The answer as `peer.py` tells it."""
    if isinstance(answer, dict) and "error" not in answer:
        return [[list(key), plain(value)] for key, value in answer.items()]
    if isinstance(answer, dict | list | tuple | int | None):
        return list(answer) if isinstance(answer, tuple) else answer
    array = np.asarray(answer)
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}
