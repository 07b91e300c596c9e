"""The whole way from the start-up file to the run, with real scripts in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

from tests.patience import HANGS_SECONDS, wait_until
from tests.warm_python import WarmPython
from trackside import open_trial
from trackside.cli import main
from trackside.contracts import run_layout
from trackside.environment import inherited
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store

STEPS = 12
BUDGET = "may cost 2.0% of a step's time"  # whether that is said depends on how busy the machine is

# An ordinary script. What a test adds runs after step 5, or where the loop has ended.
SCRIPT = """
import atexit, hashlib, os, signal, sys, threading, time
last = []  # what is called when all else has ended, our run too
atexit.register(lambda: [call() for call in last])
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, values):
        return self.fc2(torch.relu(self.fc1(values)))

torch.set_num_threads(1)  # as PyTorch asks of who forks
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())

def step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 2, (4,)))
    loss.backward()
    optimizer.step()

def wait_for(path):
    deadline = time.monotonic() + {hangs_seconds}
    while not os.path.exists(path):
        assert time.monotonic() < deadline, path
        time.sleep(0.01)

def train():
    for number in range({steps}):
        step()
        if number == 5:
            middle()

def middle():
    {middle}

if __name__ == "__main__":
    train()
    state = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    print(hashlib.sha256(state).hexdigest(), torch.rand(1).item())
    {end}
"""


def the_script(*, middle: str, end: str, steps: int) -> str:
    return SCRIPT.format(middle=middle, end=end, steps=steps, hangs_seconds=HANGS_SECONDS)


class Done:
    """How a script ended."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.returncode = process.returncode
        self.stdout = process.stdout
        lines = process.stderr.splitlines(keepends=True)
        self.stderr = "".join(line for line in lines if BUDGET not in line)

    @property
    def lines(self) -> list[str]:
        """Our lines on stderr."""
        return [line for line in self.stderr.splitlines() if line.startswith("trackside: ")]


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def run_script(folder: Path, request_json: Callable[..., str], warm_python: WarmPython) -> Run:
    """Runs the script, captured if `run` names a location, with further code in its middle or at its end.

    `cold` starts a Python of its own: what imports torch by itself, and is there for the way from the start-up file on.
    """

    def run_it(
        run: object = None,
        *,
        middle: str = "pass",
        end: str = "pass",
        steps: int = STEPS,
        cold: bool = False,
        **more: str,
    ) -> Done:
        path = folder / "train.py"  # always the same, so that tracebacks can be compared
        path.write_text(the_script(middle=middle, end=end, steps=steps))
        environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
        if run is not None:
            request = request_json(losses=1, weights=1, biases=1, gradients=1)
            environment |= {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request, **more}
        if not cold:
            return Done(warm_python.run(path, env=environment))
        command = [sys.executable, path]
        return Done(subprocess.run(command, capture_output=True, text=True, env=environment, check=False))

    return run_it


@pytest.fixture(scope="module")
def bare(run_script: Run) -> Done:
    """The script with nothing of ours in it."""
    done = run_script(cold=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def tensors(run: Path) -> LocalStore:
    return LocalStore(run / run_layout.TENSORS)


def has_ended(run: Path) -> bool:
    return tensors(run).exists(run_layout.END_MARKER_KEY)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# What is there, and what is not


def test_without_the_variable_nothing_is_imported() -> None:
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    probe = "import sys; print([m for m in sys.modules if m.startswith('trackside')], sys.meta_path)"
    printed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True)
    assert printed.stdout.startswith("[] ")
    assert "FrameworkFinder" not in printed.stdout


def test_with_the_variable_a_script_without_torch_pays_next_to_nothing(run: Path) -> None:
    probe = (
        "import sys; heavy = {'numpy', 'torch', 'importlib.abc', 'trackside.capture', 'trackside.contracts', 'logging'}"
        "; print('trackside.frameworks.attach' in sys.modules, sorted(heavy & set(sys.modules)))"
    )
    environment = {**inherited(), "TRACKSIDE_RUN": str(run)}
    printed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True)
    assert (printed.stdout, printed.stderr) == ("True []\n", "")
    assert not run.exists()


def test_an_unmodified_script_is_captured_and_computes_the_same(
    run: Path, run_script: Run, bare: Done, read_run: Any
) -> None:
    done = run_script(run, end="import inspect; assert 'torch' in inspect.getsource(torch)", cold=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, bare.stdout, "")
    saved = read_run(tensors(run))
    assert sorted(saved) == list(range(STEPS))
    assert {"CrossEntropyLoss_output_0", "Net_fc1.weight", "gradient/Net_fc2.bias"} <= set(saved[0])
    assert has_ended(run)


# How processes end


