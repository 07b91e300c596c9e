"""`trackside run` on one machine: a real script, the real evaluator, the real command, each in its own process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import inherited
from trackside.local.process_table import living_processes
from trackside_localaccount.start_time import LEAST_LIMIT_SECONDS, is_late

ROOT = Path(__file__).parents[2]
TRAIN = str(ROOT / "examples" / "digits" / "train.py")
TRACKSIDE = (sys.executable, "-c", "from trackside.cli import main; main(prog_name='trackside')")
MOST_STARTS = 400.0  # for a whole training with its evaluation, in starts of a program
DEBUG_OUTPUT = Path("run") / "debug-output"
VERDICTS = Path("run") / "rule-output" / "verdicts.jsonl"

# Saves nothing and asks for nothing but Python: what is tested with it is how processes end.
SLEEPER = "import os, signal, sys, time; open('up', 'w').close(); "

pytestmark = pytest.mark.xdist_group("local-run")


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in inherited().items() if not name.startswith(("TRACKSIDE_", "COLUMNS"))}
    return subprocess.Popen(
        [*TRACKSIDE, "run", "--out", "run", *arguments],
        cwd=folder,
        env={**environment, "PATH": f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal, whatever the tests run in
        # a test runner in the background ignores Ctrl-C, and that is inherited
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one call, no lock
    )


def end(process: subprocess.Popen[str]) -> Ended:
    began = time.monotonic()
    while True:
        try:
            stdout, stderr = process.communicate(timeout=LEAST_LIMIT_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if is_late(time.monotonic() - began, starts=MOST_STARTS):
                os.killpg(process.pid, signal.SIGKILL)
                raise
    assert processes_in(process.pid) == []
    return Ended(process.returncode, stdout, stderr)


def run(folder: Path, *arguments: str) -> Ended:
    return end(start(folder, *arguments))


def wait_until(condition: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not condition():
        assert not is_late(time.monotonic() - began, starts=MOST_STARTS)
        time.sleep(0.05)  # polling with a deadline


def processes_in(session: int) -> list[int]:
    """Every living process of the session that we started the command in."""

    def session_of(pid: int) -> int:
        try:
            return os.getsid(pid)
        except ProcessLookupError:
            return 0

    return [pid for pid in living_processes() if session_of(pid) == session]


def evaluators(folder: Path) -> list[int]:
    found = []
    for pid in living_processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"trackside.evaluation" in words and str(folder / "run").encode() in words:
            found.append(pid)
    return found


def verdicts(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / VERDICTS).read_text().splitlines()]


def test_a_faulty_run_is_stopped_and_the_card_says_why(tmp_path: Path) -> None:
    options = ("--on-issue", "stop", "--notify", "command:tee -a notified")
    ended = run(tmp_path, *options, "--", "python", TRAIN, "--fault", "vanishing", "--until-stopped")
    assert ended.code == 1, ended.stderr
    (card,) = re.findall("^. (?:CRITICAL|WARNING)  vanishing-gradient.*$", ended.stderr, re.MULTILINE)
    assert "CRITICAL" in card or "trackside: ✖ vanishing-gradient: critical, since step" in ended.stderr
    assert len(ended.stderr.splitlines()) <= 40, "one fault, one card"
    assert "tensor     gradient/DigitClassifier_hidden.0.weight" in ended.stderr
    assert "stopped by Trackside: vanishing-gradient found a critical issue" in ended.stderr
    assert "SIGKILL sent" not in ended.stderr
    assert all(line.startswith("epoch") for line in ended.stdout.splitlines())
    # What the training says itself, our capture included, goes by as it is.
    ours = [line for line in ended.stderr.splitlines() if not line.startswith("trackside: ")]
    assert max(map(len, ours)) <= 80
    assert (tmp_path / DEBUG_OUTPUT / "training_job_end.ts").exists()
    assert evaluators(tmp_path) == []
    assert "✖ CRITICAL  vanishing-gradient" in (tmp_path / "notified").read_text()

    shown = subprocess.run(
        [*TRACKSIDE, "findings", "run", "--format", "json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    document = json.loads(shown.stdout)
    assert document["findings"][0]["rule"] == "vanishing-gradient"


def test_the_healthy_twin_runs_to_its_end_without_a_card(tmp_path: Path) -> None:
    ended = run(tmp_path, "--on-issue", "stop", "--save-interval", "5", "--", "python", TRAIN, "--epochs", "3")
    assert ended.code == 0, ended.stderr
    assert "CRITICAL" not in ended.stderr
    ours = ended.stderr.splitlines()
    assert len(ours) <= 3, "a healthy run is quiet"
    assert ours[-1].startswith("trackside: ✔ no issue: ")
    assert ours[-1].endswith("; trackside findings run")
    assert "test accuracy" in ended.stdout
    outcomes = {str(verdict["configuration"]): verdict["outcome"] for verdict in verdicts(tmp_path)}
    assert "issue-found" not in outcomes.values()
    assert outcomes["vanishing-gradient"] == outcomes["exploding-tensor"] == "clean"


def test_a_killed_training_is_judged_to_its_last_step(tmp_path: Path) -> None:
    """SIGKILL leaves no time for an end marker; the run is judged and closed all the same."""
    command = ("python", TRAIN, "--fault", "vanishing", "--until-stopped")
    process = start(tmp_path, "--save-interval", "10", "--fail-on", "never", "--", *command)
    index = tmp_path / DEBUG_OUTPUT / "index" / "000000000"
    wait_until(lambda: index.exists() and len(list(index.glob("*.json"))) >= 4)
    (training,) = [pid for pid in processes_in(process.pid) if is_training(pid)]
    os.kill(training, signal.SIGKILL)
    ended = end(process)
    assert ended.code == 137, ended.stderr
    assert "SIGKILL ended the training" in ended.stderr or "✖" in ended.stderr
    assert (tmp_path / DEBUG_OUTPUT / "training_job_end.ts").exists()
    assert "vanishing-gradient" in {verdict["rule"] for verdict in verdicts(tmp_path) if verdict["outcome"] != "clean"}


def test_notify_does_not_stop_and_a_killed_evaluator_goes_on_and_says_nothing_twice(tmp_path: Path) -> None:
    command = ("--", "python", TRAIN, "--fault", "exploding", "--epochs", "30")
    process = start(tmp_path, "--on-issue", "notify", "--save-interval", "10", *command)
    wait_until((tmp_path / VERDICTS).exists)
    for pid in evaluators(tmp_path):
        os.kill(pid, signal.SIGKILL)
    ended = end(process)
    assert ended.code == 1, ended.stderr
    assert "it continues where it was (restart 1/3)" in ended.stderr
    titles = [line for line in ended.stderr.splitlines() if line.startswith("✖ CRITICAL  ")]
    assert len(titles) == 1
    assert "exploding-tensor" in ended.stderr  # on the title, or as found with it: which rule leads is learned
    assert len(ended.stderr.splitlines()) <= 40, "one fault, one card"
    assert "test accuracy" in ended.stdout
    said = Counter(
        (verdict["configuration"], verdict["state"], verdict["occurrence"]) for verdict in verdicts(tmp_path)
    )
    assert set(said.values()) == {1}
    assert set(built_in_catalogue().usual) <= {configuration for configuration, _, _ in said}


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        pytest.param("sys.exit(7)", 7, "the command ended with code 7 before it imported a framework", id="code-7"),
        pytest.param("sys.exit(0)", 0, "the script never imported a framework", id="code-0"),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGSEGV)",
            139,
            "SIGSEGV ended the command (exit code 139)",
            id="crash",
        ),
    ],
)
def test_the_code_of_the_training_is_passed_through(tmp_path: Path, code: str, exit_code: int, said: str) -> None:
    ended = run(tmp_path, "--", "python", "-c", SLEEPER + code)
    assert ended.code == exit_code
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 2, "one line at the start, one at the end"


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        pytest.param(signal.SIGTERM, 143, id="sigterm"),
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
        pytest.param(signal.SIGHUP, 129, id="hang-up"),
    ],
)
def test_signals_are_passed_on_to_the_training(tmp_path: Path, number: signal.Signals, exit_code: int) -> None:
    process = start(tmp_path, "--", "python", "-c", SLEEPER + "signal.pause()")
    wait_until((tmp_path / "up").exists)
    process.send_signal(number)
    assert end(process).code == exit_code


def test_a_command_that_is_not_python_works_too(tmp_path: Path) -> None:
    ended = run(tmp_path, "--", "sh", "-c", "echo data; echo trouble >&2; exit 3")
    assert (ended.code, ended.stdout) == (3, "data\n")
    assert "trouble" in ended.stderr
    assert "nothing was captured: the command ended with code 3 before it imported a framework" in ended.stderr


def test_a_python_without_trackside_is_told_apart(tmp_path: Path) -> None:
    """Another Python, where `import trackside` finds nothing: the hint says which one and how to mend it."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    ended = run(tmp_path, "--", str(bare / "bin" / "python"), "-c", "pass")
    assert ended.code == 0
    before, after = ended.stderr.splitlines()[1:]
    assert "nothing will be captured: " in before
    assert "has no Trackside. Install it there:" in before
    assert after.endswith("has no Trackside")


