"""A Slurm cluster of one node on this machine: munged, slurmctld and slurmd with a private configuration."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

CONFIGURATION = """
ClusterName=trackside
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.txt
MpiDefault=none
ReturnToService=2
KillWait=20
RequeueExit=99
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=00:00:00
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def why_there_is_none() -> str:
    """Return why no cluster can be started here; "" if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_search_path()) is None]
    if missing:
        return f"Slurm is not installed: {', '.join(missing)} (apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


@dataclass(frozen=True)
class Cluster:
    """A running cluster, and its commands.

    folder       its configuration, state and logs
    environment  the variables of its commands
    """

    folder: Path
    environment: Mapping[str, str]

    def call(self, *words: str, fails: bool = False) -> str:
        """Return what a command of Slurm prints."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False
        )
        assert fails or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def submit(self, script: str, *options: str, folder: Path) -> str:
        """Submit a batch script in a folder, and return the id of its job."""
        file = folder / "job.sh"
        file.write_text(script, encoding="utf-8")
        return self.call("sbatch", "--parsable", f"--chdir={folder}", *options, str(file))

    def job(self, job: str) -> dict[str, str]:
        """Return the fields of a job, as `scontrol show job` has them."""
        text = self.call("scontrol", "--oneliner", "show", "job", job)
        return {name: value for name, _, value in (word.partition("=") for word in text.split())}

    def wait_for(self, job: str, *states: str) -> dict[str, str]:
        """Wait until a job has one of the states, and return its fields."""
        deadline = time.monotonic() + HANGS_SECONDS
        while (found := self.job(job))["JobState"] not in states:
            assert time.monotonic() < deadline, f"{found}\n{self.logs()}"
            time.sleep(0.1)
        return found

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in sorted(self.folder.glob("*.log")))


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """Start a cluster whose files lie in a folder, and end it."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)  # munged refuses a folder into which others write
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    file = folder / "slurm.conf"
    host = socket.gethostname()
    file.write_text(CONFIGURATION.format(folder=folder, host=host, ports=free_ports(2)), encoding="utf-8")
    environment = {
        **{name: value for name, value in inherited().items() if not name.startswith(("SLURM_", "TRACKSIDE_"))},
        "SLURM_CONF": str(file),
        "PATH": _search_path(),
    }
    daemons = (
        ["munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={key}", f"--pid-file={folder}/m.pid",
         f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed", "--force"],
        ["slurmctld", "-D", "-f", str(file)],
        ["slurmd", "-D", "-f", str(file), "-N", host],
    )  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in daemons:
            with (folder / f"{command[0]}.out").open("wb") as output:
                started.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            if command[0] == "munged":
                _wait((folder / "munge.socket").exists, folder)
        cluster = Cluster(folder, environment)
        _wait(lambda: "idle" in cluster.call("sinfo", "--noheader", "--format=%T", fails=True), folder)
        yield cluster
        cluster.call("scancel", "--full", "--user=root", fails=True)
        _wait(lambda: not cluster.call("squeue", "--noheader", "--states=running,completing"), folder)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(is_there: Callable[[], object], folder: Path) -> None:
    deadline = time.monotonic() + HANGS_SECONDS
    while not is_there():
        outputs = "\n".join(file.read_text(errors="replace")[-1500:] for file in folder.glob("*.out"))
        assert time.monotonic() < deadline, outputs
        time.sleep(0.1)


def _search_path() -> str:
    return f"{inherited().get('PATH', '')}:{SYSTEM_PATH}"


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
