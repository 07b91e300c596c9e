"""The play of a framework container: from what the SDK uploaded to the user's own script."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import trackside
from trackside_localaccount.framework_container import arguments, framework_container, variables

LIBRARY = str(Path(trackside.__file__).parents[1])
SCRIPT = """
import json, os, sys
import beside  # a module of the same folder
told = {name: value for name, value in os.environ.items() if name.startswith("SM")}
print(json.dumps([sys.argv[1:], beside.VALUE, os.getcwd(), told]))
for name in json.loads(os.environ["SM_CHANNELS"]):
    folder = os.environ["SM_CHANNEL_" + name.upper()]
    print(name, sorted(os.path.relpath(os.path.join(place, f), folder) for place, _, fs in os.walk(folder) for f in fs))
"""


def archive(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture
def train(bench: Any) -> Any:
    """Runs a job as the SDK asks for one; what it printed, and how it ended."""
    s3 = bench.account.client("s3")
    s3.create_bucket(Bucket="sdk")
    for key in ("train/a.csv", "train/deep/b.csv", "validation/only.csv"):
        s3.put_object(Bucket="sdk", Key=f"data/{key}", Body=b"1")
    bench.account.register_image("pytorch-training", framework_container(), environment={"PYTHONPATH": LIBRARY})

    def run(job: str, files: dict[str, str], channels: dict[str, str], **parameters: Any) -> tuple[str, str]:
        s3.put_object(Bucket="sdk", Key=f"{job}/sourcedir.tar.gz", Body=archive(files))
        told = {"sagemaker_program": "train.py", "sagemaker_submit_directory": f"s3://sdk/{job}/sourcedir.tar.gz"}
        inputs = [
            {"ChannelName": channel, "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}}
            for channel, uri in channels.items()
        ]
        image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.0.1-cpu-py310"
        bench.training_job(
            job,
            AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"},
            HyperParameters={key: json.dumps(value) for key, value in {**told, **parameters}.items()},
            DebugHookConfig={"S3OutputPath": "s3://sdk/debug"},
            **({"InputDataConfig": inputs} if inputs else {}),
        )
        found = bench.account.hops.find
        ended = ("Completed", "Failed")
        status = bench.eventually(
            lambda: next((each for each in ended if found("job-state", job=job, status=each)), ""),
        )
        return status, bench.account.job_log(job)

    return run


def test_becomes_the_users_script(train: Any) -> None:
    files = {"train.py": SCRIPT, "beside.py": "VALUE = 7", "requirements.txt": "nothing==1.0"}
    channels = {"train": "s3://sdk/data/train", "one": "s3://sdk/data/validation/only.csv"}
    parameters = {"epochs": 50, "learning_rate": 0.001, "name": "a b", "layers": [1, 2], "n": 3}
    status, log = train("whole", files, channels, **parameters)
    assert status == "Completed", log
    passed_over, command, told, one, first = log.splitlines()
    assert "installs nothing" in passed_over
    assert command.endswith("/train.py --epochs 50 --layers [1, 2] --learning_rate 0.001 -n 3 --name a b")
    words, beside, folder, environment = json.loads(told)
    assert words == ["--epochs", "50", "--layers", "[1, 2]", "--learning_rate", "0.001", "-n", "3", "--name", "a b"]
    assert (beside, Path(folder).name) == (7, "code")
    assert environment["SM_HP_EPOCHS"] == "50"
    assert json.loads(environment["SM_HPS"])["layers"] == [1, 2]
    assert environment["SM_MODEL_DIR"].endswith("/ml/model")
    hook = json.loads(Path(environment["SMDEBUG_CONFIG_FILE_PATH"]).read_text("utf-8"))
    assert hook == {"S3OutputPath": "s3://sdk/debug"}
    assert (one, first) == ("one ['only.csv']", "train ['a.csv', 'deep/b.csv']")


def test_the_scripts_failure_is_the_jobs(train: Any) -> None:
    status, log = train("fails", {"train.py": "raise ValueError('no data')"}, {})
    assert (status, "ValueError: no data" in log) == ("Failed", True)


def test_code_that_leaves_its_folder_is_refused(train: Any) -> None:
    status, log = train("hostile", {"train.py": "print('ran')", "../../../escaped.py": "x"}, {})
    assert status == "Failed"
    assert "OutsideDestinationError" in log or "would lie outside" in log, "by Python's filter, or ours without one"
    assert "ran" not in log


def test_says_what_a_job_lacks_that_the_sdk_did_not_make(bench: Any, train: Any) -> None:
    specification = {"TrainingImage": "pytorch-training", "TrainingInputMode": "File"}
    bench.training_job("by-hand", AlgorithmSpecification=specification)
    bench.account.hops.wait_for("job-state", job="by-hand", status="Failed")
    assert "no sagemaker_program and sagemaker_submit_directory" in bench.account.job_log("by-hand")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"b": 1, "lr": 0.5}, ["-b", "1", "--lr", "0.5"], id="one-letter-and-more"),
        pytest.param({"flag": True, "what": None}, ["--flag", "True", "--what", "None"], id="words-of-python"),
        pytest.param({"of": {"b": 2, "a": 1}}, ["--of", "a=1,b=2"], id="mapping"),
        pytest.param({"text": "a b"}, ["--text", "a b"], id="text"),
    ],
)
def test_arguments(parameters: dict[str, Any], words: list[str]) -> None:
    assert list(arguments(parameters)) == words


def test_names_only_the_files_that_are_there(tmp_path: Path) -> None:
    assert not [name for name in variables(tmp_path, {}, []) if name.endswith("_PATH")]
