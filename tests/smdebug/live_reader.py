"""Follows a live run to its end as users' scripts do: `python stand_ins.py live_reader.py RUN [FIRST LAST]`."""

from __future__ import annotations

import sys

from smdebug import modes
from smdebug.exceptions import MissingCollectionFiles, NoMoreData, StepUnavailable
from smdebug.trials import create_trial

run, *bounds = sys.argv[1:]
print("waits", flush=True)
try:
    trial = create_trial(run, range_steps=tuple(map(int, bounds)) or None)
except MissingCollectionFiles as error:
    print(type(error).__name__, flush=True)
    sys.exit()
print(trial.num_workers, trial.workers(), flush=True)
step = int(bounds[0]) if bounds else 0
while True:
    try:
        trial.wait_for_steps([step], mode=modes.TRAIN)
    except StepUnavailable:
        print(step, "was passed over", flush=True)
    except NoMoreData as end:
        print("ended after", end.last_step, trial.steps(), trial.loaded_all_steps, flush=True)
        break
    else:
        loss = trial.tensor("loss")
        values = {worker: float(loss.value(step, worker=worker)[0]) for worker in sorted(loss.workers(step))}
        print(step, values, trial.tensor("weight").value(step).mean(), flush=True)
    step += 1
