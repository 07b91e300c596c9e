"""A container's user played on this machine: without rights, but for reading, where the interpreter may be root's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
READS = "-all,+dac_read_search"
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *(f"--inh-caps={READS}", f"--ambient-caps={READS}", f"--bounding-set={READS}"),
)
AS_ROOT_OF_A_CONTAINER = ("setpriv", f"--bounding-set={READS},+setuid,+setgid,+chown", "--securebits=+no_setuid_fixup")


@contextmanager
def root_owned_folder() -> Iterator[Path]:
    """The job's folder as SageMaker gives it: root's, and readable for all."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can own a folder that another user works in")
    with tempfile.TemporaryDirectory(prefix="trackside-ml-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "output").mkdir(mode=0o755)
        yield Path(folder)


def run_as(who: tuple[str, ...], command: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as one of the users above; skip the test where the kernel does not allow that."""
    probe = subprocess.run([*who, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no other user can be played here: {probe.stderr.strip()}")
    return subprocess.run([*who, *command], env=env, capture_output=True, text=True, check=False)