def test_sigkill_leaves_whole_files(run: Path, run_script: Run, read_run: Any) -> None:
    index = run / run_layout.TENSORS / run_layout.index_key(3, "worker_0")
    done = run_script(run, middle=f"wait_for({str(index)!r}); os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL
    saved = read_run(tensors(run))
    assert set(range(4)) <= set(saved) <= set(range(6))
    assert all(len(step) == 9 for step in saved.values())
    assert not has_ended(run)


def test_sigterm_saves_what_was_queued_and_keeps_its_status(run: Path, run_script: Run, read_run: Any) -> None:
    done = run_script(run, middle="os.kill(os.getpid(), signal.SIGTERM)", cold=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert sorted(read_run(tensors(run))) == list(range(6))
    assert has_ended(run)


def test_an_exception_of_the_script_is_its_own(run: Path, run_script: Run, read_run: Any) -> None:
    fault = {"middle": "raise LookupError('mine')"}
    plain = run_script(**fault)
    done = run_script(run, **fault)
    assert "LookupError: mine" in plain.stderr
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr) == (1, plain.stderr)
    assert sorted(read_run(tensors(run))) == list(range(6))
    assert has_ended(run)


def test_os_exit_leaves_whole_files(run: Path, run_script: Run, read_run: Any) -> None:
    index = run / run_layout.TENSORS / run_layout.index_key(3, "worker_0")
    done = run_script(run, middle=f"wait_for({str(index)!r}); os._exit(7)")
    assert (done.returncode, done.stderr) == (7, "")
    saved = read_run(tensors(run))
    assert set(range(4)) <= set(saved) <= set(range(6))
    assert all(len(step) == 9 for step in saved.values())
    assert not has_ended(run)


def test_ctrl_c_is_the_scripts_own(run: Path, run_script: Run, read_run: Any) -> None:
    ctrl_c = {"middle": "os.kill(os.getpid(), signal.SIGINT); time.sleep(20)"}
    plain = run_script(**ctrl_c)
    done = run_script(run, **ctrl_c)
    assert plain.stderr.endswith("KeyboardInterrupt\n")
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    assert sorted(read_run(tensors(run))) == list(range(6))
    assert has_ended(run)


def test_a_script_that_goes_on_after_sigterm_is_captured_on(run: Path, run_script: Run, read_run: Any) -> None:
    """As one that saves a checkpoint first: what is queued is stored before its own handler runs."""
    saved_by_then = run / run_layout.TENSORS / run_layout.index_key(4, "worker_0")
    handler = f"signal.signal(15, lambda *_: print(os.path.exists({str(saved_by_then)!r})))"
    late = run_script(run, middle=f"{handler}; os.kill(os.getpid(), 15)")  # set over ours: ours is gone
    assert (late.returncode, late.stderr) == (0, "")
    assert sorted(read_run(tensors(run))) == list(range(STEPS))
    assert has_ended(run)


def test_the_scripts_handler_of_sigterm_runs_after_ours(
    run: Path, folder: Path, read_run: Any, warm_python: WarmPython
) -> None:
    saved_by_then = run / run_layout.TENSORS / run_layout.index_key(2, "worker_0")
    script = folder / "handles.py"
    script.write_text(
        "import os, signal, torch\n"
        f"signal.signal(15, lambda *_: print(os.path.exists({str(saved_by_then)!r}), flush=True))\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for number in range(5):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "    optimizer.step()\n"
        "    if number == 2: os.kill(os.getpid(), 15)\n"
    )
    request = '{"collections": [{"name": "weights", "save_interval": 1}]}'
    environment = {**inherited(), "TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request}
    done = warm_python.run(script, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert sorted(read_run(tensors(run))) == list(range(5))
    assert has_ended(run)


IN_A_THREAD = (
    "def more():\n        for _ in range(20): step(); time.sleep(0.005)\n    threading.Thread(target=more).start()"
)
UNTIL_THE_LAST = (
    "ended = threading.Event()\n"
    "    def more():\n"
    "        while not ended.is_set(): step(); time.sleep(0.005)\n"
    "    thread = threading.Thread(target=more, daemon=True)\n"
    "    thread.start()\n"
    "    last.extend([ended.set, thread.join])"
)


@pytest.mark.parametrize("steps", [pytest.param(0, id="from-the-first-step-on"), pytest.param(STEPS, id="as-well")])
def test_a_thread_that_trains_after_the_main_thread_has_ended(
    run: Path, run_script: Run, read_run: Any, steps: int
) -> None:
    done = run_script(run, steps=steps, end=IN_A_THREAD)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(read_run(tensors(run))) == list(range(steps + 20))
    assert has_ended(run)


def test_a_thread_that_trains_while_its_run_is_closed(run: Path, run_script: Run, read_run: Any) -> None:
    """A daemon goes on while its run ends around it: that breaks nothing, and all before the end is stored.

    A step that it makes while the run is being closed, or later, may be lost, and is said to be. The thread ends before
    the interpreter does: a library's own threads may not outlive it (python/cpython#87135).
    """
    done = run_script(run, end=UNTIL_THE_LAST + "\n    time.sleep(0.03)")
    assert done.returncode == 0, done.stderr
    lost = r"trackside: (\d of \d+ steps could not be saved|step \d+ could not be saved: its run is closed)\."
    assert all(re.fullmatch(lost, line) for line in done.stderr.splitlines()), done.stderr
    assert set(range(STEPS)) <= set(read_run(tensors(run)))
    assert has_ended(run)


def test_forked_children_and_data_loader_workers_write_nothing(run: Path, run_script: Run, read_run: Any) -> None:
    script = (
        "from torch.utils.data import DataLoader, Dataset\n"
        "    class Stepping(Dataset):\n"
        "        def __len__(self): return 4\n"
        "        def __getitem__(self, i):\n"
        "            for _ in range(20): step()\n"
        "            return i\n"
        "    list(DataLoader(Stepping(), num_workers=1))\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for _ in range(20): step()\n"
        "        sys.exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0"
    )
    done = run_script(run, middle=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(read_run(tensors(run))) == list(range(STEPS))


def test_helper_processes_before_the_first_step_write_nothing(run: Path, run_script: Run, bare: Done) -> None:
    """They import the script, build the model and even run backward; the training itself never starts."""
    script = (
        "import torch.multiprocessing as mp\n"
        "    from torch.utils.data import DataLoader, TensorDataset\n"
        "    data = TensorDataset(torch.zeros(2, 1))\n"
        "    list(DataLoader(data, num_workers=1, multiprocessing_context='spawn'))\n"
        "    model(torch.randn(4, 8)).sum().backward()"
    )
    done = run_script(run, steps=0, end=script, TRACKSIDE_CAPTURE_REQUEST="{broken")
    assert (done.returncode, done.stderr) == (0, "")
    assert not files_below(run)


# What can go wrong


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("file systems can be mounted by root only; test_pytorch.py fills a store of ours instead")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_said_once(tiny_disk: Path, run_script: Run, bare: Done, read_run: Any) -> None:
    run = tiny_disk / "run"
    done = run_script(run)
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    outage, total = done.lines
    assert "could not be saved" in outage
    assert "disk is full" in outage
    saved = read_run(tensors(run))  # what is there is whole
    assert 0 < len(saved) < STEPS
    assert f"{STEPS - len(saved)} of {STEPS} steps could not be saved" in total


def test_a_location_that_cannot_be_written_is_said_once(tmp_path: Path, run_script: Run, bare: Done) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    done = run_script(file / "run")
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    assert [f"{STEPS} of {STEPS} steps" in line for line in done.lines] == [False, True]
    assert file.read_text() == "in the way"


def test_a_folder_that_is_gone_in_mid_run_and_comes_back(run: Path, run_script: Run, bare: Done, read_run: Any) -> None:
    there, aside = run / run_layout.TENSORS, run / "aside"
    index = there / run_layout.index_key(3, "worker_0")
    script = (
        f"wait_for({str(index)!r}); os.rename({str(there)!r}, {str(aside)!r}); open({str(there)!r}, 'w').close()\n"
        "    for _ in range(3): step(); time.sleep(0.1)\n"
        f"    os.remove({str(there)!r}); os.rename({str(aside)!r}, {str(there)!r})\n"
        "    import glob\n"  # the writer tries again a second after a failure
        f"    indexes = lambda: len(glob.glob({str(there / 'index')!r} + '/*/*'))\n"
        "    before = indexes()\n"
        "    while indexes() == before: step(); time.sleep(0.05)"
    )
    done = run_script(run, middle=script)
    assert done.returncode == 0
    outage, recovered, total = done.lines
    assert "could not be saved" in outage
    assert "saving works again" in recovered
    saved = read_run(tensors(run))
    lost = open_trial(str(run)).lost_steps()["worker_0"]
    steps = lost.lost_steps + lost.saved_steps
    assert steps > STEPS + 3
    assert {step.step for step in lost.lost} == set(range(steps)) - set(saved)
    assert f"{lost.lost_steps} of {steps} steps could not be saved" in total
    assert has_ended(run)


class Bucket:
    """A bucket on a server that can be stopped and started; what it holds stays."""

    def __init__(self) -> None:
        self._port = 0
        self.start()

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()
        self._port = self._server.get_host_and_port()[1]

    def stop(self) -> None:
        self._server.stop()
        self._server._server.server_close()  # moto leaves it listening

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    bucket = Bucket()
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    boto3.session.Session().client("s3").create_bucket(Bucket="bucket")
    yield bucket
    bucket.stop()


def test_s3_down_in_mid_run_costs_the_steps_of_that_time_only(
    bucket: Bucket, folder: Path, request_json: Callable[..., str], tmp_path: Path, warm_python: WarmPython
) -> None:
    """The server is stopped in mid-run and started again; training goes on all the while."""
    begun, over, said = tmp_path / "begun", tmp_path / "over", tmp_path / "said"
    middle = f"open({str(begun)!r}, 'w').close()\n    while not os.path.exists({str(over)!r}): step(); time.sleep(0.05)"
    script = folder / "goes_on.py"
    script.write_text(the_script(middle=middle, end="pass", steps=STEPS))
    request = request_json(losses=1)
    environment = {**inherited(), "TRACKSIDE_RUN": "s3://bucket/run", "TRACKSIDE_CAPTURE_REQUEST": request}
    with said.open("wb") as stderr, warm_python.start(script, stderr=stderr, env=environment) as training:
        wait_until(begun.exists)
        wait_until(lambda: any(True for _ in open_store("s3://bucket/run/debug-output").list("index/")))
        bucket.stop()
        wait_until(lambda: "could not be saved" in said.read_text())
        bucket.start()
        wait_until(lambda: "saving works again" in said.read_text())
        over.touch()
        assert training.wait() == 0
    by_chance = (BUDGET, "cannot store its data")  # the latter where the outage meets what is no step first
    assert len([line for line in said.read_text().splitlines() if not any(p in line for p in by_chance)]) == 3
    trial = open_trial("s3://bucket/run")
    lost = trial.lost_steps()["worker_0"]
    assert len(trial.steps()) == lost.saved_steps
    assert {step.step for step in lost.lost} == set(range(lost.saved_steps + lost.lost_steps)) - set(trial.steps())
    assert lost.lost_steps > 0
    assert f"{lost.lost_steps} of {lost.saved_steps + lost.lost_steps} steps could not" in said.read_text()
    assert trial.has_ended
    doctor = CliRunner().invoke(main, ["doctor", "s3://bucket/run"])
    assert f"{lost.lost_steps} of {lost.saved_steps + lost.lost_steps} could not be saved" in doctor.output
    assert doctor.exit_code == 1


def test_an_s3_outage_neither_breaks_nor_holds_up_training(run_script: Run, bare: Done, tmp_path: Path) -> None:
    """S3 takes requests and answers none, until the training is through: it would never be, if it waited for one."""
    trained = tmp_path / "trained"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_s3 = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

        def end_the_silence() -> None:
            wait_until(trained.exists)
            silent.shutdown(socket.SHUT_RDWR)  # what has been asked fails, and so does what comes
            silent.close()

        thread = threading.Thread(target=end_the_silence)
        thread.start()
        try:
            done = run_script("s3://bucket/run", end=f"open({str(trained)!r}, 'w').close()", **silent_s3)
        finally:
            trained.touch()
            thread.join()
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    said = [line for line in done.lines if "has not answered for" not in line]  # said where a machine is slow
    assert [f"{STEPS} of {STEPS} steps" in line for line in said] == [False, True]


def test_a_bad_request_is_one_line(run: Path, run_script: Run, bare: Done) -> None:
    done = run_script(run, TRACKSIDE_CAPTURE_REQUEST="{broken")
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    (line,) = done.stderr.splitlines()
    assert "capture is switched off, training goes on" in line
    assert "capture request" in line
    assert not files_below(run)


def test_a_broken_adapter_is_one_line(run: Path, folder: Path, bare: Done) -> None:
    script = folder / "broken.py"
    script.write_text(
        "import sys; sys.modules['trackside.capture.steps.step_engine'] = None\nimport torch\nprint('trained')"
    )
    environment = {**inherited(), "TRACKSIDE_RUN": str(run)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.startswith("trackside: torch is not captured, training goes on: ")
    assert done.stderr.count("\n") == 1


OTHERS_HOOK = """
import importlib.util, sys

class Finder:  # as `wrapt` has it, and what is made after it
    def __init__(self):
        self.at_work = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.at_work:
            return None
        self.at_work = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.at_work = False
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            print("told of torch")
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert({place}, Finder())
import torch
from trackside.frameworks.shared import in_charge
print("captured" if in_charge.attached() else "not captured")
print(torch.optim.Optimizer.__init__.__wrapped__.__qualname__)
print(hasattr(torch.optim.Optimizer.__init__.__wrapped__, "__wrapped__"))
"""


@pytest.mark.parametrize("place", [pytest.param(0, id="before-ours"), pytest.param(1, id="behind-ours")])
def test_another_import_hook_for_the_same_framework(run: Path, folder: Path, place: int) -> None:
    script = folder / "hooked.py"
    script.write_text(OTHERS_HOOK.replace("{place}", str(place)))
    environment = {**inherited(), "TRACKSIDE_RUN": str(run)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["told of torch", "captured", "Optimizer.__init__", "False"]
