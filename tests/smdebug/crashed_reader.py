"""Looks at a run that will never say that it ended: `python stand_ins.py crashed_reader.py RUN`."""

from __future__ import annotations

import sys

from smdebug import modes
from smdebug.exceptions import StepNotYetAvailable
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1])
print(trial.steps(), trial.steps(show_incomplete_steps=True), trial.tensor_names())
print([(step, trial.has_passed_step(step).name) for step in range(5)])
loss = trial.tensor("loss")
print(loss.steps(mode=modes.TRAIN), {step: loss.workers(step) for step in trial.steps(show_incomplete_steps=True)})
print({step: float(value[0]) for step, value in loss.values().items()})
try:
    loss.value(4)
except StepNotYetAvailable as error:
    print(error)
print(trial.loaded_all_steps)
