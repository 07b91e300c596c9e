"""Steps that are there, that were passed over, that never come; and the end."""

import sys

from smdebug import modes
from smdebug.analysis.utils import no_refresh, refresh
from smdebug.core.tensor import StepState
from smdebug.exceptions import NoMoreData, StepUnavailable
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1])
print(trial.loaded_all_steps)
for mode in (modes.GLOBAL, modes.TRAIN, modes.EVAL, modes.PREDICT):
    print(mode.name, [(step, trial.has_passed_step(step, mode).name) for step in (0, 3, 4, 7, 11, 12)])
print(trial.has_passed_step(0) == StepState.AVAILABLE)

trial.wait_for_steps([0, 1, 2])
trial.wait_for_steps([3], mode=modes.EVAL)
for steps, mode in (([0, 99], modes.GLOBAL), ([9], modes.EVAL), ([-1, 0], modes.TRAIN)):
    try:
        trial.wait_for_steps(steps, mode=mode)
    except NoMoreData as end:
        print(type(end).__name__, end.step, end.mode.name, end.last_step, end)
    except StepUnavailable as error:
        print(type(error).__name__, error)
try:
    trial.tensor("CrossEntropyLoss_output_0").value(99)
except StepUnavailable as error:
    print(error)

trial.dynamic_refresh = True
with no_refresh(trial):
    print(trial.dynamic_refresh, trial.steps()[-1])
with no_refresh([trial, create_trial(sys.argv[1])]):
    print(trial.dynamic_refresh)
trial.dynamic_refresh = False
with refresh(trial):
    print(trial.dynamic_refresh)
print(trial.dynamic_refresh)
