"""Training and evaluation in one run: steps of the run, and steps of each mode."""

import sys

from smdebug import modes
from smdebug.exceptions import StepUnavailable
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1])
print(sorted(mode.name for mode in trial.modes()), trial.steps(), trial.steps(mode=modes.GLOBAL))
for mode in (modes.TRAIN, modes.EVAL, modes.PREDICT):
    print(mode.name, trial.steps(mode=mode))
    for mode_step in trial.steps(mode=mode):
        step = trial.global_step(mode, mode_step)
        print("", mode_step, "is", step, trial.mode(step).name, trial.mode_step(step), trial.mode_modestep(step)[1])
print(trial.global_step(modes.EVAL, 99), trial.mode(99), trial.mode_step(99), trial.mode_modestep(99))

loss = trial.tensor("CrossEntropyLoss_output_0")
weight = trial.tensor("Net_fc.weight")
for mode in (modes.GLOBAL, modes.TRAIN, modes.EVAL):
    print(mode.name, [(step, float(loss.value(step, mode=mode))) for step in loss.steps(mode=mode)])
    print(mode.name, weight.steps(mode=mode), weight.prev_steps(5, 2, mode=mode))
print("of the run, of the mode", loss.value(4), loss.value(0, mode=modes.EVAL), loss.value(4, mode=modes.TRAIN))
gradient = trial.tensor("gradient/Net_fc.weight")
print("never evaluated", gradient.steps(mode=modes.EVAL), gradient.steps(mode=modes.TRAIN))
try:
    gradient.value(9, mode=modes.EVAL)
except StepUnavailable as error:
    print(error)
