"""Trains programs of the corpus, in their family's environment.

    build/wild/environments/language/bin/python benchmarks/wild/launch.py language gpt2-hidden-32 0
    build/wild/environments/language/bin/python benchmarks/wild/launch.py language --warm < jobs

`benchmarks.wild.run` starts it. It touches the library in no way: it sets the seeds that a script would set, and calls
the program. `--warm` imports the family's libraries once and trains each job in a fork: a line of JSON with `program`,
`seed`, `environment` and `output` comes in for each, and one with its exit code and processor seconds goes out. With
`operator` and `losses` a mistake is planted in the fork first (benchmarks/mutants).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 240  # of processor: a training that takes longer is ended


def main() -> int:
    """Train one program, or one in each fork."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("family")
    options.add_argument("program", nargs="?", default="")
    options.add_argument("seed", nargs="?", type=int, default=0)
    options.add_argument("--warm", action="store_true")
    arguments = options.parse_args()
    # This folder is first on the path because the script lies in it, and no library may find its modules.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)
    from benchmarks.wild.program import family

    chosen = family(arguments.family)
    _let_torchvision_load()
    job = _fork_for_each(chosen.imports) if arguments.warm else arguments
    if job is not None:
        _seed(job.seed)
        chosen.programs[job.program].train(job.seed)
    return 0


def _let_torchvision_load() -> None:
    """Declare the two operators without which torchvision's import fails.

    The index has torchvision for CUDA only. Beside a CPU build of torch its library of operators does not load, and its
    Python half then stops at these two, which no program here calls.
    """
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("torchvision") is None:
        return
    import torch

    if torch.version.cuda is None:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _seed(seed: int) -> None:
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)


def _fork_for_each(imports: tuple[str, ...]) -> argparse.Namespace | None:
    """Return a job in each fork, and None in the parent when all are done."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print while they are imported
    _import_all(imports)
    for line in sys.stdin:
        job = json.loads(line)
        work = tempfile.mkdtemp()  # no `with`: the fork would delete it on its way out
        pid = os.fork()
        if not pid:
            _become(job, work)
            return argparse.Namespace(program=job["program"], seed=job["seed"])
        _, status, usage = os.wait4(pid, 0)
        shutil.rmtree(work, ignore_errors=True)
        seconds = round(usage.ru_utime + usage.ru_stime, 2)
        answers.write(json.dumps({"status": os.waitstatus_to_exitcode(status), "seconds": seconds}) + "\n")
    return None


def _import_all(names: tuple[str, ...]) -> None:
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
        torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer of a process imports the compiler
    for name in names:
        importlib.import_module(name)


def _become(job: dict[str, Any], work: str) -> None:
    """Make a fork look like a process that `trackside run` started: folder, streams, environment, attached capture."""
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS, LONGEST_SECONDS))
    os.chdir(work)
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if "operator" in job:
        from benchmarks.mutants.launch import plant

        plant(job["operator"], seed=job["seed"]).write_at_exit(Path(job["losses"]))
    os.environ.update(job["environment"])  # noqa: TID251 - read by Trackside's start-up file, here after the fork
    from trackside.capture.statistics import rest

    rest.FIRST_WATCHED, rest.FEWEST_WATCHED = job["first_watched"]
    importlib.import_module("trackside.frameworks.attach")  # attaches at once, for torch is imported


if __name__ == "__main__":
    sys.exit(main())
