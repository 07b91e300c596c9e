"""The five wheels, built from this checkout: one version, all that must ship, and nothing that would collide."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import trackside
from trackside.extras import install_command

ROOT = Path(__file__).parents[2]
PROJECTS = {
    "trackside": ROOT,
    "trackside_smdebug": ROOT / "training_lib" / "compat",
    "trackside_localaccount": ROOT / "training_lib" / "localaccount",
    "trackside_native": ROOT / "training_lib" / "native",
    "trackside_cdk": ROOT / "stacks",
}
HAS_COMPILER = shutil.which(os.environ.get("CC") or "cc") is not None  # noqa: TID251 - as the build has it
BUILT = [name for name in PROJECTS if name != "trackside_native" or HAS_COMPILER]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheels")
    for name in BUILT:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=PROJECTS[name], check=True, capture_output=True, text=True)
    return {path.name.split("-")[0]: zipfile.ZipFile(path) for path in folder.glob("*.whl")}


def metadata(wheel: zipfile.ZipFile) -> dict[str, list[str]]:
    (name,) = [name for name in wheel.namelist() if re.fullmatch(r"[^/]+/METADATA", name)]
    message = Parser().parsestr(wheel.read(name).decode())
    return {key: message.get_all(key, []) for key in ("Version", "Requires-Dist", "License-Expression", "License-File")}


def test_the_wheels_have_the_one_version(wheels: dict[str, zipfile.ZipFile]) -> None:
    assert set(wheels) == set(BUILT)
    assert {name: metadata(wheel)["Version"] for name, wheel in wheels.items()} == {
        name: [trackside.__version__] for name in BUILT
    }


def test_the_compat_wheel_needs_the_trackside_of_its_version(wheels: dict[str, zipfile.ZipFile]) -> None:
    assert metadata(wheels["trackside_smdebug"])["Requires-Dist"] == [f"trackside=={trackside.__version__}"]


def test_the_local_account_needs_the_trackside_of_its_version_and_the_moto_that_it_mends(
    wheels: dict[str, zipfile.ZipFile],
) -> None:
    required = metadata(wheels["trackside_localaccount"])["Requires-Dist"]
    assert f"trackside=={trackside.__version__}" in required
    assert "moto[server]==5.2.5" in required


def test_the_base_install_is_light(wheels: dict[str, zipfile.ZipFile]) -> None:
    required = [r for r in metadata(wheels["trackside"])["Requires-Dist"] if "extra ==" not in r]
    names = {requirement.split(">")[0].split("=")[0].strip() for requirement in required}
    assert names == {"numpy", "google-crc32c"}


def test_without_the_command_lines_libraries_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    for missing in ("click", "rich"):
        (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError(name={missing!r})", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from trackside.__main__ import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == f"The trackside command needs click and rich: {install_command('cli')}\n"


@pytest.mark.parametrize("name", BUILT)
def test_each_wheel_carries_its_licence(wheels: dict[str, zipfile.ZipFile], name: str) -> None:
    assert metadata(wheels[name])["License-Expression"] == ["Apache-2.0"]
    assert any(entry.endswith("licenses/LICENSE") for entry in wheels[name].namelist())


@pytest.mark.parametrize(
    "entry",
    [
        "trackside.pth",
        "trackside/py.typed",
        "trackside/contracts/rule_catalogue.json",
        "trackside/contracts/verdict.schema.json",
        "trackside/contracts/event.schema.json",
        "trackside/frameworks/attach.py",
    ],
)
def test_the_wheel_ships(wheels: dict[str, zipfile.ZipFile], entry: str) -> None:
    assert entry in wheels["trackside"].namelist()


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("trackside", "trackside"),
        ("trackside_smdebug", "smdebug"),
        ("trackside_smdebug", "sagemaker_debug_hook_config"),
    ],
)
def test_each_package_says_that_it_is_typed(wheels: dict[str, zipfile.ZipFile], name: str, package: str) -> None:
    assert f"{package}/py.typed" in wheels[name].namelist()


def test_installing_trackside_never_overwrites_an_smdebug(wheels: dict[str, zipfile.ZipFile]) -> None:
    tops = {name.split("/")[0] for name in wheels["trackside"].namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"trackside", "trackside.pth"}


@pytest.mark.parametrize("name", BUILT)
def test_each_wheel_is_typed(wheels: dict[str, zipfile.ZipFile], name: str) -> None:
    packages = {entry.split("/")[0] for entry in wheels[name].namelist() if entry.endswith("/__init__.py")}
    assert packages
    assert all(f"{package}/py.typed" in wheels[name].namelist() for package in packages)


def test_the_library_ships_no_tenant(wheels: dict[str, zipfile.ZipFile]) -> None:
    shipped = {
        entry.split("/")[2] for entry in wheels["trackside"].namelist() if entry.startswith("trackside/testing/")
    }
    assert shipped == {
        "__init__.py",
        "adapter_contract.py",
        "fake_trial.py",
        "local_account.py",
        "rule_case.py",
        "store_contract.py",
    }


def test_the_start_up_file_is_one_guarded_line(wheels: dict[str, zipfile.ZipFile]) -> None:
    text = wheels["trackside"].read("trackside.pth").decode().strip()
    assert len(text.splitlines()) == 1
    assert text.startswith('import os; os.environ.get("TRACKSIDE_RUN") and ')


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler here")
def test_the_compiled_wheel_fits_every_python_of_its_platform(wheels: dict[str, zipfile.ZipFile]) -> None:
    wheel = wheels["trackside_native"]
    (tag,) = re.findall(r"py3-none-\w+", str(wheel.filename))
    assert tag != "py3-none-any"
    shipped = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert shipped == {"trackside_native/__init__.py", "trackside_native/py.typed", "trackside_native/compiled.so"}


def test_the_library_itself_is_installed_without_a_compiler(wheels: dict[str, zipfile.ZipFile]) -> None:
    assert str(wheels["trackside"].filename).endswith("-py3-none-any.whl")
    assert not [name for name in wheels["trackside"].namelist() if name.endswith((".so", ".c"))]
