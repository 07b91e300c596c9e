"""Writes a run as the blog's training job does: `python stand_ins.py write_blog_run.py RUN VALUES`.

VALUES is JSON: step -> [loss, rows of the gradient]. Runs under the real smdebug.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from smdebug import modes
from smdebug.core.access_layer import training_has_ended
from smdebug.core.collection import Collection
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.writer import FileWriter

run, values = sys.argv[1], json.loads(sys.argv[2])
for step, (loss, gradient) in values.items():
    with FileWriter(trial_dir=run, worker="worker_0", step=int(step)) as writer:
        at = {"mode": modes.TRAIN, "mode_step": int(step)}
        writer.write_tensor(np.array(loss, "f4"), "CrossEntropyLoss_output_0", **at)
        writer.write_tensor(np.array(gradient, "f4"), "gradient/Linear0.weight", **at)
manager = CollectionManager()
manager.add(Collection("losses", include_regex=["[Ll]oss_(?!input).*output"]))
manager.add(Collection("gradients", include_regex=["^gradient"]))
manager.export(run, "worker_0_collections.json")
training_has_ended(run)
