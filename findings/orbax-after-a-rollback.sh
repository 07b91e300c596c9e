#!/usr/bin/env bash
# After a rollback orbax saves nothing until the training is beyond its newest checkpoint, and keeps that of the lost
# branch.
#
# Guess, before the run (50 %): `save(60)` saves after `restore(50)`.
# Seen, orbax-checkpoint 0.12.8 with jax 0.10.2: `save` returns False for each step up to the latest one, and raises
# nothing. A run that went back to step 50 and breaks off before 110 resumes from step 100 of the branch that had gone
# bad.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import logging
import tempfile

logging.disable()
import jax.numpy as jnp
import orbax.checkpoint as ocp

options = ocp.CheckpointManagerOptions(max_to_keep=10, enable_async_checkpointing=False)
with ocp.CheckpointManager(tempfile.mkdtemp(), options=options) as manager:

    def save(step: int, weight: float) -> bool:
        return manager.save(step, args=ocp.args.StandardSave({"weight": jnp.full(1, weight)}))

    for step in (0, 50, 100):
        save(step, 1.0)
    manager.restore(50)  # the loss went bad after it
    print("saved after the rollback:", *(f"{step}: {save(step, 2.0)}" for step in (60, 70, 100, 110)))
    print("steps:", *manager.all_steps())
    print("weight of step 100:", float(manager.restore(100)["weight"][0]))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
saved after the rollback: 60: False 70: False 100: False 110: True
steps: 0 50 100 110
weight of step 100: 1.0
OUTPUT
