#!/usr/bin/env bash
# Orbax keeps a checkpoint whose metric is NaN and deletes the best one.
#
# Guess, before the run (70 %): with `best_fn` and `max_to_keep=2` a checkpoint with a metric of NaN is the worst.
# Seen, orbax-checkpoint 0.12.8: sorting with NaN has no order. A NaN at the end of what is kept stays, the lowest loss
# of all (0.5, step 1) is deleted, and `best_step()` names 0.9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import math
import tempfile

import numpy as np
import orbax.checkpoint as ocp

for losses in ([1.0, 0.5, 0.7, 0.8, 0.9], [1.0, 0.5, 0.7, math.nan, 0.9]):
    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(max_to_keep=2, best_fn=lambda metrics: metrics["loss"], best_mode="min")
        with ocp.CheckpointManager(folder, options=options) as manager:
            for step, loss in enumerate(losses):
                manager.save(step, args=ocp.args.StandardSave({"weight": np.zeros(2)}), metrics={"loss": loss})
                manager.wait_until_finished()
            print(*losses, "- kept:", *(losses[step] for step in manager.all_steps()), "- best:", losses[manager.best_step()])
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
1.0 0.5 0.7 0.8 0.9 - kept: 0.5 0.7 - best: 0.5
1.0 0.5 0.7 nan 0.9 - kept: nan 0.9 - best: 0.9
OUTPUT
