"""The start of SageMaker's framework containers, in a job of the local account.

    account.register_image("pytorch-training", framework_container())

It downloads the input channels, unpacks the code that the SageMaker SDK uploaded (`sagemaker_submit_directory`), and
becomes its entry point: `python train.py --epochs 50`, with SM_MODEL_DIR, SM_CHANNEL_TRAIN and the like.
https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md names the variables.

Nothing is installed: `requirements.txt` is passed over, and said so. What runs is the Python of this process.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trackside.environment import EvaluatorEnvironment, inherited

CODE, DATA = "code", "input/data"
_SCRIPT, _SOURCE = "sagemaker_program", "sagemaker_submit_directory"


def framework_container() -> list[str]:
    """The command to register for a framework's image."""
    return [sys.executable, "-m", "trackside_localaccount.framework_container"]


def main() -> None:
    """Prepare the folder of this job, and become the user's script. Errors: `SystemExit` with what is missing."""
    import boto3

    root = EvaluatorEnvironment.read().ml_root
    hyperparameters = _read(root, "hyperparameters.json")
    channels = _read(root, "inputdataconfig.json")
    parameters = {name: _value(text) for name, text in hyperparameters.items()}
    if not parameters.get(_SCRIPT) or not parameters.get(_SOURCE):
        raise SystemExit(f"The job has no {_SCRIPT} and {_SOURCE} among its hyperparameters: is it the SDK's?")
    s3 = boto3.client("s3")
    for name, channel in channels.items():
        download(s3, channel["DataSource"]["S3DataSource"]["S3Uri"], root / DATA / name)
    code = unpack(s3, parameters[_SOURCE], root / CODE)
    if (code / "requirements.txt").is_file():
        sys.stdout.write("requirements.txt is passed over: the local account installs nothing.\n")
    own = {name: value for name, value in parameters.items() if not name.startswith("sagemaker_")}
    command = [sys.executable, str(code / parameters[_SCRIPT]), *arguments(own)]
    sys.stdout.write(f"{' '.join(command)}\n")
    sys.stdout.flush()
    os.chdir(code)
    environment = {**inherited(), **variables(root, own, list(channels))}
    os.execve(sys.executable, command, environment)  # noqa: S606 - in this process's place: a job's signals reach it


def download(s3: Any, uri: str, folder: Path) -> None:
    """All objects below the prefix `uri`, or the one object that it is, as File mode does."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for each in page.get("Contents", ()):
            below = each["Key"].removeprefix(prefix).lstrip("/") or each["Key"].rpartition("/")[2]
            target = (folder / below).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise SystemExit(f"The object s3://{bucket}/{each['Key']} would lie outside {folder}.")
            if not each["Key"].endswith("/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                s3.download_file(bucket, each["Key"], str(target))
    folder.mkdir(parents=True, exist_ok=True)


def unpack(s3: Any, uri: str, folder: Path) -> Path:
    """The archive of the user's code."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder.with_name("sourcedir.tar.gz")
    s3.download_file(bucket, key, str(archive))
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:  # a Python before 3.10.12 or 3.11.4, as Debian 12 has it
            for member in opened:
                if not _is_below(folder, member):
                    raise SystemExit(f"{member.name!r} in {uri} would lie outside {folder}, or is no plain file.")
                opened.extract(member, folder)
    return folder


def _is_below(folder: Path, member: tarfile.TarInfo) -> bool:
    """Return True for a plain file or a folder that would lie below a folder."""
    is_inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
    return is_inside and (member.isfile() or member.isdir())


def arguments(parameters: Mapping[str, Any]) -> Iterator[str]:
    """`--name value`, by name, as the script gets them: values as Python writes them, a mapping as `a=1,b=2`."""
    for name, value in sorted(parameters.items()):
        yield f"-{name}" if len(name) == 1 else f"--{name}"
        is_mapping = isinstance(value, Mapping)
        yield ",".join(f"{key}={each}" for key, each in sorted(value.items())) if is_mapping else str(value)


def variables(root: Path, parameters: Mapping[str, Any], channels: list[str]) -> dict[str, str]:
    """Return the further variables of the script."""
    configuration = root / "input" / "config"
    folders = {f"SM_CHANNEL_{name.upper()}": str(root / DATA / name) for name in channels}
    debugger = {
        "SMDEBUG_CONFIG_FILE_PATH": "debughookconfig.json",
        "SMPROFILER_CONFIG_PATH": "profilerconfig.json",
        "TENSORBOARD_CONFIG_FILE_PATH": "tensorboardoutputconfig.json",
        "CHECKPOINT_CONFIG_FILE_PATH": "checkpointconfig.json",
    }
    return {
        **folders,
        **{f"SM_HP_{name.upper()}": _text(value) for name, value in parameters.items()},
        **{name: str(configuration / file) for name, file in debugger.items() if (configuration / file).is_file()},
        "SM_HPS": json.dumps(dict(parameters)),
        "SM_CHANNELS": json.dumps(sorted(channels)),
        "SM_MODEL_DIR": str(root / "model"),
        "SM_OUTPUT_DATA_DIR": str(root / "output" / "data"),
        "SM_INPUT_DIR": str(root / "input"),
        "SM_HOSTS": '["algo-1"]',
        "SM_CURRENT_HOST": "algo-1",
        "SM_NUM_GPUS": "0",
    }


def _read(root: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((root / "input" / "config" / name).read_text(encoding="utf-8")))


def _value(text: str) -> Any:
    """The SDK sends JSON; a request made by hand may hold a plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    main()
