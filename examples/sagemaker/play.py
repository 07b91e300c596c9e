"""`make sdk`: the post's notebook under the real SageMaker Python SDK 2.257.7, against a local AWS account.

The training job is a process that runs the post's training script on handwritten digits; the deployed stacks judge it.
Prints what the notebook printed. Exits 0 only if its cells ran to their end.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from notebook import SCRIPT, cells
from sdk_environment import V3, sdk_python
from sklearn.datasets import load_digits

from trackside.environment import inherited
from trackside_localaccount.deploy import deploy
from trackside_localaccount.framework_container import framework_container
from trackside_localaccount.provision import create_role
from trackside_localaccount.server import LocalAccount

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `stacks` is part of the checkout, not of the wheel
from stacks.assembly import assembly  # noqa: E402 - after the path that it is found by

LIBRARY = [str(ROOT / "training_lib" / "src"), str(ROOT / "training_lib" / "compat")]
EVALUATOR = ROOT / "rule_containers" / "evaluator" / "entrypoint.py"
PLAYER = Path(__file__).with_name("under_the_sdk.py")
ROLE = "data-scientist"
RIGHTS = [
    *("sagemaker:*", "s3:*", "logs:*", "ecr:*", "kms:Decrypt", "kms:GenerateDataKey", "cloudwatch:PutMetricData"),
    *("iam:GetRole", "iam:PassRole", "iam:SimulatePrincipalPolicy", "cloudformation:DescribeStacks", "dynamodb:Query"),
]
# What version 3 of the SDK asks of the role of a training job, in a VPC or not.
RIGHTS += [
    *(f"ec2:{verb}NetworkInterface{what}" for verb in ("Create", "Delete") for what in ("", "Permission")),
    *(f"ec2:Describe{what}" for what in ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")),
]
BUCKET = "sagemaker-us-east-1-123456789012"  # what `default_bucket()` answers in the local account


@dataclass(frozen=True)
class Played:
    """What became of the notebook: the names that its cells left, as far as JSON holds them, and what it printed."""

    left: dict[str, Any]
    printed: str


def play(account: LocalAccount, folder: Path, *, python: Path, pace: float = 1.0) -> Played:
    """Runs the notebook below `folder`. `pace` shortens the SDK's own waiting, of 10 and 30 s, that many times.

    Errors: `RuntimeError` with what the notebook printed, if a cell failed.
    """
    outputs = {name: value for stack in deploy(assembly(), account).values() for name, value in stack.items()}
    paths = {"PYTHONPATH": ":".join(LIBRARY)}
    account.register_image("trackside-evaluator", [sys.executable, str(EVALUATOR)], environment=paths)
    account.register_image("pytorch-training", framework_container(), environment={**paths, "OMP_NUM_THREADS": "1"})
    put_digits(account)
    write_notebook(folder, outputs["RunBucketName"])
    environment = {
        **notebook_environment(account),
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(folder / "sagemaker.yaml"),
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
    }
    done = subprocess.run(
        [python, "-W", "ignore", PLAYER, "cells.json", "left.json", str(pace)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The notebook failed:\n{done.stdout[-6000:]}")
    return Played(json.loads((folder / "left.json").read_text("utf-8")), done.stdout)


def put_digits(account: LocalAccount) -> None:
    """Handwritten digits, odd or even, where the notebook says its data lie."""
    s3 = account.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    digits = load_digits()
    images, is_odd = (digits.data / 16).astype(np.float32), digits.target % 2
    with tempfile.TemporaryDirectory() as folder:
        for channel, part in (("train", slice(0, 640)), ("validation", slice(640, 832))):
            file = Path(folder) / f"{channel}.npz"
            np.savez(file, images=images[part], is_odd=is_odd[part])
            s3.upload_file(str(file), BUCKET, f"data/{channel}/digits.npz")


def write_notebook(folder: Path, run_bucket: str) -> None:
    """The cells in their order, the training script, and the SDK's settings."""
    found = [cell.replace("RunBucketName/", f"{run_bucket}/") for cell in cells()]
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "train.py").write_text(next(cell for cell in found if cell.startswith(SCRIPT)), "utf-8")
    (folder / "cells.json").write_text(json.dumps([cell for cell in found if not cell.startswith(SCRIPT)]), "utf-8")
    telemetry = "SchemaVersion: '1.0'\nSageMaker:\n  PythonSDK:\n    Modules:\n      TelemetryOptOut: true\n"
    (folder / "sagemaker.yaml").write_text(telemetry, "utf-8")  # else it reports to AWS, which nobody here can reach


def main() -> int:
    """The notebook as fast as the SDK goes, then a job of the SDK's version 3."""
    with LocalAccount(stop_grace_seconds=5) as account, tempfile.TemporaryDirectory() as folder:
        played = play(account, Path(folder), python=sdk_python())
        sys.stdout.write(played.printed)
        sys.stdout.write("\nA ModelTrainer of the SDK's version 3 carries:\n")
        sys.stdout.flush()
        train_with_version_3(account)
    return 0


def train_with_version_3(account: LocalAccount) -> None:
    """Prints what its job carries. Errors: `CalledProcessError`."""
    account.client("s3").create_bucket(Bucket="runs")
    account.register_image("pytorch-training", [sys.executable, "-c", "pass"])
    python = sdk_python("sagemaker-sdk-3", V3)
    role = f"arn:aws:iam::123456789012:role/service-role/{ROLE}"
    command = [python, "-W", "ignore", PLAYER.with_name("model_trainer.py"), "s3://runs/digits/@job", role]
    subprocess.run(command, env=notebook_environment(account), timeout=300, check=True)


def notebook_environment(account: LocalAccount) -> dict[str, str]:
    """As a notebook instance has it: a role, a region, and this checkout in place of an installed wheel."""
    with contextlib.suppress(account.client("iam").exceptions.EntityAlreadyExistsException):
        create_role(account, ROLE, [{"Effect": "Allow", "Action": RIGHTS, "Resource": "*"}], path="/service-role/")
    return {
        **{name: value for name, value in inherited().items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}},
        **account.role_environment(ROLE, path="/service-role/"),
        "PYTHONPATH": ":".join(LIBRARY),
    }


if __name__ == "__main__":
    sys.exit(main())
