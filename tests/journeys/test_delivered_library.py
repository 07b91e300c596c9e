"""The library in a container that never saw it: a clean environment, no index, the container's paths and variables.

What is real: the environment (venv, of this Python), pip's installation of the delivered requirements.txt without an
index, an unmodified training script with PyTorch, and the run that it leaves. PyTorch, NumPy and what they need come
from this repository's own environment by PYTHONPATH, as they come with a framework image: nothing of Trackside or its
own requirement is among them. What is not real: SageMaker's images, and S3 (the run is a folder).
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from trackside.contracts.run_layout import RunLocation
from trackside.environment import inherited
from trackside.sagemaker.attachment import plan_attachment
from trackside.sagemaker.delivery import LIBRARY, NEEDED, deliver, wheel_of_installed
from trackside.storage.local import LocalStore
from trackside.trial.trial import Trial

JOB = "tuning-7-001-4f1c"
SCRIPT = """
import sys, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(torch.ones(8, 4)), torch.zeros(8, 1))
    loss.backward()
    optimizer.step()
print("trained with", sys.prefix)
"""


@pytest.fixture(scope="module")
def framework(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a framework image has beside Python: PyTorch and whatever it requires."""
    folder = tmp_path_factory.mktemp("framework")
    waiting, known = ["torch", "numpy"], set()
    while waiting:
        name = re.sub("[-_.]+", "-", waiting.pop()).lower()
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if name in known:
            continue
        known.add(name)
        waiting += [re.split("[^A-Za-z0-9._-]", one)[0] for one in found.requires or () if "extra ==" not in one]
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            target = Path(str(found.locate_file(top)))
            if not (folder / top).exists() and target.exists():
                (folder / top).symlink_to(target)
    assert not {"google_crc32c", "trackside"} & {path.name for path in folder.iterdir()}
    return folder


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing in it; the pip of this one installs into it, which spares seconds."""
    folder = tmp_path_factory.mktemp("container") / "python"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def run(python: Path, *command: str, framework: Path, at: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in inherited().items() if name in {"PATH", "HOME", "LANG"}}
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment = {**known, **offline, "PYTHONPATH": str(framework), **variables}
    return subprocess.run(
        [str(python), *command], cwd=at, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_script_that_knows_nothing_of_it_is_captured(tmp_path: Path, framework: Path, container: Path) -> None:
    code = tmp_path / "opt" / "ml" / "code"
    code.mkdir(parents=True)
    (code / "train.py").write_text(SCRIPT)
    (code / "requirements.txt").write_text("numpy>=1.23  # the user's own line\n")
    wheels = [wheel_of_installed(name, tmp_path / "wheels") for name in (LIBRARY, NEEDED)]
    deliver(code, wheels)

    before = run(container, "-c", "import trackside", framework=framework, at=code)
    assert "No module named 'trackside'" in before.stderr
    pip = ("-m", "pip", "--python", str(container))
    installed = run(Path(sys.executable), *pip, "install", "-r", "requirements.txt", framework=framework, at=code)
    assert installed.returncode == 0, installed.stdout + installed.stderr

    # The variables of a tuning job's training job; a folder stands for the bucket.
    attachment = plan_attachment("s3://runs-bucket/tuning-7/@job", "exploding-tensor")
    variables = {
        name: value.replace("s3://runs-bucket", str(tmp_path)) for name, value in attachment.environment.items()
    }
    trained = run(container, "train.py", framework=framework, at=code, TRAINING_JOB_NAME=JOB, **variables)
    assert trained.returncode == 0, trained.stderr
    assert str(container.parents[1]) in trained.stdout
    trial = Trial(LocalStore(RunLocation(str(tmp_path / "tuning-7" / JOB)).tensors))
    trial.refresh()
    assert trial.steps() == (0,)  # losses: every 500 steps
    (loss,) = trial.tensor_names(collection="losses")
    assert trial.tensor(loss).value(0).size == 1

    without = run(container, "train.py", framework=framework, at=code, TRAINING_JOB_NAME="not-watched")
    assert without.returncode == 0, without.stderr
    assert sorted(path.name for path in (tmp_path / "tuning-7").iterdir()) == [JOB]
