"""The library beside the user's script: the user's lines stay, ours are there once, and pip can install them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trackside
from trackside.contracts.errors import ConfigurationError
from trackside.sagemaker.containers import why_no_library
from trackside.sagemaker.delivery import (
    _with_block,
    deliver,
    requirement_lines,
    wheel_of_installed,
    with_channel,
)

NAME = "./trackside-wheels/trackside-0.1.0-py3-none-any.whl"
OURS = f'{NAME} ; python_version >= "3.10"'


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "trackside-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    path.write_bytes(b"a wheel")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b"scikit-learn==1.5\nfoo", id="no newline at the end"),
        pytest.param(b"scikit-learn==1.5\r\n# mine\r\n", id="lines of Windows"),
        pytest.param(b"\xff\xfe # no UTF-8\n", id="no UTF-8"),
        pytest.param(b"--extra-index-url https://x/\n-r other.txt\n", id="options"),
    ],
)
def test_the_users_lines_stay_and_ours_are_there_once(source: Path, wheel: Path, lines: bytes) -> None:
    requirements = source / "requirements.txt"
    requirements.write_bytes(lines)
    for _ in range(2):
        delivery = deliver(source, [wheel])
        assert requirements.read_bytes().startswith(lines)
        assert requirements.read_bytes().count(OURS.encode()) == 1
        assert delivery.lines == (OURS,)
        assert [path.read_bytes() for path in delivery.wheels] == [b"a wheel"]


def test_lines_between_which_ours_stand_stay_where_they_are(source: Path, wheel: Path) -> None:
    deliver(source, [wheel])
    requirements = source / "requirements.txt"
    requirements.write_text("first\n" + requirements.read_text() + "last\n")
    other = wheel.rename(wheel.with_name("trackside-0.2.0-py3-none-any.whl"))
    deliver(source, [other])
    found = requirements.read_text().splitlines()
    assert (found[0], found[-1]) == ("first", "last")
    (line,) = [line for line in found if "trackside-wheels" in line]
    assert line.startswith("./trackside-wheels/trackside-0.2.0-py3-none-any.whl")
    assert [path.name for path in (source / "trackside-wheels").iterdir()] == [other.name]


def test_what_was_delivered_can_be_delivered_again(source: Path, wheel: Path) -> None:
    placed = deliver(source, [wheel]).wheels
    assert deliver(source, placed).wheels == placed


def test_what_is_refused_leaves_the_folder_as_it_was(source: Path, wheel: Path) -> None:
    """Else the lines of before would name wheels that are gone, and the job's pip would fail."""
    deliver(source, [wheel])
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    odd = wheel.with_name("trackside.zip")
    odd.write_bytes(b"no wheel")
    with pytest.raises(ConfigurationError, match="is no wheel"):
        deliver(source, [wheel, odd])
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_where_one_line_has_a_hash_ours_has_one(source: Path, wheel: Path) -> None:
    (source / "requirements.txt").write_text("foo==1 --hash=sha256:00\n")
    for _ in range(2):
        (line,) = deliver(source, [wheel]).lines
        assert line.startswith(f"{OURS} --hash=sha256:")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r")), st.text("ab \n"))
def test_whatever_a_file_holds_it_holds_afterwards(before: str, after: str) -> None:
    once = _with_block(before, ["x"])
    assert once.startswith(before)
    assert _with_block(once + after, ["x"]) == once + after


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param("x-0.1.0-py3-none-any.whl", "", id="of any Python"),
        pytest.param(
            "trackside-0.1.0-py3-none-any.whl",
            ' ; python_version >= "3.10"',
            id="ours: an older container goes without",
        ),
        pytest.param(
            "google_crc32c-1.9.0-cp311-cp311-manylinux1_x86_64.manylinux_2_5_x86_64.whl",
            ' ; python_version == "3.11" and platform_machine == "x86_64"',
            id="of one Python and machine",
        ),
        pytest.param(
            "x-1-cp310-abi3-manylinux2014_aarch64.whl",
            ' ; python_version >= "3.10" and platform_machine == "aarch64"',
            id="of a Python and later ones",
        ),
    ],
)
def test_a_wheel_is_installed_where_it_fits(name: str, line: str) -> None:
    assert list(requirement_lines([Path(name)], folder="./w")) == [f"./w/{name}{line}"]


