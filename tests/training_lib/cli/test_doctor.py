"""`trackside doctor`: in this environment, and in real ones in which two packages own one folder."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import rich
from click.testing import CliRunner, Result

import trackside
from trackside.cli import main
from trackside.cli.health.installation import Check, State, check_variables
from trackside.cli.health.run_check import check_run
from trackside.contracts.run_layout import event_key
from trackside.environment import inherited
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import open_trial

ROOT = Path(__file__).parents[3]
PROJECTS = (ROOT, ROOT / "training_lib" / "compat")
BORROWED = ("numpy", "google_crc32c", "click", "rich", "pygments", "markdown_it", "mdurl")  # what it needs to run


def doctor(*arguments: str, **environment: str) -> Result:
    unset = {name: None for name in inherited() if name.startswith("TRACKSIDE_")}
    return CliRunner().invoke(main, ["doctor", *arguments], env={**unset, **environment})


def checks(result: Result) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


# This environment


def test_a_sound_installation_is_well() -> None:
    result = doctor()
    assert result.exit_code == 0, result.stdout
    assert result.stdout.endswith("\nAll is well.\n")
    assert trackside.__version__ in result.stdout
    assert "inert: TRACKSIDE_RUN is not set" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_json_says_the_same() -> None:
    result = doctor("--json")
    document = json.loads(result.stdout)
    assert (document["schema_version"], document["problems"]) == (1, 0)
    expected = {"python", "trackside", "trackside-smdebug", "smdebug", "import smdebug", "numpy", "google-crc32c"}
    assert expected | {"torch", "boto3", "start-up file"} <= set(checks(result))
    assert checks(result)["import smdebug"]["found"] == "trackside-smdebug's"


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        pytest.param("TRACKSIDE_RUN", "s3://bucket/run", "ok", id="a run"),
        pytest.param("TRACKSIDE_RUN", "gs://bucket/run", "problem", id="a run nowhere"),
        pytest.param("TRACKSIDE_CAPTURE_REQUEST", '{"collections": [{"name": "losses"}]}', "ok", id="a request"),
        pytest.param("TRACKSIDE_CAPTURE_REQUEST", '{"collections": [{"name": "losse"}]}', "problem", id="a wrong one"),
        pytest.param("TRACKSIDE_CAPTURE_REQUEST", "losses", "problem", id="no JSON"),
        pytest.param("TRACKSIDE_POLL_SECONDS", "0.5", "ok", id="seconds"),
        pytest.param("TRACKSIDE_POLL_SECONDS", "soon", "problem", id="no seconds"),
        pytest.param("TRACKSIDE_POLL_SECONDS", "0", "problem", id="no time"),
        pytest.param("TRACKSIDE_POLL_SECONDS", "", "ok", id="as if unset"),
        pytest.param("TRACKSIDE_POLL_SECOND", "1", "note", id="a name that nothing reads"),
    ],
)
def test_variables_are_read_as_they_will_be(name: str, value: str, state: str) -> None:
    (check,) = check_variables({name: value})
    assert (check.name, check.state.value) == (name, state)
    assert bool(check.fix) == (state != "ok")


def test_a_variable_that_is_wrong_is_a_problem_of_the_installation() -> None:
    result = doctor("--json", TRACKSIDE_RUN="/tmp/here", TRACKSIDE_POLL_SECONDS="soon")
    found = checks(result)
    assert (result.exit_code, json.loads(result.stdout)["problems"]) == (1, 1)
    assert (found["TRACKSIDE_RUN"]["state"], found["TRACKSIDE_POLL_SECONDS"]["state"]) == ("ok", "problem")
    assert found["start-up file"]["found"] == "active: this environment captures into /tmp/here"


@pytest.mark.parametrize(
    ("missing", "state"),
    [
        pytest.param("google_crc32c", "problem", id="what the evaluator needs"),
        pytest.param("torch", "ok", id="what it does without"),
    ],
)
def test_an_evaluator_that_does_not_start_is_a_problem(tmp_path: Path, missing: str, state: str) -> None:
    (tmp_path / f"{missing}.py").write_text("raise ImportError('planted')\n")
    result = doctor("--json", PYTHONPATH=str(tmp_path))
    evaluator = checks(result)["evaluator"]
    assert evaluator["state"] == state
    assert ("no run can be judged: ImportError: planted" in evaluator["found"]) == (state == "problem")


def test_all_files_of_no_run_is_a_usage_error() -> None:
    assert doctor("--all-files").exit_code == 2


# A run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("run/debug-output")
    write_collections(store)
    for step in range(4):
        write_tensors(store, step, {"CrossEntropyLoss_output_0": 1.0})
    return "run"


def checked(run: str, *, all_files: bool = False) -> dict[str, Check]:
    """The checks of a run alone, without those of the installation."""
    found = check_run(run, open_run=open_trial, read=iter if all_files else None)
    return {check.name: check for check in found}


def test_a_live_run_is_readable_and_has_no_end(run: str) -> None:
    found = checked(run)
    assert {check.state for check in found.values()} == {State.OK, State.NOTE}
    assert "4 steps, 0 to 3, of 1 worker" in found["run"].found
    assert (found["end"].state, found["end"].found[:13]) == (State.NOTE, "no end marker")
    assert found["packed index"].found.startswith("none")
    assert found["damaged files"].found.startswith("none among the files that opening it reads")


def test_an_ended_run_says_so(run: str) -> None:
    end_run(LocalStore("run/debug-output"))
    assert checked(run)["end"].state is State.OK


def test_damaged_files_are_counted_and_named_once_all_are_read(run: str) -> None:
    file = Path("run/debug-output") / event_key(2, "worker_0")
    file.write_bytes(file.read_bytes()[:-7])
    assert checked(run)["damaged files"].state is State.OK, "opening it reads no event file"
    whole = f"1 among all its files, 4 event files included: {event_key(2, 'worker_0')}, byte"
    assert checked(run, all_files=True)["damaged files"].found.startswith(whole)
    result = doctor(run, "--all-files")
    assert result.exit_code == 1
    assert "1 problem." in result.stdout


def test_a_packed_index_is_counted(run: str) -> None:
    LocalStore("run/debug-output").put("packed-index/worker_0/1700000000000-000000000000.tpi", b"")
    assert "1 file(s) of 1 worker(s)" in checked(run)["packed index"].found


def test_no_run_is_a_problem_and_the_rest_is_still_checked(run: str) -> None:
    result = doctor("nowhere", "--format", "json")
    assert result.exit_code == 1
    assert checks(result)["run"]["state"] == "problem"
    assert checks(result)["numpy"]["state"] == "ok"


# Installations of their own


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Our two wheels, and one that is to them as the original smdebug: another package that owns the same folder."""
    pytest.importorskip("hatchling", reason="wheels are built under the main Python only")
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    write_wheel(
        folder / "smdebug-1.0.34-py3-none-any.whl",
        {
            "smdebug/__init__.py": '__version__ = "1.0.34"\n',
            "smdebug/rules/__init__.py": "from .rule import Rule\n",
            "smdebug/rules/rule.py": "class Rule: ...\n",
            "smdebug/profiler/__init__.py": "",
        },
    )
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def write_wheel(path: Path, files: dict[str, str]) -> None:
    info = "smdebug-1.0.34.dist-info"
    files = {
        **files,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: smdebug\nVersion: 1.0.34\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    record = [f"{name},sha256={base64.urlsafe_b64encode(d).rstrip(b'=').decode()}," for name, d in digests.items()]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))


