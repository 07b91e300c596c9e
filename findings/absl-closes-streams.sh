#!/usr/bin/env bash
# A stream that was the standard error while Keras was imported is closed by the next configuration of Python's logging.
#
# Guess, before the run (85 %): `logging.config.dictConfig`, which uvicorn calls as it starts, takes handlers off and
# leaves streams open, as StreamHandler.close of Python does.
# Seen, absl-py 2.5.0 with keras 3.15.1 on torch 2.13.0, uvicorn 0.51.0: the handler that absl makes at its import, and
# Keras imports it, closes its stream where that is not the standard error any more. Whoever redirects output around an
# import (notebooks, test runners, capture of logs) and later starts a server has a closed file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 absl-py==2.5.0 torch==2.13.0 numpy==2.4.6 uvicorn==0.51.0
cat >"$folder/seen.py" <<'PYTHON'
import contextlib
import io
import logging
import os

os.environ["KERAS_BACKEND"] = "torch"
import uvicorn

python, shown = io.StringIO(), io.StringIO()
logging.getLogger("mine").addHandler(logging.StreamHandler(python))
with contextlib.redirect_stderr(shown):
    import keras

    keras.utils.set_random_seed(0)
print("before: closed", shown.closed)
uvicorn.Config(lambda *_: None)
print("a server was configured: closed", shown.closed, "- a handler of Python's: closed", python.closed)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
before: closed False
a server was configured: closed True - a handler of Python's: closed False
OUTPUT