def test_standard_input_is_the_trainings_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TRACKSIDE, "run", "--", sys.executable, "-c", "print(input())"],
        cwd=tmp_path,
        input="a line\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a line\n"


def test_a_reader_that_goes_away_does_not_disturb_the_training(tmp_path: Path) -> None:
    process = start(tmp_path, "--", "python", "-c", SLEEPER + "time.sleep(0.5); open('done', 'w').close()")
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    assert end(process).code == 0
    assert (tmp_path / "done").exists()


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[tuple[int, int]]:
    """`trackside run` in a terminal of its own: (process id, the terminal's other end)."""
    import pty

    pid, controller = pty.fork()
    if pid == 0:  # the child: nothing but exec
        os.chdir(folder)
        os.execv(TRACKSIDE[0], [*TRACKSIDE, "run", "--out", "run", *arguments])  # noqa: S606 - no shell wanted
    try:
        yield pid, controller
    finally:
        os.close(controller)


def test_ctrl_c_in_a_terminal_reaches_the_training_once(tmp_path: Path) -> None:
    """The terminal sends it to every process of the group, so passing it on as well would be once too often."""
    code = (
        "import os, signal, sys, time\n"
        "def count(*_): open('interrupts', 'a').write('x')\n"
        "signal.signal(signal.SIGINT, count)\n"
        "open('up', 'w').close()\n"
        "while not os.path.exists('interrupts'): time.sleep(0.05)\n"
        "time.sleep(0.5)\n"  # a second one would come at once
        "sys.exit(0 if sys.stdin.isatty() else 9)"
    )
    with terminal(tmp_path, "--", sys.executable, "-c", code) as (pid, controller):
        wait_until((tmp_path / "up").exists)
        os.write(controller, b"\x03")
        shown = b""
        while True:
            try:
                part = os.read(controller, 4096)
            except OSError:  # the terminal closes with its last process
                break
            if not part:
                break
            shown += part
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, shown.decode()
    assert (tmp_path / "interrupts").read_text() == "x"
    assert b"Ctrl-C again kills it" in shown


def is_training(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return TRAIN.encode() in words and b"run" not in words
