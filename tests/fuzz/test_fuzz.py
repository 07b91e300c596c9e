"""Some fixed cases of the fuzzer, and that it notices what it is there for. An hour of it is run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS

CASES = 40


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", "--processes", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)


def test_damaged_runs_are_read_or_refused() -> None:
    done = play("--seed", "suite", "--cases", str(CASES))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert f"{CASES} cases, 0 failed" in done.stdout


# A reader that does what none may, and what is said of it.
CARELESS = {
    "crash": ("raise KeyError('tensor_payload')", "KeyError: 'tensor_payload'"),
    "loop": ("while True: pass", "took too much CPU time"),
    "pipe": ("import os; os.mkfifo(run / 'p'); open(run / 'p')", "took too much time on the clock"),
    "memory": ("bytes(1 << 30)", "MemoryError"),
    "outside": ("(run.parent / 'outside' / 'canary.json').read_bytes()", "looked outside the run"),
    "elsewhere": ("open('/etc/passwd')", "looked outside the run"),
    "folder": ("import os; os.listdir(run.parent)", "looked outside the run"),
    "process": ("import subprocess; subprocess.run(['true'])", "looked outside the run"),
    "nothing": ("pass", "None"),
    "told": ("from trackside.contracts.errors import RecordError; raise RecordError('k', 0, 'is damaged')", "None"),
}
SCRIPT = """
import sys
from pathlib import Path
from tests.fuzz import watch
from tests.fuzz.case import Fuzzer
from tests.fuzz.reading import Reader

watch.MOST_CPU_SECONDS, watch.MOST_SECONDS = 0.3, 3.0  # others may have most of the processor
watch.time_limits.__wrapped__.__kwdefaults__.update(cpu_seconds=0.3, seconds=3.0)

def read(run, random, wrap):
    {body}

fuzzer = Fuzzer(Path(sys.argv[1]), seed="1", opened=watch.OpenedFiles(), through=[Reader("careless", read)])
print(fuzzer.play(0))
"""


@pytest.mark.parametrize("kind", list(CARELESS))
def test_a_careless_reader_is_noticed(kind: str, tmp_path: Path) -> None:
    body, said = CARELESS[kind]
    command = [sys.executable, "-c", SCRIPT.format(body=body), str(tmp_path / "fuzz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert said in done.stdout, done.stderr[-2000:]


BLIND = """
import sys
from pathlib import Path
from tests.fuzz import watch
from tests.fuzz.case import Fuzzer
from tests.fuzz.reading import Reader, Seen, read_trial

def read(run, random, wrap):
    seen = read_trial(run, random, wrap)
    {body}
    return seen

fuzzer = Fuzzer(Path(sys.argv[1]), seed="1", opened=watch.OpenedFiles(), through=[Reader("blind", read)])
print(next((failure for number in range(20) if (failure := fuzzer.play(number))), None))
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("seen.values.clear()", "was not damaged and is not found", id="the rest is lost"),
        pytest.param(
            "seen.values = dict.fromkeys(seen.values, __import__('numpy').zeros(1))",
            "not damaged and is array",
            id="wrong",
        ),
        pytest.param("seen.means.clear()", "the mean of", id="statistics are lost"),
        pytest.param("pass", "None", id="all is well"),
    ],
)
def test_a_reader_that_loses_what_is_whole_is_noticed(body: str, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLIND.format(body=body), str(tmp_path / "fuzz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert said in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
