"""The Dockerfile: what matters about it, and its COPY, RUN and ENTRYPOINT lines run as they stand."""

from __future__ import annotations

import contextlib
import ensurepip
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stacks.image_context import bill_of_materials, write_context
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import inherited
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "rule_containers" / "evaluator" / "Dockerfile"
DOCKERFILES = sorted((ROOT / "rule_containers").glob("*/Dockerfile"))
NOBODY = 65534
LABELS = ("title", "description", "licenses", "version", "revision")
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")


def instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    return [(word.upper(), rest) for word, _, rest in (line.partition(" ") for line in lines)]


def complaints(text: str) -> list[str]:
    """What matters about a Dockerfile of ours. Each line is a rule that one of the tests below breaks."""
    found = []
    steps = instructions(text)
    of = {word: [rest for w, rest in steps if w == word] for word, _ in steps}
    found += [f"FROM {image}: pin a tag and a digest" for image in of.get("FROM", []) if not is_pinned(image)]
    # Root for a moment: SageMaker's job folders are root's (docs/decisions/0065-*.md). The entry point gives root up.
    if "USER" in of:
        found.append("USER: start as root, or the exit message cannot be written")
    run_as = re.search(r"\bTRACKSIDE_RUN_AS=(\S+)", " ".join(of.get("ENV", [])))
    if run_as is None or not run_as[1].isdigit() or run_as[1] == "0":
        found.append("TRACKSIDE_RUN_AS: give the number of an unprivileged user, which the entry point becomes")
    for word in ("ENTRYPOINT", "CMD"):
        found += [f"{word}: use the exec form, so that signals arrive" for rest in of.get(word, []) if rest[0] != "["]
    if "ENTRYPOINT" not in of:
        found.append("ENTRYPOINT: missing")
    if "ADD" in of:
        found.append("ADD: use COPY")
    for line in of.get("RUN", []):
        if "apt-get install" in line and "rm -rf /var/lib/apt/lists" not in line:
            found.append("RUN: leave no apt lists behind")
        if "pip install" in line and "--no-cache-dir" not in line:
            found.append("RUN: leave no pip cache behind")
        if "pip install" in line and "--require-hashes" not in line and "--no-index --no-deps" not in line:
            found.append("RUN: install by hashes, or our own wheels alone")
    labels = " ".join(of.get("LABEL", []))
    found += [f"LABEL: {name} is missing" for name in LABELS if f"org.opencontainers.image.{name}=" not in labels]
    return found


def is_pinned(image: str) -> bool:
    return bool(re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+@sha256:[0-9a-f]{64}( AS \w+)?", image))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_dockerfile_is_clean(dockerfile: Path) -> None:
    assert complaints(dockerfile.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param(":3.12-slim-bookworm@", "@", "FROM", id="no-tag"),
        pytest.param(":3.12-slim-bookworm@", ":latest@", "FROM", id="latest"),
        pytest.param("@sha256:", "@sha512:", "FROM", id="no-digest"),
        pytest.param(" --require-hashes", "", "hashes", id="no-hashes"),
        pytest.param(" --no-index", "", "hashes", id="an-index-beside-our-wheels"),
        pytest.param("image.revision", "image.revised", "revision", id="no-revision"),
        pytest.param("ENV TRACKSIDE_RUN_AS=65534", "", "TRACKSIDE_RUN_AS", id="stays-root"),
        pytest.param("RUN_AS=65534", "RUN_AS=0", "TRACKSIDE_RUN_AS", id="becomes-root"),
        pytest.param("RUN_AS=65534", "RUN_AS=nobody", "TRACKSIDE_RUN_AS", id="a-name"),
        pytest.param("ENTRYPOINT", "USER 65534:65534\nENTRYPOINT", "USER", id="cannot-write-its-message"),
        pytest.param("COPY wheels", "ADD wheels", "ADD", id="add"),
        pytest.param(" --no-cache-dir", "", "pip cache", id="pip-cache"),
        pytest.param("RUN python", "RUN apt-get install -y gcc && python", "apt lists", id="apt-lists"),
        pytest.param('["python", "/opt/trackside/entrypoint.py"]', "python x.py", "exec form", id="shell-form"),
    ],
)
def test_the_lint_sees(old: str, new: str, complaint: str) -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert old in text
    assert any(complaint in found for found in complaints(text.replace(old, new)))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_both_stages_have_the_same_base(dockerfile: Path) -> None:
    bases = [rest for word, rest in instructions(dockerfile.read_text(encoding="utf-8")) if word == "FROM"]
    assert len(bases) == 2
    assert bases[0] == f"{bases[1]} AS packages"


