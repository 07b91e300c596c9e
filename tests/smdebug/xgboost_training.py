"""A script of smdebug's XGBoost users: `xgboost_training.py FOLDER ARGUMENTS`. Runs under the real one, too."""

import json
import sys

import numpy as np
import smdebug.xgboost as smd
import xgboost

random = np.random.default_rng(0)
rows = random.normal(size=(300, 4))
answers = (rows[:, 0] + rows[:, 1] * 0.5 > 0).astype(float)
seen = xgboost.DMatrix(rows[:200], answers[:200], feature_names=list("abcd"))
held_back = xgboost.DMatrix(rows[200:], answers[200:], feature_names=list("abcd"))
hook = smd.Hook(
    sys.argv[1],
    save_config=smd.SaveConfig(save_interval=5),
    hyperparameters={"max_depth": 3, "eta": 0.1},
    train_data=seen,
    validation_data=held_back,
    **json.loads(sys.argv[2]),
)
assert smd.get_hook() is hook
settings = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.1, "eval_metric": ["logloss", "auc"]}
sets = [(seen, "train"), (held_back, "validation")]
xgboost.train(settings, seen, 12, evals=sets, callbacks=[hook], verbose_eval=False)
hook._cleanup()
