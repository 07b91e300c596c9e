"""An account that is killed leaves no process behind: neither its jobs nor its functions."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ACCOUNT = """
import json, sys, time
from tests.training_lib.localaccount.conftest import Bench, open_account

bench = Bench(open_account())
bench.training_job("faulty", sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
bench.processing_job("judge", sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
bench.function("warm", "def handle(event, context): return event")
bench.account.client("lambda").invoke(FunctionName="warm", Payload=b"{}")
for job in ("faulty", "judge"):
    bench.account.hops.wait_for("job-process", job=job)
pids = [bench.account.job_pid("faulty"), bench.account.job_pid("judge"), *bench.account.function_pids()]
print(json.dumps(pids), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_its_processes_end_with_it(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", ACCOUNT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as account:
        assert account.stdout is not None
        pids = json.loads(account.stdout.readline())
        ends = [os.pidfd_open(pid) for pid in pids]
        account.send_signal(number)
    assert len(pids) == 3

    for pid, end in zip(pids, ends, strict=True):
        assert select.select([end], [], [], 60)[0], f"process {pid} is still there"
        os.close(end)