def test_the_lock_has_what_our_wheel_needs_with_hashes_of_both_processors() -> None:
    lock = (ROOT / "rule_containers" / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    needed = [Requirement(one) for one in requires("trackside") or ()]
    needed = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": "aws"})]
    assert {"numpy", "boto3"} <= {one.name for one in needed}
    for one in needed:
        assert one.specifier.contains(pinned[one.name]), one
    for name, entry in re.findall(r"^([\w.-]+)==((?:.*\\\n)+.*)$", lock, re.MULTILINE):
        assert entry.count("--hash=sha256:") >= 1, name
    assert lock.count("--hash=sha256:") > 2 * len(pinned), "numpy and crc32c have a wheel for each processor"


@pytest.mark.slow
@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_build_context_holds_only_what_is_copied(dockerfile: Path, tmp_path: Path) -> None:
    context = write_context(dockerfile.parent.name, tmp_path / "context")
    copied = [
        source
        for word, rest in instructions(dockerfile.read_text(encoding="utf-8"))
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert sorted(path.name for path in context.iterdir()) == sorted(["Dockerfile", *copied])
    wheels = sorted(path.name.partition("-")[0] for path in (context / "wheels").iterdir())
    assert wheels == ["trackside"] + ["trackside_smdebug"] * (dockerfile.parent.name == "custom_rule")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_bill_of_materials_names_the_base_and_each_package(dockerfile: Path) -> None:
    text = dockerfile.read_text(encoding="utf-8")
    components = bill_of_materials(dockerfile.parent.name, dockerfile=text)["components"]
    names = {one["name"] for one in components}
    assert {"python", "trackside", "numpy", "boto3", "botocore", "google-crc32c"} <= names
    assert len(components) == len(names), "one version of each, for the image's Python"
    (base,) = [one for one in components if one["type"] == "container"]
    assert base["version"].endswith(DIGEST.findall(text)[-1])


def nobody(command: list[str], *, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command as an unprivileged user: `nobody`, or whoever runs the tests if that is not root."""
    is_root = os.geteuid() == 0
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        user=NOBODY if is_root else None,
        group=NOBODY if is_root else None,
        extra_groups=[] if is_root else None,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that an unprivileged user may enter; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="trackside-image-") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_its_lines_run_as_they_stand_for_an_unprivileged_user(top: Path) -> None:
    opt = top / "opt" / "trackside"
    context = write_context("evaluator", top / "context")
    opt.mkdir(parents=True)
    run = write_run(top / "run")
    if os.geteuid() == 0:
        for path in (top, *top.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

    unwanted = ("PYTHONPATH", "TRACKSIDE_", "AWS_")
    environment = {name: value for name, value in inherited().items() if not name.startswith(unwanted)}
    environment |= {"HOME": str(top), "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{top}/venv/bin:/usr/bin:/bin"}
    make_venv(top / "venv", environment)

    steps = instructions(DOCKERFILE.read_text(encoding="utf-8"))
    environment["PYTHONPATH"] = str(opt / "packages")
    for word, rest in steps:
        if word not in {"COPY", "RUN"}:
            continue
        *sources, target = rest.split()
        if sources[:1] == ["--from=packages"]:  # both stages are one folder here
            continue
        copied = " ".join(f"{context}/{source}" for source in sources)
        command = rest if word == "RUN" else f"cp -r {copied} {target}"
        done = nobody(["sh", "-c", command], cwd=opt, env=environment)
        assert done.returncode == 0, f"{word} {rest}\n{done.stderr[-2000:]}"

    program, *arguments = json.loads(dict(steps)["ENTRYPOINT"].replace("/opt/trackside", str(opt)))
    started = {**environment, "TRACKSIDE_RUN": str(run), "TRACKSIDE_ML_ROOT": str(top / "ml")}
    found = shutil.which(program, path=environment["PATH"])
    assert found == f"{top}/venv/bin/python"
    done = nobody([found, *arguments], cwd=opt, env=started)
    assert done.returncode == 0, done.stderr[-2000:]
    message = (top / "ml" / "output" / "message").read_text(encoding="utf-8")
    assert message.startswith("RuleEvaluationConditionMet: ")
    assert (run / "rule-output" / "verdicts.jsonl").read_text(encoding="utf-8").count("\n") == len(
        built_in_catalogue().usual
    )


def make_venv(folder: Path, environment: dict[str, str]) -> None:
    """A clean virtual environment with pip, made by the user who will use it. Debian's Python has no ensurepip."""
    question = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    for python in (str(Path(sys.base_prefix) / "bin" / "python3"), "/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if nobody([python, *question], cwd=folder.parent, env=environment).returncode == 0:
                break
    else:
        pytest.skip("there is no Python 3.10 or newer that an unprivileged user may run")
    done = nobody([python, "-m", "venv", "--without-pip", str(folder)], cwd=folder.parent, env=environment)
    assert done.returncode == 0, done.stderr
    wheels = sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled"  # Debian's
    (bundled,) = Path(wheels).glob("pip-*.whl")
    pip = shutil.copy(bundled, folder.parent)
    install = [str(folder / "bin" / "python"), f"{pip}/pip", "install", "--no-index", "--no-cache-dir", str(pip)]
    done = nobody(install, cwd=folder.parent, env=environment)
    assert done.returncode == 0, done.stderr


def write_run(folder: Path) -> Path:
    store = LocalStore(folder / "debug-output")
    write_collections(store)
    write_tensors(store, 0, {"CrossEntropyLoss_output_0": float("nan"), "gradient/Net_fc1.weight": 0.5})
    end_run(store)
    return folder
