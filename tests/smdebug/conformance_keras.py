"""`python -m tests.smdebug.conformance_keras SUITE`: plays the original's tests of TensorFlow 2 under the drop-in.

SUITE is a checkout of github.com/awslabs/sagemaker-debugger, or its folder `tests`. A copy is changed by `CHANGES`,
each with its reason: the tests were written for Keras 2. The interpreter is that of `make keras`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.smdebug.conformance import NO_AWS
from tests.smdebug.sides import HERE, Side

PYTHON = HERE.parents[1] / ".venv" / "keras-backends" / "bin" / "python"
BESIDE = next((HERE.parents[1] / ".venv" / "lib").glob("python*/site-packages"), Path())
SECONDS = 1800.0


class Change(NamedTuple):
    """A change of the suite: a pattern, the text in its place, and the reason."""

    pattern: str
    text: str | Callable[[re.Match[str]], str]
    reason: str


_FIVE_MORE = "So a run holds five tensors more."


CHANGES = (
    Change(r"optimizers\.legacy import", "optimizers import", "Keras 3 has no legacy optimizers."),
    Change(r'model\.save\((\w+), save_format="tf"\)', r'model.save(\1 + ".keras")', "Keras 3 has one format."),
    Change(
        r"(def is_tf_2_6\(\):\n)",
        r"\1    return False\n",
        "From TensorFlow 2.6 on the original saw less; the drop-in sees what it saw before.",
    ),
    Change(
        r"(OPTIMIZER_VARIABLES\)\) ==|\"custom_optimizer_variables\"\)\) ==) 5",
        r"\1 10",
        "Keras 3's optimizer lists two more variables for each of the four weights, and no settings.",
    ),
    Change(r"train_acc_metric\.reset_states", "train_acc_metric.reset_state", "Keras 3 has one name for it."),
    Change(
        r"^        len\(train_data_generator",
        "        steps_per_epoch=len(train_data_generator",
        "Keras 3 has one name for it.",
    ),
    Change(r"^        num_epochs,$", "        epochs=num_epochs,", "Keras 3 has one name for it."),
    Change(r"fit_generator", "fit", "Keras 3 has one name for it."),
    Change(r"num_tensors = (25|28)\b", lambda m: f"num_tensors = {int(m[1]) + 5}", _FIVE_MORE),
    Change(r"(trial\.tensor_names\(\)\)|else) == (16|27)\b", lambda m: f"{m[1]} == {int(m[2]) + 5}", _FIVE_MORE),
    Change(r"^(        8 if \(is_greater)", lambda m: m[1].replace("8", "13"), _FIVE_MORE),
    Change(r"num_tensors = 16\b", "num_tensors = 22", f"{_FIVE_MORE[:-1]}; labels of a loop by hand are seen, too."),
    Change(r"(num_tensors = |== \()12\b", r"\g<1>20", "Eight of its variables have the layer in their names."),
    Change(r"model\.variables", "model.trainable_variables", "In Keras 3 a dropout has a variable."),
    Change(r"\(6000, 1\)", "(3210,)", "Our pictures are 32100, in ten batches; Keras 3 leaves the shape of labels."),
    Change(r"\(6000,", "(3210,", "Our pictures are 32100, in ten batches; Keras 3 leaves the shape of labels."),
    Change(r", write_grads=True", "", "Keras 3 has no such argument."),
    Change(r", input_length=num_steps\)", ")", "Keras 3 has no such argument."),
    Change(
        r"from tensorflow\.python\.keras\.models import Model", "from tensorflow.keras.models import Model", "Keras 3."
    ),
    Change(r"Adadelta\(lr=1\.0, rho=0\.95, epsilon=None, decay=0\.0\)", "Adadelta(1.0)", "Keras 3's arguments."),
    Change(r"shape=\(224\)", "shape=(224,)", "Keras 3's argument."),
)


def changed(text: str) -> tuple[str, Counter[str]]:
    """Return the text with all changes, and how often each was made, by its reason."""
    made: Counter[str] = Counter()
    for change in CHANGES:
        text, count = re.subn(change.pattern, change.text, text, flags=re.MULTILINE)
        made[change.reason] += count
    return text, made


def played(suite: Path, answer: Path, log: Path, area: str) -> dict[str, str]:
    """Return the outcome of each test in the changed copy."""
    side = Side("ours", str(PYTHON), {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"})
    player = [side.python, "-W", "ignore", str(HERE / "suite_player.py")]
    with log.open("w", encoding="utf-8") as output:
        subprocess.run(
            [*player, str(answer), area, str(BESIDE), str(HERE / "digits_for_keras.py")],
            cwd=suite,
            env={**side.given(), **NO_AWS},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS,
        )
    return dict(json.loads(answer.read_text("utf-8"))) if answer.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the tests and print the numbers, with the reason of each one that does not pass. Return 0 if played."""
    parser = argparse.ArgumentParser(prog="python -m tests.smdebug.conformance_keras", description=__doc__)
    parser.add_argument("suite", type=Path, help="checkout of the original, or its folder `tests`")
    parser.add_argument("--only", default="tests/tensorflow2", help="a part of it: tests/tensorflow2/test_keras.py")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir(), "conformance_keras.log"))
    options = parser.parse_args(arguments)
    if not PYTHON.exists():
        parser.error(f"{PYTHON} is missing: `make keras` builds it.")
    tests = options.suite if options.suite.name == "tests" else options.suite / "tests"
    made: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder, "suite")
        shutil.copytree(tests, suite / "tests")
        for file in sorted((suite / "tests" / "tensorflow2").glob("*.py")):
            text, counts = changed(file.read_text("utf-8"))
            file.write_text(text, "utf-8")
            made += counts
        outcomes = played(suite, Path(folder, "answer.json"), options.log, options.only)
    for reason, count in made.items():
        sys.stdout.write(f"changed {count:3}: {reason}\n")
    for test, outcome in sorted(outcomes.items()):
        if outcome != "passed":
            sys.stdout.write(f"{test.removeprefix('tests/tensorflow2/')}: {outcome}\n")
    counts = Counter(outcome.partition(":")[0] for outcome in outcomes.values())
    sys.stdout.write(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) + "\n")
    return 0 if outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
