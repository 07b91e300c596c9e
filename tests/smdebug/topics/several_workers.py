"""What each worker saved, and a step that one of them lacks."""

import sys

from smdebug import modes
from smdebug.core.tensor import StepState
from smdebug.exceptions import InvalidWorker, TensorUnavailableForStep
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1])
print(trial.num_workers, trial.workers())
loss = trial.tensor("CrossEntropyLoss_output_0")
for step in loss.steps():
    print(step, {worker: float(loss.value(step, worker=worker)) for worker in sorted(loss.workers(step))})
print("the first one's", loss.value(3), loss.value(3, worker="worker_0"), loss.values(worker="worker_0")[3])
print("with all of them", trial.steps(), trial.steps(show_incomplete_steps=True), trial.last_complete_step)
last = trial.steps()[-1]
print(last, trial.workers_for_global_step[last], trial.has_passed_step(last) is StepState.AVAILABLE)
try:
    loss.value(last, worker="worker_1")
except InvalidWorker as error:
    print(error)
try:
    trial.tensor("Net_fc.weight").workers(1)
except TensorUnavailableForStep as error:
    print(error)
gradient = trial.tensor("gradient/Net_fc.weight")
apart = {
    step: float(
        abs(gradient.value(step, modes.TRAIN, "worker_0") - gradient.value(step, modes.TRAIN, "worker_1")).max()
    )
    for step in gradient.steps(mode=modes.TRAIN)
}
print("apart", apart)
