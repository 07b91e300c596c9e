"""A script of a warm Python does what it does in a Python of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_until
from tests.warm_python import WarmPython
from trackside.environment import inherited
from trackside.trial.trial import open_trial

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
for number in range(4):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 0]))
    loss.backward()
    optimizer.step()
    print(loss.item())
"""

SCRIPTS = {
    "what-a-script-sees": """
import os, sys
print(__name__, __file__, __spec__, sys.argv, sys.orig_argv, sys.path[:2], os.getcwd(), sys.flags, sys.stdin.read())
print(sorted(globals()), sorted(vars(sys.modules["__main__"])), __loader__.path, os.getpgrp(), sys.stdout.isatty())
print({name: value for name, value in os.environ.items()}, sys.stdout.encoding, sys.stderr.line_buffering)
""",
    "torch-is-there-when-imported": """
import sys
names = ("torch", "torch._dynamo")
print([name in sys.modules for name in names])
import torch
print([name in sys.modules for name in names], torch.__spec__.origin, torch.__loader__.path)
model = torch.nn.Linear(2, 2)
torch.optim.SGD(model.parameters(), lr=0.1)
print([name in sys.modules for name in names], torch._dynamo.__spec__.origin)
""",
    "exit-handlers-and-buffers": """
import atexit, threading, time, sys
atexit.register(lambda: print("at exit", "__main__" in sys.modules, __file__ if "__file__" in globals() else "gone"))
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("not flushed yet", end="")
""",
    "exits": "import sys; print('out'); sys.exit(3)",
    "exits-with-words": "import sys; sys.exit('words')",
    "exits-in-a-function": "import os\ndef f():\n    try: raise SystemExit(5)\n    finally: print('finally')\nf()",
    "raises": "def f():\n    raise LookupError('mine')\nf()",
    "raises-from": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('mine') from error",
    "does-not-compile": "print('never'\n",
    "hook-of-exceptions": """
import sys
sys.excepthook = lambda *args: print("hook", args[0], args[2].tb_frame.f_code.co_filename)
1 / 0
""",
    "ctrl-c": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "sigterm": "import os, signal, time; print('lost'); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "handles-sigterm": "import os, signal, sys\nsignal.signal(15, lambda *_: sys.exit(9))\nos.kill(os.getpid(), 15)",
    "signals": "import signal; print({n: str(signal.getsignal(n)).split(' at ')[0] for n in signal.valid_signals()})",
    "leaves-at-once": "import os; print('lost'); os._exit(7)",
    "child-processes": """
import multiprocessing, os, sys
def f(queue, word):
    queue.put((word, __name__, sys.argv))
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=f, args=(queue, method))
        child.start()
        print(queue.get())
        child.join()
    print(multiprocessing.parent_process(), multiprocessing.current_process().name)
    sys.stdout.flush()
    if os.fork() == 0:
        sys.exit(4)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
""",
    "pickles": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A, A)",
    "trains": TRAIN,
}


@pytest.fixture
def both(
    tmp_path: Path, warm_python: WarmPython
) -> Callable[..., tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]]:
    """Runs one script both ways: (with a Python of its own, with the warm one)."""

    def run(source: str, *arguments: str, **more: str) -> tuple[subprocess.CompletedProcess[str], ...]:
        script = tmp_path / "folder" / "script.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text(source)
        env = inherited() | {"OMP_NUM_THREADS": "1"} | more
        real = subprocess.run(
            [sys.executable, script, *arguments], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return real, warm_python.run(script, *arguments, env=env, cwd=tmp_path)

    return run  # type: ignore[return-value]


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in SCRIPTS.items()])
def test_says_and_does_the_same(both: Callable[..., tuple[subprocess.CompletedProcess[str], ...]], source: str) -> None:
    real, warm = both(source, "an argument", PYTHONPATH="/somewhere:/else")
    assert (warm.returncode, warm.stdout, warm.stderr) == (real.returncode, real.stdout, real.stderr)


def test_a_capture_saves_the_same(tmp_path: Path, warm_python: WarmPython) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    request = '{"collections": [{"name": "weights", "save_interval": 1}, {"name": "gradients", "save_interval": 2}]}'
    saved: list[set[Any]] = []
    for name in ("real", "warm"):
        env = inherited() | {"TRACKSIDE_RUN": str(tmp_path / name), "TRACKSIDE_CAPTURE_REQUEST": request}
        if name == "real":
            command = [sys.executable, str(script)]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        else:
            done = warm_python.run(script, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        trial = open_trial(str(tmp_path / name))
        assert trial.has_ended
        saved.append({(s.name, v.step, v.value.tobytes()) for s in trial.tensors() for v in s})
        files = sorted(p.relative_to(tmp_path / name).as_posix() for p in (tmp_path / name).rglob("*") if p.is_file())
        saved.append({len(files)})
    assert saved[0] == saved[2]
    assert {step for _, step, _ in saved[0]} == {0, 1, 2, 3}
    assert saved[1] == saved[3]


def test_one_that_is_killed_says_so(tmp_path: Path, warm_python: WarmPython) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time; open('begun', 'w').close(); time.sleep(1000)")
    with warm_python.start(script, cwd=tmp_path) as process:
        wait_until((tmp_path / "begun").exists)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert process.poll() == -signal.SIGKILL


def test_several_run_at_once(tmp_path: Path, warm_python: WarmPython) -> None:
    """Each waits for the other's file."""
    script = tmp_path / "meets.py"
    script.write_text(
        "import os, sys, time\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
    )
    with (
        warm_python.start(script, "a", "b", cwd=tmp_path) as first,
        warm_python.start(script, "b", "a", cwd=tmp_path) as second,
    ):
        assert (first.wait(), second.wait()) == (0, 0)


@pytest.mark.parametrize("name", ["PYTHONUNBUFFERED", "OMP_NUM_THREADS", "TORCH_LOGS", "LD_PRELOAD"])
def test_refuses_what_is_read_while_python_starts(warm_python: WarmPython, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        warm_python.run("train.py", env=inherited() | {name: "7"})


def test_a_session_of_its_own(tmp_path: Path, warm_python: WarmPython) -> None:
    script = tmp_path / "leads.py"
    script.write_text("import os; raise SystemExit(os.getpid() != os.getsid(0))")
    with warm_python.start(script, new_session=True) as process:
        assert process.wait() == 0
    with warm_python.start(script) as process:
        assert process.wait() == 1
    assert os.getsid(0) != process.pid