@pytest.mark.parametrize("name", ["trackside.zip", "trackside-0.1.0.tar.gz", "trackside.whl"])
def test_what_is_no_wheel_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no wheel"):
        list(requirement_lines([Path(name)], folder="."))


def test_what_is_no_folder_is_refused(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no folder"):
        deliver(tmp_path / "absent", [wheel])


def test_the_wheel_of_this_installation_is_whole_and_always_the_same(tmp_path: Path) -> None:
    first, second = (wheel_of_installed("trackside", tmp_path / name) for name in ("a", "b"))
    assert first.name == f"trackside-{trackside.__version__}-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as wheel:
        names = set(wheel.namelist())
        recorded = wheel.read(f"trackside-{trackside.__version__}.dist-info/RECORD").decode()
    assert {"trackside.pth", "trackside/__init__.py", "trackside/contracts/rule_catalogue.json"} <= names
    assert {line.rsplit(",", 2)[0] for line in recorded.splitlines()} == names
    assert not [name for name in names if "__pycache__" in name or "editable" in name or "direct_url" in name]


def test_of_what_is_not_installed_no_wheel_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--wheel FILE"):
        wheel_of_installed("no-such-thing", tmp_path)


def test_a_channel_brings_the_wheels() -> None:
    request = {"TrainingJobName": "x", "InputDataConfig": [{"ChannelName": "train"}]}
    made = with_channel(request, "s3://runs/x/trackside-wheels")
    assert [each["ChannelName"] for each in made["InputDataConfig"]] == ["train", "trackside"]
    assert with_channel(made, "s3://runs/x/trackside-wheels") == made
    assert request == {"TrainingJobName": "x", "InputDataConfig": [{"ChannelName": "train"}]}
    tuning = {"HyperParameterTuningJobName": "x", "TrainingJobDefinition": {}}
    (channel,) = with_channel(tuning, "s3://runs/x")["TrainingJobDefinition"]["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == "s3://runs/x/"


@pytest.mark.parametrize(
    "channels",
    [
        pytest.param([{"ChannelName": "trackside"}], id="another of that name"),
        pytest.param([{"ChannelName": f"c{k}"} for k in range(20)], id="twenty"),
    ],
)
def test_a_channel_too_many_is_refused(channels: list[dict[str, str]]) -> None:
    with pytest.raises(ConfigurationError, match="InputDataConfig"):
        with_channel({"TrainingJobName": "x", "InputDataConfig": channels}, "s3://runs/x")


ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"


def of_image(image: str, **more: object) -> dict[str, object]:
    return {"AlgorithmSpecification": {"TrainingImage": image}, **more}


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param(of_image(f"{ECR}/linear-learner:1"), "built-in algorithm", id="a built-in algorithm"),
        pytest.param(of_image(f"{ECR}.cn/kmeans"), "built-in algorithm", id="in China, without a tag"),
        pytest.param(of_image(f"{ECR}/sagemaker-xgboost:1.7-1"), "no script is given", id="XGBoost without a script"),
        pytest.param({"AlgorithmSpecification": {"AlgorithmName": "arn:x"}}, "Marketplace", id="of the Marketplace"),
        pytest.param(of_image(f"{ECR}/mine", EnableNetworkIsolation=True), "cut off", id="isolated"),
        pytest.param(
            {"HyperParameterTuningJobName": "x", "TrainingJobDefinition": of_image(f"{ECR}/pca:1")},
            "built-in algorithm",
            id="a tuning job of one",
        ),
    ],
)
def test_what_nothing_can_be_put_into(request_: dict[str, object], why: str) -> None:
    assert why in why_no_library(request_)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(of_image(f"{ECR}/pytorch-training:2.6.0-gpu-py312"), id="a framework"),
        pytest.param(of_image(f"{ECR}/my/linear-learner-fork:1"), id="a name that is longer"),
        pytest.param(of_image("docker.io/me/kmeans:1"), id="another registry"),
        pytest.param(of_image("kmeans"), id="no registry"),
        pytest.param(
            of_image(f"{ECR}/sagemaker-xgboost:1.7-1", HyperParameters={"sagemaker_program": "train.py"}),
            id="XGBoost with a script",
        ),
        pytest.param(of_image(f"{ECR}/mine", EnableNetworkIsolation=False), id="not isolated"),
        pytest.param({"TrainingJobName": "x"}, id="nothing is said"),
    ],
)
def test_what_the_library_can_be_put_into(request_: dict[str, object]) -> None:
    assert why_no_library(request_) == ""
