"""From a location to a store."""

import subprocess
import sys
from pathlib import Path

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.extras import install_command
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.storage.s3 import S3Store


@pytest.mark.parametrize(
    ("uri", "kind", "expected"),
    [
        pytest.param("s3://bucket/a/run", S3Store, "s3://bucket/a/run", id="s3"),
        pytest.param("s3://bucket/a/run/", S3Store, "s3://bucket/a/run", id="s3, slash at the end"),
        pytest.param("s3://bucket", S3Store, "s3://bucket", id="a whole bucket"),
        pytest.param("S3://bucket/run", S3Store, "s3://bucket/run", id="s3 in capitals"),
        pytest.param("/tmp/run", LocalStore, "/tmp/run", id="a folder"),
        pytest.param("/tmp/run/", LocalStore, "/tmp/run", id="a folder, slash at the end"),
        pytest.param("/tmp/s3:/run", LocalStore, "/tmp/s3:/run", id="a folder with an odd name"),
    ],
)
def test_opens(uri: str, kind: type, expected: str) -> None:
    store = open_store(uri)
    assert isinstance(store, kind)
    assert store.uri == expected


def test_expands_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/runs/one").uri == str(tmp_path / "runs" / "one")


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_store(str(tmp_path / "run"))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        pytest.param("", "is empty", id="nothing"),
        pytest.param("  ", "is empty", id="blank"),
        pytest.param("s3://", "names no bucket", id="no bucket"),
        pytest.param("s3:///run", "names no bucket", id="three slashes"),
        pytest.param("gs://bucket/run", "has the scheme 'gs'", id="another cloud"),
        pytest.param("file:///tmp/run", "has the scheme 'file'", id="a file URL"),
    ],
)
def test_refuses(uri: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as caught:
        open_store(uri)
    assert "Use a folder or s3://bucket/prefix." in str(caught.value)


def test_says_which_extra_is_missing() -> None:
    script = (
        "import sys; sys.modules['botocore'] = None\n"
        "from trackside.storage.open_store import open_store\n"
        "open_store('/tmp/run')\n"
        "open_store('s3://bucket/run')\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f"boto3 is not installed, which all work in AWS needs. {install_command('aws')}" in answer.stderr


def test_a_local_run_does_not_import_boto3() -> None:
    script = (
        "import sys; from trackside.storage.open_store import open_store\n"
        "open_store('/tmp/run'); sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