class Environment:
    """A new virtual environment; the libraries that Trackside needs are lent to it by this one."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        lent = folder / "lent"
        lent.mkdir()
        for source in Path(rich.__file__).parents[1].iterdir():
            name = source.name.partition("-")[0]
            if name in BORROWED or name in {f"{each}.libs" for each in BORROWED}:
                (lent / source.name).symlink_to(source)
        (self.site / "lent.pth").write_text(f"{lent}\n")

    def pip(self, *arguments: str | Path) -> None:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.python,
            "--disable-pip-version-check",
        ]
        subprocess.run([*command, *arguments], check=True, capture_output=True, text=True)

    def install(self, *wheels: Path) -> None:
        self.pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", *wheels)

    def doctor(self) -> tuple[int, dict[str, dict[str, Any]]]:
        code = "from trackside.__main__ import main; main()"
        done = subprocess.run(
            [self.python, "-I", "-c", code, "doctor", "--json"], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_a_clash_is_told_and_what_it_says_solves_it(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheels["trackside"])
    code, found = environment.doctor()
    assert (code, found["trackside-smdebug"]["found"][:13]) == (0, "not installed")
    assert found["torch"]["found"].endswith(" 'torch>=2.1')")

    environment.install(wheels["trackside_smdebug"])
    code, found = environment.doctor()
    assert (code, found["import smdebug"]["found"]) == (0, "trackside-smdebug's")

    environment.install(wheels["smdebug"])  # pip says nothing
    code, found = environment.doctor()
    assert code == 1
    clash = found["import smdebug"]
    assert clash["state"] == "problem"
    assert "trackside-smdebug and smdebug own the same folder" in clash["found"]
    assert "4 of 4 of smdebug" in clash["found"]
    uninstall, install = clash["commands"]
    assert uninstall == "pip uninstall -y smdebug trackside-smdebug"
    assert install.endswith(f" {wheels['trackside_smdebug']}")

    environment.pip("uninstall", "--quiet", "-y", "smdebug")  # half of it: files of ours went along
    code, found = environment.doctor()
    assert code == 1
    (command,) = found["import smdebug"]["commands"]
    assert command.endswith(f" --force-reinstall --no-deps {wheels['trackside_smdebug']}")

    environment.pip("uninstall", "--quiet", "-y", "trackside-smdebug")
    environment.install(wheels["trackside_smdebug"])
    code, found = environment.doctor()
    assert (code, found["import smdebug"]["found"]) == (0, "trackside-smdebug's")


def test_the_original_alone_is_left_in_peace_and_a_lost_start_up_file_is_told(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheels["trackside"], wheels["smdebug"])
    code, found = environment.doctor()
    assert (code, found["import smdebug"]["state"]) == (0, "ok")
    assert found["import smdebug"]["found"].startswith("the original's")
    assert found["smdebug"]["found"] == "1.0.34"
    (environment.site / "trackside.pth").unlink()
    code, found = environment.doctor()
    assert (code, found["start-up file"]["state"]) == (1, "problem")
    (command,) = found["start-up file"]["commands"]
    assert command.endswith(f" --force-reinstall --no-deps {wheels['trackside']}")
