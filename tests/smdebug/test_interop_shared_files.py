"""Steps that share an event file are read by the real smdebug 1.0.34 as by its drop-in."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import smdebug.trials

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.storage.local import LocalStore

STEPS = range(0, 400, 10)
NAME = "MSELoss_output_0"


def test_both_packages_find_every_step(tmp_path: Path, peer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    request = CaptureRequest((CollectionRequest("losses", Schedule(10)),))
    files = RunFiles(lambda: LocalStore(tmp_path), request=request, worker="worker_0", num_workers=1, ends_run=True)
    for step in STEPS:
        value = np.array(step / 7, np.float32)
        files.save(StepTensors(step, "TRAIN", step, 7.0, ((NAME, value),), due=frozenset({"losses"})))
    files.finish()
    assert len([*tmp_path.glob("events/*/*.tfevents")]) == 1

    questions = [(NAME, "steps", {}), *((NAME, "value", {"step_num": step}) for step in STEPS)]
    steps, *values = peer("answers", {"folder": str(tmp_path), "questions": questions})["answers"]
    assert steps == [*STEPS]
    decoded = [np.frombuffer(base64.b64decode(value["data"]), value["dtype"])[0] for value in values]
    assert decoded == [np.float32(step / 7) for step in STEPS]

    tensor = smdebug.trials.create_trial(str(tmp_path)).tensor(NAME)
    assert [tensor.value(step) for step in tensor.steps()] == decoded
